//! Unaffiliated BFD echo (RFC 9747): packets to the sender itself, which a neighbour forwards back.
//!
//! Only the sender reads the UDP payload. It has a random number of the sender, the back end, and the number of the
//! probe.

use std::net::Ipv4Addr;
use wire::{EtherAddr, Ipv4, Udp, ether, ipv4, proto};

/// UDP port of BFD echo (RFC 5881, 4).
const PORT: u16 = 3785;
/// TTL of a probe when it is sent, and after it was forwarded once.
const TTL: u8 = 255;
/// Traffic class of network control (RFC 4594), so that probes precede user traffic.
const CS6: u8 = 48 << 2;

const AT_UDP: usize = ether::LEN + ipv4::MIN_LEN;
const AT_BODY: usize = AT_UDP + 8;
/// Length of a probe's payload, in bytes.
pub(super) const BODY: usize = 18;
/// Length of a probe's frame, in bytes.
pub(super) const LEN: usize = AT_BODY + BODY;

/// Payload of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Secret random number of the sender.
    pub(super) nonce: u64,
    pub(super) backend: u16,
    pub(super) number: u64,
}

impl Probe {
    pub(super) fn bytes(self) -> [u8; BODY] {
        let mut body = [0; BODY];
        body[..8].copy_from_slice(&self.nonce.to_be_bytes());
        body[8..10].copy_from_slice(&self.backend.to_be_bytes());
        body[10..].copy_from_slice(&self.number.to_be_bytes());
        body
    }

    pub(super) fn from_bytes(bytes: &[u8; BODY]) -> Probe {
        let [a, b, c, d, e, f, g, h, i, j, number @ ..] = *bytes;
        Probe {
            nonce: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            backend: u16::from_be_bytes([i, j]),
            number: u64::from_be_bytes(number),
        }
    }
}

/// Reason why a packet is not a returned probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    Malformed,
    /// The probe was not forwarded exactly once.
    Ttl,
    /// The probe is not from this sender.
    Forged,
}

/// Frame of a probe.
pub(super) fn write(probe: Probe, to: EtherAddr, own: (EtherAddr, Ipv4Addr)) -> [u8; LEN] {
    let mut frame = [0; LEN];
    frame[..ether::LEN].copy_from_slice(&ether::header(to, own.0, ether::IPV4));
    frame[AT_BODY..].copy_from_slice(&probe.bytes());
    frame[ether::LEN] = 0x45;
    let mut ip = Ipv4::new_unchecked(&mut frame[ether::LEN..]);
    ip.set_tos(CS6);
    ip.set_total_len((LEN - ether::LEN) as u16);
    ip.set_ttl(TTL);
    ip.set_protocol(proto::UDP);
    ip.set_src(own.1);
    ip.set_dst(own.1);
    ip.fill_checksum();
    let pseudo = ip.pseudo(LEN - AT_UDP);
    let mut udp = Udp::new_unchecked(&mut frame[AT_UDP..]);
    udp.set_src_port(PORT);
    udp.set_dst_port(PORT);
    udp.set_len((LEN - AT_UDP) as u16);
    udp.fill_checksum(pseudo);
    frame
}

/// Probe in a frame, if it carries `nonce` and was forwarded exactly once.
pub(super) fn read(frame: &[u8], nonce: u64, own: Ipv4Addr) -> Result<Probe, Bad> {
    let packet = frame.get(ether::LEN..).ok_or(Bad::Malformed)?;
    let ip = Ipv4::new_checked(packet).map_err(|_| Bad::Malformed)?;
    if !ip.verify_checksum()
        || ip.dst() != own
        || ip.src() != own
        || ip.protocol() != proto::UDP
        || ip.is_fragment()
    {
        return Err(Bad::Malformed);
    }
    let udp = Udp::new_checked(ip.payload()).map_err(|_| Bad::Malformed)?;
    if udp.dst_port() != PORT || !udp.verify_checksum(ip.pseudo(udp.len())) {
        return Err(Bad::Malformed);
    }
    let probe = Probe::from_bytes(udp.payload().first_chunk().ok_or(Bad::Malformed)?);
    if probe.nonce != nonce {
        return Err(Bad::Forged);
    }
    if ip.ttl() != TTL - 1 {
        return Err(Bad::Ttl);
    }
    Ok(probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: (EtherAddr, Ipv4Addr) =
        (EtherAddr([2, 0, 0, 0, 1, 3]), Ipv4Addr::new(10, 255, 0, 1));
    const PROBE: Probe = Probe {
        nonce: 0x1234_5678_9abc_def0,
        backend: 7,
        number: 99,
    };

    #[test]
    fn a_probe_that_was_forwarded_once_is_read() {
        let mut frame = write(PROBE, EtherAddr([2, 0, 0, 0, 0, 1]), OWN);
        assert_eq!(read(&frame, PROBE.nonce, OWN.1), Err(Bad::Ttl));
        Ipv4::new_unchecked(&mut frame[ether::LEN..]).dec_ttl();
        assert_eq!(read(&frame, PROBE.nonce, OWN.1), Ok(PROBE));
        assert_eq!(read(&frame, 5, OWN.1), Err(Bad::Forged));
        assert_eq!(
            read(&frame, PROBE.nonce, Ipv4Addr::LOCALHOST),
            Err(Bad::Malformed)
        );
        for len in 0..frame.len() {
            assert_eq!(read(&frame[..len], PROBE.nonce, OWN.1), Err(Bad::Malformed));
        }
        for at in ether::LEN..frame.len() {
            let mut wrong = frame;
            wrong[at] ^= 0x10;
            assert!(read(&wrong, PROBE.nonce, OWN.1).is_err(), "byte {at}");
        }
    }
}
