//! Frames of a few flows, each with its flow and number in its last bytes.

use testkit::{Build, Rng, ip4};

/// Number of flows.
pub const FLOWS: usize = 24;

/// The last bytes of a payload, which repeats them: so each fragment of eight times n bytes ends with them.
fn mark(flow: usize, number: u32) -> [u8; 8] {
    let mut mark = [0x5a; 8];
    mark[2..4].copy_from_slice(&(flow as u16).to_be_bytes());
    mark[4..].copy_from_slice(&number.to_be_bytes());
    mark
}

/// Flow and number in the last bytes of a packet.
pub fn flow_and_number(packet: &[u8]) -> (u16, u32) {
    let at = packet.len().saturating_sub(6);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &b| n << 8 | u32::from(b));
    let tail = &packet[at..];
    let (flow, rest) = tail.split_at(tail.len().min(2));
    (number(flow) as u16, number(rest))
}

/// `n` Ethernet frames with their flow's number: TCP, UDP and ICMP, some of them malformed, with a small TTL, with
/// DF, or no IPv4 packets at all.
pub fn frames(rng: &mut Rng, n: usize) -> Vec<(usize, Vec<u8>)> {
    let mut frames = Vec::with_capacity(n);
    for number in 0..n {
        let flow = rng.below(FLOWS);
        let payload = mark(flow, number as u32).repeat(rng.range(4..80));
        let packet = of_flow(flow).payload(payload).tos(4 * rng.below(64) as u8);
        let packet = packet.ident(1 + number as u32);
        let packet = packet.ttl(*rng.pick(&[1, 2, 3, 64, 64, 255]));
        frames.push((flow, dressed(rng, packet)));
    }
    frames
}

/// The addresses and ports of a flow follow from its number.
fn of_flow(flow: usize) -> Build {
    let base = ip4()
        .src(format_args!("10.0.{}.{}", flow % 3, flow + 1))
        .dst(format_args!("198.18.{}.{}", flow % 5, flow % 7 + 1))
        .ether("02:00:00:00:00:01", "02:00:00:00:00:02");
    let (sport, dport) = (1024 + flow as u16, [53, 80, 443, 5004][flow % 4]);
    match flow % 5 {
        0 => base.icmp_echo(flow as u16, 1),
        // With options up to a multiple of eight bytes, at which fragments are split.
        1 | 2 => base.tcp(sport, dport).tcp_options(&[1, 1, 1, 1]),
        _ => base.udp(sport, dport),
    }
}

fn dressed(rng: &mut Rng, packet: Build) -> Vec<u8> {
    match rng.weighted(&[80, 4, 4, 6, 3]) {
        0 => packet.bytes(),
        1 => packet.bad_checksum().bytes(),
        2 => packet.first_byte(rng.u8()).bytes(),
        3 => packet.df().bytes(),
        _ => {
            let mut frame = packet.bytes();
            frame[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
            frame
        }
    }
}
