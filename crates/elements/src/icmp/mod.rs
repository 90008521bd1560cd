mod check_icmp_header;
mod encap;
mod icmp_error;
mod icmp_ip_encap;
mod icmp_ping_encap;
mod icmp_ping_responder;
mod icmp_ping_source;
pub(crate) mod names;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<check_icmp_header::CheckICMPHeader>(),
    Class::of::<icmp_error::ICMPError>(),
    Class::of::<icmp_ip_encap::ICMPIPEncap>(),
    Class::of::<icmp_ping_encap::ICMPPingEncap>(),
    Class::of::<icmp_ping_responder::ICMPPingResponder>(),
    Class::of::<icmp_ping_source::ICMPPingSource>(),
];
