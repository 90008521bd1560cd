//! The fused loops: sequences of classes that are compiled into one loop. The loop is used where a configuration has
//! such a sequence; see [`engine::fused`]. Some loops of the list are parts of longer ones, for configurations that
//! have only this part. A class of a loop must not have an [`Element::process`](engine::element::Element::process) that
//! differs from its `step`: a test of the crate `classes` reads the source files listed here, one class a line.

use crate::basic::paint::Paint;
use crate::basic::paint_tee::PaintTee;
use crate::classify::classifier::Classifier;
use crate::ether::drop_broadcasts::DropBroadcasts;
use crate::ether::ether_encap::EtherEncap;
use crate::ether::host_ether_filter::HostEtherFilter;
use crate::ether::strip::Strip;
use crate::ip4::check_ip_header::CheckIPHeader;
use crate::ip4::dec_ip_ttl::DecIPTTL;
use crate::ip4::drop_directed_broadcasts::DropDirectedBroadcasts;
use crate::ip4::fix_ip_src::FixIPSrc;
use crate::ip4::ip_gw_options::IPGWOptions;
use crate::ip6::check_ip6_forward::CheckIP6Forward;
use crate::ip6::check_ip6_header::CheckIP6Header;
use crate::ip6::dec_ip6_hlim::DecIP6HLIM;
use crate::ip6::ip6_hop_by_hop::IP6HopByHop;
use crate::ip6::ip6_local::IP6Local;
use crate::route::direct_ip_lookup::Direct;
use crate::route::lookup::Lookup;
use crate::route::lookup_ip6_route::Ip6Route;
use crate::route::radix_ip_lookup::Radix;
use engine::fused::FusedLoop;
use engine::fused_loops;

type DirectIPLookup = Lookup<Direct, 4>;
type RadixIPLookup = Lookup<Radix, 4>;
type LookupIP6Route = Lookup<Ip6Route, 16>;

/// The fused loops. A Counter may stand between any two elements of a loop, which goes past it.
#[rustfmt::skip]
pub const FUSED_LOOPS: &[FusedLoop] = fused_loops! {
    // IPv4, arrival and lookup.
    HostEtherFilter Classifier Paint Strip CheckIPHeader RadixIPLookup;
    HostEtherFilter Classifier Paint Strip CheckIPHeader DirectIPLookup;
    Strip CheckIPHeader RadixIPLookup DecIPTTL EtherEncap;
    Strip CheckIPHeader DirectIPLookup DecIPTTL EtherEncap;
    Strip CheckIPHeader RadixIPLookup;
    Strip CheckIPHeader DirectIPLookup;
    // IPv4, arrival.
    HostEtherFilter Classifier Paint Strip CheckIPHeader;
    Classifier Paint Strip CheckIPHeader;
    Paint Strip CheckIPHeader;
    Classifier Strip CheckIPHeader;
    Strip CheckIPHeader;
    // IPv6, arrival and lookup.
    Strip CheckIP6Header LookupIP6Route DecIP6HLIM EtherEncap;
    Strip CheckIP6Header LookupIP6Route;
    // IPv6, arrival.
    Paint Strip CheckIP6Header IP6HopByHop IP6Local CheckIP6Forward DecIP6HLIM;
    Paint Strip CheckIP6Header;
    Classifier Strip CheckIP6Header;
    Strip CheckIP6Header;
    // Lookup and departure, where packets reach the lookup by several paths.
    RadixIPLookup DecIPTTL EtherEncap;
    DirectIPLookup DecIPTTL EtherEncap;
    LookupIP6Route DecIP6HLIM EtherEncap;
    DropBroadcasts DropDirectedBroadcasts PaintTee IPGWOptions FixIPSrc DecIPTTL;
    DropBroadcasts PaintTee IPGWOptions FixIPSrc DecIPTTL;
    DecIPTTL EtherEncap;
    DecIP6HLIM EtherEncap;
};
