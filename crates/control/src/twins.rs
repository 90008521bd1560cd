//! Twins: the TAP interfaces by which a kernel and its daemons know the router's devices.
//!
//! A twin looks like its device (address, MTU, carrier), also after the device has changed, and outlives
//! the router, as does what operators and daemons have set on it.

use crate::service;
use engine::port::{OpenPort, Port, PortDirectory};
use ports::{Directory, Tap};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Weak};
use tracing::{info, warn};

/// The twins that are open, by name.
#[derive(Default)]
pub(crate) struct Twins {
    open: BTreeMap<String, Twin>,
    /// Those that were deleted and cannot be made again, said once.
    lost: BTreeSet<String>,
}

struct Twin {
    tap: Weak<Tap>,
    shown: Look,
}

/// How a device looks from the other side of its twin.
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

/// The port behind a twin. A VLAN (`eth0.100`) is none of its own: it looks like the port that has it.
fn port_of(ports: &Directory, device: &str) -> Option<OpenPort> {
    let of_vlan = || ports.get(device.rsplit_once('.')?.0);
    ports.get(device).or_else(of_vlan)
}

impl Twins {
    /// Makes every twin look like its device; `pairs` are names of twins and of the ports behind them.
    pub(crate) fn follow(&mut self, ports: &Directory, pairs: &[(String, String)]) {
        let mut before = std::mem::take(&mut self.open);
        for (name, device) in pairs {
            let (Some(tap), Some(device)) = (ports.tap(name), port_of(ports, device)) else {
                continue;
            };
            let now = Look::of(&*device.port);
            let known = before
                .remove(name)
                .filter(|twin| std::ptr::eq(twin.tap.as_ptr(), &*tap));
            let gone = tap.is_gone();
            if gone && !self.restored(ports, &tap) {
                continue;
            }
            // Addresses that the kernel derives from the Ethernet address are made when the interface comes up.
            let is_new = tap.take_new();
            if is_new {
                said(&tap, "be taken down", tap.set_up(false));
            }
            let shown = match known {
                Some(twin) if !gone => twin.shown,
                _ => {
                    adopt(&tap);
                    let found = Look::of(&*tap);
                    // What is right already is not set again: daemons would hear of a change. That of the
                    // carrier they hear only if it is one.
                    let up = !now.up;
                    Look { up, ..found }
                }
            };
            if shown != now {
                show(&tap, shown, now);
            }
            if is_new {
                said(&tap, "be brought up", tap.set_up(true));
            }
            let (tap, shown) = (Arc::downgrade(&tap), now);
            self.open.insert(name.clone(), Twin { tap, shown });
        }
        before.keys().for_each(|name| service::forget(name));
    }

    /// Makes a TAP again that somebody has deleted.
    fn restored(&mut self, ports: &Directory, tap: &Arc<Tap>) -> bool {
        let name = tap.name();
        match ports.restore(tap) {
            Ok(()) => {
                self.lost.remove(name);
                warn!(twin = name, "it was deleted: it is made again");
                true
            }
            Err(e) => {
                if self.lost.insert(name.to_owned()) {
                    warn!(twin = name, "it was deleted: {e}");
                }
                false
            }
        }
    }
}

/// Has a TAP outlive the router.
fn adopt(tap: &Tap) {
    if let Err(e) = tap.keep() {
        warn!(twin = tap.name(), "it will go away with the router: {e}");
    }
    service::keep(tap);
}

/// Shows what has changed. What cannot be shown is said once: it is not tried again before it changes.
fn show(tap: &Tap, before: Look, now: Look) {
    // A device without an address leaves the twin the kernel's.
    if before.mac != now.mac && now.mac != [0; 6] {
        said(
            tap,
            "take over the address of its device",
            tap.set_mac(now.mac),
        );
    }
    if before.mtu != now.mtu {
        said(tap, "take over the MTU of its device", tap.set_mtu(now.mtu));
    }
    if before.up != now.up {
        said(
            tap,
            "take over the carrier of its device",
            tap.set_carrier(now.up),
        );
        info!(twin = tap.name(), carrier = now.up, "twin");
    }
}

/// Says what a twin cannot do.
fn said(tap: &Tap, what: &str, done: io::Result<()>) {
    if let Err(e) = done {
        warn!(twin = tap.name(), "it cannot {what}: {e}");
    }
}
