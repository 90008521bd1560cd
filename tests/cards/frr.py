"""FRR's daemons in a namespace of a guest, with their own files."""

from guest import Guest
from net import until

FPM = "fpm address 127.0.0.1 port 2620"


class Frr:
    """zebra with some options, and the daemons for which `configuration` has a text."""

    def __init__(self, guest: Guest, space: str, zebra: str = "", **configuration: str):
        self.run, self.folder = guest.run, f"/tmp/frr-{space}"
        self.run(f"mkdir -p {self.folder}/etc {self.folder}/run {self.folder}/tmp /run/frr; touch {self.folder}/etc/vtysh.conf")
        for name, text in {"zebra": FPM, **configuration}.items():
            self.run(f"cat > {self.folder}/etc/{name}.conf <<'END'\n{text}\nEND")
        self.run(f"chown -R frr:frr {self.folder}")
        self.mounts = " && ".join(f"mount --bind {self.folder}/{ours} {theirs}"
                                  for ours, theirs in (("etc", "/etc/frr"), ("run", "/run/frr"), ("tmp", "/var/tmp")))
        self.space = space
        for name in ("zebra", *configuration):
            more = zebra if name == "zebra" else ""
            self.run(f"ip netns exec {space} sh -c '{self.mounts} && exec setsid /usr/lib/frr/{name} -A 127.0.0.1 -P 0 {more}' "
                     f"> {self.folder}/{name}.log 2>&1 & echo $! >> {self.folder}/pids")
            until(lambda name=name: f"{name}.vty" in self.run(f"ls {self.folder}/run"), f"{name} of {space}", timeout=60)

    def vtysh(self, *commands: str) -> str:
        """Output of vtysh for commands, each as typed by a user."""
        words = " ".join(f'-c "{command}"' for command in commands)
        return self.run(f"ip netns exec {self.space} sh -c '{self.mounts} && exec vtysh {words}'")

    def end(self) -> None:
        self.run(f"for p in $(cat {self.folder}/pids); do kill $p; timeout 60 tail --pid=$p -f /dev/null; done; rm -r {self.folder}")
