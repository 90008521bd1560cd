"""The control group of an isolated router (docs/routers.md, `memory`), on a kernel with cgroup 2 and a memory
controller: Debian's.

Shows: all of the router's processes are in a group with its bounds, which goes with it; memory that no bound of a single program
counts (shared mappings, System V's) counts there, and whoever takes too much of it is killed; the router starts again.
"""

from collections.abc import Iterator

import pytest
from guest import ASHLAR, PROGRAM, Guest
from net import Lab, until

MEMORY = 128 << 20
GROUP = "/sys/fs/cgroup/ashlar-held-red"
FILE = f"""
[[router]]
name = "red"
graph = "red.click"
isolation = "process"
user = "games"
memory = {MEMORY >> 20}
"""
# Takes three times the bound.
TAKE = f"""
import ctypes, mmap, os, sys
size = {3 * MEMORY}
kind = sys.argv[1]
if kind == "system-v":
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = libc.shmget(0, ctypes.c_size_t(size), 0o1600)
    at = libc.shmat(key, None, 0)
    # Without this the segment would outlast the program.
    libc.shmctl(key, 0, None)
    memory = (ctypes.c_char * size).from_address(at)
elif kind == "zero":
    memory = mmap.mmap(os.open("/dev/zero", os.O_RDWR), size, flags=mmap.MAP_SHARED)
else:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if kind == "shared" else mmap.MAP_PRIVATE))
print("takes", flush=True)
for at in range(0, size, 1 << 20):
    memory[at:at + (1 << 20)] = bytes(1 << 20)
print("has it all", flush=True)
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with Lab() as lab:
        guest = Guest(lab, "e1000e", cables=[])
        guest.run(f"cp {ASHLAR} {PROGRAM}; mount -t cgroup2 none /sys/fs/cgroup; mkdir /run/held; cd /run/held; "
                  f"cat > take.py <<'END'\n{TAKE}\nEND\ncat > held.toml <<'END'\n{FILE}\nEND\n"
                  "echo 'TimedSource(1) -> Discard;' > red.click")
        yield guest


@pytest.fixture
def running(guest: Guest) -> Iterator[Guest]:
    guest.run(f"cd /run/held; setsid {PROGRAM} run held.toml --no-socket --workers 1 > log 2>&1 & echo $! > /run/held/pid")
    until(lambda: router(guest), "the router", timeout=120)
    yield guest
    guest.run(f"kill $(cat /run/held/pid); while [ -e /proc/$(cat /run/held/pid) ]; do sleep 0.1; done; cat /run/held/log; [ ! -e {GROUP} ]")


def router(guest: Guest) -> str:
    """Process number of the isolated router itself."""
    return guest.run("pgrep -f '^/run/ashlar-isolated/held/red/program run' || true").strip()


def number(guest: Guest, file: str) -> int:
    return int(guest.run(f"cat {GROUP}/{file}"))


def test_all_processes_of_an_isolated_router_are_in_a_group_with_its_bounds(running):
    assert (number(running, "memory.max"), number(running, "pids.max")) == (MEMORY, 512)
    inside = running.run(f"cat {GROUP}/cgroup.procs").split()
    # confine's two, keep and the router; the common process is outside.
    assert len(inside) == 4 and router(running) in inside and running.run("cat /run/held/pid").strip() not in inside, inside


@pytest.mark.parametrize("kind", ["private", "shared", "zero", "system-v"])
def test_a_program_above_the_memory_limit_is_killed(running, kind):
    before = router(running)
    # Without the bounds of a single program, and with the calls that tenants have not.
    said = running.run(f"sh -c 'echo $$ > {GROUP}/cgroup.procs; exec python3 /run/held/take.py {kind}'; echo ended $?", ok=False)
    assert "takes" in said and "has it all" not in said and "ended 137" in said, said
    assert number(running, "memory.peak") <= MEMORY
    # All processes of the group are killed with it, and the router is started again.
    until(lambda: router(running) not in ("", before), "the router again", timeout=120)
