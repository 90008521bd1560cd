//! ARP for IPv4 over Ethernet (RFC 826): 28 bytes.

use core::net::Ipv4Addr;

use crate::bytes::put;
use crate::{BadHeader, EtherAddr, ether};

/// Length in bytes.
pub const LEN: usize = 28;
/// Length of a packet in its Ethernet frame, in bytes.
pub const FRAME_LEN: usize = ether::LEN + LEN;
/// Operation: request for the Ethernet address of the target.
pub const REQUEST: u16 = 1;
/// Operation: reply.
pub const REPLY: u16 = 2;

/// Hardware type, protocol type and address lengths of Ethernet and IPv4.
const PREAMBLE: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

/// An ARP packet.
#[derive(Clone, Copy, Debug)]
pub struct Arp<B>(B);

fields! { Arp:
    /// [`REQUEST`], [`REPLY`], or an operation that this router does not use.
    op, set_op: u16 at 6;
    /// Ethernet address of the sender.
    sender_ether: EtherAddr at 8;
    /// IPv4 address of the sender; 0.0.0.0 in a probe (RFC 5227).
    sender_ip: Ipv4Addr at 14;
    /// Ethernet address of the target; without meaning in a request.
    target_ether: EtherAddr at 18;
    /// IPv4 address of the target.
    target_ip: Ipv4Addr at 24;
}

impl<B: AsRef<[u8]>> Arp<B> {
    /// Checks that this is a whole packet for Ethernet and IPv4; other types are `BadField`.
    #[inline]
    pub fn new_checked(bytes: B) -> Result<Self, BadHeader> {
        let b = bytes.as_ref();
        if b.len() < LEN {
            return Err(BadHeader::TooShort);
        }
        if b[..6] != PREAMBLE {
            return Err(BadHeader::BadField);
        }
        Ok(Arp(bytes))
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Arp<B> {
    /// Sets the addresses of the sender.
    #[inline]
    pub fn set_sender(&mut self, ether: EtherAddr, ip: Ipv4Addr) {
        put(self.0.as_mut(), 8, ether.0);
        put(self.0.as_mut(), 14, ip.octets());
    }

    /// Sets the addresses of the target.
    #[inline]
    pub fn set_target(&mut self, ether: EtherAddr, ip: Ipv4Addr) {
        put(self.0.as_mut(), 18, ether.0);
        put(self.0.as_mut(), 24, ip.octets());
    }

    /// Turns a request into the reply that `ether` has the requested address (RFC 826, packet reception).
    #[inline]
    pub fn answer(&mut self, ether: EtherAddr) {
        let (asker, asker_ip, ip) = (self.sender_ether(), self.sender_ip(), self.target_ip());
        self.set_op(REPLY);
        self.set_sender(ether, ip);
        self.set_target(asker, asker_ip);
    }
}

/// The 28 bytes of a packet.
pub fn packet(op: u16, sender: (EtherAddr, Ipv4Addr), target: (EtherAddr, Ipv4Addr)) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    put(&mut bytes, 0, PREAMBLE);
    let mut arp = Arp::new_unchecked(&mut bytes);
    arp.set_op(op);
    arp.set_sender(sender.0, sender.1);
    arp.set_target(target.0, target.1);
    bytes
}

/// A packet in its Ethernet frame, from the sender to the station `dst`.
pub fn frame(
    dst: EtherAddr,
    op: u16,
    sender: (EtherAddr, Ipv4Addr),
    target: (EtherAddr, Ipv4Addr),
) -> [u8; FRAME_LEN] {
    let mut bytes = [0; FRAME_LEN];
    put(&mut bytes, 0, ether::header(dst, sender.0, ether::ARP));
    put(&mut bytes, ether::LEN, packet(op, sender, target));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;

    const REQUEST_BYTES: [u8; 28] = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    const A: (EtherAddr, Ipv4Addr) = (EtherAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));
    const B: (EtherAddr, Ipv4Addr) = (EtherAddr([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn deconstructs() {
        let a = Arp::new_checked(&REQUEST_BYTES).unwrap();
        assert_eq!(a.op(), REQUEST);
        assert_eq!((a.sender_ether(), a.sender_ip()), A);
        assert_eq!((a.target_ether(), a.target_ip()), (EtherAddr::ZERO, B.1));
    }

    #[test]
    fn constructs() {
        let target = (EtherAddr::ZERO, B.1);
        assert_eq!(packet(REQUEST, A, target), REQUEST_BYTES);
        let header: [u8; 14] = [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6];
        let framed = frame(EtherAddr::BROADCAST, REQUEST, A, target);
        assert_eq!(framed[..], [&header[..], &REQUEST_BYTES].concat());
    }

    #[test]
    fn a_request_becomes_its_reply() {
        let mut bytes = REQUEST_BYTES;
        Arp::new_checked(&mut bytes).unwrap().answer(B.0);
        assert_eq!(bytes, packet(REPLY, B, A));
    }

    #[test]
    fn short_packets_and_other_types_are_refused() {
        for len in 0..28 {
            assert_eq!(
                Arp::new_checked(&REQUEST_BYTES[..len]).err(),
                Some(BadHeader::TooShort)
            );
        }
        for at in 0..6 {
            let mut bytes = REQUEST_BYTES;
            bytes[at] ^= 0x11;
            assert_eq!(Arp::new_checked(&bytes).err(), Some(BadHeader::BadField));
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&REQUEST_BYTES, |bytes| {
            if let Ok(a) = Arp::new_checked(bytes) {
                let _ = (
                    a.op(),
                    a.sender_ether(),
                    a.sender_ip(),
                    a.target_ether(),
                    a.target_ip(),
                );
            }
        });
    }
}
