//! Frames as a link of the Internet carries them, for where the real captures are missing.

use wire::tcp;

use crate::Rng;
use crate::frames::{arp_reply, arp_request, nd_solicit};
use crate::packets::{Build, ip4, ip6};

/// Ethernet address that [`mix`]'s frames come from.
pub const SRC: &str = "02:00:00:00:00:01";
/// Ethernet address that [`mix`]'s unicast frames are sent to.
pub const DST: &str = "02:00:00:00:00:02";

/// `n` Ethernet frames: TCP and UDP flows of uneven weight over IPv4 and IPv6, sizes of 60 to 1514 bytes; and
/// shares of ARP, ICMP, neighbour discovery, fragments, options, extension headers, VLAN tags, foreign
/// Ethertypes, and about 2 % malformed frames (from 14 bytes).
///
/// IPv4 flows run from 10.0.0.0/16 to 198.18.0.0/15, IPv6 flows from 2001:db8:1::/48 to 2001:db8:2::/48.
pub fn mix(seed: u64, n: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::seed(seed);
    let flows = (n / 9).max(1);
    let mut out = Vec::with_capacity(n + 8);
    while out.len() < n {
        match rng.weighted(&[900, 15, 10, 10, 10, 15, 10, 10, 20]) {
            0 => out.push(of_flow(&mut rng, flows).bytes()),
            1 => out.push(neighbourly(&mut rng)),
            2 => out.push(echo(&mut rng).bytes()),
            3 => out.extend(of_flow(&mut rng, flows).ident(rng.u32()).fragments(600)),
            4 => out.push(with_options(&mut rng)),
            5 => out.push(
                of_flow(&mut rng, flows)
                    .vlan(rng.range(1..4095) as u16)
                    .bytes(),
            ),
            6 => out.push(foreign(&mut rng)),
            7 => out.push(of_flow(&mut rng, flows).ttl(rng.below(2) as u8).bytes()),
            _ => out.push(malformed(&mut rng, flows)),
        }
    }
    out.truncate(n);
    out.iter_mut()
        .filter(|f| f.len() > 20)
        .for_each(|f| f.resize(f.len().max(60), 0));
    out
}

/// A base packet of flow number `flow`, whose addresses and ports follow from the number.
fn flow(flow: usize) -> Build {
    let mut of_flow = Rng::seed(flow as u64);
    let (src, dst) = (of_flow.u16(), of_flow.u32() & 0x1_ffff);
    let base = match of_flow.below(100) {
        0..15 => ip6()
            .src(format_args!("2001:db8:1::{src:x}"))
            .dst(format_args!("2001:db8:2:{:x}::{:x}", dst >> 8, dst & 0xff)),
        _ => ip4()
            .src(format_args!("10.0.{}.{}", src >> 8, src & 0xff))
            .dst(format_args!(
                "198.{}.{}.{}",
                18 + (dst >> 16),
                dst >> 8 & 0xff,
                dst & 0xff
            )),
    };
    let (sport, dport) = (
        of_flow.range(1024..65536) as u16,
        *of_flow.pick(&[80, 443, 53, 123, 8080, 5004]),
    );
    match of_flow.below(100) {
        0..70 => base.tcp(sport, dport),
        _ => base.udp(sport, dport),
    }
    .ether(SRC, DST)
}

/// A packet of one of `flows` flows; a few of them carry most packets.
fn of_flow(rng: &mut Rng, flows: usize) -> Build {
    // The smaller of three draws: a tenth of the flows gets a quarter of the packets.
    let number = (0..3).map(|_| rng.below(flows)).min().unwrap_or(0);
    let payload = match rng.weighted(&[40, 20, 10, 30]) {
        0 => rng.below(20),
        1 => rng.range(20..500),
        2 => rng.range(500..1300),
        _ => 1400,
    };
    let flags = *rng.pick(&[
        tcp::ACK,
        tcp::ACK,
        tcp::ACK | tcp::PSH,
        tcp::SYN,
        tcp::FIN | tcp::ACK,
    ]);
    flow(number)
        .seq_ack(rng.u32(), rng.u32())
        .tcp_flags(flags)
        .ttl(rng.range(2..255) as u8)
        .payload_len(payload)
}

fn neighbourly(rng: &mut Rng) -> Vec<u8> {
    let (host, asked) = (rng.u8(), rng.u8());
    let mine = format_args!("10.0.0.{host}").to_string();
    let theirs = format_args!("10.0.0.{asked}").to_string();
    match rng.below(3) {
        0 => arp_request(SRC, mine, theirs),
        1 => arp_reply(SRC, mine, DST, theirs),
        _ => nd_solicit(
            SRC,
            format_args!("fe80::{host:x}"),
            format_args!("fe80::{asked:x}"),
        ),
    }
}

fn echo(rng: &mut Rng) -> Build {
    let base = if rng.one_in(3) { ip6() } else { ip4() };
    base.ether(SRC, DST)
        .icmp_echo(rng.u16(), rng.u16())
        .payload_len(rng.below(1400))
}

fn with_options(rng: &mut Rng) -> Vec<u8> {
    const OPTIONS4: [&[u8]; 5] = [
        &[148, 4, 0, 0],
        &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0],
        &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 0],
        &[131, 7, 4, 198, 18, 0, 1],
    ];
    let base = match rng.below(4) {
        0 => ip6().hop_by_hop(&[5, 2, 0, 0]),
        1 => ip6().dest_opts(&[1, 4, 0, 0, 0, 0]).routing(4, 0),
        _ => ip4().options(OPTIONS4[rng.below(OPTIONS4.len())]),
    };
    base.ether(SRC, DST)
        .udp(rng.u16(), 53)
        .payload_len(rng.below(400))
        .bytes()
}

/// LLDP, an IEEE 802.3 length, loopback test, PPPoE.
fn foreign(rng: &mut Rng) -> Vec<u8> {
    let ethertype = *rng.pick(&[0x88ccu16, 0x0026, 0x9000, 0x8864]);
    let mut frame = ip4().ether(SRC, DST).bytes();
    frame.truncate(12);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(rng.bytes(46));
    frame
}

fn malformed(rng: &mut Rng, flows: usize) -> Vec<u8> {
    let base = of_flow(rng, flows);
    match rng.below(8) {
        0 => base.bad_checksum().bytes(),
        1 => base.claim_len(rng.u16()).bytes(),
        2 => base.first_byte(rng.u8()).bytes(),
        3 => ip4().ether(SRC, DST).options(&rng.bytes(12)).bytes(),
        4 => ip6().ether(SRC, DST).hop_by_hop(&rng.bytes(14)).bytes(),
        5 => {
            let mut frame = base.bytes();
            frame.truncate(rng.range(14..frame.len()));
            frame
        }
        6 => {
            let mut frame = base.bytes();
            let at = rng.range(14..frame.len().min(80));
            frame[at] ^= 1 << rng.below(8);
            frame
        }
        _ => ip4()
            .src("127.0.0.1")
            .dst("240.0.0.1")
            .ether(SRC, DST)
            .udp(1, 2)
            .bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};
    use wire::{FlowKey, ether, ipv4, ipv6};

    #[test]
    fn a_seed_gives_the_same_frames() {
        assert_eq!(mix(1, 500), mix(1, 500));
        assert_ne!(mix(1, 500), mix(2, 500));
        assert_eq!(mix(1, 0).len(), 0);
    }

    #[test]
    fn the_mix_holds_every_kind_of_frame_in_sensible_shares() {
        let frames = mix(4, 20_000);
        assert_eq!(frames.len(), 20_000);
        assert!(frames.iter().all(|f| (14..=1518).contains(&f.len())));
        let mut kinds: HashMap<&str, usize> = HashMap::new();
        let mut flows = HashSet::new();
        for f in &frames {
            let network = ether::network(f).map(|(kind, at)| (kind, &f[at..]));
            let kind = match network {
                Some((ether::ARP, _)) => "arp",
                Some((ether::IPV4, ip)) => match ipv4::check(ip) {
                    Err(_) => "bad",
                    Ok(c) if c.header_len > 20 => "options",
                    Ok(_) if wire::Ipv4::new_unchecked(ip).is_fragment() => "fragments",
                    Ok(_) => "ip4",
                },
                Some((ether::IPV6, ip)) => match ipv6::check(ip) {
                    Err(_) => "bad",
                    Ok(_) => "ip6",
                },
                _ => "foreign",
            };
            *kinds.entry(kind).or_default() += 1;
            flows.extend(network.and_then(|(_, ip)| FlowKey::of_ip(ip)));
        }
        let share = |kind: &str| kinds.get(kind).copied().unwrap_or(0) as f64 / 20_000.0;
        for (kind, low, high) in [
            ("ip4", 0.6, 0.85),
            ("ip6", 0.08, 0.25),
            ("arp", 0.004, 0.03),
            ("bad", 0.005, 0.03),
            ("options", 0.002, 0.02),
            ("fragments", 0.002, 0.05),
            ("foreign", 0.004, 0.03),
        ] {
            assert!((low..high).contains(&share(kind)), "{kind}: {kinds:?}");
        }
        assert!(flows.len() > 1500, "{} flows", flows.len());
    }
}
