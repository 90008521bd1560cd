/* What the peers of `make bench-services` share. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CLASSES 4
#define LENGTH 700

static uint64_t state = 88172645463325252ull;

static uint32_t random_below(uint32_t n)
{
	/* Xorshift (G. Marsaglia, 2003). */
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 11) % n);
}

static void need(int holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}
