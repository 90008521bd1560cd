"""Two cards of its own for an isolated router (docs/routers.md, "A card of its own").

Shows: `check` tells that the cards' IOMMU groups do not belong to the router's user; once they do, the router's process, without
root's rights, opens the cards itself, frames cross, and the common process has none of the cards.
"""

from collections.abc import Iterator

import pytest
from guest import MODELS, PROGRAM, Guest, Router
from net import Failed, Lab, until

USER = "games"
FRAME = bytes.fromhex("020000000001020000000002") + bytes([0x88, 0xB5]) + bytes(50)
FILE = """
[[router]]
name = "red"
graph = "red.click"
isolation = "process"
user = "games"
memory = 1024
"""


@pytest.fixture(scope="module")
def router() -> Iterator[Router]:
    with Lab() as lab:
        router = Router(Guest(lab, MODELS["e1000e"], memory=2048))
        router.prepare()
        a, b = router.addresses
        router.write("red", f"FromDevice({a}, PROMISC true) -> c :: Counter -> ToDevice({b});\n"
                     f"FromDevice({b}, PROMISC true) -> ToDevice({a});")
        router.guest.run(f"cat > /run/direct.toml <<'END'\n{FILE}\nEND")
        yield router


def test_an_isolated_router_opens_cards_that_were_given_to_its_user(router):
    guest = router.guest
    said = router.cli("check /run/direct.toml", ok=False)
    assert "does not belong to the router's user: `chown" in said, said
    guest.run(f"chown {USER} /dev/vfio/[0-9]*")
    assert router.cli("check /run/direct.toml").strip() == ""
    guest.run(f"cd /run; setsid {PROGRAM} run direct.toml --socket /run/router.sock --workers 1 > /run/log 2>&1 & echo $! > /run/pid")
    try:
        until(lambda: "forwards" in crossing(guest), "a frame that crosses", timeout=240)
        own = guest.run("pgrep -f '^/run/ashlar-isolated/direct/red/program run'").strip()
        opened = guest.run(f"readlink /proc/{own}/fd/* || true")
        assert "vfio" in opened and "vfio" not in guest.run("readlink /proc/$(cat /run/pid)/fd/* || true"), opened
        assert guest.run(f"stat -c %U /proc/{own}").strip() == USER
    finally:
        print(router.log()[-3000:])
        router.stop()


def crossing(guest: Guest) -> str:
    """Sends a frame to the first card, and tells if it has left by the second one."""
    here, there = guest.cables
    there.take()
    if not here.offer(FRAME):
        return "full"
    try:
        until(lambda: FRAME in there.received, "the frame", timeout=2)
    except Failed:
        return "nothing"
    return "forwards"
