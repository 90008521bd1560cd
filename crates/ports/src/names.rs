//! Meaning of port names.

use crate::{dpdk, vhost, wrap};

/// Arguments for DPDK's probe, if a name means a DPDK device. Devices made for a name are named after the name's
/// digest, so that the same name means the same device.
pub(crate) fn devargs(name: &str) -> Option<String> {
    let own = |driver: &str, rest: &str| {
        let step = |d: u32, b: u8| d.wrapping_mul(31).wrapping_add(b.into());
        format!("{driver}{},{rest}", name.bytes().fold(0, step) % 1_000_000)
    };
    match name.split_once(':') {
        Some(("dpdk", rest)) => Some(rest.to_owned()),
        Some(("vhost", rest)) => Some(own("net_vhost", &vhost::words(rest))),
        _ if name.starts_with("net_") || dpdk::is_pci(name) => Some(name.to_owned()),
        _ => None,
    }
}

/// Identity of a port's device, the same for all its names: interface, file or DPDK device. TAP interfaces in different
/// namespaces differ. `None` for ports of which each router has its own: `null:`, `mem:` and `ring:`.
pub fn identity(name: &str, namespace: Option<&str>) -> Option<String> {
    if let Ok(Some((_, inside))) = wrap::parse(name) {
        return identity(inside, namespace);
    }
    let first = |rest: &str| rest.split(',').next().unwrap_or_default().to_owned();
    match name.split_once(':') {
        Some(("null" | "mem" | "ring", _)) => None,
        Some(("tap", rest)) => Some(format!("tap:{rest} in {}", namespace.unwrap_or_default())),
        Some(("af_packet" | "af_xdp", interface)) => Some(interface.to_owned()),
        Some(("dpdk", rest)) => Some(first(rest)),
        Some(("vhost", rest)) => Some(format!("vhost:{}", first(rest))),
        Some(_) if dpdk::is_pci(name) => Some(first(name)),
        Some(_) => Some(name.to_owned()),
        None => Some(first(name)),
    }
}

/// Resource of this machine that a port's name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// A card, by its PCI address.
    Card(String),
    /// Another DPDK device.
    Dpdk,
    /// A Linux interface, by AF_PACKET.
    Interface(String),
    /// A Linux interface, by AF_XDP.
    Xdp(String),
    /// A TAP interface that the router makes.
    Tap,
    /// The port uses no resource of the machine.
    Nothing,
}

/// Resource of this machine that a port's name means.
pub fn means(name: &str) -> Means {
    if let Ok(Some((_, inside))) = wrap::parse(name) {
        return means(inside);
    }
    let first = |rest: &str| rest.split(',').next().unwrap_or_default().to_owned();
    match name.split_once(':') {
        Some(("dpdk", rest)) if dpdk::is_pci(rest) => Means::Card(first(rest)),
        _ if dpdk::is_pci(name) => Means::Card(first(name)),
        Some(("dpdk" | "vhost", _)) => Means::Dpdk,
        _ if name.starts_with("net_") => Means::Dpdk,
        Some(("af_packet", interface)) => Means::Interface(interface.to_owned()),
        Some(("af_xdp", interface)) => Means::Xdp(interface.to_owned()),
        Some(("tap" | "tun", _)) => Means::Tap,
        Some(_) => Means::Nothing,
        None => Means::Interface(name.to_owned()),
    }
}
