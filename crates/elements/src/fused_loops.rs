//! The fused loops: sequences of classes that are compiled into one loop. The loop is used where a configuration has
//! such a sequence; see [`engine::fused`]. Some loops of the list are parts of longer ones, for configurations that
//! have only this part. A class of a loop must not have an [`Element::process`](engine::element::Element::process) that
//! differs from its `step`: a test below reads the listed source files to check this.

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
use crate::linux::linux_input::LinuxInput;
use crate::linux::linux_ip_lookup::Four;
use crate::linux::linux_mtu::LinuxMTU;
use crate::linux::linux_redirect::LinuxRedirect;
use crate::linux::lookup::Lookup as LinuxLookup;
use crate::mpls::mpls_ether_encap::MplsEtherEncap;
use crate::mpls::mpls_lookup::MplsLookup;
use crate::route::direct_ip_lookup::Direct;
use crate::route::lookup::Lookup;
use crate::route::lookup_ip6_route::Ip6Route;
use crate::route::radix_ip_lookup::Radix;
use crate::vlb::output::Output;
use crate::vlb::vlb_output::VlbOutput;
use crate::vlb::vlb_output6::VlbOutput6;
use engine::fused::FusedLoop;

type DirectIPLookup = Lookup<Direct, 4>;
type RadixIPLookup = Lookup<Radix, 4>;
type LookupIP6Route = Lookup<Ip6Route, 16>;
type LinuxIPLookup = LinuxLookup<Four, 4>;
type MPLSLookup = MplsLookup;
type MPLSEtherEncap = MplsEtherEncap;
type VLBOutput = Output<VlbOutput>;
type VLBOutput6 = Output<VlbOutput6>;

macro_rules! fused_loops {
    ($($($class:ident)+;)+) => {
        &[$(FusedLoop::of::<($($class),+,)>()),+]
    };
}

/// The fused loops. A Counter may stand between any two elements of a loop, which goes past it.
#[rustfmt::skip]
pub const FUSED_LOOPS: &[FusedLoop] = fused_loops! {
    // IPv4, arrival and lookup.
    HostEtherFilter Classifier Paint Strip CheckIPHeader RadixIPLookup;
    HostEtherFilter Classifier Paint Strip CheckIPHeader DirectIPLookup;
    LinuxInput Classifier Paint Strip CheckIPHeader LinuxIPLookup;
    Strip CheckIPHeader RadixIPLookup DecIPTTL EtherEncap;
    Strip CheckIPHeader DirectIPLookup DecIPTTL EtherEncap;
    Strip CheckIPHeader RadixIPLookup;
    Strip CheckIPHeader DirectIPLookup;
    // IPv4, arrival.
    HostEtherFilter Classifier Paint Strip CheckIPHeader;
    LinuxInput Classifier Paint Strip CheckIPHeader;
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
    LinuxRedirect LinuxMTU DecIPTTL;
    LinuxMTU DecIPTTL;
    CheckIP6Forward LinuxRedirect LinuxMTU DecIP6HLIM;
    CheckIP6Forward LinuxMTU DecIP6HLIM;
    LinuxMTU DecIP6HLIM;
    DecIPTTL EtherEncap;
    DecIP6HLIM EtherEncap;
    // Labels.
    Classifier Strip MPLSLookup MPLSEtherEncap;
    Classifier Strip MPLSLookup;
    Strip MPLSLookup MPLSEtherEncap;
    Strip MPLSLookup;
    // Packets that have crossed a cluster: departure.
    Classifier VLBOutput;
    Classifier VLBOutput6;
};

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// A fused loop calls `step`, so it would silently skip code of a class in `process`.
    #[test]
    fn no_class_of_a_fused_loop_handles_batches_by_a_way_of_its_own() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let read = |path: &Path| std::fs::read_to_string(path).expect("a source file");
        let own = |text: &str| {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let element = code.split_once(" Element for ").map(|(_, code)| code);
            element
                .map(|code| code.contains("fn process(") && !code.contains("fused::process(self"))
        };
        let (mut seen, list) = (0, read(&sources.join("fused_loops.rs")));
        for line in list.lines() {
            let Some(path) = line.strip_prefix("use crate::") else {
                continue;
            };
            assert!(!path.contains(['{', '*']), "one class a line: {line}");
            let Some((file, _)) = path.rsplit_once("::") else {
                panic!("{line}");
            };
            let file = file.replace("::", "/") + ".rs";
            match own(&read(&sources.join(&file))) {
                Some(own) => {
                    seen += 1;
                    assert!(!own, "{file}: a fused loop has a class with `process`");
                }
                // Shared code of classes of routes, or of an IP version.
                None => assert!(
                    ["route/", "vlb/", "linux/"]
                        .iter()
                        .any(|f| file.starts_with(f)),
                    "{file} holds no element"
                ),
            }
        }
        assert!(seen >= 15, "only {seen} classes");
        // `own` finds a class that has `process`.
        assert_eq!(own(&read(&sources.join("queue/queue.rs"))), Some(true));
    }
}
