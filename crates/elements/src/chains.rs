//! Rows of elements that are compiled into one loop where a configuration has them; see
//! [`engine::chain`]. A row of this list that is part of a longer one serves where the rest is missing.

use crate::basic::counter::Counter;
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
use engine::chain::Chain;

type DirectIPLookup = Lookup<Direct, 4>;
type RadixIPLookup = Lookup<Radix, 4>;
type LookupIP6Route = Lookup<Ip6Route, 16>;

macro_rules! chains {
    ($($($class:ident)+;)+) => {
        &[$(Chain::of::<($($class),+,)>()),+]
    };
}

/// The rows. A Counter is only last: what it calls happens before its packets move on.
#[rustfmt::skip]
pub const CHAINS: &[Chain] = chains! {
    // IPv4, arrival.
    HostEtherFilter Classifier Paint Strip CheckIPHeader;
    Classifier Paint Strip CheckIPHeader;
    Paint Strip CheckIPHeader;
    Classifier Strip CheckIPHeader;
    Strip CheckIPHeader;
    // IPv6, arrival.
    Paint Strip CheckIP6Header IP6HopByHop IP6Local CheckIP6Forward DecIP6HLIM;
    Classifier Strip CheckIP6Header;
    Strip CheckIP6Header;
    // Lookup and departure.
    RadixIPLookup DecIPTTL EtherEncap Counter;
    RadixIPLookup DecIPTTL EtherEncap;
    DirectIPLookup DecIPTTL EtherEncap Counter;
    DirectIPLookup DecIPTTL EtherEncap;
    LookupIP6Route DecIP6HLIM EtherEncap Counter;
    LookupIP6Route DecIP6HLIM EtherEncap;
    DropBroadcasts DropDirectedBroadcasts PaintTee IPGWOptions FixIPSrc DecIPTTL;
    DropBroadcasts PaintTee IPGWOptions FixIPSrc DecIPTTL;
    DecIPTTL EtherEncap Counter;
    DecIPTTL EtherEncap;
    DecIP6HLIM EtherEncap Counter;
    DecIP6HLIM EtherEncap;
    EtherEncap Counter;
};
