"""A model of machines with more cores, computed from the measured cycles of each step of a packet's path."""

import statistics


# Gain of a second core above which the cores are the limit, not the memory.
NEARLY_TWICE = 1.7


def second_core(bounds):
    """Factors by which a second core raises random writes and copies, of the results of rb-table2."""
    rates = ([[one[field] for one in bounds[f"{n} threads"]] for n in (2, 1)] for field in ("random write bytes", "copy bytes"))
    return [statistics.median(two) / statistics.median(one) for two, one in rates]


def cores_bound_memory(bounds):
    """True if two cores do not reach the memory's own limit."""
    return min(second_core(bounds)) > NEARLY_TWICE


def capacity(stage, hz):
    """Packets a second of a core that only does this step."""
    return hz / stage


def chain(stages, hz):
    """Packets a second of consecutive steps, each given as (cycles per packet, cores that share the packets)."""
    return min(cores * capacity(cycles, hz) for cycles, cores in stages)


def error(computed, measured):
    """Error of a model in percent of the measured value."""
    return 100 * (computed / measured - 1)
