//! Network address translation, as Click's family of rewriters does it.

mod config;
mod handlers;
mod rewriter;

mod ftp_port_mapper;
mod icmp_ping_rewriter;
mod icmp_rewriter;
mod ip_addr_pair_rewriter;
mod ip_addr_rewriter;
mod ip_rewriter;
mod ip_rewriter_patterns;
mod port_ip_mapper;
mod round_robin_ip_mapper;
mod source_ip_hash_mapper;
mod tcp_rewriter;
mod udp_rewriter;

use engine::element::Class;
use rewriter::Rewriter;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<ftp_port_mapper::FTPPortMapper>(),
    Class::of::<Rewriter<icmp_ping_rewriter::ICMPPingRewriter>>(),
    Class::of::<icmp_rewriter::ICMPRewriter>(),
    Class::of::<Rewriter<ip_addr_pair_rewriter::IPAddrPairRewriter>>(),
    Class::of::<Rewriter<ip_addr_rewriter::IPAddrRewriter>>(),
    Class::of::<Rewriter<ip_rewriter::IPRewriter>>(),
    Class::of::<ip_rewriter_patterns::IPRewriterPatterns>(),
    Class::of::<port_ip_mapper::PortIPMapper>(),
    Class::of::<round_robin_ip_mapper::RoundRobinIPMapper>(),
    Class::of::<source_ip_hash_mapper::SourceIPHashMapper>(),
    Class::of::<Rewriter<tcp_rewriter::TCPRewriter>>(),
    Class::of::<Rewriter<udp_rewriter::UDPRewriter>>(),
];

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
