use super::expr::{Expr, RangeTest, View};
use super::family::Family;
use super::ip_pattern;
use arguments::Names;

fn parse(pattern: &str, names: &Names) -> Result<Expr<RangeTest>, String> {
    ip_pattern::parse(pattern, names, Family::V4)
}

/// Header fields of the packets that are matched.
#[derive(Clone, Copy)]
struct Ip {
    src: [u8; 4],
    dst: [u8; 4],
    protocol: u8,
    fragment: u16,
    transport: [u8; 16],
}

const TCP: Ip = Ip {
    src: [10, 0, 0, 1],
    dst: [192, 0, 2, 7],
    protocol: 6,
    fragment: 0,
    // 1024 to 80, sequence 1, acknowledgement 2, SYN and ACK, window 0x1234
    transport: [4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 0x12, 0x34],
};
const UDP: Ip = Ip {
    protocol: 17,
    ..TCP
};
const PING: Ip = Ip {
    protocol: 1,
    transport: [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ..TCP
};
const GRE: Ip = Ip {
    protocol: 47,
    ..TCP
};
const LATER: Ip = Ip {
    fragment: 0x2005,
    ..TCP
};
const FIRST: Ip = Ip {
    fragment: 0x2000,
    ..TCP
};

const MAC: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];

fn bytes(ip: Ip) -> Vec<u8> {
    let mut p = vec![0x45, 0xb9, 0, 36, 0x12, 0x34, 0, 0, 64, ip.protocol, 0, 0];
    p[6..8].copy_from_slice(&ip.fragment.to_be_bytes());
    p.extend(ip.src);
    p.extend(ip.dst);
    p.extend(ip.transport);
    p
}

fn matches(pattern: &str, ip: Ip) -> bool {
    let expr = parse(pattern, &Names::default()).unwrap_or_else(|e| panic!("{pattern}: {e}"));
    let bytes = bytes(ip);
    expr.matches(&View([&bytes, &bytes[20..], &MAC]))
}

/// Compares patterns with their results for TCP, UDP, PING, GRE, LATER and FIRST.
fn check(cases: &[(&str, &str)]) {
    for (pattern, expected) in cases {
        let of = [TCP, UDP, PING, GRE, LATER, FIRST];
        let got: String = of
            .map(|ip| if matches(pattern, ip) { '1' } else { '0' })
            .iter()
            .collect();
        assert_eq!(&got, expected, "{pattern}");
    }
}

#[test]
fn addresses_are_of_one_side_either_or_both() {
    check(&[
        ("host 10.0.0.1", "111111"),
        ("10.0.0.1", "111111"),
        ("src 10.0.0.1", "111111"),
        ("dst 10.0.0.1", "000000"),
        ("src host 192.0.2.7", "000000"),
        ("dst host 192.0.2.7", "111111"),
        ("src and dst host 10.0.0.1", "000000"),
        ("src or dst host 192.0.2.7", "111111"),
        ("dst or src net 192.0.0.0/16", "111111"),
        ("src host != 10.0.0.1", "000000"),
        ("dst host != 10.0.0.1", "111111"),
        ("host != 10.0.0.1", "000000"),
        ("src and dst host != 10.0.0.1", "111111"),
        ("net 10/8", "111111"),
        ("10.0.0.0/8 and 192.0.2.0/24", "111111"),
        ("dst net 192.0.0.0/255.255.0.0", "111111"),
        ("dst net 192.0.2.9 mask 255.255.255.0", "111111"),
        ("dst net 192.0.2.9 mask 255.255.255.252", "000000"),
        ("src net 0/0", "111111"),
        ("src 10.0.0.2 or 10.0.0.1", "111111"),
        ("dst 10.0.0.2 or 10.0.0.1", "000000"),
        ("src host & 255.0.0.0 == 10.0.0.0", "111111"),
        ("ip host 10.0.0.1", "111111"),
        ("tcp host 10.0.0.1", "100011"),
        ("ether host 02:00:00:00:00:01", "111111"),
        ("src ether host 02:00:00:00:00:01", "000000"),
        (
            "ether src 2-0-0-0-0-2 and ether dst host 2:0:0:0:0:1",
            "111111",
        ),
        ("src ether host != 02:00:00:00:00:01", "111111"),
    ]);
}

#[test]
fn ports_are_those_of_first_fragments_of_tcp_and_udp() {
    check(&[
        ("port 80", "110001"),
        ("dst port www", "110001"),
        ("www", "110001"),
        ("dst www", "110001"),
        ("src www", "000000"),
        ("tcp www", "100001"),
        ("dst tcp www or https", "100001"),
        ("tcp dst port 80", "100001"),
        ("udp port 80", "010000"),
        ("src tcp port ftp or 1024", "100001"),
        ("src or dst port dns or www", "110001"),
        ("dst tcp 80", "100001"),
        ("src port > 1023 && dst port < 1024", "110001"),
        ("src port >= 1025", "000000"),
        ("src port 1000-1024", "110001"),
        ("src port != 1000-1024", "000000"),
        ("src port != 5", "110001"),
        ("not src port 5", "111111"),
        ("!(src port == 1024)", "001110"),
        ("dst port & 0x10 == 16", "110001"),
        ("dst port & 0x10", "110001"),
        ("dst port & 0x20", "000000"),
        ("dst port & 0x20 != 0", "000000"),
        ("dst port & 0x20 = 0", "110001"),
        ("src port > 5 and < 2000", "110001"),
        ("port != 80", "000000"),
    ]);
}

#[test]
fn fields_of_the_headers_are_compared() {
    check(&[
        ("tcp", "100011"),
        ("tcp or udp", "110011"),
        ("ip proto icmp", "001000"),
        ("ip proto 1 or 47", "001100"),
        ("proto > 20", "000100"),
        ("ip", "111111"),
        (
            "ip vers 4 && ip hl 5 && ip tos 0xb9 && ip id 0x1234",
            "111111",
        ),
        (
            "ip dscp 46 and ip dscp != 45 and ip ect and not ip ce",
            "111111",
        ),
        ("ip ttl <= 63", "000000"),
        ("ip ttl >= 64 and ip len 36", "111111"),
        ("ip frag", "000011"),
        ("unfrag", "111100"),
        ("frag and tcp opt syn", "000001"),
        ("syn", "100001"),
        ("tcp opt syn ack", "100001"),
        ("syn and not ack", "000000"),
        ("fin ack", "000000"),
        ("tcp win 0x1234", "100001"),
        ("tcp win > 4660", "000000"),
        ("icmp type echo", "001000"),
        ("icmp type echo-reply or echo", "001000"),
        ("icmp echo", "001000"),
        ("icmp && icmp type 8", "001000"),
        ("icmp type != 4", "001000"),
        ("icmp type < 9", "001000"),
        ("ip[0] 0x45", "111111"),
        ("ip[6:2] & 0x3fff = 0", "111100"),
        ("ip[8:3] & 0xff0000 == 0x400000", "111111"),
        ("ip[14:4] 0x0001c000", "111111"),
        ("ip[19]&128==0", "111111"),
        ("transp[2:2] 80", "110101"),
        ("tcp[13] & 2 == 2", "100001"),
        ("udp[0:4] > 0x4000000", "010000"),
        ("transp[0] 8", "001000"),
    ]);
}

#[test]
fn expressions_are_made_of_the_usual_connectives() {
    check(&[
        ("-", "111111"),
        ("any", "111111"),
        ("all", "111111"),
        ("none", "000000"),
        ("true", "111111"),
        ("false", "000000"),
        ("tcp ? syn : icmp", "101001"),
        ("(tcp ? true : udp ? false : true)", "101111"),
        ("udp or tcp and frag", "010011"),
        ("(udp or tcp) and frag", "000011"),
        ("! ! udp", "010000"),
        ("not (udp or icmp) unfrag", "100100"),
        ("udp || icmp", "011000"),
        ("udp && icmp", "000000"),
        ("tcp udp", "000000"),
        ("tcp 10.0.0.1", "100011"),
        ("(dst port www or dst port ssh) and tcp opt syn", "100001"),
    ]);
}

#[test]
fn patterns_fail_on_packets_that_are_too_short() {
    let holds = |pattern: &str, len: usize| {
        let bytes = bytes(TCP);
        let (bytes, rest) = (&bytes[..len], bytes[..len].get(20..).unwrap_or(&[]));
        let view = View([bytes, rest, &[]]);
        parse(pattern, &Names::default()).unwrap().matches(&view)
    };
    assert!(holds("ip[19] & 128 == 0", 20) && !holds("ip[19] & 128 == 0", 19));
    assert!(holds("transp[1] & 128 == 0", 22) && !holds("transp[1] & 128 == 0", 21));
    assert!(!holds("dst port != 5", 23) && holds("not dst port 5", 23));
    assert!(!holds("dst host != 1.2.3.4", 19) && !holds("host 192.0.2.7", 19));
    assert!(!holds("src ether host != 1:2:3:4:5:6", 36));
}

#[test]
fn names_of_the_configuration_stand_for_addresses_and_ports() {
    let mut names = Names::default();
    names.insert_entry("intern 192.0.2.7/24 2:0:0:0:0:1");
    names.insert_port_entry("squid 80/tcp cache");
    let bytes = bytes(TCP);
    let holds = |pattern: &str| {
        let expr = parse(pattern, &names).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        expr.matches(&View([&bytes, &bytes[20..], &MAC]))
    };
    assert!(holds("dst host intern") && holds("dst net intern") && !holds("src net intern"));
    assert!(holds("intern") && holds("dst intern") && holds("dst ether host intern:eth"));
    assert!(holds("dst tcp port cache") && holds("squid"));
    assert!(parse("udp port squid", &names).is_err());
}

#[test]
fn mistakes_are_named() {
    let wrong = |text: &str| parse(text, &Names::default()).unwrap_err();
    for (text, part) in [
        ("", "empty pattern"),
        ("tcp )", "garbage after expression at `)`"),
        ("(tcp", "missing `)` at the end"),
        ("tcp and", "partial directive at the end"),
        ("src", "partial directive at the end"),
        ("src or tcp", "partial directive before `or`"),
        ("tcp ? udp", "missing `:` at the end"),
        ("port", "a value is missing at the end"),
        ("port 70000", "out of range"),
        ("ip ttl 256", "out of range"),
        ("ip vers foo", "`foo` is no number"),
        ("src tcp port 90-80", "empty range"),
        ("ip proto foo", "`foo` is no protocol"),
        ("host 1.2.3", "`1.2.3` is no IP address"),
        ("host 1.2.3.4 mask 255.0.0.0", "unknown word `mask`"),
        ("foo", "unknown word `foo`"),
        ("5", "unknown word `5`"),
        ("+5 and tcp", "unknown word `+5`"),
        ("ip ttl +5", "unknown word `+5`"),
        ("frag 5", "unknown word `5`"),
        ("ip ect or 5", "unknown word `5`"),
        ("ip and < 5", "partial directive before `<`"),
        ("[5] 5", "`[` must follow"),
        ("ip[a] 5", "not of the form"),
        ("ip[1:5] 5", "1 to 4 bytes"),
        ("ip[1:2 5", "missing `]` before `5`"),
        ("ip[2] 999", "out of range"),
        ("udp opt syn", "no such field"),
        ("src ttl 5", "`src` and `dst` go with"),
        ("host > 1.2.3.4", "`==` and `!=` only"),
    ] {
        let error = wrong(text);
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(wrong(&"(".repeat(200)).contains("deep"));
    let mut tower = "tcp".to_owned();
    (0..60).for_each(|_| tower = format!("({tower} ? udp : icmp)"));
    assert!(wrong(&tower).contains("too large"), "{}", wrong(&tower));
}
