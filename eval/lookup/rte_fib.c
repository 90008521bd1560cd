/* Looks addresses up in DPDK's rte_fib, when told to: the peer of crates/tables/examples/lookup.rs.
 *
 *     rte_fib ROUTES ADDRESSES [EAL ARGUMENT ...]
 *
 * ROUTES holds lines `PREFIX/LENGTH ID`, ADDRESSES 32-bit words in host order. Says `ready` and the variants
 * of its lookup function that this machine has. Then reads lines `VARIANT PASSES` and answers each with the
 * least of the times that a pass over all addresses took, in nanoseconds per lookup, and a sum of the ids.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_memory.h>

enum { BURST = 64 };

static const struct {
	const char *name;
	enum rte_fib_lookup_type type;
} variants[] = {
	{ "macro", RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO },
	{ "inline", RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE },
	{ "uni", RTE_FIB_LOOKUP_DIR24_8_SCALAR_UNI },
	{ "avx512", RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512 },
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static void fail(const char *what)
{
	fprintf(stderr, "error: %s: %s\n", what, rte_strerror(rte_errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static uint32_t *read_addresses(const char *path, size_t *count)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
		fail(path);
	*count = ftell(file) / sizeof(uint32_t) / BURST * BURST;
	rewind(file);
	uint32_t *all = malloc(*count * sizeof(uint32_t));
	if (all == NULL || fread(all, sizeof(uint32_t), *count, file) != *count)
		fail(path);
	fclose(file);
	return all;
}

static struct rte_fib *read_routes(const char *path)
{
	struct rte_fib_conf conf = {
		.type = RTE_FIB_DIR24_8,
		.max_routes = 1 << 20,
		/* Ids of 16 bits, as ours; one bit of them marks groups of longer prefixes. */
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = 1 << 14 },
	};
	struct rte_fib *fib = rte_fib_create("fib", SOCKET_ID_ANY, &conf);
	if (fib == NULL)
		fail("rte_fib_create");
	FILE *file = fopen(path, "r");
	if (file == NULL)
		fail(path);
	char text[INET_ADDRSTRLEN + 1];
	unsigned int length, id;
	struct in_addr prefix;
	while (fscanf(file, "%16[0-9.]/%u %u\n", text, &length, &id) == 3) {
		if (inet_pton(AF_INET, text, &prefix) != 1)
			fail(text);
		if (rte_fib_add(fib, ntohl(prefix.s_addr), length, id) != 0)
			fail("rte_fib_add");
	}
	fclose(file);
	return fib;
}

static uint64_t pass(struct rte_fib *fib, uint32_t *addresses, size_t count)
{
	uint64_t ids[BURST], sum = 0;
	for (size_t i = 0; i < count; i += BURST) {
		rte_fib_lookup_bulk(fib, addresses + i, ids, BURST);
		/* Ours adds up all ids too. */
		for (int j = 0; j < BURST; j++)
			sum += ids[j];
	}
	return sum;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: rte_fib ROUTES ADDRESSES [EAL ARGUMENT ...]\n");
		return 2;
	}
	char *routes = argv[1], *file = argv[2];
	argv[2] = argv[0];
	if (rte_eal_init(argc - 2, argv + 2) < 0)
		fail("rte_eal_init");
	struct rte_fib *fib = read_routes(routes);
	size_t count;
	uint32_t *addresses = read_addresses(file, &count);
	printf("ready");
	for (int v = 0; v < VARIANTS; v++)
		if (rte_fib_select_lookup(fib, variants[v].type) == 0)
			printf(" %s", variants[v].name);
	printf("\n");
	fflush(stdout);

	char name[16];
	int passes;
	while (scanf("%15s %d", name, &passes) == 2) {
		int v = 0;
		while (v < VARIANTS && strcmp(variants[v].name, name) != 0)
			v++;
		if (v == VARIANTS || rte_fib_select_lookup(fib, variants[v].type) != 0) {
			fprintf(stderr, "error: there is no variant %s here\n", name);
			return 1;
		}
		double least = 1e18;
		uint64_t sum = 0;
		while (passes-- > 0) {
			double start = now();
			sum = pass(fib, addresses, count);
			double took = now() - start;
			least = took < least ? took : least;
		}
		printf("%.4f %" PRIu64 "\n", least / count, sum);
		fflush(stdout);
	}
	return 0;
}
