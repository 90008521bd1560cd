"""Difference between what two runs say."""

import re

NOISE = re.compile(
    r"^$|^  |warning: |While (configuring|initializing) |expensive Packet::|Packet::pull"
    r"|no route for|would query for|packets transmitted|rtt min/avg|bad (lengths|input packet)|fragment or short packet|Not an ARP packet"
    r"|IP6 header check failed|has no handler `tickets`|there is no element|the file ends in the middle of a record, at byte ")
"""Messages that only one of the programs may have."""

# Handlers whose lines come in another order.
UNORDERED = {"table", "tcp_table", "udp_table", "mappings", "tcp_mappings", "udp_mappings"}


def answers(text):
    """Output of a run, without the parts that may differ.

    These are: white space at ends of lines, the order of tables, seconds left, and lines that begin with "!runtime " or
    "!bad " (of ToIPSummaryDump).
    """
    out, name = [], ""
    for section in re.split(r"^(@\w+)$", text, flags=re.MULTILINE):
        if section.startswith("@") and "\n" not in section:
            name = section[1:]
            out.append(section)
            continue
        lines = [line.rstrip() for line in section.strip().splitlines() if not line.startswith(("!runtime ", "!bad "))]
        if name in UNORDERED:
            lines = sorted(re.sub(r" exp\d+$", "", line) for line in lines)
        out += lines
    return out


NEGATIVE = re.compile(r"\b4294967(1\d\d|2[0-8]\d|29[0-5])\b")
"""A length of a payload in Click's ToIPSummaryDump that is negative: this program writes 0."""


def outputs(a, b):
    """Texts of both runs; a line of Click's is that of the other if only negative lengths differ."""
    of_click, of_ashlar = answers(a.out), answers(b.out)
    if len(of_click) == len(of_ashlar):
        pairs = zip(of_click, of_ashlar, strict=True)
        of_click = [y if NEGATIVE.sub("0", x) == y else x for x, y in pairs]
    return "\n".join(of_click), "\n".join(of_ashlar)


def settled(line):
    """A line of Print, without nanoseconds by which Click's reading of the clock moves FIRST_TIMESTAMP."""

    def first_stamp(match):
        nanoseconds = int.from_bytes(bytes.fromhex(match[2]), "little")
        if 10**18 <= nanoseconds < 11 * 10**17:
            nanoseconds -= nanoseconds % 1000
        return match[1] + nanoseconds.to_bytes(8, "little").hex() + match[3]

    return re.sub(r"(\| [0-9a-f]{64})([0-9a-f]{16})([0-9a-f]{16}(?: \||\s*$))", first_stamp, line)


def shown(result):
    """Output of a run, without the parts that may differ."""
    packets, messages = [], []
    for line in result.err.splitlines():
        (packets if re.match(r"o\d?: ", line) else messages).append(settled(line))
    messages = [m for m in messages if not NOISE.search(m)]
    return packets, messages


def zero_sum(line, other):
    """True if two lines of Print differ only in the checksum of UDP that is 0 in the first, and 0xffff in the other (RFC 768)."""
    (head, _, text), (other_head, _, other_text) = line.rpartition("|"), other.rpartition("|")
    data, other_data = text.replace(" ", ""), other_text.replace(" ", "")
    if head != other_head or len(data) < 40 or data[18:20] != "11":
        return False
    at = 8 * int(data[1], 16) + 12
    return data[at : at + 4] == "0000" and data[:at] + "ffff" + data[at + 4 :] == other_data


def difference(a, b, wording):
    """A word for the kind of difference, and two texts; None if there is none, or if Click crashed or did not end."""
    if b.status not in (0, 1, -99):
        return "crash", a.err[-600:], b.err[-600:]
    if a.status < 0:
        return None
    if (a.status == 0) != (b.status == 0) or b.status == -99:
        return {0: "taken", 1: "refused", -99: "endless"}[b.status], a.err[-600:], b.err[-600:]
    if a.status != 0:
        return ("errors", a.err, b.err) if wording and a.err != b.err else None
    out_a, out_b = outputs(a, b)
    if out_a != out_b:
        return "stdout", out_a, out_b
    packets_a, messages_a = shown(a)
    packets_b, messages_b = shown(b)
    if len(packets_a) == len(packets_b):
        packets_a = [y if zero_sum(x, y) else x for x, y in zip(packets_a, packets_b, strict=True)]
    if packets_a != packets_b:
        return "packets", "\n".join(packets_a), "\n".join(packets_b)
    if wording and messages_a != messages_b:
        return "messages", "\n".join(messages_a), "\n".join(messages_b)
    if len(messages_a) != len(messages_b):
        return "message count", "\n".join(messages_a), "\n".join(messages_b)
    return None


def first_lines(a, b, count=6):
    """The first lines in which two texts differ."""
    of_click, of_ashlar = a.splitlines(), b.splitlines()
    pairs = enumerate(zip(of_click, of_ashlar, strict=False))
    shorter = min(len(of_click), len(of_ashlar))
    at = next((i for i, (x, y) in pairs if x != y), shorter)
    lines = [f"    click  {line}" for line in of_click[at : at + count]]
    return "\n".join(lines + [f"    ashlar {line}" for line in of_ashlar[at : at + count]])
