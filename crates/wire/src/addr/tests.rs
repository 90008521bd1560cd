//! Tests of addresses and prefixes.

use super::*;
use crate::testing::Rng;
use std::string::ToString;

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

#[test]
fn ether_addresses_parse_in_every_usual_form_and_print_in_one() {
    let a = EtherAddr([0, 0x1b, 0x21, 0x0a, 0x0b, 0x0c]);
    for text in ["00:1b:21:0a:0b:0c", "0:1b:21:a:b:c", "00-1B-21-0A-0B-0C"] {
        assert_eq!(text.parse(), Ok(a));
    }
    assert_eq!(a.to_string(), "00:1b:21:0a:0b:0c");
    assert_eq!(a.dashed().to_string(), "00-1B-21-0A-0B-0C");
    assert_eq!(EtherAddr::from_u64(a.to_u64()), a);
}

#[test]
fn what_is_not_an_ether_address_is_refused() {
    for text in [
        "",
        ":",
        "1:2:3:4:5",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:g",
        "1:2:3:4:5:",
        "001:2:3:4:5:6",
        "1:2:3-4:5:6",
        "+1:2:3:4:5:6",
        "1:2:3:4:5:-6",
        "1 :2:3:4:5:6",
        "é:2:3:4:5:6",
    ] {
        assert_eq!(text.parse::<EtherAddr>(), Err(AddrError::Ether), "{text}");
    }
    assert!(AddrError::Ether.to_string().contains("00:1b"));
}

#[test]
fn group_broadcast_and_unicast_are_told_apart() {
    assert!(EtherAddr::BROADCAST.is_broadcast() && EtherAddr::BROADCAST.is_group());
    assert!(!EtherAddr::ZERO.is_unicast() && !EtherAddr::ZERO.is_group());
    assert!(EtherAddr([2, 0, 0, 0, 0, 1]).is_unicast());
    assert!(EtherAddr([1, 0, 0x5e, 0, 0, 1]).is_group());
}

#[test]
fn multicast_groups_map_to_their_ether_addresses() {
    // 239.255.0.1 and 239.127.0.1 share one: the 24th bit is not carried.
    for group in ["239.255.0.1", "239.127.0.1"] {
        assert_eq!(
            EtherAddr::multicast4(v4(group)).to_string(),
            "01:00:5e:7f:00:01"
        );
    }
    assert_eq!(
        EtherAddr::multicast6(solicited_node(v6("fe80::2aa:ff:fe28:9c5a"))).to_string(),
        "33:33:ff:28:9c:5a"
    );
}

#[test]
fn prefixes_parse_print_and_lose_their_host_bits() {
    for (text, shown) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3/255.255.0.0", "10.1.0.0/16"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("1.2.3.4/0.0.0.0", "0.0.0.0/0"),
    ] {
        assert_eq!(text.parse::<Prefix4>().unwrap().to_string(), shown);
    }
    for (text, shown) in [
        ("2001:db8::1/32", "2001:db8::/32"),
        ("::/0", "::/0"),
        ("::1", "::1/128"),
    ] {
        assert_eq!(text.parse::<Prefix6>().unwrap().to_string(), shown);
    }
    assert_eq!(Prefix4::parse_host("10.1.2.3/8"), Ok((v4("10.1.2.3"), 8)));
    assert_eq!(Prefix6::parse_host("fe80::1/64"), Ok((v6("fe80::1"), 64)));
}

#[test]
fn bad_prefixes_are_refused_with_their_reason() {
    for (text, error) in [
        ("10.0.0/8", AddrError::V4),
        ("10.0.0.256/8", AddrError::V4),
        ("", AddrError::V4),
        ("10.0.0.0/33", AddrError::Len4),
        ("10.0.0.0/", AddrError::Len4),
        ("10.0.0.0/+8", AddrError::Len4),
        ("10.0.0.0/8/8", AddrError::Len4),
        ("10.0.0.0/255.255", AddrError::Len4),
        ("10.0.0.0/255.0.255.0", AddrError::Mask),
    ] {
        assert_eq!(text.parse::<Prefix4>(), Err(error), "{text}");
    }
    for (text, error) in [
        ("2001::db8::/32", AddrError::V6),
        ("::/129", AddrError::Len6),
        ("::/-1", AddrError::Len6),
    ] {
        assert_eq!(text.parse::<Prefix6>(), Err(error), "{text}");
    }
}

#[test]
fn contains_agrees_with_a_comparison_bit_by_bit() {
    let mut rng = Rng(7);
    for len in 0..=32u8 {
        for _ in 0..200 {
            let base = rng.next() as u32;
            let flip = rng.below(33) as u32;
            let other = if flip == 32 { base } else { base ^ (1 << flip) };
            let same = (0..len).all(|i| (base >> (31 - i)) & 1 == (other >> (31 - i)) & 1);
            let p = Prefix4::new(Ipv4Addr::from_bits(base), len);
            assert_eq!(p.contains(Ipv4Addr::from_bits(other)), same);
        }
    }
    for len in 0..=128u8 {
        let base = u128::from(rng.next()) << 64 | u128::from(rng.next());
        for flip in 0..128u32 {
            let same = u32::from(len) <= 127 - flip;
            let p = Prefix6::new(Ipv6Addr::from_bits(base), len);
            assert_eq!(p.contains(Ipv6Addr::from_bits(base ^ (1 << flip))), same);
        }
    }
}

#[test]
fn covers_broadcast_and_mask_follow_the_length() {
    let p: Prefix4 = "10.0.0.0/24".parse().unwrap();
    assert!(p.covers("10.0.0.128/25".parse().unwrap()) && p.covers(p) && Prefix4::ALL.covers(p));
    assert!(!p.covers("10.0.0.0/23".parse().unwrap()));
    assert_eq!(p.broadcast(), Some(v4("10.0.0.255")));
    assert_eq!(p.mask(), v4("255.255.255.0"));
    assert_eq!(Prefix4::new(v4("10.0.0.0"), 31).broadcast(), None);
    assert_eq!(Prefix4::new(v4("10.0.0.1"), 99).len(), 32);
    let q: Prefix6 = "2001:db8::/32".parse().unwrap();
    assert!(q.covers("2001:db8:1::/48".parse().unwrap()) && !q.covers(Prefix6::ALL));
}

#[test]
fn martians_are_those_of_rfc_1812() {
    for (addr, source, destination) in [
        ("0.0.0.0", true, true),
        ("0.1.2.3", true, true),
        ("1.0.0.0", false, false),
        ("126.255.255.255", false, false),
        ("127.0.0.1", true, true),
        ("128.0.0.0", false, false),
        ("223.255.255.255", false, false),
        ("224.0.0.1", true, false),
        ("239.255.255.255", true, false),
        ("240.0.0.1", true, true),
        ("255.255.255.254", true, true),
        ("255.255.255.255", true, false),
        ("192.168.1.1", false, false),
        ("169.254.1.1", false, false),
    ] {
        assert_eq!(is_martian_source4(v4(addr)), source, "{addr}");
        assert_eq!(is_martian_destination4(v4(addr)), destination, "{addr}");
    }
    for (addr, source, destination) in [
        ("::", true, true),
        ("::1", true, true),
        ("::2", false, false),
        ("::ffff:10.0.0.1", true, true),
        ("2001:db8::1", false, false),
        ("fe80::1", false, false),
        ("ff01::1", true, true),
        ("ff02::1", true, false),
        ("ff0e::1", true, false),
    ] {
        assert_eq!(is_martian_source6(v6(addr)), source, "{addr}");
        assert_eq!(is_martian_destination6(v6(addr)), destination, "{addr}");
    }
}

#[test]
fn classes_agree_with_the_standard_library_on_every_slash_16() {
    for high in 0..=0xffffu32 {
        for low in [0, 1, 0xffff] {
            let a = Ipv4Addr::from_bits(high << 16 | low);
            assert_eq!(is_loopback4(a), a.is_loopback());
            assert_eq!(is_multicast4(a), a.is_multicast());
            assert_eq!(is_link_local4(a), a.is_link_local());
            assert_eq!(is_limited_broadcast(a), a.is_broadcast());
            assert_eq!(is_class_e(a), a.octets()[0] >= 240);
        }
        let a = Ipv6Addr::from_bits(u128::from(high) << 112 | 1);
        assert_eq!(is_link_local6(a), a.is_unicast_link_local());
        assert_eq!(is_multicast6(a), a.is_multicast());
    }
}

#[test]
fn solicited_node_and_link_local_follow_rfc_4291() {
    assert_eq!(
        solicited_node(v6("4037::1:800:200e:8c6c")),
        v6("ff02::1:ff0e:8c6c")
    );
    assert_eq!(
        link_local_from("34:56:78:9a:bc:de".parse().unwrap()),
        v6("fe80::3656:78ff:fe9a:bcde")
    );
}
