"""Transfers between the hosts, compared byte by byte at the far end."""

import hashlib
import random
import re
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from net import Failed, Namespace, until
from topology import CLIENT, SERVER, Network

FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
TIMEOUT = 30.0
SO_RCVBUFFORCE = 33


def ends(network: Network, version: int, from_client: bool) -> tuple[Namespace, Namespace, str]:
    """The sending host, the receiving host, and the receiver's address."""
    if from_client:
        return network.client, network.server, SERVER.host[version]
    return network.server, network.client, CLIENT.host[version]


def ping(network: Network, version: int, target: str, size: int, *, count: int = 3) -> str:
    """Pings from the client; fails unless every request is answered with its data. Returns ping's output."""
    return answered(network.client, f"-{version}", f"-s{size}", target, count=count)


def answered(space: Namespace, *words: str, count: int = 3) -> str:
    """Pings; fails unless every request is answered with its data. Returns ping's output.

    All requests are sent at once. (Otherwise ping waits, after the first answer, only for its interval or two round
    trips, which is too short on a busy machine.)
    """
    # Sometimes ping sends some of them only later, at its interval.
    done = space.run("ping", f"-c{count}", f"-l{count}", "-i3", "-W15", *words, ok=None, timeout=120)
    assert f"{count} packets transmitted, {count} received" in done.out, str(done)
    assert "wrong data" not in done.out, str(done)
    return done.out


class Pings:
    """A steady sequence of echo requests, a hundred per second."""

    def __init__(self, space: Namespace, target: str):
        self.process = space.spawn("ping", "-i0.01", target)

    def answered(self) -> set[int]:
        """Numbers of the answered requests."""
        return {int(number) for number in re.findall(r"icmp_seq=(\d+) (?:ttl|hlim)=", self.process.out)}

    def lost(self) -> tuple[int, int]:
        """Ends the pings. Returns how many requests were answered or lost, and how many were lost; requests under way
        count as neither.
        """
        before = max(self.answered(), default=0)
        until(lambda: max(self.answered(), default=0) > before, "another answer to a ping")
        self.process.signal(signal.SIGINT)
        self.process.wait()
        answered = self.answered()
        return max(answered), max(answered) - len(answered)


def listen(space: Namespace, version: int) -> socket.socket:
    """A listening TCP socket on a port chosen by the kernel."""
    made = space.socket(FAMILY[version], socket.SOCK_STREAM)
    made.bind(("", 0))
    made.listen()
    made.settimeout(TIMEOUT)
    return made


def udp(space: Namespace, version: int) -> socket.socket:
    """A UDP socket on a port chosen by the kernel, with a buffer for all packets of a test."""
    made = space.socket(FAMILY[version], socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    made.bind(("", 0))
    made.settimeout(TIMEOUT)
    return made


def port(made: socket.socket) -> int:
    return made.getsockname()[1]


@dataclass
class Sum:
    """Bytes that a receiver got."""

    length: int = 0
    digest: str = ""


def _drain(stream: socket.socket, into: Sum) -> None:
    state = hashlib.sha256()
    while data := stream.recv(1 << 20):
        into.length += len(data)
        state.update(data)
    into.digest = state.hexdigest()


def tcp_transfer(network: Network, version: int, size: int, *, from_client: bool = True) -> None:
    """Sends `size` random bytes each way over one connection, at the same time; the sender opens the connection. Fails
    unless both arrive unchanged.
    """
    near, far = _connected(network, version, from_client)
    _exchange({near: size, far: size})


def tcp_send(network: Network, version: int, size: int, *, from_client: bool = True) -> None:
    """Sends `size` random bytes one way; fails unless they arrive unchanged."""
    near, far = _connected(network, version, from_client)
    _exchange({near: size, far: 0})


def tcp_between(sender: Namespace, receiver: Namespace, address: str, version: int, size: int,
                before: Callable[[int, int], None] = lambda near, far: None) -> None:
    """Like `tcp_transfer`, between any hosts; `before` gets the ports of both ends before they connect."""
    near, far = _ends_connected(sender, receiver, address, version, before)
    _exchange({near: size, far: size})


def _connected(network: Network, version: int, from_client: bool) -> tuple[socket.socket, socket.socket]:
    """The ends of a connection, the sender's first."""
    sender, receiver, address = ends(network, version, from_client)
    return _ends_connected(sender, receiver, address, version)


def _ends_connected(sender: Namespace, receiver: Namespace, address: str, version: int,
                    before: Callable[[int, int], None] = lambda near, far: None) -> tuple[socket.socket, socket.socket]:
    listener = listen(receiver, version)
    near = sender.socket(FAMILY[version], socket.SOCK_STREAM)
    near.settimeout(TIMEOUT)
    near.bind(("", 0))
    before(port(near), port(listener))
    near.connect((address, port(listener)))
    far, _ = listener.accept()
    far.settimeout(TIMEOUT)
    return near, far


def _exchange(sizes: dict[socket.socket, int]) -> None:
    near, far = sizes
    data = {end: random.Random(size + i).randbytes(size) for i, (end, size) in enumerate(sizes.items())}
    got = {near: Sum(), far: Sum()}
    troubles: list[Exception] = []

    def work(job, *arguments) -> None:
        try:
            job(*arguments)
        except OSError as error:
            troubles.append(error)

    def push(end: socket.socket) -> None:
        end.sendall(data[end])
        end.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=work, args=(push, end), daemon=True) for end in sizes]
    threads += [threading.Thread(target=work, args=(_drain, end, got[end]), daemon=True) for end in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * TIMEOUT)
    near.close()
    far.close()
    for sent, received in ((data[near], got[far]), (data[far], got[near])):
        if received != Sum(len(sent), hashlib.sha256(sent).hexdigest()):
            raise Failed(f"{len(sent)} bytes were sent by TCP, {received.length} came, "
                         f"{'changed' if received.length == len(sent) else 'not all'}; {troubles}")


def udp_echo(network: Network, version: int, sizes: list[int], window: int = 32) -> None:
    """Sends datagrams of random bytes to the server and back, with `window` of them under way. Fails unless each returns
    unchanged and in order.
    """
    near, far = udp(network.client, version), udp(network.server, version)
    source = random.Random(len(sizes))
    for at in range(0, len(sizes), window):
        batch = [source.randbytes(size) for size in sizes[at:at + window]]
        try:
            for data in batch:
                near.sendto(data, (SERVER.host[version], port(far)))
            for number, data in enumerate(batch, at):
                echo, sender = far.recvfrom(1 << 16)
                if echo != data:
                    raise Failed(f"datagram {number} of {len(data)} bytes reached the server changed")
                far.sendto(echo, sender)
            for number, data in enumerate(batch, at):
                if near.recv(1 << 16) != data:
                    raise Failed(f"datagram {number} of {len(data)} bytes came back changed")
        except TimeoutError:
            raise Failed(f"a datagram of {sizes[at:at + window]} bytes was lost") from None


def plain_wires(network: Network) -> None:
    """Gives links the properties of a wire: complete checksums, and no frames longer than the MTU."""
    router = network.router_space
    for space, interface in ((network.client, "eth0"), (network.server, "eth0"), (router, "eth0"), (router, "eth1")):
        space.run("ethtool", "-K", interface, "tx", "off", "tso", "off", "gso", "off", "sg", "off", "gro", "off")


def answers(network: Network, version: int) -> None:
    """Waits until the server answers a ping."""
    until(lambda: network.client.run("ping", f"-{version}", "-c1", "-W1", SERVER.host[version], ok=None).status == 0,
          f"an IPv{version} ping", timeout=10)


def carries(network: Network, size: int) -> None:
    """Ping, UDP, and TCP with this number of bytes in both directions at once, by both families. Fails unless everything
    arrives unchanged.
    """
    for version in (4, 6):
        answers(network, version)
        udp_echo(network, version, [1, 100, 1400])
        for from_client in (True, False):
            tcp_transfer(network, version, size, from_client=from_client)
