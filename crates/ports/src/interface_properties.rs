//! Properties of a Linux interface that AF_PACKET and AF_XDP must know.

use crate::ethtool;
use crate::sys::{self, Interface};
use engine::port::{PortInfo, PortRequest};
use machine::Xdp;
use std::net::IpAddr;

/// Properties of an interface that is not opened yet.
pub(crate) struct Facts {
    pub(crate) now: Interface,
    /// The kernel's driver.
    pub(crate) driver: Option<String>,
    /// The kernel's addresses of the interface.
    pub(crate) addresses: Vec<IpAddr>,
    /// Numbers of receive and transmit queues.
    pub(crate) channels: (usize, usize),
}

impl Facts {
    /// Reads the properties of an interface.
    ///
    /// # Errors
    /// There is no such interface, or it carries no Ethernet frames.
    pub(crate) fn of(name: &str) -> Result<Facts, String> {
        let control = sys::control_socket().map_err(|e| format!("cannot look at {name}: {e}"))?;
        let now = sys::interface(&control, name).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => no_such(name),
            _ => format!("cannot look at {name}: {e}"),
        })?;
        if !now.ethernet {
            return Err(format!(
                "{name} carries no Ethernet frames; name an Ethernet interface"
            ));
        }
        Ok(Facts {
            now,
            driver: ethtool::kernel_driver(&control, name),
            addresses: sys::addresses(name),
            channels: ethtool::channels(&control, name),
        })
    }

    /// Description of the interface as a port.
    pub(crate) fn info(&self, name: &str, driver: &str, queues: usize) -> PortInfo {
        let down = format!("{name} is down: bring it up with `ip link set {name} up`");
        PortInfo {
            mac: self.now.mac,
            mtu: self.now.mtu,
            node: node(name),
            remarks: (!self.now.up).then_some(down).into_iter().collect(),
            ..PortInfo::of_process(driver, queues)
        }
    }

    /// True if the kernel has an address on it that others can reach.
    pub(crate) fn is_addressed(&self) -> bool {
        self.addresses.iter().any(|address| match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        })
    }

    /// True if the peer may be a system on this machine, which leaves checksums unfinished for a device that does not
    /// exist. A virtio device stops this when an XDP program is attached.
    pub(crate) fn leaves_checksums(&self) -> bool {
        const DRIVERS: [&str; 5] = ["veth", "tun", "vmxnet3", "xen-netfront", "hv_netvsc"];
        let driver = self.driver.as_deref();
        driver.is_some_and(|driver| DRIVERS.contains(&driver))
    }

    /// Checks that AF_XDP is safe and fast on an interface; the error says why it is not.
    pub(crate) fn suits_xdp(
        &self,
        name: &str,
        request: Option<&PortRequest>,
    ) -> Result<(), String> {
        let driver = self.driver.as_deref();
        if self.leaves_checksums() {
            return Err(
                "its peer may hand over frames with unfinished checksums that AF_XDP cannot tell from finished ones"
                    .into(),
            );
        }
        if Xdp::of(driver) == Xdp::Generic {
            return Err(format!(
                "{} runs no XDP programs, as far as is known",
                driver.unwrap_or("its driver")
            ));
        }
        if self.is_addressed() {
            return Err(format!(
                "it has addresses, and the router may have the same; af_xdp:{name} leaves these to the kernel and is \
                    faster"
            ));
        }
        let (rx, tx) = self.channels;
        if let Some(asked) = request.filter(|r| r.rx_queues > rx || r.tx_queues > tx) {
            return Err(format!(
                "{} receive and {} transmit queues are asked, and it has {rx} and {tx}",
                asked.rx_queues, asked.tx_queues
            ));
        }
        if stacked(name) {
            return Err(
                "other interfaces of the kernel (VLAN, bridge, bond, macvlan) are on it, which AF_XDP would keep \
                    frames from"
                    .into(),
            );
        }
        Ok(())
    }
}

/// True if the kernel has interfaces on top of this one, such as a bridge or VLAN, or if this is unknown.
fn stacked(name: &str) -> bool {
    let folder = format!("/sys/class/net/{name}");
    let Ok(files) = std::fs::read_dir(folder) else {
        return true;
    };
    let mut names = files.flatten().map(|file| file.file_name());
    names.any(|file| file == "master" || file.to_string_lossy().starts_with("upper_"))
}

fn node(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).ok()?;
    text.trim().parse().ok()
}

/// The sentence for a name that the kernel does not know.
fn no_such(name: &str) -> String {
    let known: Vec<String> = sys::interfaces()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let known = match known.is_empty() {
        true => "none".to_string(),
        false => known.join(", "),
    };
    format!("there is no interface {name}; this network namespace has: {known}")
}
