//! Frames by feature, in place of missing real captures: each group is named after its content.

use testkit::traffic::{DST, SRC};
use testkit::{Build, arp_reply, arp_request, ip4, ip6, nd_advert, nd_solicit};
use wire::proto;

/// Content of a capture: its feature and its frames.
pub type Feature = (&'static str, Vec<Vec<u8>>);

/// Every feature with its frames, some of them of several sizes.
pub fn features() -> Vec<Feature> {
    let mut all = ip4_features();
    all.extend(ip6_features());
    all.extend(link_features());
    all.extend(tunnel_features());
    all.extend(protocols());
    all
}

fn four() -> Build {
    ip4().src("10.0.0.2").dst("198.18.0.9").ether(SRC, DST)
}

fn six() -> Build {
    ip6()
        .src("2001:db8:1::2")
        .dst("2001:db8:2::9")
        .ether(SRC, DST)
}

fn ip4_features() -> Vec<Feature> {
    const OPTIONS: [&[u8]; 9] = [
        &[148, 4, 0, 0],
        &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0],
        &[7, 7, 8, 1, 2, 3, 4],
        &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[68, 12, 5, 3, 10, 0, 0, 1, 0, 0, 0, 0],
        &[131, 7, 4, 198, 18, 0, 1],
        &[137, 11, 4, 10, 0, 0, 1, 198, 18, 0, 1],
        &[1, 1, 1, 0],
    ];
    let options = OPTIONS.map(|o| four().options(o).udp(1, 53).payload_len(32).bytes());
    let kinds = [(0, 0), (3, 1), (3, 4), (5, 1), (8, 0), (11, 0), (12, 0)];
    let icmp = kinds.map(|(kind, code)| {
        let quoted = ip4().udp(5, 6).payload_len(8).bytes();
        four().icmp(kind, code, 0x0000_05dc).payload(quoted).bytes()
    });
    vec![
        ("ip4_options", options.to_vec()),
        (
            "ip4_frag",
            [
                four().udp(1, 2).payload_len(3000).fragments(1480),
                four().ident(8).udp(1, 2).payload_len(1200).fragments(480),
            ]
            .concat(),
        ),
        ("ip4_ttl1", vec![four().ttl(1).udp(1, 33434).bytes()]),
        (
            "ip4_mcast",
            vec![
                four()
                    .dst("224.0.0.251")
                    .ether(SRC, "01:00:5e:00:00:fb")
                    .udp(5353, 5353)
                    .payload_len(60)
                    .bytes(),
            ],
        ),
        ("icmp", icmp.to_vec()),
        ("tcp", vec![four().tcp(1, 80).payload_len(100).bytes()]),
        (
            "jumbo",
            vec![four().df().tcp(1, 80).payload_len(1900).bytes()],
        ),
        (
            "padded",
            vec![four().udp(1, 2).pad(18).bytes(), six().pad(2).bytes()],
        ),
        (
            "lying",
            vec![
                four().claim_len(9).udp(1, 2).bytes(),
                four().claim_len(2000).udp(1, 2).bytes(),
                four().first_byte(0x4f).udp(1, 2).bytes(),
                four().first_byte(0x44).udp(1, 2).bytes(),
                six().claim_len(2000).udp(1, 2).bytes(),
            ],
        ),
    ]
}

fn ip6_features() -> Vec<Feature> {
    let message = |kind| six().icmp(kind, 0, 1280).payload_len(48).bytes();
    let segments = [&[4, 1, 1, 0, 0, 0][..], &[0x20, 1, 0xd, 0xb8], &[0; 12]].concat();
    vec![
        (
            "ip6_hbh",
            vec![
                six().hop_by_hop(&[5, 2, 0, 0]).udp(1, 53).bytes(),
                six().hop_by_hop(&[0xc2, 4, 0, 1, 0, 0]).udp(1, 53).bytes(),
                six().hop_by_hop(&[0xfe, 4, 0, 1, 0, 0]).udp(1, 53).bytes(),
            ],
        ),
        (
            "ip6_dstopt",
            vec![six().dest_opts(&[1, 4, 0, 0, 0, 0]).udp(1, 2).bytes()],
        ),
        (
            "ip6_routing",
            vec![
                six().routing(0, 1).udp(1, 2).bytes(),
                six().routing(2, 1).udp(1, 2).bytes(),
                six().ext(proto::ROUTING, &segments).udp(1, 2).bytes(),
            ],
        ),
        (
            "ip6_frag",
            [
                six().ident(9).udp(1, 2).payload_len(3000).fragments(1400),
                six().ident(8).udp(1, 2).payload_len(1200).fragments(480),
            ]
            .concat(),
        ),
        (
            "ip6_atomic_frag",
            vec![six().fragment(0, false).udp(1, 2).bytes()],
        ),
        (
            "ip6_multi_exthdr",
            vec![
                six()
                    .hop_by_hop(&[5, 2, 0, 0])
                    .dest_opts(&[])
                    .routing(4, 0)
                    .fragment(0, true)
                    .udp(1, 2)
                    .payload_len(64)
                    .bytes(),
            ],
        ),
        ("ip6_no_next", vec![six().no_next().bytes()]),
        ("icmp6", [1, 2, 3, 4, 128, 129, 133].map(message).to_vec()),
        (
            "nd",
            vec![
                nd_solicit(SRC, "fe80::2", "fe80::1"),
                nd_advert(SRC, "fe80::2", DST, "fe80::1"),
            ],
        ),
    ]
}

/// A frame of an Ethertype without IP at the usual place.
fn typed(ethertype: u16, head: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut frame = four().bytes();
    frame.truncate(12);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(head);
    frame.extend(rest);
    frame
}

fn link_features() -> Vec<Feature> {
    let packet = ip4().udp(1, 2).payload_len(40).bytes();
    let llc = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &packet].concat();
    vec![
        (
            "arp",
            vec![
                arp_request(SRC, "10.0.0.2", "10.0.0.1"),
                arp_reply(SRC, "10.0.0.2", DST, "10.0.0.1"),
                arp_request(SRC, "10.0.0.2", "10.0.0.2"),
            ],
        ),
        ("vlan", vec![four().vlan(100).udp(1, 2).bytes()]),
        ("qinq", vec![six().vlan(100).vlan(200).udp(1, 2).bytes()]),
        ("mpls", vec![four().mpls(100).udp(1, 2).bytes()]),
        (
            "mpls_stack",
            vec![six().mpls(16).mpls(17).mpls(18).udp(1, 2).bytes()],
        ),
        ("llc", vec![typed(llc.len() as u16, &[], &llc)]),
        (
            "pppoe",
            vec![typed(
                0x8864,
                &[0x11, 0, 0, 1, 0, packet.len() as u8 + 2, 0, 0x21],
                &packet,
            )],
        ),
        ("lldp", vec![typed(0x88cc, &[2, 7, 4], &[0; 40])]),
        ("runt", vec![Vec::new(), vec![0xff], vec![2; 13]]),
    ]
}

fn tunnel_features() -> Vec<Feature> {
    let inner = ip4().src("10.9.0.1").tcp(1, 80).payload_len(40).bytes();
    let inner6 = ip6().udp(1, 2).payload_len(40).bytes();
    let with = |head: &[u8], rest: &[u8]| [head, rest].concat();
    let framed = ip4().ether(SRC, DST).udp(1, 2).bytes();
    let udp = |port, body: Vec<u8>| four().udp(4000, port).payload(body).bytes();
    vec![
        ("ipip_4in", vec![four().proto(4).payload(&inner).bytes()]),
        (
            "6in",
            vec![
                four().proto(41).payload(&inner6).bytes(),
                six().proto(41).payload(&inner6).bytes(),
            ],
        ),
        (
            "gre",
            vec![
                four()
                    .proto(proto::GRE)
                    .payload(with(&[0, 0, 8, 0], &inner))
                    .bytes(),
                four()
                    .proto(proto::GRE)
                    .payload(with(&[0x30, 1, 0x88, 0xb, 0, 4, 0, 1], &inner))
                    .bytes(),
            ],
        ),
        (
            "gtpu",
            vec![udp(2152, with(&[0x30, 0xff, 0, 80, 0, 0, 0, 1], &inner))],
        ),
        (
            "vxlan",
            vec![udp(4789, with(&[8, 0, 0, 0, 0, 0, 1, 0], &framed))],
        ),
        (
            "geneve",
            vec![udp(6081, with(&[0, 0, 0x65, 0x58, 0, 0, 1, 0], &framed))],
        ),
        (
            "udp4500",
            vec![udp(4500, vec![7; 64]), udp(4500, vec![0xff])],
        ),
        (
            "esp",
            vec![
                four().proto(proto::ESP).payload([9; 72]).bytes(),
                six().proto(proto::ESP).payload([9; 72]).bytes(),
            ],
        ),
        (
            "ah",
            vec![
                six()
                    .proto(proto::AH)
                    .payload(with(&[17, 4, 0, 0, 0, 0, 1, 0], &[1; 32]))
                    .bytes(),
            ],
        ),
    ]
}

/// Protocols that a router carries without parsing them.
fn protocols() -> Vec<Feature> {
    let carried = |number: u8| four().proto(number).payload_len(40).bytes();
    let named = [
        ("igmp", 2),
        ("ospf", 89),
        ("eigrp", 88),
        ("pim", 103),
        ("vrrp_carp", 112),
        ("sctp", proto::SCTP),
        ("proto_46", 46),
        ("proto_253", 253),
    ];
    let group = |(name, number)| (name, vec![carried(number)]);
    named.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use wire::{ether, ext, ipv4, ipv6};

    #[test]
    fn every_feature_has_its_own_name_and_frames_that_fit_a_buffer() {
        let all = features();
        let names: BTreeSet<_> = all.iter().map(|f| f.0).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() >= 40, "{} features", all.len());
        for (name, frames) in &all {
            assert!(!frames.is_empty(), "{name}");
            assert!(frames.iter().all(|f| f.len() <= 2048), "{name}");
        }
    }

    #[test]
    fn features_are_what_their_names_say() {
        let all = features();
        let frames = |name| &all.iter().find(|f| f.0 == name).expect("it is listed").1;
        let network =
            |frame: &[u8]| ether::network(frame).map(|(kind, at)| (kind, frame[at..].to_vec()));
        for frame in frames("ip4_options") {
            let (_, ip) = network(frame).expect("a whole header");
            assert!(ipv4::check(&ip).is_ok_and(|c| c.header_len > 20));
        }
        for name in ["ip6_frag", "ip6_atomic_frag", "ip6_multi_exthdr"] {
            for frame in frames(name) {
                let (_, ip) = network(frame).expect("a whole header");
                assert!(ipv6::check(&ip).is_ok(), "{name}");
                assert!(ext::walk(&ip).is_ok_and(|w| w.fragment.is_some()), "{name}");
            }
        }
        let kind = |name| network(&frames(name)[0]).map(|n| n.0);
        assert_eq!(kind("mpls_stack"), Some(ether::MPLS));
        assert_eq!(kind("qinq"), Some(ether::IPV6));
        assert_eq!(kind("pppoe"), Some(0x8864));
    }
}
