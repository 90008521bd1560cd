//! Bytes of a packet's annotations as arguments, by name or by the number of the first.

use arguments::Names;
use arguments::units::FromArg;
use engine::packet::Packet;

/// `N` bytes among the 48 of Click's annotations, from this one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno<const N: usize>(u8);

const BYTES: usize = 48;
/// The destination annotation comes first.
const DST: usize = 16;
const PAINT: usize = 16;
const FIX_IP_SRC: usize = 19;

/// Name, first byte and number of bytes.
const NAMES: &[(&str, u8, usize)] = &[
    ("DST_IP", 0, 4),
    ("DST_IP6", 0, 16),
    ("PAINT", PAINT as u8, 1),
    ("ICMP_PARAMPROB", 17, 1),
    ("FIX_IP_SRC", FIX_IP_SRC as u8, 1),
    ("VLAN_TCI", 20, 2),
    ("AGGREGATE", 20, 4),
    ("MISC_IP", 20, 4),
    ("EXTRA_PACKETS", 24, 4),
    ("EXTRA_LENGTH", 28, 4),
    ("IPREASSEMBLER", 28, 4),
    ("FIRST_TIMESTAMP", 32, 8),
    ("FWD_RATE", 20, 4),
    ("REV_RATE", 24, 4),
    ("DEADLINE", 40, 8),
    ("PACKET_NUMBER", 32, 4),
    ("IPSEC_SPI", 32, 4),
    ("SEQUENCE_NUMBER", 36, 4),
];

impl<const N: usize> FromArg for Anno<N> {
    const KIND: &'static str =
        "an annotation: a name such as PAINT, or the number of its first byte";

    fn from_arg(raw: &str, names: &Names) -> Result<Anno<N>, String> {
        let named = NAMES.iter().find(|n| n.0 == raw && n.2 == N).map(|n| n.1);
        let place = named.or_else(|| u8::from_arg(raw, names).ok());
        match place.filter(|&at| usize::from(at) + N <= BYTES) {
            Some(at) => Ok(Anno(at)),
            None => Err(format!(
                "must be {}, {N} bytes before the end at {BYTES}, not `{raw}`",
                Self::KIND
            )),
        }
    }

    fn stand_in() -> Anno<N> {
        Anno(0)
    }

    fn unparse(&self) -> String {
        let named = NAMES.iter().find(|n| n.1 == self.0 && n.2 == N);
        named.map_or_else(|| self.0.to_string(), |n| n.0.to_owned())
    }
}

impl Anno<1> {
    /// The paint.
    pub(crate) const PAINT: Anno<1> = Anno(PAINT as u8);
}

impl Anno<1> {
    /// The byte.
    #[inline]
    pub(crate) fn byte(self, packet: &Packet) -> u8 {
        match usize::from(self.0) {
            PAINT => packet.anno().paint, // nearly always
            _ => self.get(packet)[0],
        }
    }

    /// Sets the annotation.
    #[inline]
    pub(crate) fn set_byte(self, packet: &mut Packet, byte: u8) {
        match usize::from(self.0) {
            PAINT => packet.anno_mut().paint = byte,
            _ => self.set(packet, [byte]),
        }
    }
}

impl Anno<4> {
    /// The destination annotation of IPv4.
    pub(crate) const DST_IP: Anno<4> = Anno(0);
    /// The number of a packet in its stream.
    pub const PACKET_NUMBER: Anno<4> = Anno(32);
}

impl Anno<48> {
    /// All 48 bytes of user annotations.
    pub const ALL: Anno<48> = Anno(0);
}

impl<const N: usize> Anno<N> {
    /// The bytes.
    pub fn get(self, packet: &Packet) -> [u8; N] {
        let byte = |at: usize| match at {
            0..DST => packet.anno().dst6()[at],
            PAINT => packet.anno().paint,
            // The flag counts: elements that fill the address in clear it and leave the byte.
            FIX_IP_SRC if !packet.anno().fix_ip_src() => 0,
            FIX_IP_SRC => packet.cold().user[at].max(1),
            // The VLAN's tag has a separate place; in Click it is the first half of AGGREGATE.
            20 | 21 if packet.cold().aggregate() == 0 => packet.vlan_tci().to_be_bytes()[at - 20],
            _ => packet.cold().user[at],
        };
        std::array::from_fn(|i| byte(usize::from(self.0) + i))
    }

    /// Sets the annotation's bytes.
    pub(crate) fn set(self, packet: &mut Packet, bytes: [u8; N]) {
        for (at, byte) in (usize::from(self.0)..).zip(bytes) {
            match at {
                0..DST => {
                    let mut dst = packet.anno().dst6();
                    dst[at] = byte;
                    packet.anno_mut().set_dst6(dst);
                }
                PAINT => packet.anno_mut().paint = byte,
                FIX_IP_SRC => {
                    packet.cold_mut().user[at] = byte;
                    packet.anno_mut().set_fix_ip_src(byte != 0);
                }
                _ => packet.cold_mut().user[at] = byte,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arguments::units::parse;

    #[test]
    fn annotations_have_names_and_numbers() {
        assert_eq!(parse("PAINT"), Ok(Anno::<1>(16)));
        assert_eq!(parse("AGGREGATE"), Ok(Anno::<4>(20)));
        assert_eq!(parse("46"), Ok(Anno::<2>(46)));
        assert!(parse::<Anno<2>>("47").is_err());
        assert!(parse::<Anno<2>>("PAINT").is_err() && parse::<Anno<1>>("colour").is_err());
        assert_eq!(Anno::<4>(0).unparse(), "DST_IP");
        assert_eq!(Anno::<4>(1).unparse(), "1");
    }

    #[test]
    fn annotations_are_at_their_offsets_in_packets() {
        let mut packet = Packet::from_bytes(b"x").expect("it fits");
        Anno::DST_IP.set(&mut packet, [1, 2, 3, 4]);
        Anno::<4>(14).set(&mut packet, [5, 6, 7, 8]);
        assert_eq!(packet.anno().dst4(), [1, 2, 3, 4]);
        assert_eq!((packet.anno().paint, packet.cold().user[17]), (7, 8));
        assert_eq!(Anno::<4>(14).get(&packet), [5, 6, 7, 8]);
        packet.cold_mut().set_aggregate(0x0102_0304);
        Anno::<1>(FIX_IP_SRC as u8).set(&mut packet, [9]);
        assert!(packet.anno().fix_ip_src());
        assert_eq!(Anno::ALL.get(&packet)[14..20], [5, 6, 7, 8, 0, 9]);
        packet.anno_mut().set_fix_ip_src(false);
        assert_eq!(Anno::ALL.get(&packet)[FIX_IP_SRC], 0);
        let aggregate = Anno::<4>(20).get(&packet);
        assert_eq!(u32::from_ne_bytes(aggregate), 0x0102_0304);
    }
}
