//! ICMP for IPv4 (RFC 792, RFC 1191, RFC 1812).

use core::net::Ipv4Addr;

use crate::bytes::put16;
use crate::checksum;

/// Length of the header: type, code, checksum, and four bytes whose meaning depends on the type.
pub const LEN: usize = 8;

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: source quench (obsolete, RFC 6633).
pub const SOURCE_QUENCH: u8 = 4;
/// Type: redirect.
pub const REDIRECT: u8 = 5;
/// Type: echo request.
pub const ECHO: u8 = 8;
/// Type: router advertisement (RFC 1256).
pub const ROUTER_ADVERT: u8 = 9;
/// Type: router solicitation (RFC 1256).
pub const ROUTER_SOLICIT: u8 = 10;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;
/// Type: timestamp.
pub const TIMESTAMP: u8 = 13;
/// Timestamp reply.
pub const TIMESTAMP_REPLY: u8 = 14;
/// Information request.
pub const INFORMATION: u8 = 15;
/// Information reply.
pub const INFORMATION_REPLY: u8 = 16;

/// Codes of [`UNREACHABLE`] (RFC 792; RFC 1812, 5.2.7.1).
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// The host does not answer (ARP failed).
    pub const HOST: u8 = 1;
    /// The protocol is not supported.
    pub const PROTOCOL: u8 = 2;
    /// No socket listens at the port.
    pub const PORT: u8 = 3;
    /// Fragmentation needed, but forbidden.
    pub const FRAG_NEEDED: u8 = 4;
    /// Source route failed.
    pub const SOURCE_ROUTE: u8 = 5;
    /// Destination network unknown.
    pub const NET_UNKNOWN: u8 = 6;
    /// Destination host unknown.
    pub const HOST_UNKNOWN: u8 = 7;
    /// Network administratively prohibited.
    pub const NET_PROHIBITED: u8 = 9;
    /// Host administratively prohibited.
    pub const HOST_PROHIBITED: u8 = 10;
    /// Communication administratively prohibited.
    pub const PROHIBITED: u8 = 13;
}

/// Codes of [`REDIRECT`].
pub mod redirect {
    /// Redirect for the network.
    pub const NET: u8 = 0;
    /// Redirect for the host.
    pub const HOST: u8 = 1;
}

/// Codes of [`TIME_EXCEEDED`].
pub mod time_exceeded {
    /// The time to live expired in transit.
    pub const TRANSIT: u8 = 0;
    /// Reassembly took too long.
    pub const REASSEMBLY: u8 = 1;
}

/// True if a message of this type reports an error; no error is sent about such messages (RFC 1812, 4.3.2.7).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    matches!(
        kind,
        UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM
    )
}

/// An ICMP message.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<B>(B);

fields! { Icmp, LEN bytes:
    /// Type of the message.
    kind, set_kind: u8 at 0;
    /// Code, whose meaning depends on the type.
    code, set_code: u8 at 1;
    /// The checksum field.
    checksum, set_checksum: u16 at 2;
    /// The last four bytes of the header.
    rest, set_rest: u32 at 4;
    /// Echo: identifier.
    ident: u16 at 4;
    /// Echo: sequence number.
    seq: u16 at 6;
    /// Fragmentation needed: the next hop's MTU (RFC 1191); 0 from old routers.
    mtu: u16 at 6;
    /// Parameter problem: offset of the offending byte.
    pointer: u8 at 4;
    /// Redirect: the better router.
    gateway, set_gateway: Ipv4Addr at 4;
}

impl<B: AsRef<[u8]>> Icmp<B> {
    /// True if the checksum is right; the buffer must end with the message.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.0.as_ref())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Icmp<B> {
    /// Sets identifier and sequence number.
    #[inline]
    pub fn set_echo(&mut self, ident: u16, seq: u16) {
        put16(self.0.as_mut(), 4, ident);
        put16(self.0.as_mut(), 6, seq);
    }

    /// Sets the next hop's MTU; the two bytes before it become zero.
    #[inline]
    pub fn set_mtu(&mut self, mtu: u16) {
        self.set_rest(u32::from(mtu));
    }

    /// Computes the checksum; the buffer must end with the message.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::checksum(self.0.as_ref());
        self.set_checksum(check);
    }

    /// Turns an echo request into its reply, checksum included.
    #[inline]
    pub fn answer_echo(&mut self) {
        let old = u16::from_be_bytes([self.kind(), self.code()]);
        let new = u16::from_be_bytes([ECHO_REPLY, 0]);
        self.set_kind(ECHO_REPLY);
        self.set_code(0);
        let check = checksum::update16(self.checksum(), old, new);
        self.set_checksum(checksum::updated_icmp(check, self.0.as_ref()));
    }

    /// Bytes after the header, mutable.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0.as_mut()[LEN..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BadHeader;
    use crate::testing::hammer;

    const ECHO_BYTES: [u8; 12] = [8, 0, 0x06, 0xf4, 0x12, 0x34, 0, 7, b'p', b'i', b'n', b'g'];

    #[test]
    fn deconstructs() {
        let m = Icmp::new_checked(&ECHO_BYTES).unwrap();
        assert_eq!(
            (m.kind(), m.code(), m.ident(), m.seq()),
            (ECHO, 0, 0x1234, 7)
        );
        assert_eq!((m.rest(), m.mtu(), m.pointer()), (0x1234_0007, 7, 0x12));
        assert_eq!(m.gateway(), Ipv4Addr::new(0x12, 0x34, 0, 7));
        assert_eq!(m.payload(), b"ping");
        assert!(m.verify_checksum());
    }

    #[test]
    fn constructs() {
        let mut bytes = [0xee; 12];
        let mut m = Icmp::new_checked(&mut bytes).unwrap();
        m.set_kind(ECHO);
        m.set_code(0);
        m.set_echo(0x1234, 7);
        m.payload_mut().copy_from_slice(b"ping");
        m.fill_checksum();
        assert_eq!(bytes, ECHO_BYTES);
    }

    #[test]
    fn the_rest_of_the_header_takes_each_form() {
        let mut bytes = [0xee; 8];
        let mut m = Icmp::new_unchecked(&mut bytes);
        m.set_mtu(1400);
        assert_eq!((m.mtu(), m.rest()), (1400, 1400));
        m.set_rest(21 << 24);
        assert_eq!((m.pointer(), m.rest()), (21, 21 << 24));
        m.set_gateway(Ipv4Addr::new(10, 0, 0, 9));
        assert_eq!(m.gateway(), Ipv4Addr::new(10, 0, 0, 9));
    }

    #[test]
    fn the_reply_to_an_echo_request_of_zeros_is_right() {
        let mut bytes = [0; 12];
        let mut m = Icmp::new_unchecked(&mut bytes);
        m.set_kind(ECHO);
        m.fill_checksum();
        m.answer_echo();
        assert!(m.verify_checksum());
        assert_eq!(m.checksum(), 0xffff);
    }

    #[test]
    fn an_echo_reply_has_the_checksum_that_recomputation_gives() {
        for seq in 0..=u16::MAX {
            let mut bytes = ECHO_BYTES;
            let mut m = Icmp::new_unchecked(&mut bytes);
            m.set_echo(0x1234, seq);
            m.fill_checksum();
            m.set_code((seq >> 4) as u8);
            m.fill_checksum();
            m.answer_echo();
            assert!((m.kind(), m.code()) == (ECHO_REPLY, 0) && m.verify_checksum());
        }
    }

    #[test]
    fn errors_are_told_from_questions() {
        let errors: std::vec::Vec<u8> = (0..=255).filter(|&k| is_error(k)).collect();
        assert_eq!(errors, [3, 4, 5, 11, 12]);
    }

    #[test]
    fn a_message_below_eight_bytes_is_too_short() {
        for len in 0..8 {
            assert_eq!(
                Icmp::new_checked(&ECHO_BYTES[..len]).err(),
                Some(BadHeader::TooShort)
            );
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&ECHO_BYTES, |bytes| {
            if let Ok(m) = Icmp::new_checked(bytes) {
                let _ = (
                    m.kind(),
                    m.rest(),
                    m.gateway(),
                    m.payload(),
                    m.verify_checksum(),
                );
                Icmp::new_unchecked(bytes.to_vec()).answer_echo();
            }
        });
    }
}
