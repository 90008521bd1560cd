"""Ashlar as the data plane of a Linux router: TAP twins in the namespace of the daemons."""

from net import Lab, Namespace, Process, until


class Twinned:
    """`ashlar run --netns`: its devices are in a namespace of their own, their twins in that of the daemons."""

    def __init__(self, lab: Lab, name: str, space: Namespace, ports: list[str]):
        self.space, self.ports = space, ports
        self.device_space = lab.namespace(f"{name}-ports")
        self.process: Process | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.running

    def said(self) -> str:
        return self.process.said() if self.process else "not started"
