//! The fused loops with classes of this crate; see the list of `elements`, which has the others.

use crate::linux::linux_input::LinuxInput;
use crate::linux::linux_ip_lookup::Four;
use crate::linux::linux_mtu::LinuxMTU;
use crate::linux::linux_redirect::LinuxRedirect;
use crate::linux::lookup::Lookup;
use crate::mpls::mpls_ether_encap::MplsEtherEncap;
use crate::mpls::mpls_lookup::MplsLookup;
use elements::basic::paint::Paint;
use elements::classify::classifier::Classifier;
use elements::ether::strip::Strip;
use elements::ip4::check_ip_header::CheckIPHeader;
use elements::ip4::dec_ip_ttl::DecIPTTL;
use elements::ip6::check_ip6_forward::CheckIP6Forward;
use elements::ip6::dec_ip6_hlim::DecIP6HLIM;
use engine::fused::FusedLoop;
use engine::fused_loops;

type LinuxIPLookup = Lookup<Four, 4>;
type MPLSLookup = MplsLookup;
type MPLSEtherEncap = MplsEtherEncap;

/// The fused loops.
#[rustfmt::skip]
pub const FUSED_LOOPS: &[FusedLoop] = fused_loops! {
    // IPv4, arrival and lookup.
    LinuxInput Classifier Paint Strip CheckIPHeader LinuxIPLookup;
    // IPv4, arrival.
    LinuxInput Classifier Paint Strip CheckIPHeader;
    // Departure.
    LinuxRedirect LinuxMTU DecIPTTL;
    LinuxMTU DecIPTTL;
    CheckIP6Forward LinuxRedirect LinuxMTU DecIP6HLIM;
    CheckIP6Forward LinuxMTU DecIP6HLIM;
    LinuxMTU DecIP6HLIM;
    // Labels.
    Classifier Strip MPLSLookup MPLSEtherEncap;
    Classifier Strip MPLSLookup;
    Strip MPLSLookup MPLSEtherEncap;
    Strip MPLSLookup;
};
