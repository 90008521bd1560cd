//! The builders, judged by the views of `wire` and by literal bytes.

use super::*;
use wire::{BadHeader, Ether, FlowKey};

#[test]
fn a_small_udp_packet_has_these_bytes() {
    let bytes = ip4().udp(12345, 53).payload("ping").bytes();
    assert_eq!(
        bytes,
        [
            0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0x66, 0xcb, 10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39,
            0, 53, 0, 12, 0xdc, 0x94, b'p', b'i', b'n', b'g'
        ]
    );
}

#[test]
fn every_upper_layer_verifies_over_both_versions() {
    for base in [ip4(), ip6()] {
        let parts = |b: &Build| {
            let bytes = b.bytes();
            match bytes[0] >> 4 {
                4 => {
                    let ip = Ipv4::new_checked(&bytes).unwrap();
                    assert!(ip.verify_checksum());
                    (
                        ip.payload().to_vec(),
                        ip.pseudo(ip.payload().len()),
                        ip.protocol(),
                    )
                }
                _ => {
                    let ip = Ipv6::new_checked(&bytes).unwrap();
                    let next = ip.next_header();
                    (
                        ip.payload().to_vec(),
                        ip.pseudo(next, ip.payload().len()),
                        next,
                    )
                }
            }
        };
        for (good, n) in [(true, 0), (false, 0), (true, 7), (true, 1400)] {
            let base = base.clone().payload_len(n);
            let base = if good {
                base
            } else {
                base.bad_upper_checksum()
            };
            let (b, pseudo, proto) = parts(&base.clone().udp(1, 2));
            assert_eq!(Udp::new_checked(&b).unwrap().verify_checksum(pseudo), good);
            assert_eq!(proto, 17);
            let (b, pseudo, proto) = parts(&base.clone().tcp(1, 2).tcp_options(&[2, 4, 5, 0xb4]));
            assert_eq!(Tcp::new_checked(&b).unwrap().verify_checksum(pseudo), good);
            assert_eq!((proto, Tcp::new_unchecked(&b).mss()), (6, Some(1460)));
            let (b, pseudo, proto) = parts(&base.clone().icmp_echo(3, 4));
            match proto {
                1 => assert_eq!(Icmp::new_checked(&b).unwrap().verify_checksum(), good),
                _ => assert_eq!(
                    Icmp6::new_checked(&b).unwrap().verify_checksum(pseudo),
                    good
                ),
            }
        }
    }
    let b = ip4().udp(1, 2).no_udp_checksum().bytes();
    assert_eq!(Udp::new_checked(&b[20..]).unwrap().checksum(), 0);
}

#[test]
fn faults_are_the_faults_that_were_asked_for() {
    let fault = |b: Build| ipv4::check(&b.bytes()).err();
    assert_eq!(fault(ip4()), None);
    assert_eq!(fault(ip4().options(&[148, 4, 0, 0])), None);
    assert_eq!(fault(ip4().pad(9)), None);
    assert_eq!(fault(ip4().bad_checksum()), Some(BadHeader::BadChecksum));
    assert_eq!(fault(ip4().claim_len(19)), Some(BadHeader::BadLength));
    assert_eq!(fault(ip4().claim_len(21)), Some(BadHeader::Truncated));
    assert_eq!(fault(ip4().first_byte(0x55)), Some(BadHeader::BadVersion));
    assert_eq!(
        fault(ip4().first_byte(0x44)),
        Some(BadHeader::BadHeaderLength)
    );
    assert_eq!(fault(ip4().first_byte(0x46)), Some(BadHeader::TooShort));
    assert_eq!(
        ipv6::check(&ip6().claim_len(9).bytes()),
        Err(BadHeader::Truncated)
    );
    assert_eq!(
        ipv6::check(&ip6().first_byte(0x40).bytes()),
        Err(BadHeader::BadVersion)
    );
}

#[test]
fn ip_fields_come_out_as_they_went_in() {
    let bytes = ip4()
        .src("1.2.3.4")
        .dst(Ipv4Addr::BROADCAST)
        .ttl(1)
        .tos(7)
        .ident(9)
        .df()
        .proto(89)
        .bytes();
    let ip = Ipv4::new_checked(&bytes).unwrap();
    assert_eq!(
        (ip.src(), ip.dst()),
        (Ipv4Addr::new(1, 2, 3, 4), Ipv4Addr::BROADCAST)
    );
    assert_eq!(
        (ip.ttl(), ip.tos(), ip.ident(), ip.protocol()),
        (1, 7, 9, 89)
    );
    assert!(ip.dont_fragment() && !ip.is_fragment());
    let bytes = ip6().ttl(1).tos(7).flow_label(0x12345).no_next().bytes();
    let ip = Ipv6::new_checked(&bytes).unwrap();
    assert_eq!(
        (ip.hop_limit(), ip.traffic_class(), ip.flow_label()),
        (1, 7, 0x12345)
    );
    assert_eq!(ip.next_header(), proto::NO_NEXT);
}

#[test]
fn extension_headers_are_chained() {
    let bytes = ip6()
        .hop_by_hop(&[5, 2, 0, 0])
        .dest_opts(&[1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        .routing(4, 0)
        .fragment(0, true)
        .ident(77)
        .udp(1, 2)
        .bytes();
    let w = ext::walk(&bytes).unwrap();
    assert_eq!(
        (w.hop_by_hop, w.dest_opts, w.routing),
        (Some(40), Some(48), Some(64))
    );
    assert_eq!((w.protocol, w.offset, w.per_fragment_len), (17, 80, 72));
    assert_eq!(
        w.fragment.map(|f| (f.at, f.more_fragments, f.ident)),
        Some((72, true, 77))
    );
    assert_eq!(ext::check_hop_by_hop(&bytes, 40), Ok(Some(0)));
    assert_eq!(ipv6::check(&bytes).unwrap().total_len, bytes.len());
}

#[test]
fn fragments_put_together_are_the_datagram() {
    for base in [ip4(), ip6(), ip6().dest_opts(&[1, 4, 0, 0, 0, 0])] {
        let whole = base.ident(5).udp(7, 8).payload_len(1000);
        let header = if whole.src.is_ipv4() { 20 } else { 40 };
        let mut put_together: Vec<u8> = Vec::new();
        let pieces = whole.fragments(333);
        for (i, piece) in pieces.iter().enumerate() {
            let (offset, more, body) = match piece[0] >> 4 {
                4 => {
                    let ip = Ipv4::new_checked(piece).unwrap();
                    (ip.fragment_offset(), ip.more_fragments(), &piece[20..])
                }
                _ => {
                    let f = ext::walk(piece).unwrap().fragment.unwrap();
                    (f.offset, f.more_fragments, &piece[48..])
                }
            };
            assert_eq!((offset, more), (put_together.len(), i + 1 < pieces.len()));
            put_together.extend(body);
        }
        assert_eq!(pieces.len(), 4);
        assert_eq!(put_together, whole.bytes()[header..]);
    }
}

#[test]
fn link_headers_stack() {
    let inner = ip4().udp(1, 2).bytes();
    let frame = ip4()
        .udp(1, 2)
        .ether("2::1".replace("::", ":0:0:0:0:"), "2:0:0:0:0:2")
        .vlan(5)
        .vlan(6)
        .bytes();
    assert_eq!(ether::network(&frame), Some((ether::IPV4, 22)));
    assert_eq!(frame[22..], inner);
    assert_eq!(
        Ether::new_checked(&frame).unwrap().src().to_string(),
        "02:00:00:00:00:01"
    );
    let frame = ip4()
        .udp(1, 2)
        .ether(EtherAddr::ZERO, EtherAddr::BROADCAST)
        .mpls(16)
        .mpls(17)
        .bytes();
    assert_eq!(ether::network(&frame), Some((ether::MPLS, 14)));
    assert_eq!(frame[14..22], [0, 1, 0, 64, 0, 1, 0x11, 64]);
    assert_eq!(frame[22..], inner);
}

#[test]
fn flows_of_built_packets_are_theirs() {
    let key = FlowKey::of_ip(&ip6().hop_by_hop(&[]).tcp(5, 6).bytes()).unwrap();
    let FlowKey::V6(f) = key else { panic!() };
    assert_eq!((f.src_port, f.dst_port, f.protocol), (5, 6, 6));
}

#[test]
#[should_panic(expected = "other IP version")]
fn mixing_versions_is_a_mistake_of_the_test() {
    ip4().src("::1");
}
