"""A model of machines with more cores, computed from the measured cycles of each step of a packet's path."""


def capacity(stage, hz):
    """Packets a second of a core that only does this step."""
    return hz / stage


def chain(stages, hz):
    """Packets a second of consecutive steps, each given as (cycles per packet, cores that share the packets)."""
    return min(cores * capacity(cycles, hz) for cycles, cores in stages)


def error(computed, measured):
    """Error of a model in percent of the measured value."""
    return 100 * (computed / measured - 1)
