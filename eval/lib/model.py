"""What more cores than a machine has would do: computed from what each step of a packet's way costs a core, in cycles
that were measured where the steps ran."""


def capacity(stage, hz):
    """Packets a second of a core that does nothing but this."""
    return hz / stage


def chain(stages, hz):
    """Packets a second of steps in a row; each is (cycles per packet, cores that share the packets)."""
    return min(cores * capacity(cycles, hz) for cycles, cores in stages)


def error(computed, measured):
    """How far a model is off, in percent of what was measured."""
    return 100 * (computed / measured - 1)
