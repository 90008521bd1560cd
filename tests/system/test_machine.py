"""Output of `ashlar ports` and `ashlar doctor`, in a namespace of its own.

Shows: interfaces with their state, addresses, membership and the router that uses them; activities of the kernel on
the same interfaces are found, stopped by `--fix`, and restored by the commands that it prints. Cards are in
tests/cards.
"""

import json
import re

import pytest
from topology import ASHLAR, FORWARD, ROOT

CLUSTER = ROOT / "conf/cluster.toml"

pytestmark = pytest.mark.ashlar


def listed(space) -> dict[str, dict]:
    found = json.loads(space.run(ASHLAR, "ports", "--json").out)
    return {i["name"]: i for i in found["interfaces"]}


def test_interfaces_are_listed_with_their_users(network):
    space = network.router_space
    space.ip("link add name br0 type bridge")
    space.ip("link add name v0 type veth peer name v1")
    space.ip("link set v0 master br0")
    space.ip("address add 192.0.2.1/24 dev v1")
    found = listed(space)
    assert set(found) == {"eth0", "eth1", "br0", "v0", "v1"}
    eth0 = found["eth0"]
    assert (eth0["state"], eth0["driver"], eth0["xdp"]) == ("up", "veth", "native")
    assert (eth0["rx_queues"], eth0["tx_queues"]) == (2, 2)
    assert eth0["ports"] == ["eth0", "af_xdp:eth0"]
    assert str(network.router.process.pid) in eth0["used_by"]
    assert found["v0"]["member"] == "bridge br0" and found["v0"]["state"] == "down"
    assert found["v1"]["addresses"] == ["192.0.2.1"] and found["v1"]["used_by"] is None
    table = space.run(ASHLAR, "ports").out
    assert re.search(rf"^eth0 +veth .*process {network.router.process.pid} ", table, re.MULTILINE), table
    assert re.search(r"^v0 .*bridge br0$", table, re.MULTILINE), table


def test_missing_settings_are_found_fixed_and_undone(lab):
    space = lab.namespace("router")
    space.ip("link add name v0 type veth peer name v1")
    space.ip("link set v1 up")
    space.sysctl(net__ipv4__conf__v0__forwarding=1, net__ipv6__conf__v0__forwarding=0)
    doctor = (ASHLAR, "doctor", str(FORWARD), "DEV0=v0", "DEV1=v1")

    def findings(status: int) -> list[str]:
        done = space.run(*doctor, "--json", ok=(status,))
        return [f["what"] for f in json.loads(done.out) if f["about"] in ("v0", "v1")]

    ill = ["v0 is down", "the kernel forwards ipv4 packets of v0, too", "v1 has no carrier"]
    assert findings(2) == ill
    said = space.run(*doctor, ok=(2,)).out
    assert "mend: ip link set dev v0 up" in said and "doctor --fix" in said
    fixed = space.run(*doctor, "--fix", ok=(0, 1)).out
    assert "fixing: ip link set dev v0 up" in fixed
    assert findings(0) == []
    undo = fixed.split("to undo it:\n")[1].split("\n\n")[0]
    for line in undo.splitlines():
        space.run("sh", "-c", line)
    assert findings(2) == ill


def test_mistakes_are_sentences(lab):
    space = lab.namespace("router")
    space.ip("link add name v0 type veth peer name v1")
    for words, why in (
        (("ports", "bind", "v0"), "has no PCI device behind it"),
        (("ports", "bind", "0000:ff:1f.7"), "there is no network card"),
        (("ports", "unbind", "none"), "there is no network card none"),
        (("doctor", "/no/such/file"), "/no/such/file"),
    ):
        done = space.run(ASHLAR, *words, ok=(1,))
        assert why in done.err, done
    done = space.run(ASHLAR, "doctor", str(FORWARD), "DEV0=v0", "DEV1=nobody", ok=(2,))
    assert "there is no interface nobody" in done.out and "v0, v1" in done.out


def test_all_routers_of_a_file_are_asked_about(lab):
    space = lab.namespace("router")
    for number in range(3):
        space.ip(f"link add name v{number} type veth peer name w{number}")
    both = "FromDevice(%s) -> ToDevice(between); FromDevice(between) -> ToDevice(%s);"
    (lab.folder / "red.click").write_text(both % ("wan", "wan"))
    (lab.folder / "blue.click").write_text(both % ("v1", "$DEV"))
    file = lab.folder / "two.toml"
    file.write_text("""
        router = [
            { name = "red", graph = "red.click" },
            { name = "blue", graph = "blue.click", definitions = { DEV = "v2" } },
        ]
        port = [{ name = "wan", device = "v0", share = [{ router = "red", vlan = 7 }] }]
        link = [{ name = "between", routers = ["red", "blue"] }]
    """)
    found = json.loads(space.run(ASHLAR, "doctor", str(file), "--json", ok=(2,)).out)
    down = [f["about"] for f in found if f["what"].endswith(" is down")]
    assert down == ["v0", "v1", "v2"], found
    file.write_text(file.read_text().replace("blue.click", "nothing.click"))
    said = space.run(ASHLAR, "doctor", str(file), ok=(1,))
    assert "nothing.click" in said.err, said


def test_a_cluster_file_is_answered_with_the_right_command(lab):
    space = lab.namespace("router")
    said = space.run(ASHLAR, "doctor", str(CLUSTER), ok=(1,))
    assert "describes a cluster: `ashlar ports` on each server" in said.err, said
