"""A host that sends numbered UDP packets at an even pace to others, and notes what comes.

    paced_host.py RECORDS START SECONDS RATE SIZE FLOWS ADDRESS TARGET=ADDRESS ...

START is the kernel's real time in nanoseconds at which all hosts begin. RATE packets a second go to each TARGET, in
FLOWS flows in turn, each of SIZE bytes with its IP header. RECORDS gets a line per packet that came: the sender's
address, flow, number, when it was sent, when it came (both of the kernel's real time, in nanoseconds); and before
them, a line `sent ADDRESS COUNT` for each target.
"""

import select
import socket
import struct
import sys
import time

PORT = 4000
HEAD = struct.Struct("!HIQ")
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33
STAMP = struct.Struct("qq")
# Packets that have not come this long after the last was sent are lost.
PATIENCE = 1.0


def receive(sink: socket.socket, records: list[tuple]) -> None:
    while True:
        try:
            data, ancillary, _, sender = sink.recvmsg(2048, 64)
        except BlockingIOError:
            return
        seconds, nanoseconds = STAMP.unpack(ancillary[0][2][:STAMP.size])
        records.append((sender[0], data[:HEAD.size], seconds * 1_000_000_000 + nanoseconds))


def main() -> None:
    path, start, seconds, rate, size, flows, own, *targets = sys.argv[1:]
    start, seconds, rate, size, flows = int(start), float(seconds), float(rate), int(size), int(flows)
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    sink.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sink.bind((own, PORT))
    sink.setblocking(False)
    sources = []
    for flow in range(flows):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((own, PORT + 1 + flow))
        sources.append(made)
    pad = bytes(size - 28 - HEAD.size)
    records: list[tuple] = []
    poll = select.poll()
    poll.register(sink, select.POLLIN)
    print("ready", flush=True)
    sent, total = 0, int(seconds * rate)
    # The targets' packets are due in turn, at equal distances.
    gap, step = 1e9 / rate, 1e9 / rate / len(targets)
    while True:
        now = time.time_ns()
        while sent < total * len(targets):
            number, which = divmod(sent, len(targets))
            if start + number * gap + which * step > now:
                break
            flow = number % flows
            sources[flow].sendto(HEAD.pack(flow, number // flows, time.time_ns()) + pad, (targets[which], PORT))
            sent += 1
            if sent % 8 == 0:
                receive(sink, records)
        receive(sink, records)
        if sent == total * len(targets) and now > start + (seconds + PATIENCE) * 1e9:
            break
        poll.poll(1)
    with open(path, "w") as out:
        for target in targets:
            out.write(f"sent {target} {total}\n")
        for sender, head, came in records:
            flow, number, at = HEAD.unpack(head)
            out.write(f"{sender} {flow} {number} {at} {came}\n")


if __name__ == "__main__":
    main()
