//! The header views of `wire` on whole frames: real ones, made ones, and each cut short everywhere.

use std::collections::BTreeMap;

use testkit::{Rng, recorded_inputs, traffic};
use wire::{Arp, FlowKey, Icmp, Icmp6, Ipv4, Ipv6, Nd, Tcp, Udp, Vlan};
use wire::{ether, ext, ipv4, ipv6, proto};

/// Reads everything of a frame; checks only that nothing panics.
fn read(frame: &[u8]) {
    let Some((kind, at)) = ether::network(frame) else {
        return;
    };
    let network = &frame[at..];
    FlowKey::of_ip(network).map(|key| key.hash(1));
    match kind {
        ether::IPV4 => read4(network),
        ether::IPV6 => read6(network),
        ether::ARP => {
            let _ = Arp::new_checked(network).map(|a| (a.op(), a.sender_ip(), a.target_ether()));
        }
        ether::VLAN => drop(Vlan::new_checked(network).map(|v| (v.id(), v.ethertype()))),
        _ => {}
    }
}

fn read4(packet: &[u8]) {
    let _ = ipv4::check(packet);
    let Ok(ip) = Ipv4::new_checked(packet) else {
        return;
    };
    ip.options().for_each(drop);
    upper(ip.protocol(), ip.payload());
}

fn read6(packet: &[u8]) {
    let Ok(ip) = Ipv6::new_checked(packet) else {
        return;
    };
    let packet = ip.packet();
    let Ok(walk) = ext::walk(packet) else {
        return;
    };
    for at in [walk.hop_by_hop, walk.dest_opts].into_iter().flatten() {
        let _ = ext::check_hop_by_hop(packet, at);
    }
    upper(walk.protocol, &packet[walk.offset..]);
}

fn upper(protocol: u8, bytes: &[u8]) {
    match protocol {
        proto::UDP => {
            let _ = Udp::new_checked(bytes).map(|u| (u.payload().len(), u.verify_checksum(0)));
        }
        proto::TCP => drop(Tcp::new_checked(bytes).map(|t| (t.payload().len(), t.mss()))),
        proto::ICMP => drop(Icmp::new_checked(bytes).map(|i| (i.payload().len(), i.rest()))),
        proto::ICMP6 => {
            let _ = Icmp6::new_checked(bytes).map(|i| (i.payload().len(), i.rest()));
            let _ = Nd::new_checked(bytes).map(|nd| nd.options().count());
        }
        _ => {}
    }
}

/// A frame, each of its beginnings, and a few copies with changed bytes.
fn read_hard(frame: &[u8], rng: &mut Rng) {
    // Behind the headers a cut changes nothing but lengths.
    for len in (0..frame.len().min(200)).chain([frame.len()]) {
        read(&frame[..len]);
    }
    for _ in 0..4 {
        let mut changed = frame.to_vec();
        for _ in 0..rng.range(1..4) {
            let at = rng.below(changed.len().min(120));
            changed[at] = *rng.pick(&[0, 0xff, rng.clone().u8()]);
        }
        read(&changed);
    }
}

#[test]
fn no_made_frame_makes_a_view_panic() {
    let mut rng = Rng::seed(1);
    for frame in traffic::mix(1, 3_000) {
        read_hard(&frame, &mut rng);
    }
}

#[test]
fn no_frame_of_shared_data_makes_a_view_panic() {
    let captures = recorded_inputs::captures("pcap/features.tar.zst");
    let mut rng = Rng::seed(2);
    for frame in captures.iter().flat_map(|(_, frames)| frames) {
        if !frame.is_empty() {
            read_hard(frame, &mut rng);
        }
    }
}

#[test]
fn the_headers_of_shared_data_are_judged_as_an_independent_count_does() {
    let frames = recorded_inputs::frames("pcap/ndpi-mix-zeropay.pcap.zst");
    let mut seen: BTreeMap<(u16, &str), usize> = BTreeMap::new();
    for frame in &frames {
        let verdict = match ether::network(frame) {
            Some((kind @ ether::IPV4, at)) => (kind, ipv4::check(&frame[at..]).err()),
            Some((kind @ ether::IPV6, at)) => (kind, ipv6::check(&frame[at..]).err()),
            _ => continue,
        };
        *seen
            .entry((verdict.0, verdict.1.map_or("good", |e| e.name())))
            .or_default() += 1;
    }
    // Counted apart by a script over the bytes. Some of the captures were made before the sender's device had
    // filled in the checksum, others had their addresses changed.
    let counted = [
        ((ether::IPV4, "bad_checksum"), 7_603),
        ((ether::IPV4, "good"), 84_450),
        ((ether::IPV4, "truncated"), 5),
        ((ether::IPV6, "good"), 5_075),
    ];
    assert_eq!(seen, BTreeMap::from(counted));
}
