//! Classes with a fast path for common packets and a general path for all: both give the same results.

use crate::basic::paint_tee::PaintTee;
use crate::ether::host_ether_filter::HostEtherFilter;
use crate::ip4::SOURCE_ROUTED;
use crate::ip4::check_ip_header::CheckIPHeader;
use crate::ip4::check_ip_header2::CheckIPHeader2;
use crate::ip4::dec_ip_ttl::DecIPTTL;
use crate::ip4::drop_directed_broadcasts::DropDirectedBroadcasts;
use crate::ip4::ip_gw_options::IPGWOptions;
use crate::ip6::check_ip6_header::CheckIP6Header;
use crate::ip6::dec_ip6_hlim::DecIP6HLIM;
use crate::ip6::ip6_hop_by_hop::IP6HopByHop;
use engine::element::Class;
use testkit::fast_path::{FastOrSlow, both_paths_agree};

const fn classes<const FAST: bool>() -> [Class; 10] {
    [
        Class::of::<FastOrSlow<CheckIP6Header, FAST>>(),
        Class::of::<FastOrSlow<CheckIPHeader, FAST>>(),
        Class::of::<FastOrSlow<CheckIPHeader2, FAST>>(),
        Class::of::<FastOrSlow<DecIP6HLIM, FAST>>(),
        Class::of::<FastOrSlow<DecIPTTL, FAST>>(),
        Class::of::<FastOrSlow<DropDirectedBroadcasts, FAST>>(),
        Class::of::<FastOrSlow<HostEtherFilter, FAST>>(),
        Class::of::<FastOrSlow<IP6HopByHop, FAST>>(),
        Class::of::<FastOrSlow<IPGWOptions, FAST>>(),
        Class::of::<FastOrSlow<PaintTee, FAST>>(),
    ]
}

const BOTH: [&[Class]; 2] = [&classes::<true>(), &classes::<false>()];

fn do_the_same(elements: &[&str]) {
    both_paths_agree(
        BOTH,
        elements,
        |_| (),
        |packet, rng| {
            if rng.one_in(3) {
                packet.cold_mut().user[SOURCE_ROUTED] = *rng.pick(&[0, 20, 60]);
            }
        },
    );
}

#[test]
fn ipv6_headers_are_checked_alike() {
    do_the_same(&[
        "CheckIP6Header",
        "CheckIP6Header(OFFSET 14)",
        "CheckIP6Header(2001:db8::2)",
    ]);
}

#[test]
fn the_hop_limit_goes_down_alike() {
    do_the_same(&["DecIP6HLIM", "DecIP6HLIM(ACTIVE false)"]);
}

#[test]
fn ipv4_headers_are_checked_alike() {
    do_the_same(&[
        "CheckIPHeader",
        "CheckIPHeader(14)",
        "CheckIPHeader(CHECKSUM false)",
        "CheckIPHeader(INTERFACES 10.0.0.1/24 30.0.0.1/32, BADSRC 20.0.0.2)",
        "CheckIPHeader(20.0.0.2 10.0.0.255, 14)",
        "CheckIPHeader(GOODDST 10.0.0.1, BADSRC 30.0.0.1)",
    ]);
}

#[test]
fn ipv4_headers_are_checked_alike_without_their_sums() {
    do_the_same(&[
        "CheckIPHeader2",
        "CheckIPHeader2(14, BADSRC 20.0.0.2, CHECKSUM true)",
    ]);
}

#[test]
fn the_time_to_live_goes_down_alike() {
    do_the_same(&[
        "DecIPTTL",
        "DecIPTTL(MULTICAST false)",
        "DecIPTTL(ACTIVE false)",
    ]);
}

#[test]
fn directed_broadcasts_are_dropped_alike() {
    do_the_same(&["DropDirectedBroadcasts(10.0.0.1/24 20.0.0.1/30)"]);
}

#[test]
fn stations_are_told_apart_alike() {
    do_the_same(&[
        "HostEtherFilter(2:0:0:0:0:1)",
        "HostEtherFilter(2:0:0:0:0:1, true)",
        "HostEtherFilter(2:0:0:0:0:1, DROP_OTHER false, OFFSET 6)",
    ]);
}

#[test]
fn hop_by_hop_options_are_found_alike() {
    do_the_same(&["IP6HopByHop"]);
}

#[test]
fn options_are_processed_alike() {
    do_the_same(&[
        "IPGWOptions(10.0.0.1, 20.0.0.1)",
        "IPGWOptions(10.0.0.1, SOURCE_ROUTES false)",
    ]);
}

#[test]
fn painted_packets_are_copied_alike() {
    do_the_same(&["PaintTee(7)", "PaintTee(0, ICMP_PARAMPROB)"]);
}
