//! Echo requests of ICMP as probes.
//!
//! The payload has a random number of the sender, the back end, and the number of the probe, as in BFD echo.

use super::echo::{BODY, Probe};
use std::net::Ipv4Addr;
use wire::{Ether, EtherAddr, Icmp, Ipv4, ether, icmp, ipv4, proto};

/// Traffic class of network control (RFC 4594).
const CS6: u8 = 48 << 2;
const AT_ICMP: usize = ether::LEN + ipv4::MIN_LEN;
const AT_BODY: usize = AT_ICMP + icmp::LEN;
const LEN: usize = AT_BODY + BODY;

/// Frame of an ICMP echo request.
pub(super) fn write(
    probe: Probe,
    to: (EtherAddr, Ipv4Addr),
    own: (EtherAddr, Ipv4Addr),
) -> [u8; LEN] {
    let mut frame = [0; LEN];
    frame[..ether::LEN].copy_from_slice(&ether::header(to.0, own.0, ether::IPV4));
    frame[AT_BODY..].copy_from_slice(&probe.bytes());
    frame[ether::LEN] = 0x45;
    let mut ip = Ipv4::new_unchecked(&mut frame[ether::LEN..]);
    ip.set_tos(CS6);
    ip.set_total_len((LEN - ether::LEN) as u16);
    ip.set_ttl(64);
    ip.set_protocol(proto::ICMP);
    ip.set_src(own.1);
    ip.set_dst(to.1);
    ip.fill_checksum();
    let mut message = Icmp::new_unchecked(&mut frame[AT_ICMP..]);
    message.set_kind(icmp::ECHO);
    message.set_echo(probe.nonce as u16, probe.number as u16);
    message.fill_checksum();
    frame
}

/// Sender and probe of a frame; `None` unless the frame is an ICMP echo reply to a probe.
pub(super) fn read(frame: &[u8], own: Ipv4Addr) -> Option<((EtherAddr, Ipv4Addr), Probe)> {
    let from = Ether::new_checked(frame).ok()?.src();
    let ip = Ipv4::new_checked(frame.get(ether::LEN..)?).ok()?;
    let is_right = ip.verify_checksum()
        && ip.dst() == own
        && ip.protocol() == proto::ICMP
        && !ip.is_fragment();
    if !is_right {
        return None;
    }
    let message = ip.payload();
    let reply = Icmp::new_checked(message).ok()?;
    if reply.kind() != icmp::ECHO_REPLY || !reply.verify_checksum() {
        return None;
    }
    let body = message.get(icmp::LEN..)?.first_chunk()?;
    Some(((from, ip.src()), Probe::from_bytes(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: (EtherAddr, Ipv4Addr) =
        (EtherAddr([2, 0, 0, 0, 1, 3]), Ipv4Addr::new(10, 255, 0, 1));
    const BOX: (EtherAddr, Ipv4Addr) =
        (EtherAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 255, 0, 11));

    #[test]
    fn a_reply_is_read_and_nothing_else() {
        let probe = Probe {
            nonce: 0x1234_5678_9abc_def0,
            backend: 7,
            number: 99,
        };
        let mut frame = write(probe, BOX, OWN);
        assert_eq!(read(&frame, OWN.1), None, "a request");
        // Answers as a host does.
        frame[..12].rotate_left(6);
        let mut ip = Ipv4::new_unchecked(&mut frame[ether::LEN..]);
        ip.set_src(BOX.1);
        ip.set_dst(OWN.1);
        ip.fill_checksum();
        Icmp::new_unchecked(&mut frame[AT_ICMP..]).answer_echo();
        assert_eq!(read(&frame, OWN.1), Some((BOX, probe)));
        assert_eq!(read(&frame, BOX.1), None);
        for len in 0..frame.len() {
            assert_eq!(read(&frame[..len], OWN.1), None);
        }
        for at in ether::LEN..frame.len() {
            let mut wrong = frame;
            wrong[at] ^= 0x10;
            assert_eq!(read(&wrong, OWN.1), None, "byte {at}");
        }
    }
}
