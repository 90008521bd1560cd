mod addresses;
pub mod check_ip_header;
pub(crate) mod check_ip_header2;
mod check_tcp_header;
mod check_udp_header;
pub(crate) mod check_upper;
pub mod dec_ip_ttl;
pub(crate) mod drop_directed_broadcasts;
mod ecn;
pub(crate) mod encap;
pub(crate) mod faults;
pub(crate) mod fix_ip_src;
mod get_ip_address;
mod gre;
mod gre_decap;
mod gre_encap;
mod ip_encap;
mod ip_fragmenter;
pub(crate) mod ip_gw_options;
mod ip_input_combo;
mod ip_mirror;
mod ip_output_combo;
mod ip_reassembler;
mod ip_source_route;
mod mark_ip_ce;
mod mark_ip_header;
mod options;
mod pending;
mod set_ip_address;
mod set_ip_checksum;
mod set_ip_dscp;
mod set_ip_ecn;
mod set_tcp_checksum;
mod set_tcp_mss;
mod set_udp_checksum;
mod store_ip_address;
mod strip_ip_header;
mod udp_ip_encap;
mod unstrip_ip_header;

use check_upper::Checker;
use engine::element::Class;
use engine::packet::Packet;
use std::net::Ipv4Addr;
use wire::{Ipv4, ipv4};

pub(crate) use addresses::{Addresses, Interfaces};
pub(crate) use options::{Reversed, SOURCE_ROUTED, day_ms, record};

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<check_ip_header2::CheckIPHeader2>(),
    Class::of::<check_ip_header::CheckIPHeader>(),
    Class::of::<Checker<check_tcp_header::CheckTCPHeader>>(),
    Class::of::<Checker<check_udp_header::CheckUDPHeader>>(),
    Class::of::<dec_ip_ttl::DecIPTTL>(),
    Class::of::<drop_directed_broadcasts::DropDirectedBroadcasts>(),
    Class::of::<fix_ip_src::FixIPSrc>(),
    Class::of::<get_ip_address::GetIPAddress>(),
    Class::of::<gre_decap::GreDecap>(),
    Class::of::<gre_encap::GreEncap>(),
    Class::of::<ip_encap::IPEncap>(),
    Class::of::<ip_fragmenter::IPFragmenter>(),
    Class::of::<ip_gw_options::IPGWOptions>(),
    Class::of::<ip_input_combo::IPInputCombo>(),
    Class::of::<ip_mirror::IPMirror>(),
    Class::of::<ip_output_combo::IPOutputCombo>(),
    Class::of::<ip_reassembler::IPReassembler>(),
    Class::of::<ip_source_route::IPSourceRoute>(),
    Class::of::<mark_ip_ce::MarkIPCE>(),
    Class::of::<mark_ip_header::MarkIPHeader>(),
    Class::of::<set_ip_address::SetIPAddress>(),
    Class::of::<set_ip_checksum::SetIPChecksum>(),
    Class::of::<set_ip_dscp::SetIPDSCP>(),
    Class::of::<set_ip_ecn::SetIPECN>(),
    Class::of::<set_tcp_checksum::SetTCPChecksum>(),
    Class::of::<set_tcp_mss::SetTCPMSS>(),
    Class::of::<set_udp_checksum::SetUDPChecksum>(),
    Class::of::<store_ip_address::StoreIPAddress>(),
    Class::of::<strip_ip_header::StripIPHeader>(),
    Class::of::<udp_ip_encap::UDPIPEncap>(),
    Class::of::<unstrip_ip_header::UnstripIPHeader>(),
];

/// Offset in the user annotations of the byte to which a Parameter Problem message points (Click's ICMP_PARAMPROB).
pub(crate) const PARAMETER: usize = 17;

/// The marked IPv4 header, if it is complete.
///
/// The planner ensures that the header was checked. Elements in between may have changed the data (such as `Strip`), so
/// the bounds are checked again.
#[inline]
pub(crate) fn header(packet: &Packet) -> Option<Ipv4<&[u8]>> {
    let bytes = packet.network();
    holds_header(bytes).then(|| Ipv4::new_unchecked(bytes))
}

/// Mutable form of [`header`].
#[inline]
pub(crate) fn header_mut(packet: &mut Packet) -> Option<Ipv4<&mut [u8]>> {
    let bytes = packet.network_mut();
    holds_header(bytes).then(|| Ipv4::new_unchecked(bytes))
}

/// The marked IPv4 header like [`header`], if it has no options.
#[inline]
pub(crate) fn plain(packet: &Packet) -> Option<Ipv4<&[u8; ipv4::MIN_LEN]>> {
    let head = packet.network_head()?;
    (head[0] == PLAIN).then(|| Ipv4::new_unchecked(head))
}

/// Mutable form of [`plain`].
#[inline]
pub(crate) fn plain_mut(packet: &mut Packet) -> Option<Ipv4<&mut [u8; ipv4::MIN_LEN]>> {
    let head = packet.network_head_mut()?;
    (head[0] == PLAIN).then(|| Ipv4::new_unchecked(head))
}

/// First byte of a header without options.
const PLAIN: u8 = 0x45;

#[inline]
fn holds_header(bytes: &[u8]) -> bool {
    bytes.len() >= ipv4::MIN_LEN
        && match usize::from(bytes[0] & 0xf) * 4 {
            ipv4::MIN_LEN => true, // nearly always
            len => (ipv4::MIN_LEN..=bytes.len()).contains(&len),
        }
}

/// Payload of a marked, unfragmented packet: its offset from the network header, its length, and the addresses of the
/// pseudo-header.
#[inline]
fn upper(packet: &Packet) -> Option<(usize, usize, Ipv4Addr, Ipv4Addr)> {
    let ip = header(packet)?;
    let len = datagram(packet).len().checked_sub(ip.header_len())?;
    (!ip.is_fragment()).then(|| (ip.header_len(), len, ip.src(), ip.final_dst()))
}

/// The marked datagram without trailing bytes; empty if there is none.
#[inline]
pub fn datagram(packet: &Packet) -> &[u8] {
    let bytes = packet.network();
    match header(packet) {
        Some(ip) => &bytes[..ip.total_len().clamp(ip.header_len(), bytes.len())],
        None => &[],
    }
}

/// Bytes after the IP header, and their number according to the header.
#[inline]
fn segment<'p>(packet: &'p Packet, ip: &Ipv4<&[u8]>) -> (&'p [u8], usize) {
    let bytes = datagram(packet).get(ip.header_len()..).unwrap_or(&[]);
    (bytes, ip.total_len().saturating_sub(ip.header_len()))
}

#[cfg(test)]
pub(crate) mod tests;
