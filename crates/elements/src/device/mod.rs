mod classify;
mod fill_level;
mod frame_filter;
mod from_device;
mod from_dpdk_device;
mod kernel_tap;
mod kernel_tun;
mod poll_interval;
mod rss;
mod rx_queues;
mod to_device;
mod to_dpdk_device;
pub mod vlan;
mod vlan_split;

use engine::element::Class;
use lang::{Diagnostic, Router};
use planner::Options;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<from_device::FromDevice>(),
    Class::of::<from_dpdk_device::FromDpdkDevice>(),
    Class::of::<kernel_tap::KernelTap>(),
    Class::of::<kernel_tun::KernelTun>(),
    Class::of::<to_device::ToDevice>(),
    Class::of::<to_dpdk_device::ToDpdkDevice>(),
    Class::of::<vlan_split::VlanSplit>(),
];

/// Replaces VLAN sub-interfaces and CLASSIFY arguments by elements. Reports elements whose rules belong to the same
/// port.
pub fn rewrite(router: &mut Router, options: &Options) -> Vec<Diagnostic> {
    vlan::rewrite(router, options);
    let mut errors = classify::rewrite(router, options);
    errors.extend(crate::steer::check(router));
    errors
}

/// Parses FastClick keywords of both DPDK classes that have no effect here.
fn of_fastclick(args: &mut arguments::Args) {
    args.key_maybe::<String>("VERBOSE", "accepted, and without effect");
    args.key_maybe::<String>("NUMA", "accepted, and without effect");
}

/// Port name for an argument of Click's DPDK classes: a number, a PCI address or a virtual device.
fn dpdk_name(port: &str) -> String {
    if port.starts_with("dpdk:") {
        port.to_owned()
    } else {
        format!("dpdk:{port}")
    }
}
