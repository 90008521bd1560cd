//! ICMP for IPv6 (RFC 4443). Neighbour discovery is in [`crate::nd`].

use crate::checksum;

/// Length of the header: type, code, checksum, and four bytes whose meaning depends on the type.
pub const LEN: usize = 8;

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type: packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: time exceeded; code 0 in transit, 1 at reassembly.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: echo request.
pub const ECHO: u8 = 128;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type: redirect (RFC 4861, 4.5).
pub const REDIRECT: u8 = 137;

/// Codes of [`UNREACHABLE`].
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const SCOPE: u8 = 2;
    /// The address does not answer (neighbour discovery failed).
    pub const ADDRESS: u8 = 3;
    /// No socket listens at the port.
    pub const PORT: u8 = 4;
}

/// Codes of [`PARAMETER_PROBLEM`].
pub mod parameter_problem {
    /// Erroneous header field.
    pub const FIELD: u8 = 0;
    /// Unrecognised next header.
    pub const NEXT_HEADER: u8 = 1;
    /// Unrecognised option.
    pub const OPTION: u8 = 2;
    /// The first fragment lacks part of the header chain (RFC 7112).
    pub const CHAIN: u8 = 3;
}

/// True if a message of this type reports an error; no error is sent about such messages (RFC 4443, 2.4 e).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// An ICMPv6 message.
#[derive(Clone, Copy, Debug)]
pub struct Icmp6<B>(B);

fields! { Icmp6, LEN bytes:
    /// Type of the message.
    kind, set_kind: u8 at 0;
    /// Code, whose meaning depends on the type.
    code, set_code: u8 at 1;
    /// The checksum field.
    checksum, set_checksum: u16 at 2;
    /// The last four bytes of the header: the MTU of Packet Too Big, the pointer of Parameter Problem.
    rest, set_rest: u32 at 4;
    /// Echo: identifier.
    ident: u16 at 4;
    /// Echo: sequence number.
    seq: u16 at 6;
}

impl<B: AsRef<[u8]>> Icmp6<B> {
    /// True if the checksum is right; the buffer must end with the message.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u64) -> bool {
        checksum::is_valid(pseudo + checksum::sum(self.0.as_ref()))
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Icmp6<B> {
    /// Sets identifier and sequence number.
    #[inline]
    pub fn set_echo(&mut self, ident: u16, seq: u16) {
        self.set_rest(u32::from(ident) << 16 | u32::from(seq));
    }

    /// Computes the checksum; the buffer must end with the message.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: u64) {
        self.set_checksum(0);
        let check = checksum::finish(pseudo + checksum::sum(self.0.as_ref()));
        self.set_checksum(check);
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

    const ECHO_BYTES: [u8; 12] = [128, 0, 0x91, 0xa8, 0x12, 0x34, 0, 7, b'p', b'i', b'n', b'g'];

    /// fe80::1 to fe80::2, twelve bytes.
    fn pseudo() -> u64 {
        checksum::pseudo6(
            "fe80::1".parse().unwrap(),
            "fe80::2".parse().unwrap(),
            58,
            12,
        )
    }

    #[test]
    fn deconstructs() {
        let m = Icmp6::new_checked(&ECHO_BYTES).unwrap();
        assert_eq!(
            (m.kind(), m.code(), m.ident(), m.seq()),
            (ECHO, 0, 0x1234, 7)
        );
        assert_eq!((m.rest(), m.payload()), (0x1234_0007, &b"ping"[..]));
        assert!(m.verify_checksum(pseudo()));
        assert!(!m.verify_checksum(pseudo() + 1));
    }

    #[test]
    fn constructs() {
        let mut bytes = [0xee; 12];
        let mut m = Icmp6::new_checked(&mut bytes).unwrap();
        m.set_kind(ECHO);
        m.set_code(0);
        m.set_echo(0x1234, 7);
        m.payload_mut().copy_from_slice(b"ping");
        m.fill_checksum(pseudo());
        assert_eq!(bytes, ECHO_BYTES);
    }

    #[test]
    fn errors_have_the_high_bit_clear() {
        assert!(is_error(UNREACHABLE) && is_error(PARAMETER_PROBLEM) && is_error(127));
        assert!(!is_error(ECHO) && !is_error(REDIRECT));
    }

    #[test]
    fn a_message_below_eight_bytes_is_too_short() {
        for len in 0..8 {
            assert_eq!(
                Icmp6::new_checked(&ECHO_BYTES[..len]).err(),
                Some(BadHeader::TooShort)
            );
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&ECHO_BYTES, |bytes| {
            if let Ok(m) = Icmp6::new_checked(bytes) {
                let _ = (m.kind(), m.rest(), m.payload(), m.verify_checksum(1));
                Icmp6::new_unchecked(bytes.to_vec()).fill_checksum(1);
            }
        });
    }
}
