//! TAP interfaces that represent the router's devices to the kernel and its daemons.
//!
//! A TAP interface has the properties of its device (address, MTU, carrier), also after changes of either. It outlives
//! the router, with the settings that operators and daemons have made on it. They may set a smaller MTU than the
//! device's. A card that is the router's alone (DPDK) takes over an address and a larger MTU that they set, until the
//! router ends. They may rename the interface: its queues identify it.

use crate::host::service;
use elements::device::vlan::carrier;
use engine::port::{OpenPort, Port, PortDirectory};
use forwarding::Kernel;
use ports::{Directory, Tap};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Weak};
use tracing::{info, warn};

/// Open interfaces, by name.
#[derive(Default)]
pub(crate) struct TapInterfaces {
    open: BTreeMap<String, TapInterface>,
    /// Interfaces that were deleted and cannot be made again; reported once.
    not_restored: BTreeSet<String>,
}

struct TapInterface {
    tap: Weak<Tap>,
    /// State of the device at the last copy to the interface, and the result of the copy.
    device_state: Option<Look>,
    interface_state: Option<Look>,
}

/// Visible state of a device or of its TAP interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    mac: [u8; 6],
    mtu: usize,
    up: bool,
}

impl Look {
    fn of(device: &dyn Port) -> Look {
        let info = device.info();
        Look {
            mac: info.mac,
            mtu: info.mtu,
            up: device.link_up(),
        }
    }
}

/// The port behind a TAP interface, and true if it is the interface's own. A VLAN (`eth0.100`) has its port's
/// properties.
pub(crate) fn port_of(ports: &Directory, device: &str) -> Option<(OpenPort, bool)> {
    let own = ports.get(device).map(|port| (port, true));
    let of_vlan = || {
        Some((
            ports.get(carrier(device, |name| ports.get(name).is_some()))?,
            false,
        ))
    };
    own.or_else(of_vlan)
}

impl TapInterfaces {
    /// Gives the TAP interface of every device the properties of the device. Returns true if the kernel knows one by
    /// another name than before.
    pub(crate) fn follow(&mut self, ports: &Directory, kernel: &Kernel) -> bool {
        let generation = kernel.generation();
        let mut before = std::mem::take(&mut self.open);
        for interface in kernel.interfaces() {
            let name = interface.name();
            let device = interface
                .device()
                .and_then(|device| port_of(ports, &device));
            let (Some(tap), Some((device, own))) = (ports.tap(name), device) else {
                // The kernel may know another interface by the former name of this TAP.
                kernel.renamed(&interface, name);
                continue;
            };
            let same = |interface: &TapInterface| std::ptr::eq(interface.tap.as_ptr(), &*tap);
            let mut known = before.remove(name).filter(same);
            if tap.is_gone() {
                if !self.restored(ports, &tap) {
                    continue;
                }
                known = None;
            }
            let known_as = tap.known_as();
            if known_as != interface.known_as() {
                if known_as != name {
                    let remedy = "use the new name in the configuration before the next start";
                    warn!(interface = name, known_as, "it was renamed: {remedy}");
                }
                kernel.renamed(&interface, &known_as);
            }
            let mut one =
                known.unwrap_or_else(|| TapInterface::adopted(&tap, &ports.kept_as(name)));
            one.follow(&tap, &*device.port, own);
            if !interface.other_addresses().is_empty() {
                // The device's filter knows its own address only. The TAP interface drops frames for other stations.
                device.port.set_promiscuous(true);
            }
            self.open.insert(name.to_owned(), one);
        }
        let gone = before.keys().map(|name| ports.kept_as(name));
        gone.for_each(|name| service::remove_stored(&name));
        kernel.generation() != generation
    }

    /// Makes the service manager drop the queues of all TAP interfaces.
    pub(crate) fn drop_stored(&self, ports: &Directory) {
        let kept = self.open.keys().map(|name| ports.kept_as(name));
        kept.for_each(|name| service::remove_stored(&name));
    }

    /// Creates a TAP interface again that was deleted.
    fn restored(&mut self, ports: &Directory, tap: &Arc<Tap>) -> bool {
        let name = tap.name();
        match ports.restore(tap) {
            Ok(()) => {
                self.not_restored.remove(name);
                warn!(interface = name, "it was deleted: it is made again");
                true
            }
            Err(e) => {
                if self.not_restored.insert(name.to_owned()) {
                    warn!(interface = name, "it was deleted: {e}");
                }
                false
            }
        }
    }
}

impl TapInterface {
    /// Makes a TAP outlive the router.
    fn adopted(tap: &Arc<Tap>, kept_as: &str) -> TapInterface {
        if let Err(e) = tap.set_persistent() {
            warn!(
                interface = tap.name(),
                "it will go away with the router: {e}"
            );
        }
        service::store_tap(tap, kept_as);
        let tap = Arc::downgrade(tap);
        let (device_state, interface_state) = (None, None);
        TapInterface {
            tap,
            device_state,
            interface_state,
        }
    }

    /// Copies the state of the device to the TAP interface if either has changed. Correct values are not set again,
    /// because daemons would see a change. Values that cannot be set are not tried again before the next change. If the
    /// device is the TAP interface's `own`, it is asked to take over the address and the MTU that others have set.
    fn follow(&mut self, tap: &Tap, port: &dyn Port, own: bool) {
        // An interface from before the router keeps its carrier while the other end of its device may be about to
        // return.
        if self.device_state.is_none() && port.is_settling() && !tap.is_new() {
            return;
        }
        let (device, found) = (Look::of(port), Look::of(tap));
        if (self.device_state, self.interface_state) == (Some(device), Some(found)) {
            return;
        }
        // Addresses that the kernel derives from the Ethernet address are made when the interface comes up.
        let is_new = tap.take_new();
        if is_new {
            warn_if_failed(tap, "be taken down", tap.set_up(false));
        }
        let before = self.device_state;
        let (mut device_now, mut found_now) = (device, found);
        // A device that also has other interfaces keeps the address that they all show.
        let alone = || match own {
            true => Ok(()),
            false => Err("its device has other interfaces, too".to_owned()),
        };
        // A device without an address leaves the TAP interface the kernel's address.
        if found.mac != device.mac && device.mac != [0; 6] {
            let by_others = before.is_some_and(|before| before.mac == device.mac);
            let take = |mac| alone().and_then(|()| port.set_mac(mac));
            let show = |mac| tap.set_mac(mac);
            let both = (&mut device_now.mac, &mut found_now.mac);
            sync_value(tap, "address", both, by_others.then_some(take), show);
        }
        let device_changed = before.is_some_and(|before| before.mtu != device.mtu);
        let less = found.mtu < device.mtu;
        if found.mtu > device.mtu || less && (device_changed || is_new) {
            let by_others = before.is_some() && !device_changed;
            let take = |mtu| alone().and_then(|()| port.set_mtu(mtu));
            let show = |mtu| tap.set_mtu(mtu);
            let both = (&mut device_now.mtu, &mut found_now.mtu);
            sync_value(tap, "MTU", both, by_others.then_some(take), show);
        }
        // The carrier of the TAP cannot be queried.
        if before.is_none_or(|before| before.up != device.up) {
            let done = tap.set_carrier(device.up);
            warn_if_failed(tap, "take over the carrier of its device", done);
            info!(interface = tap.name(), carrier = device.up, "TAP interface");
        }
        if is_new {
            warn_if_failed(tap, "be brought up", tap.set_up(true));
        }
        // Later changes of the TAP or the device count as changes in the next round.
        found_now.up = tap.link_up();
        (self.device_state, self.interface_state) = (Some(device_now), Some(found_now));
    }
}

/// Makes the device `take` a value that others have set on its TAP interface. Otherwise, or if it cannot, the TAP
/// interface must `show` the device's value. Both values are then up to date.
fn sync_value<T: Copy>(
    tap: &Tap,
    what: &str,
    (device, found): (&mut T, &mut T),
    take: Option<impl FnOnce(T) -> Result<(), String>>,
    show: impl FnOnce(T) -> io::Result<()>,
) {
    match take.map(|take| take(*found)) {
        Some(Ok(())) => {
            info!(interface = tap.name(), "its device takes over its {what}");
            *device = *found;
            return;
        }
        Some(Err(why)) => {
            let back = format!("it gets its device's again: {why}");
            warn!(interface = tap.name(), "its {what} was changed: {back}");
        }
        None => {}
    }
    let shown = show(*device);
    if shown.is_ok() {
        *found = *device;
    }
    warn_if_failed(tap, &format!("take over the {what} of its device"), shown);
}

/// Logs that a TAP interface cannot do something.
fn warn_if_failed(tap: &Tap, what: &str, done: io::Result<()>) {
    if let Err(e) = done {
        warn!(interface = tap.name(), "it cannot {what}: {e}");
    }
}

#[cfg(test)]
#[path = "tap_interfaces/needs_root_tests.rs"]
mod needs_root;
