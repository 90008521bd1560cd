"""Values of arguments and handlers: right ones, rare forms, and wrong ones."""

import re

from .packets import ADDRESSES, ETHERS, QUERIER

NAMES = """AddressInfo(n1 10.0.0.1/24 00:00:c0:ae:67:ef, n2 10.1.2.3, n3 02:00:00:00:00:01, n4 10.0.0.0/8,
  n5 1.0.0.1/32 3ffe::1/64, n6 ::1 10.0.0.2 10.0.0.0/16, n7 0::5);
PortInfo(p1 1234, p2 80/tcp www2 # a comment, p3 53/udp, p4 5678/udp p5);
IPRewriterPatterns(ipat 1.0.0.1 1024-1030# - -, jpat - - 2.0.0.2 -);
"""
GARBAGE = ["", '""', "x", "-", "1.2.3", "1 2", "true", "0x", "1e3", "1.5", "-5", "a b", "08",
           "00:00:00:00:00:01", "1.2.3.4", "1.2.3.4/33", "n1", "nothing", "0x10", "010", "+5", "1_000"]


def one_of(*options, bad=()):
    def draw(r, odd=False):
        return str(r.choice(bad if odd and bad else options))

    return draw


def number(bits):
    top = 2**bits - 1

    def draw(r, odd=False):
        if odd:
            return str(r.choice([top + 1, -1, top * 3]))
        return str(r.choice([0, 1, 2, 5, 7, top, top // 2, "0x1f", "017", hex(top), r.randrange(top + 1),
                             r.randrange(min(top, 100))]))

    return draw


def address(r):
    return r.choice([*ADDRESSES, "n1", "n2", "n1:ip", "n1:bcast", "n1:gw", "n4:gw", "n6", "n5"])


def network(r):
    return r.choice(["10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/24", "10.0.0.1", "0/0", "0.0.0.0/0", "10/8", "10.1/16",
                     "10.1.2.3/255.255.0.0", "2.0.0.0/8", "1.0.0.1/32", "n1", "n1:ipnet", "n2", "n4", "n6",
                     "192.168.1.0/24", "10.1.0.0/31", "10.0.0.0/255.255.255.0", "n6:ipnet"])


def ether(r):
    return r.choice([*ETHERS, "00-00-C0-AE-67-EF", "0:0:c0:ae:67:ef", "n1", "n1:eth", "n3"])


def route(r, odd=False):
    gw = r.choice(["", "", address(r) + " ", "- "])
    output = r.choice([2, 3, 5, -1]) if odd else "<out>"
    return f"{network(r)} {gw}{output}"


def spec(r, odd=False):
    kind = r.random()
    if kind < 0.06:
        return r.choice(["drop", "discard"])
    if kind < 0.14:
        return r.choice(["pass", "pass 1", "nochange 0", "passthrough 0"] if odd else ["pass 0", "pass 0", "nochange"])
    if kind < 0.24:
        return "keep" + r.choice([" 0 1", " 1 0", "", " 0"] if odd else [" 0 0"])
    if kind < 0.3:
        return r.choice(["pattern ipat 0 1", "pattern nopat 0 1"] if odd else ["pattern ipat 0 0", "pattern jpat 0 0"])
    sport = r.choice(["-", "-", "1024-1030#", "1024-1025#", "1024", "5000-5000", "1024-65535#"] + (["2000-1999", "p1", "0"] if odd else []))
    saddr = r.choice(["1.0.0.1", "1.0.0.1", "-", "n1", "10.0.0.1"])
    daddr = r.choice(["-", "-", "2.0.0.2", "n2"])
    dport = r.choice(["-", "-", "80", "8080"])
    return f"pattern {saddr} {sport} {daddr} {dport} " + r.choice(["0 1", "1 0", "0", "", "0 2"] if odd else ["0 0"])


def addr_spec(r, odd=False):
    if r.random() < 0.3:
        return r.choice(["drop", "discard", "pass 0", "nochange", "keep 0 0"])
    saddr = r.choice(["1.0.0.1", "1.0.0.1", "-", "n1", "1.0.0.1-1.0.0.5#", "1.0.0.0/24#"])
    return f"pattern {saddr} {r.choice(['-', '2.0.0.2'])} {r.choice(['0 1', '1 0'] if odd else ['0 0'])}"


IP_PRIMITIVES = [
    "ip proto tcp", "ip proto udp", "tcp", "udp", "icmp", "ip proto 4", "proto icmp", "host 10.0.0.1", "src host 10.0.0.2",
    "dst host 2.0.0.2", "src net 10.0.0.0/8", "dst net 10.0.0/24", "net 1.0.0.0/8", "src or dst host 10.0.0.1",
    "src and dst host 10.0.0.1", "port 80", "src port 80", "dst port www", "tcp port 80", "udp port 53", "dst tcp port 80",
    "src udp port 1234", "port p1", "port p2", "port p3", "src port > 1000", "dst port <= 80",
    "ip vers 4", "ip hl 5", "ip hl > 5", "ip id 1", "ip tos 16", "ip dscp 46", "ip dscp > 3", "ip ect", "ip ce",
    "ip ttl 64", "ip ttl < 2", "ip ttl >= 64", "ip frag", "ip unfrag", "tcp opt syn", "tcp opt ack", "tcp opt fin",
    "tcp opt rst", "tcp opt psh", "tcp win 1000", "tcp win > 0", "icmp type echo", "icmp type 8", "icmp type 3",
    "icmp type unreachable", "icmp type echo-reply", "ip[9] = 6", "ip[8:1] > 1", "ip[2:2] 28", "ip[0] & 0xf = 5",
    "transp[0:2] = 80", "transp[13] & 2 = 2", "true", "false", "10.0.0.1", "dst 10.0.0.2",
    "src 10.0.0.0/8", "ip len > 28", "ip len 40", "src host n1", "dst net n1", "host n1:bcast", "dst host n2", "net n4",
    "ip frag and udp", "not tcp", "! udp", "port 80 or 53", "src port 80 or 1234", "dst host 10.0.0.1 or 2.0.0.2",
    "ip proto tcp or udp", "ip dscp = 0", "ip tos & 3 = 0", "icmp type != 8", "ip ttl != 64", "not ip frag",
    "src port = 80", "port != 80", "tcp dst port 80", "src tcp port ftp",
    "ip vers 5", "dst port domain", "udp src port 53",
    "src host 10.0.0.1 and dst host 2.0.0.2", "src net 10.0.0.0 mask 255.0.0.0",
    "dst net 10.1.2.3/255.255.0.0",
]
IP_MISTAKES = ["port 70000", "foo", "host", "ip proto", "src", "ip[0:5] = 1", "tcp opt foo", "dst host 10.0.0.0/33", "not", "ip hl x"]


def primitive(r):
    return r.choice(IP_MISTAKES if r.random() < 0.02 else IP_PRIMITIVES)


def pattern(r, depth=2):
    if depth == 2 and r.random() < 0.1:
        return r.choice(["-", "any", "all"])
    if depth == 0 or r.random() < 0.35:
        return primitive(r)
    kind = r.randrange(7)
    a, b = pattern(r, depth - 1), pattern(r, depth - 1)
    forms = [f"{a} and {b}", f"{a} or {b}", f"({a}) && ({b})", f"({a}) || {b}", f"not ({a})", f"{a} ? {b} : {primitive(r)}",
             f"({a}) and ({b})"]
    return forms[kind]


def rule(r):
    action = r.choice(["accept", "block", "9", "-1", "0x"] if r.random() < 0.02 else ["allow", "allow", "deny", "drop", "<out>", "<out>", "0x<out>", "0<out>"])
    return f"{action} {pattern(r)}"


def clause(r):
    at = r.choice([0, 0, 1, 4, 8, 9, 12, 12, 14, 20, 23, 30])
    if r.random() < 0.05:
        return r.choice(["-", "12", "12/", "x/00", "12/0", "12/08zz", "/08", "-1/00", "12/080"])
    value = r.choice(["08", "0800", "0806", "45", "06", "11", "01", "0a", "0a0000", "4?", "??", "?5", "00", "0001", "8100"])
    mask = r.choice([""] * 5 + ["%" + "".join(r.choice("f0") for _ in value)])
    return f"{r.choice([''] * 6 + ['!'])}{at}/{value}{mask}"


def class_pattern(r):
    return " ".join(clause(r) for _ in range(r.choice([1, 1, 2, 2, 3]))) if r.random() < 0.85 else "-"


def one_arp(r):
    """An entry of ARPResponder."""
    if r.random() < 0.15:
        return r.choice(["n1", "n3", "n1:eth", "n2", "n1:ip n3", "n6 n1", "n2 n3:eth", "n4 n1"])
    return " ".join(network(r) for _ in range(r.choice([1, 1, 2, 3]))) + " " + ether(r)


def net6(r):
    return r.choice(["::0/0", "3ffe::/16", "3ffe:1::/32", "::1/128", "2001:db8::/32", "fe80::/10", "n5:ip6net"])


def address6(r):
    return r.choice(["::1", "3ffe::1", "2001:db8::3", "fe80::2", "::", "n5:ip6", "n5", "n7", "::1.2.3.4", "ff02::1"])


def route6(r):
    output = r.choice(["<out>"] * 19 + [2])
    return f"{net6(r)} {r.choice([address6(r), '::0'])} {output}"


def aggregates(r):
    what = r.choice(["-", "1", "0", "1-5", "1 2 3", "7 0x10", "all"])
    action = r.choice(["allow", "deny", "<out>", "0x<out>", "drop"])
    return f"{action} {what}"


SCRIPT = [
    'print "o7: called $args"', "set x 1", "set x $(add $x 1)", "print $x", 'print "$1 $2"', "return $(add 1 2)", "return [$args]",
    "goto end $(eq $1 5)", "label end", "error no", "end", "exit", "init y 7", "print $y", "printn a", 'setq z "a b"', "print $z",
    "printq $z", "set i $(mul $# 3)", "print $i", "returnq \"a b\"", "goto nowhere", "wait 0.01", "read s.name", "write s.nothing 1",
    "set n [$(sprintf %05d $1)]", "print $n", "export w 4", "pause",
]


def sum_of(r):
    """Words that handlers of scripts calculate with. Products of two large numbers differ: docs/click.md."""
    numbers = ["0", "1", "2", "3", "7", "10", "-1", "-7", "0x10", "010", "2.5", "-0.5", "1e3", "x", "", "true", "0b11", "1_0", "-0"]
    words = [r.choice(numbers) for _ in range(r.choice([0, 1, 2, 2, 2, 3]))]
    if words and r.random() < 0.15:
        words[r.randrange(len(words))] = r.choice(["4294967296", "65536", "-65537", "2147483648"])
    return " ".join(words)


def swapped(r):
    """Words of `htonl` and the like. Numbers above 31 bits differ: docs/click.md."""
    words = [r.choice(["0", "1", "256", "0x10", "-1", "-7", "65535", "65536", "70000", "2147483647", "x", "2.5", "0b11", "1 ", "010"])]
    return " ".join(words * r.choice([1, 1, 1, 2, 0]))


def truths(r):
    """Words that handlers of scripts take for true or false."""
    return " ".join(r.choice(["true", "false", "true", "false", "1", "0", "yes", "no", "x", "2", "a"]) for _ in range(
        r.choice([0, 1, 2, 2, 3, 3])))


def format_of(r):
    """A format of sprintf with its values."""
    formats = ["%d", "%05d", "%x", "%08X", "%s", "%-5s|", "%5d|", "%u", "%o", "%%", "%i", "a%db", "%+d", "%#x", "%q"]
    written = r.choice(formats)
    numbers = ["1", "7", "255", "x", "", "0x10", "2.5", "65"]
    if not re.search("[xXuo]", written):
        numbers.append("-7")
    return f"{written} {r.choice(numbers)}"


def named(r):
    """An entry of AddressInfo."""
    name = r.choice(["a", "b", "n1", "a"])
    count = r.choice([0, 1, 2, 3])
    addresses = [r.choice([address(r), network(r), ether(r), address6(r), net6(r)]) for _ in range(count)]
    return f"{name} {' '.join(addresses)}"


KINDS = {
    "bool": one_of("true", "false", "true", "false", "1", "0", "yes", "no", "t", "TRUE"),
    "u8": number(8),
    "u16": number(16),
    "u32": number(32),
    "small": one_of(0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 34, 60, 64, 100, "0x10", "010", bad=(-1,)),
    "int": one_of(0, 1, 2, 3, 4, 5, 10, 14, 20, 60, 100, 1500, -1, -4, -14),
    "pos": one_of(1, 2, 3, 4, 5, 8, 10, 100, bad=(0, -1)),
    "port_number": one_of(0, 0, -1),
    "dur": one_of("0.1", "1s", "100ms", "5", "0.05", "1 min", "1h", "0", "500us", "1.5 sec", "20ms", "1e-2", "0.5",
        bad=("x", "1 x")),
    "rate": one_of(10, 100, 1000, 50, 1, 20, bad=("1.5", 0, "100/s", "1kps", "0.1", -1)),
    "bw": one_of("1000Bps", "1kbps", "8Mbps", "100kBps", "1e3Bps", "100Bps", "10Kbps", "8000 bps", 1000, bad=(0, "64",
        "512bps", "x", "1kBpsx", "-1Bps")),
    "ip": address,
    "eth": ether,
    "route": route,
    "spec": spec,
    "addr_spec": addr_spec,
    "pattern": pattern,
    "rule": rule,
    "class_pattern": class_pattern,
    "arp": one_arp,
    "ip6": address6,
    "route6": route6,
    "aggregates": aggregates,
    "port": one_of(80, 1234, "p1", "p4", 0, 65535, "p5", "0x50", bad=(65536, -1, "www2")),
    "proto": one_of("tcp", "udp", "icmp", 4, 6, 17, 50, 255, "ipip", "esp", "gre", 0, bad=(256, -1, "foo")),
    "etype": one_of("0x0800", "0x0806", 2048, 0, "0x86DD", 65535, "0x8100", bad=("ip", "arp", 65536)),
    "anno": one_of(0, 4, 16, 17, "PAINT", "DST_IP", "AGGREGATE", "VLAN_TCI", "MISC_IP", "PAINT", "SEQUENCE_NUMBER",
        "FIX_IP_SRC", "ICMP_PARAMPROB", "EXTRA_LENGTH", bad=(44, 47, 48, -1, "PAINT 0", "16 4", "FWD_RATE", "anno 4",
        "FOO")),
    "str": one_of("x", '"x y"', "abc", '""', "o:", "\\<6162>", "'a'", '"a\\nb"'),
    "text": one_of("abc", '"x y"', "\\<00010203>", '""', '"01234567890123456789"', "\\<45 00>"),
    "time": one_of("1000000000", "1000000000.5", "1000000001", "0", "1", "1000000002.25", "0.5"),
    "icmp_type": one_of("unreachable", "timeexceeded", "echo", "redirect", "parameterproblem", 3, 11, 8, 12, 5, 0,
        "echo-reply", "sourcequench", bad=(256, -1, "foo")),
    "icmp_code": one_of("host", "net", "port", "needfrag", "transit", 0, 1, 4, 0, 1, 255, "erroratptr", "reassembly",
        "proto", bad=(256, -1)),
    "vlan": one_of(0, 1, 5, 4094, "ANNO", 5, bad=(4095, 4096, 65535, 65536, "0x2005", -1)),
    "pcp": one_of(0, 1, 7, 5, bad=(8, -1)),
    "ips": lambda r: " ".join(address(r) for _ in range(r.choice([1, 1, 2, 3]))),
    "interfaces": one_of("10.0.0.1/24", "10.1.2.3/16", "192.168.1.7/255.255.255.0", "10.0.0.1/8 1.0.0.1/16", bad=("x",
        "10.0.0.1/40")),
    "contents": one_of("hex", "HEX", "none", "ascii", "ASCII", bad=("false", "true", "foo")),
    "handler": one_of("2 s.run", "1 s.run", "3 stop", "20 s.run", bad=("s.run", "2 nothing.x", "2 e.reset",
        "2 e.reset_counts")),
    "agg_field": one_of("ip src", "ip dst", "ip src/8", "ip dst/24", "ip src and dst", "transp sport", "transp dport",
        "ip[12]", "ip[12:4]", "ip{0:4}", "ip tos", "ip proto", "ip ttl", "ip len", "ip id", "ip src/33", "foo",
        "ip{96-103}", "ip off", "tcp sport", "ip src/0", "ip dscp", "ip hl", "tcp win"),
    "fields": lambda r: " ".join(r.choice(["timestamp", "ip_src", "ip_dst", "ip_proto", "ip_len", "ip_tos", "ip_ttl",
        "ip_id", "ip_fragoff", "ip_frag", "ip_sum", "ip_hl", "ip_opt", "ip_capture_len", "sport", "dport", "tcp_seq",
        "tcp_ack", "tcp_flags", "tcp_window", "tcp_opt", "tcp_sack", "tcp_urp", "tcp_off", "tcp_sum", "udp_len",
        "udp_sum", "payload_len", "payload", "payload_md5", "icmp_type", "icmp_code", "icmp_flowid", "icmp_seq",
        "icmp_nextmtu", "count", "aggregate", "paint", "link", "direction", "first_timestamp", "eth_src", "eth_dst",
        "eth_type", "ether_src", "ts_sec", "ts_usec", "packet_type", "ip_dscp", "ip_ecn", "data",
        "wire_len", "sequence_number", "tcp_ntopt", "payload_md5_hex", "foo", "vlan_tci", "ip_hlen"])
        for _ in range(r.choice([1, 3, 5, 8]))),
    "range": one_of("0/4", "16/1", "0/48", "20/4", "4/8", bad=("0", "0-3", "48/1", "4/0", "PAINT", "x", "0/49")),
    "mod": one_of(4, 4, 2, 8, bad=(3, 1, 0, -4)),
    "delta": one_of("FIRST", "DELTA", "NOW", "RANGE", bad=("x", "ABSOLUTE")),
    "source_spec": lambda r, odd=False: re.sub(r"2\.0\.0\.2 (?=\d \d$)", "- ", addr_spec(r, odd)),
    "end_call": one_of("s.run", "s.run x", "stop", bad=("nothing.x", "e.nothing")),
    "addr6_at": one_of(0, 8, 24),
    "addr_at": one_of(0, 12, 16, 2),
    "no": one_of("false"),
    "yes": one_of("true"),
    "bw100": one_of("8Mbps", "100kBps", "80kbps", bad=("x", "1kBpsx", "-1Bps")),
    "worker": one_of("e 0"),
    "share_of": one_of("e 1", "e 0.5", "e 2"),
    "some": one_of(1, 2, 5, 8),
    "zero": one_of(0),
    "natural": one_of(0, 1, 2, 3),
    "share": one_of("0.1", "0.5", "1", "50%", bad=("x",)),
    "ms": one_of("1ms", "5ms", "100ms", "50ms", "0.02s"),
    "down": one_of(0, -1, -4, -14, -20),
    "payload": one_of("hex", "ascii", "false", bad=("foo",)),
    "stripped": one_of(0, 1, 4, 14, 20),
    "mtu6": one_of(1280, 1500, 2000),
    "slow": one_of(10, 20, 50, 1),
    "whole": one_of(40, 50),
    "roomy": one_of(100, 1000),
    "call": one_of("2 s.run", "1 s.run", "20 s.run"),
    "end": one_of("1000000000.5", "1000000001", "1", "1000000002.25", "0.5"),
    "brisk": one_of(50, 100, 1000),
    "long": one_of(3600, 1000),
    "sized": one_of(0, 1, 4, 60, 100),
    "lasting": one_of("0.1", "1s", "5", "20ms", "1e-2"),
    "alike": one_of(0, 257, 0x2020),
    "bare_ip": one_of(*ADDRESSES),
    "byte": one_of(0, 1, 5, 127, 255, "0x1f"),
    "message": one_of(128, 200, 576, 1500),
    "station": lambda r: f"{r.choice(ADDRESSES[:2] + ADDRESSES[3:7])} {r.choice(ETHERS[:2] + ETHERS[4:])}",
    "none": one_of(""),
    "secs": one_of(1, 2, 5, 10, 60, 20, bad=("1 x",)),
    "meter": one_of("1", "10", "100", "100", bad=("x", "-1")),
    "stdout": one_of("-"),
    "lim": one_of(1, 2, 3, 5, 10),
    "ect": one_of(0, 1, 2, 3, "true", "false"),
    "ecn": one_of(0, 1, 2, 3, "ect1", "ect2", "ce", "no", "econ", bad=(4, "x")),
    "encap": one_of("IP", "ETHER", "NULL", bad=("ip", "x", "SLL", "802.11")),
    "mtu": one_of(28, 30, 36, 40, 60, 100, 1500, bad=(-1,)),
    "ratio01": one_of("1", "0", "100%", "1", "0", bad=("1.5", "x")),
    "ratetype": one_of("PACKETS", "BYTES", bad=("x", "packets")),
    "ipword": one_of("src", "dst", "x"),
    "ethoff": one_of(0, 6, "src", "dst", 60, -1),
    "ipoff": one_of(12, 16, "src", "dst", 0),
    "icmp_type6": one_of(1, 3, 4, 128, 256, "x"),
    "ips6": one_of("::1", "x"),
    "ipanno": lambda r: r.choice([address(r), address(r), "DST_ANNO"]),
    "rctrl": lambda r: f"{r.choice(['add', 'remove', 'set', 'x'])} {route(r)}",
    "mapspec": lambda r: r.choice(["- - 2.0.0.2 - 0 1", "1.0.0.1 1024-1030# - - 0 1", "drop", "ipat 0 1", "keep 0 1"]),
    "mapper": one_of("- - 2.0.0.2 - 0 1 1", "- - 2.0.0.3 - 0 1 2", "1.0.0.1 1024-1030# - - 0 1 7", "ipat 0 1 3", bad=("x",)),
    "addrinfo": named,
    "portinfo": one_of("a 80", "a 80/tcp", "b 53/udp c", "a 80 # x", "# all", "x", "a 80/sctp", "a 70000", "a b",
        "http 81/tcp"),
    "patdef": lambda r: f"{r.choice(['a', 'b', 'a'])} " + r.choice(["1.0.0.1 1024-1030# - -", "- - - -", "- -", "",
        "1.0.0.1 80 2.0.0.2 90"]),
    "label": one_of("o7", "o7", '"o7 x"', '"x y"', "abc", '""', "\\<6162>", '"a\\nb"'),
    "said": one_of("o7", '"o7 x"', '"x y"', "abc", '""', "\\<6162>", '"a\\nb"'),
    "moment": one_of("0.001", "0", bad=("x", -1)),
    "rewriter": one_of("rw", "rw", "rw", "rw", bad=("e", "nothing")),
    "capture": one_of("in.pcap"),
    "summary": one_of("in.txt"),
    # 0 stands for any protocol in Click: docs/click.md.
    "summary_proto": one_of(1, 2, 6, 17, 33, 50, 136, 255, "0x11", "017", bad=(256, -1)),
    "read_fields": lambda r: " ".join(r.sample(
        ["timestamp", "ip_src", "ip_dst", "ip_proto", "ip_len", "ip_id", "sport", "dport", "tcp_seq", "payload_len", "count", "link"],
        r.choice([1, 3, 5]))),
    "severity": one_of("MESSAGE", "ERROR", bad=("x",)),
    "ip_at": one_of(0, 1, 4, 14, 20, 100, "0x10", "010", bad=("x", -1)),
    "poll": one_of(0, 1, 5, 60, 300),
    "querier": one_of(QUERIER),
    "host6": one_of("::1", "3ffe::1", "n5:ip6", "2001:db8::9"),
    "passive": one_of("PASSIVE"),
    "instruction": one_of(*SCRIPT),
    "sum": sum_of,
    "swapped": swapped,
    "truths": truths,
    "yeses": one_of("true", "1", "yes", "true 1", "yes true t", ""),
    "unicast_eth": lambda r: r.choice(["00:00:c0:ae:67:ef", "02:00:00:00:00:01", "00-00-C0-AE-67-EF", "n1", "n1:eth", "n3"]),
    "some_length": one_of(1, 2, 4, 8, 20, bad=(0,)),
    "format": format_of,
    "variable": one_of("x", "y", "z", "args", "nothing"),
    "assignment": one_of("x 5", "y a b", "args 1 2 3", 'z "a b"', "x"),
    "two_numbers": one_of("2 1", "1 0", "3 7", bad=("2", "x 1")),
    **{f"port_below_{n}": one_of(*range(n), -1) for n in (1, 2, 3)},
}


# Kinds whose wrong values are PLAIN_GARBAGE only. Of other wrong values Click takes some that this program refuses, or
# the other way round.
PLAIN = set("""
addr6_at addr_at aggregates brisk bw bw100 byte class_pattern dur icmp_code icmp_type ip ips6 lim long mtu6 natural pattern querier rate share_of slow small some some_length instruction said alike stdout str stripped text u8 vlan whole zero
""".split())
PLAIN_GARBAGE = ["x", "true", "1.2.3", "1.2.3.4", "1.2.3.4/33", "n1", "nothing"]


# Kinds without garbage: this program takes some that Click refuses.
SOUND = {"call", "end_call", "no", "yes", "fields", "read_fields", "handler", "ip_at", "port_below_1", "port_below_2", "port_below_3", "share_of", "slow"}


def with_output(r, text, outputs):
    """A value with the number of an output where it stands for one."""
    return text.replace("<out>", str(r.randrange(max(outputs, 1))))


def value(r, kind, odd=0.04):
    """A value of a kind; `<out>` in it stands for an output."""
    if kind not in SOUND and r.random() < odd:
        return r.choice(PLAIN_GARBAGE if kind in PLAIN else GARBAGE)
    draw = KINDS[kind]
    return draw(r, r.random() < odd * 3) if "odd" in draw.__code__.co_varnames else draw(r)

