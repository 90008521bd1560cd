/* What DPDK's hierarchical scheduler (rte_sched) takes for the tree of shares that `make bench-services` measures: 20,000
 * subscribers of four classes each, every packet to another one at random, while few or many packets wait.
 *
 *     sched EAL...
 *
 * The classes are the four queues of its best-effort class, by weights of 1 to 4, and nothing limits the rate, so that a
 * dequeue always finds what waits. It prints a line for each number of packets that wait: cycles for a packet in and out,
 * the median of many short times, of which few were interrupted.
 */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>
#include "peer.h"

#define SUBSCRIBERS 20000
#define GROUPS 4
#define PIPES 8192 /* of a group, of which 5,000 are used: it must be a power of two */
#define BURST 32
#define SLICE 4096
#define SLICES 512
#define HELD_MAX 1000000
#define RATE 12500000000ull /* bytes a second */
#define BEST_EFFORT RTE_SCHED_TRAFFIC_CLASS_BE

static struct rte_sched_port *tree(void)
{
	struct rte_sched_subport_profile_params group = { .tb_rate = RATE, .tb_size = 1000000, .tc_period = 10 };
	struct rte_sched_pipe_params subscriber = { .tb_rate = RATE, .tb_size = 1000000, .tc_period = 10,
						    .tc_ov_weight = 1, .wrr_weights = { 1, 2, 3, 4 } };
	for (int i = 0; i < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; i++) {
		group.tc_rate[i] = RATE;
		subscriber.tc_rate[i] = i == BEST_EFFORT ? RATE : 0;
	}
	struct rte_sched_port_params port = {
		.name = "tree", .socket = 0, .rate = RATE, .mtu = 1522, .frame_overhead = 24,
		.n_subports_per_port = GROUPS, .subport_profiles = &group, .n_subport_profiles = 1,
		.n_max_subport_profiles = 1, .n_pipes_per_subport = PIPES,
	};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = PIPES, .pipe_profiles = &subscriber, .n_pipe_profiles = 1, .n_max_pipe_profiles = 1,
	};
	subport.qsize[BEST_EFFORT] = 64;
	struct rte_sched_port *made = rte_sched_port_config(&port);
	need(made != NULL, "the port is refused");
	for (uint32_t s = 0; s < GROUPS; s++) {
		need(rte_sched_subport_config(made, s, &subport, 0) == 0, "a subport is refused");
		for (uint32_t p = 0; p < PIPES; p++)
			need(rte_sched_pipe_config(made, s, p, 0) == 0, "a pipe is refused");
	}
	return made;
}

static struct rte_mbuf *spare[HELD_MAX + 2 * BURST];
static size_t spares;

static void fill(struct rte_sched_port *port)
{
	struct rte_mbuf *burst[BURST];
	for (int i = 0; i < BURST; i++) {
		uint32_t place = random_below(SUBSCRIBERS * CLASSES), pipe = place / CLASSES;
		need(spares > 0, "too few packets are left: some were dropped");
		burst[i] = spare[--spares];
		rte_sched_port_pkt_write(port, burst[i], pipe % GROUPS, pipe / GROUPS, BEST_EFFORT, place % CLASSES, RTE_COLOR_GREEN);
	}
	need(rte_sched_port_enqueue(port, burst, BURST) == BURST, "a queue is full");
}

static void empty(struct rte_sched_port *port)
{
	int left = BURST;
	for (int turn = 0; left > 0 && turn < 100; turn++) {
		int got = rte_sched_port_dequeue(port, &spare[spares], left);
		spares += got;
		left -= got;
	}
}

int main(int count, char **words)
{
	need(rte_eal_init(count, words) >= 0, "EAL does not start");
	struct rte_mempool *pool = rte_pktmbuf_pool_create("packets", HELD_MAX + 2 * BURST, 0, 0, RTE_PKTMBUF_HEADROOM, 0);
	need(pool != NULL, "there is no memory for packets");
	double worst = 0;
	const size_t held[] = { 0, 1000, 100000, 1000000 };
	for (size_t h = 0; h < RTE_DIM(held); h++) {
		struct rte_sched_port *port = tree();
		for (spares = 0; spares < held[h] + 2 * BURST && spares < RTE_DIM(spare); spares++) {
			spare[spares] = rte_pktmbuf_alloc(pool);
			need(spare[spares] != NULL, "the pool is empty");
			spare[spares]->pkt_len = LENGTH;
		}
		for (size_t n = 0; n + BURST <= held[h]; n += BURST)
			fill(port);
		static double times[SLICES];
		for (int s = 0; s < SLICES; s++) {
			uint64_t begin = rte_rdtsc();
			for (int n = 0; n < SLICE; n += BURST) {
				fill(port);
				empty(port);
			}
			times[s] = (double)(rte_rdtsc() - begin) / SLICE;
		}
		qsort(times, SLICES, sizeof *times, by_size);
		double median = times[SLICES / 2];
		worst = median > worst ? median : worst;
		printf("services rte_sched-cycles-%zu %.0f\n", held[h], median);
		fflush(stdout);
		rte_sched_port_free(port); /* with what waits in it */
		while (spares > 0)
			rte_pktmbuf_free(spare[--spares]);
	}
	printf("services rte_sched-cycles %.0f\n", worst);
	return 0;
}
