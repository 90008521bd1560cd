// What a machine takes from a thread that does nothing but read the clock: `gaps CORE SECONDS` prints the longest
// time between two readings, in microseconds. SIGTERM ends it early.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

static volatile sig_atomic_t over;

static void end_early(int number)
{
    (void)number;
    over = 1;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(atoi(argv[1]), &core);
    if (sched_setaffinity(0, sizeof core, &core) != 0)
        return 1;
    signal(SIGTERM, end_early);
    uint64_t end = now() + (uint64_t)(atof(argv[2]) * 1e9), last = now(), longest = 0;
    while (last < end && !over) {
        uint64_t at = now();
        if (at - last > longest)
            longest = at - last;
        last = at;
    }
    printf("%.1f\n", longest / 1e3);
    return 0;
}
