/* A source of frames that other programs are measured with: it sends the frames of a capture to its
 * first port, such as a memif, at a steady rate, and takes back what comes out again.
 *
 *     source EAL... -- FRAMES RATE BURST SECONDS WAY
 *
 * RATE is in packets per second, 0 = as fast as the other side takes them; packets leave in groups of
 * BURST, evenly spaced. WAY is `back` if packets come back, by the last port, else `gone`. Every frame
 * carries the time-stamp counter at its sending in the last eight of its first 50 bytes, where frames of
 * UDP over IPv4 have payload that nobody reads. After a second for warming up it measures for SECONDS and
 * prints one JSON object: what was sent, refused (the ring was full) and received, and how long packets
 * were under way.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define STAMP 42
#define BURST_MAX 256
#define FRAMES_MAX 65536
/* Latencies are counted in buckets: 32 for every doubling of the cycles. */
#define SUB 32
#define BUCKETS (60 * SUB)

static volatile sig_atomic_t over;
static struct rte_mbuf *frames[FRAMES_MAX];
static uint32_t frame_count;
static uint64_t under_way[BUCKETS];
static uint64_t sent, refused, received, strange;

static void stop(int signal) {
    (void)signal;
    over = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "error: %s\n", what);
    exit(1);
}

static unsigned bucket(uint64_t cycles) {
    if (cycles < SUB)
        return cycles;
    unsigned log = 63 - __builtin_clzll(cycles);
    return (log - 4) * SUB + (cycles >> (log - 5)) - SUB;
}

/* The least cycles that fall into a bucket. */
static double least(unsigned bucket) {
    if (bucket < SUB)
        return bucket;
    return (double)(bucket % SUB + SUB) * (double)(1ull << (bucket / SUB - 1));
}

static double percentile(double share) {
    uint64_t all = 0, seen = 0;
    for (unsigned b = 0; b < BUCKETS; b++)
        all += under_way[b];
    for (unsigned b = 0; b < BUCKETS; b++) {
        seen += under_way[b];
        if (all && seen >= share * all)
            return (least(b) + least(b + 1)) / 2 * 1e6 / rte_get_tsc_hz();
    }
    return 0;
}

/* Reads a capture of the classic format in this machine's byte order. */
static void load(const char *path, struct rte_mempool *pool) {
    uint32_t head[6], record[4];
    FILE *file = fopen(path, "rb");
    if (!file || fread(head, sizeof head, 1, file) != 1 || head[0] != 0xa1b2c3d4)
        fail("the frames are not a pcap file");
    while (frame_count < FRAMES_MAX && fread(record, sizeof record, 1, file) == 1) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
        char *data = m ? rte_pktmbuf_append(m, record[2]) : NULL;
        if (!data || fread(data, record[2], 1, file) != 1)
            fail("a frame does not fit a buffer");
        if (record[2] < STAMP + 8)
            fail("a frame is shorter than 50 bytes");
        frames[frame_count++] = m;
    }
    fclose(file);
    if (!frame_count)
        fail("the capture is empty");
}

static void send_burst(uint16_t port, uint32_t *next, unsigned burst) {
    struct rte_mbuf *group[BURST_MAX];
    uint64_t now = rte_rdtsc();
    for (unsigned i = 0; i < burst; i++) {
        struct rte_mbuf *m = frames[*next];
        *next = *next + 1 == frame_count ? 0 : *next + 1;
        rte_prefetch0(rte_pktmbuf_mtod(frames[*next], void *));
        rte_mbuf_refcnt_set(m, 2); /* the driver gives one back when it has copied the frame */
        memcpy(rte_pktmbuf_mtod_offset(m, char *, STAMP), &now, sizeof now);
        group[i] = m;
    }
    unsigned n = rte_eth_tx_burst(port, 0, group, burst);
    for (unsigned i = n; i < burst; i++)
        rte_mbuf_refcnt_set(group[i], 1);
    sent += n;
    refused += burst - n;
}

static void take_back(uint16_t port) {
    struct rte_mbuf *group[BURST_MAX];
    unsigned n = rte_eth_rx_burst(port, 0, group, BURST_MAX);
    uint64_t now = rte_rdtsc(), then;
    for (unsigned i = 0; i < n; i++) {
        memcpy(&then, rte_pktmbuf_mtod_offset(group[i], char *, STAMP), sizeof then);
        uint64_t passed = now - then;
        if (passed < rte_get_tsc_hz()) /* else it is no frame of ours */
            under_way[bucket(passed)]++;
        else
            strange++;
    }
    if (n)
        rte_pktmbuf_free_bulk(group, n);
    received += n;
}

/* Sends and takes back for some seconds; gives the cycles it took. */
static uint64_t go(uint16_t last, double rate, unsigned burst, double seconds, int back) {
    static uint32_t next;
    uint64_t hz = rte_get_tsc_hz(), start = rte_rdtsc(), now = start, groups = 0;
    double each = rate > 0 ? burst * (double)hz / rate : 0;
    while (!over && now - start < seconds * hz) {
        if (now - start >= groups * each) {
            send_burst(0, &next, burst);
            groups++;
        }
        if (back)
            take_back(last);
        now = rte_rdtsc();
        if (rate > 0 && now - start > (groups + 64) * each) /* what the machine missed is not made up for */
            groups = (now - start) / each;
    }
    return rte_rdtsc() - start;
}

static void start(uint16_t port, struct rte_mempool *pool) {
    struct rte_eth_conf conf = {0};
    struct rte_eth_link link = {0};
    if (rte_eth_dev_configure(port, 1, 1, &conf) || rte_eth_tx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL)
        || rte_eth_rx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL, pool) || rte_eth_dev_start(port))
        fail("a port does not start");
    while (!over && !link.link_status) {
        rte_delay_us_sleep(1000);
        rte_eth_link_get_nowait(port, &link);
    }
}

int main(int count, char **words) {
    int used = rte_eal_init(count, words);
    if (used < 0 || count - used != 6)
        fail("usage: source EAL... -- FRAMES RATE BURST SECONDS back|gone");
    if (!rte_eth_dev_count_avail())
        fail("there is no port; start with --vdev net_memif0,...");
    words += used;
    uint16_t last = rte_eth_dev_count_avail() - 1;
    double rate = atof(words[2]), seconds = atof(words[4]), hz = rte_get_tsc_hz();
    unsigned burst = atoi(words[3]);
    int back = !strcmp(words[5], "back");
    if (burst < 1 || burst > BURST_MAX)
        fail("BURST is 1 to 256");
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    struct rte_mempool *pool = rte_pktmbuf_pool_create("frames", 98303, 256, 0, 2176, SOCKET_ID_ANY);
    if (!pool)
        fail("no memory for frames");
    load(words[1], pool);
    printf("waiting\n");
    fflush(stdout);
    for (uint16_t port = 0; port <= last; port++)
        start(port, pool);
    go(last, rate, burst, 1, back);
    printf("measuring\n");
    fflush(stdout);
    sent = refused = received = strange = 0;
    memset(under_way, 0, sizeof under_way);
    double took = go(last, rate, burst, seconds, back) / hz;
    printf("{\"seconds\": %f, \"sent\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"received\": %" PRIu64
           ", \"strange\": %" PRIu64 ", \"p50_us\": %.2f, \"p90_us\": %.2f, \"p95_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f}\n",
           took, sent, refused, received, strange, percentile(0.5), percentile(0.9), percentile(0.95), percentile(0.99),
           percentile(0.999));
    fflush(stdout);
    _exit(0); /* EAL needs no cleaning up: it left nothing outside this process */
}
