"""A model of machines with more cores, computed from the measured cycles of each step of a packet's path."""


# Gain of a second core above which the cores are the limit, not the memory.
NEARLY_TWICE = 1.7


def cores_bound(bounds, field):
    """True if a second core nearly doubles a rate of rb-table2's results, between any two rounds.
    Then two cores do not reach the memory's own limit.
    """
    two, one = ([result[field] for result in bounds[f"{n} threads"]] for n in (2, 1))
    return min(two) / max(one) > NEARLY_TWICE


def capacity(stage, hz):
    """Packets a second of a core that only does this step."""
    return hz / stage


def chain(stages, hz):
    """Packets a second of consecutive steps, each given as (cycles per packet, cores that share the packets)."""
    return min(cores * capacity(cycles, hz) for cycles, cores in stages)


def step_cycles(result, kind):
    """Cycles per packet of a router's tasks whose names begin with `kind`, in a round that has its "stages"."""
    stages = [stage for task, stage in result["stages"].items() if task.startswith(kind)]
    packets = sum(stage["rate"] for stage in stages)
    return sum(stage["rate"] * stage["cycles per packet"] for stage in stages) / max(packets, 1)


def part_used(one, hz):
    """Part of a core's cycles that packets took in a round."""
    return one["rate"] * one["cycles per packet"] / hz


def error(computed, measured):
    """Error of a model in percent of the measured value."""
    return 100 * (computed / measured - 1)
