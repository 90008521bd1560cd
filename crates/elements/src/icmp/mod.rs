mod check_icmp_header;
mod encap;
mod icmp_error;
mod icmp_ip_encap;
mod icmp_ping_encap;
mod icmp_ping_responder;
mod icmp_ping_source;
mod rtt;

use crate::ip4::check_upper::Checker;
use encap::Encap;
use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<Checker<check_icmp_header::CheckICMPHeader>>(),
    Class::of::<icmp_error::ICMPError>(),
    Class::of::<Encap<icmp_ip_encap::ICMPIPEncap>>(),
    Class::of::<Encap<icmp_ping_encap::ICMPPingEncap>>(),
    Class::of::<icmp_ping_responder::ICMPPingResponder>(),
    Class::of::<icmp_ping_source::ICMPPingSource>(),
];
