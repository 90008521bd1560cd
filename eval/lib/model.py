"""A model of machines with more cores: computed from the cycles that each step of a packet's way costs a core, as they
were measured where the steps ran."""


def capacity(stage, hz):
    """Packets a second of a core that does nothing but this."""
    return hz / stage


def chain(stages, hz):
    """Packets a second of steps in a row; each is (cycles per packet, cores that share the packets)."""
    return min(cores * capacity(cycles, hz) for cycles, cores in stages)


def error(computed, measured):
    """Error of a model, in percent of the measured value."""
    return 100 * (computed / measured - 1)
