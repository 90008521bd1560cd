mod from_device;
mod from_dpdk_device;
mod kernel_tap;
mod kernel_tun;
mod to_device;
mod to_dpdk_device;
mod vlan;
mod vlan_split;

pub use vlan::rewrite;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<from_device::FromDevice>(),
    Class::of::<from_dpdk_device::FromDpdkDevice>(),
    Class::of::<kernel_tap::KernelTap>(),
    Class::of::<kernel_tun::KernelTun>(),
    Class::of::<to_device::ToDevice>(),
    Class::of::<to_dpdk_device::ToDpdkDevice>(),
    Class::of::<vlan_split::VlanSplit>(),
];

/// The port's name for what Click's DPDK classes take: a number, a PCI address or a virtual device.
fn dpdk_name(port: &str) -> String {
    if port.starts_with("dpdk:") {
        port.to_owned()
    } else {
        format!("dpdk:{port}")
    }
}
