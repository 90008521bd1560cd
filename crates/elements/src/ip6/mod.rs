mod addresses;
mod check_icmp6_header;
mod check_ip6_extensions;
pub mod check_ip6_forward;
pub(crate) mod check_ip6_header;
pub mod dec_ip6_hlim;
mod fault;
mod fix_ip6_src;
mod fragments;
mod get_ip6_address;
mod header_chain;
mod icmp6_error;
mod icmp6_ping_responder;
mod icmp6_redirect;
mod icmp6_types;
mod ip6_fragmenter;
pub(crate) mod ip6_hop_by_hop;
pub(crate) mod ip6_local;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
mod ip6_protocol_switch;
mod ip6_reassembler;
mod ip6_router_advertiser;
mod mark_ip6_header;
mod nd;
mod set_ip6_address;
#[cfg(test)]
pub(crate) mod testing;

use engine::element::Class;
use engine::packet::Packet;
pub use ip6_nd_solicitor::face;

/// The network (/64) of a packet's source: a host has all its addresses.
fn network(packet: &Packet) -> u64 {
    let source = packet
        .network()
        .get(8..)
        .and_then(|rest| rest.first_chunk());
    source.map_or(0, |half| u64::from_be_bytes(*half))
}

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<check_icmp6_header::CheckICMP6Header>(),
    Class::of::<check_ip6_extensions::CheckIP6Extensions>(),
    Class::of::<check_ip6_forward::CheckIP6Forward>(),
    Class::of::<check_ip6_header::CheckIP6Header>(),
    Class::of::<dec_ip6_hlim::DecIP6HLIM>(),
    Class::of::<fix_ip6_src::FixIP6Src>(),
    Class::of::<get_ip6_address::GetIP6Address>(),
    Class::of::<icmp6_error::ICMP6Error>(),
    Class::of::<icmp6_ping_responder::ICMP6PingResponder>(),
    Class::of::<icmp6_redirect::ICMP6Redirect>(),
    Class::of::<ip6_fragmenter::IP6Fragmenter>(),
    Class::of::<ip6_hop_by_hop::IP6HopByHop>(),
    Class::of::<ip6_local::IP6Local>(),
    Class::of::<ip6_nd_advertiser::IP6NDAdvertiser>(),
    Class::of::<ip6_nd_solicitor::IP6NDSolicitor>(),
    Class::of::<ip6_protocol_switch::IP6ProtocolSwitch>(),
    Class::of::<ip6_reassembler::IP6Reassembler>(),
    Class::of::<ip6_router_advertiser::IP6RouterAdvertiser>(),
    Class::of::<mark_ip6_header::MarkIP6Header>(),
    Class::of::<set_ip6_address::SetIP6Address>(),
];
