//! Description of a packet in one line, for `ashlar capture` and `ashlar trace`.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Description of a packet's first bytes: addresses, protocol, ports.
pub(crate) fn describe(bytes: &[u8], at_network: bool) -> String {
    match at_network {
        true => network(bytes),
        false => frame(bytes),
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn frame(bytes: &[u8]) -> String {
    let (mut at, mut tags) = (12, String::new());
    loop {
        let Some(kind) = number(bytes, at) else {
            return format!("{tags}short frame");
        };
        let rest = bytes.get(at + 2..).unwrap_or_default();
        match kind {
            0x8100 | 0x88a8 if tags.len() < 32 => {
                let tag = number(bytes, at + 2).unwrap_or(0) & 0xfff;
                let _ = write!(tags, "vlan {tag} ");
                at += 4;
            }
            0x0800 | 0x86dd => return tags + &network(rest),
            0x0806 => return tags + &arp(rest),
            kind => return format!("{tags}type 0x{kind:04x}"),
        }
    }
}

fn ip4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(four.into())
}

fn ip6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let all: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
    Some(all.into())
}

fn arp(bytes: &[u8]) -> String {
    let said = || {
        let (from, to) = (ip4(bytes, 14)?, ip4(bytes, 24)?);
        Some(match number(bytes, 6)? {
            1 => format!("ARP who has {to}? tell {from}"),
            2 => format!("ARP {from} answers {to}"),
            other => format!("ARP operation {other}"),
        })
    };
    said().unwrap_or_else(|| "short ARP".to_owned())
}

fn network(bytes: &[u8]) -> String {
    let said = || match bytes.first()? >> 4 {
        4 => {
            let (from, to) = (ip4(bytes, 12)?, ip4(bytes, 16)?);
            let header = usize::from(bytes[0] & 15) * 4;
            let fragment = number(bytes, 6)? & 0x1fff != 0;
            let rest = bytes.get(header..).filter(|_| !fragment);
            let ttl = bytes[8];
            let what = transport(*bytes.get(9)?, rest.unwrap_or_default());
            let mark = if fragment { " fragment" } else { "" };
            Some(format!("{from} > {to} {what}{mark} ttl {ttl}"))
        }
        6 => {
            let (from, to) = (ip6(bytes, 8)?, ip6(bytes, 24)?);
            let what = transport(*bytes.get(6)?, bytes.get(40..).unwrap_or_default());
            Some(format!("{from} > {to} {what} hlim {}", bytes[7]))
        }
        version => Some(format!("version {version}, no IP")),
    };
    said().unwrap_or_else(|| "short packet".to_owned())
}

fn transport(protocol: u8, rest: &[u8]) -> String {
    let ports = |name: &str| match (number(rest, 0), number(rest, 2)) {
        (Some(from), Some(to)) => format!("{name} {from} > {to}"),
        _ => name.to_owned(),
    };
    let kind = |name: &str| match rest {
        [kind, code, ..] => format!("{name} type {kind} code {code}"),
        _ => name.to_owned(),
    };
    match protocol {
        6 => ports("TCP"),
        17 => ports("UDP"),
        1 => kind("ICMP"),
        58 => kind("ICMPv6"),
        other => format!("protocol {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: [u8; 28] = [
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 4, 0, 0, 8, 0, 0,
    ];

    #[test]
    fn frames_and_packets_show_both_addresses() {
        let mut tagged = vec![0; 12];
        tagged.extend([0x81, 0, 0, 7, 8, 0]);
        tagged.extend(UDP);
        let right = "10.0.0.1 > 10.0.0.2 UDP 53 > 1024 ttl 64";
        assert_eq!(describe(&UDP, true), right);
        assert_eq!(describe(&tagged, false), format!("vlan 7 {right}"));
    }

    #[test]
    fn any_cut_and_any_bytes_are_described_without_harm() {
        let mut frame = vec![0; 12];
        frame.extend([0x81, 0, 0, 7, 8, 0]);
        frame.extend(UDP);
        for cut in 0..frame.len() {
            assert!(!describe(&frame[..cut], false).is_empty());
            assert!(!describe(&frame[..cut], true).is_empty());
        }
        let tags = [0x81, 0].repeat(60);
        assert!(!describe(&tags, false).is_empty());
    }
}
