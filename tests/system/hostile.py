"""A hostile tenant, run by `ashlar confine` (test_hostile_tenants.py): it tries to break out, and reports the result of
each attempt.

    hostile.py PLANE FOLDER OTHER SOCKET NETNS NUMBER INDEX LOCK

The number of the process that it is to be kept from, its own folder, that of another tenant, that process's socket, the name of another
tenant's network namespace with an interface `wan0`, the number that the kernel has given the namespace here, because an interface there
has its peer here, the index of `wan0`, and a lock of the process.
"""

import ctypes
import fcntl
import mmap
import os
import resource
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
plane, folder, other, plane_socket, netns, number, index, lock = sys.argv[1:]
# netlink(7), rtnetlink(7)
NEWLINK, DELLINK, GETLINK, NEWNSID = 16, 17, 18, 88
REQUEST, ACK, DUMP, CREATE, EXCL = 1, 4, 0x300, 0x400, 0x200
IFNAME, LINK, LINKINFO, NET_NS_FD, LINK_NETNSID, TARGET_NETNSID = 3, 5, 18, 28, 37, 46


def call(number, *words):
    if libc.syscall(number, *words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def attribute(kind, value):
    if isinstance(value, str):
        value = value.encode() + b"\0"
    elif isinstance(value, int):
        value = struct.pack("=i", value)
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def ask(kind, flags, body):
    """Sends a request, and returns the bodies of the responses; raises an error response."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.settimeout(20)
        netlink.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, 1, 0) + body)
        told = []
        while True:
            data = netlink.recv(1 << 17)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind in (2, 3):
                    error = -struct.unpack_from("=i", data, 16)[0]
                    if error:
                        raise OSError(error, os.strerror(error))
                    return told
                told.append(data[16:length])
                data = data[(length + 3) & ~3:]


def name_the_other():
    """Gives another namespace a number; one that has a number keeps it."""
    try:
        ask(NEWNSID, ACK, bytes(4) + attribute(3, os.open(f"/run/netns/{netns}", os.O_RDONLY)) + attribute(1, 77))
    except FileExistsError:
        return of_peer()
    return attribute(TARGET_NETNSID, 77)


def link(kind, flags, *attributes, change=bytes(16)):
    return ask(kind, flags, change + b"".join(attributes))


def veth(name):
    return attribute(IFNAME, name) + attribute(LINKINFO, attribute(1, "veth"))


def of_peer():
    """Number that the kernel has assigned to the namespace of an interface's peer."""
    return attribute(TARGET_NETNSID, int(number))


def memory():
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        kept[-1].write(bytes(16 << 20))
        if len(kept) > 100:
            return


def shared_memory(path):
    file = os.open(path, os.O_RDWR)
    mmap.mmap(file, 64 << 20, flags=mmap.MAP_SHARED)


def files():
    return [open("/dev/null") for _ in range(5000)]


def large():
    with open("large", "wb") as file:
        file.truncate(2 << 30)


def packets(option=None):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3) as heard:
        if option:
            heard.setsockopt(263, option, struct.pack("=4I", 1 << 16, 16, 1 << 16, 16))


def inherited():
    """Descriptors that were open at the start."""
    open_now = [number for number in os.listdir("/proc/self/fd") if int(number) > 2]
    # The descriptor of the listing itself is closed again.
    found = [os.readlink(f"/proc/self/fd/{number}") for number in open_now if os.path.lexists(f"/proc/self/fd/{number}")]
    if not found:
        raise FileNotFoundError
    print("inherited:", found, file=sys.stderr)


def devices():
    found = [name for name in ("zero", "fuse", "kvm", "tty", "ptmx", "vsock", "shm") if os.path.exists(f"/dev/{name}")]
    if not found:
        raise FileNotFoundError
    print("devices:", found, file=sys.stderr)


def punched():
    """Removes a page from a file's memory."""
    file = os.open("shared", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 8192)
    if libc.fallocate(file, 3, ctypes.c_long(0), ctypes.c_long(4096)) < 0:
        raise OSError(ctypes.get_errno(), "")


def removed():
    file = os.open("shared", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 8192)
    memory = mmap.mmap(file, 8192)
    memory.madvise(9)


def locked():
    fcntl.flock(os.open(lock, os.O_RDONLY), fcntl.LOCK_SH)


def unix(path, kind=socket.SOCK_STREAM):
    socket.socket(socket.AF_UNIX, kind).connect(path)


def capabilities():
    """Checks that no capability set contains anything but the two allowed ones."""
    lines = dict(line.split(":\t") for line in open("/proc/self/status").read().splitlines() if line.startswith("Cap"))
    if all(int(value, 16) & ~0x3000 == 0 for value in lines.values()):
        raise PermissionError
    print(lines, file=sys.stderr)


def processor():
    before = os.sched_getaffinity(0)
    for one in range(os.cpu_count()):
        os.sched_setaffinity(0, {one})
        if os.sched_getaffinity(0) != before:
            return
    raise OSError("the call succeeds without an effect")


ALLOWED = {
    "a file of its own": lambda: open("mine", "w").write("x"),
    "an interface of its own": lambda: link(NEWLINK, ACK | CREATE | EXCL, veth("mine0")),
    "hear its own packets": packets,
    "discard output": lambda: open("/dev/null", "w").write("x"),
}
FORBIDDEN = {
    # These run first, before any attempt leaves something open.
    "have what was open": inherited,
    # Other tenants' and the machine's networks.
    "name another namespace and list its links": lambda: link(GETLINK, DUMP, name_the_other()),
    "list links by a peer": lambda: link(GETLINK, DUMP, of_peer()),
    "make a link there": lambda: link(NEWLINK, ACK | CREATE | EXCL, of_peer(), veth("evil0")),
    "delete a link there": lambda: link(DELLINK, ACK, of_peer(), attribute(IFNAME, "wan0")),
    "take a link there down": lambda: link(NEWLINK, ACK, of_peer(), attribute(IFNAME, "wan0"), change=struct.pack("=BBHiII", 0, 0, 0, 0, 0, 1)),
    "put a macvlan over a link there": lambda: link(
        NEWLINK, ACK | CREATE | EXCL, attribute(IFNAME, "over0"), attribute(LINK_NETNSID, int(number)), attribute(LINK, int(index)),
        attribute(LINKINFO, attribute(1, "macvlan") + attribute(2, attribute(1, 8)))),
    "move a link there": lambda: link(
        NEWLINK, ACK, attribute(IFNAME, "mine0"), attribute(NET_NS_FD, os.open(f"/run/netns/{netns}", os.O_RDONLY))),
    "enter another network": lambda: call(308, os.open(f"/run/netns/{netns}", os.O_RDONLY), 0),
    "enter its own network": lambda: call(308, os.open("/proc/self/ns/net", os.O_RDONLY), 0),
    "have another network": lambda: call(272, 0x40000000),
    "have a user namespace": lambda: call(272, 0x10000000),
    # Other tenants' files, sockets and processes.
    "read the folder of another": lambda: os.listdir(other),
    "read the graph of another": lambda: open(f"{other}.click").read(),
    "connect to another's memory": lambda: unix(f"{other}/wan.sock", socket.SOCK_SEQPACKET),
    "connect to the process": lambda: unix(plane_socket),
    "see the process": lambda: os.listdir(f"/proc/{plane}"),
    "signal the process": lambda: os.kill(int(plane), 0),
    "signal the first of its processes": lambda: os.kill(1, 9),
    "hold the process's lock": locked,
    "write elsewhere": lambda: open("/tmp/of-a-tenant", "w"),
    "write to its own program": lambda: open("program", "r+b"),
    "see the machine's devices": devices,
    # Rights.
    "be root": lambda: os.setuid(0),
    "have other rights": capabilities,
    "mount": lambda: call(165, b"none", b"/mnt", b"tmpfs", 0, None),
    "trace": lambda: call(101, 16, int(plane), 0, 0),
    "read memory of the process": lambda: call(310, int(plane), None, 0, None, 0, 0),
    "load a program into the kernel": lambda: call(321, 0, None, 0),
    "have a socket of the hypervisor": lambda: socket.socket(40, socket.SOCK_STREAM),
    "have a socket of the kernel's ciphers": lambda: socket.socket(38, socket.SOCK_SEQPACKET),
    "speak to the packet filter": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12),
    # Memory that is not accounted to a process, and the clock.
    "have memory by memfd": lambda: call(319, b"x", 0),
    "have memory by memfd_secret": lambda: call(447, 0),
    "have memory by shmget": lambda: call(29, 0, 64 << 20, 0o1600),
    "have memory by semget": lambda: call(64, 0, 1000, 0o1600),
    "have memory by msgget": lambda: call(68, 0, 0o1600),
    "have memory by io_setup": lambda: call(206, 65536, ctypes.byref(ctypes.c_ulong(0))),
    "have memory by io_uring": lambda: call(425, 1000, ctypes.create_string_buffer(120)),
    "have memory by an anonymous shared mapping": lambda: mmap.mmap(-1, 64 << 20),
    "have memory by /dev/zero": lambda: shared_memory("/dev/zero"),
    "have memory by a receive ring": lambda: packets(5),
    "have memory by a transmit ring": lambda: packets(13),
    "take pages out of shared memory": punched,
    "remove pages of shared memory": removed,
    "have more memory": memory,
    "have more files": files,
    "have a large file": large,
    "have a greater bound": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)),
    "run on another processor": processor,
}


def tries():
    for kind, attempts in (("allowed", ALLOWED), ("forbidden", FORBIDDEN)):
        for name, attempt in attempts.items():
            try:
                attempt()
                print(f"{kind}: {name} = done")
            except (OSError, ValueError, MemoryError) as error:
                print(f"{kind}: {name} = {type(error).__name__} {error}")


if __name__ == "__main__":
    tries()
