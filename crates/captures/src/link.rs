//! Encapsulations of capture files: names, numbers, and the offset of the IP packet.

use packet::Packet;

/// Link type of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap(u16);

/// Names with the numbers in files; the first number of a name is the one that is written.
const NAMES: &[(&str, u16)] = &[
    ("ETHER", 1),
    ("IP", 101),
    ("IP", 12),
    ("IP", 14),
    ("FDDI", 10),
    ("ATM", 100),
    ("ATM", 11),
    ("802_11", 105),
    ("802.11", 105),
    ("SLL", 113),
    ("AIRONET", 120),
    ("HDLC", 104),
    ("PPP_HDLC", 50),
    ("PPP", 9),
    ("SUNATM", 123),
    ("PRISM", 119),
    ("NULL", 0),
    ("802_11_RADIO", 127),
];

impl Encap {
    /// Ethernet.
    pub const ETHER: Encap = Encap(1);

    /// The encapsulation of a link type in a file.
    pub fn of(link: u16) -> Encap {
        Encap(link)
    }

    /// Link type of a name.
    pub fn find(name: &str) -> Option<Encap> {
        let row = NAMES.iter().find(|row| row.0 == name)?;
        Some(Encap(row.1))
    }

    /// The number that a file has.
    pub fn number(self) -> u16 {
        self.0
    }

    /// Name of the link type, or its number if it has no name.
    pub fn name(self) -> String {
        let row = NAMES.iter().find(|row| row.1 == self.0);
        row.map_or_else(|| format!("#{}", self.0), |row| row.0.to_owned())
    }

    /// True if frames of this type can hold IP packets that are found.
    pub fn is_known(self) -> bool {
        let name = self.name();
        name != "AIRONET" && !name.starts_with('#')
    }

    /// Offset of the IPv4 or IPv6 packet in a frame, in bytes; `None` if the frame holds none.
    pub fn ip_at(self, frame: &[u8]) -> Option<usize> {
        let short = |at: usize| {
            let bytes = frame.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let behind_type = |at: usize| matches!(short(at)?, IPV4 | IPV6).then_some(at + 2);
        let behind_ppp = |at: usize| matches!(short(at)?, PPP_IP | PPP_IP6).then_some(at + 2);
        let at = match self.name().as_str() {
            "ETHER" => match short(12)? {
                VLAN | SERVICE_VLAN => behind_type(16)?,
                _ => behind_type(12)?,
            },
            "IP" => 0,
            "NULL" => {
                // The family of addresses is in the byte order of the machine that captured.
                let family = frame.first()? | frame.get(3)?;
                (family == FAMILY_4 || FAMILIES_6.contains(&family)).then_some(4)?
            }
            "SLL" => behind_type(14)?,
            "HDLC" => behind_type(2)?,
            "PPP_HDLC" if frame.first() == Some(&PPP_ADDRESS) => behind_ppp(2)?,
            "PPP_HDLC" => behind_type(2)?,
            "PPP" => behind_ppp(0).or_else(|| behind_ppp(2))?,
            "FDDI" => behind_type(19)?,
            "ATM" => behind_type(6)?,
            "SUNATM" => behind_type(10)?,
            _ => return None,
        };
        let ip = &frame[at..];
        let least = if ip.first()? >> 4 == 4 { 20 } else { 40 };
        let sound = header_len(ip)? >= least && ip.len() >= header_len(ip)?;
        sound.then_some(at)
    }
}

/// Length that the header of an IPv4 or IPv6 packet has by its first byte.
fn header_len(ip: &[u8]) -> Option<usize> {
    let first = ip.first()?;
    match first >> 4 {
        4 => Some(usize::from(first & 15) * 4),
        6 => Some(40),
        _ => None,
    }
}

/// Marks the IP header that was found at `at`. A destination that is IPv4 is noted.
#[inline]
pub fn mark_ip(packet: &mut Packet, at: usize) {
    packet.set_network_offset(at);
    let header = packet.network();
    let len = header_len(header).unwrap_or(0);
    let dst = (header[0] >> 4 == 4).then(|| [header[16], header[17], header[18], header[19]]);
    packet.set_transport_offset(at + len);
    if let Some(dst) = dst {
        packet.anno_mut().set_dst4(dst);
    }
}

const IPV4: u16 = 0x0800;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const IPV6: u16 = 0x86dd;
const PPP_IP: u16 = 0x0021;
const PPP_IP6: u16 = 0x0057;
const PPP_ADDRESS: u8 = 0xff;
const FAMILY_4: u8 = 2;
/// AF_INET6 of NetBSD, FreeBSD and macOS.
const FAMILIES_6: [u8; 3] = [24, 28, 30];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_is_found_behind_every_header_that_is_known() {
        let ip = [&[0x45][..], &[0; 19]].concat();
        let at = |encap: &str, head: &[u8]| Encap::find(encap)?.ip_at(&[head, &ip].concat());
        let mut ether = vec![0; 12];
        ether.extend([8, 0]);
        assert_eq!(at("ETHER", &ether), Some(14));
        ether.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(at("ETHER", &ether), Some(18));
        assert_eq!(at("ETHER", &[0; 14]), None);
        assert_eq!(at("IP", &[]), Some(0));
        assert_eq!(at("NULL", &[2, 0, 0, 0]), Some(4));
        assert_eq!(at("PPP", &[0xff, 3, 0, 0x21]), Some(4));
        assert_eq!(at("SLL", &[[0; 14].as_slice(), &[8, 0]].concat()), Some(16));
        assert_eq!(at("PPP_HDLC", &[0xff, 3, 0, 0x57]), Some(4));
        assert_eq!(at("PPP_HDLC", &[0x0f, 0, 8, 0]), Some(4));
        assert_eq!(at("PPP_HDLC", &[0x0f, 0, 0, 0x21]), None);
        assert_eq!(at("NULL", &[0, 0, 0, 30]), Some(4));
        assert_eq!(at("NULL", &[0, 0, 0, 7]), None);
        assert_eq!(Encap::of(101).ip_at(&ip[..19]), None);
        let ip6 = [&[0x65][..], &[0; 39]].concat();
        assert_eq!(Encap::of(101).ip_at(&ip6), Some(0));
        assert_eq!(Encap::of(101).ip_at(&ip6[..39]), None);
        assert_eq!(Encap::of(12).name(), "IP");
        assert_eq!(Encap::of(999).name(), "#999");
        assert!(Encap::of(12).is_known() && Encap::of(100).is_known());
        assert!(!Encap::of(120).is_known() && !Encap::of(999).is_known());
    }
}
