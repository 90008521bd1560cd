//! TAP interfaces that stand for a port elsewhere: the program that makes them carries their frames there.

use crate::netns::Namespace;
use crate::sys;
use crate::tap::{self, Layer, Tap};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::Prefix4;

/// Settings of such an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSetup {
    /// Name of the interface.
    pub name: String,
    /// Maximum length of an IP packet in bytes.
    pub mtu: usize,
    /// IPv4 address with its prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 addresses with their prefix lengths. The interface has no others.
    pub v6: Vec<(Ipv6Addr, u8)>,
}

impl TapSetup {
    /// Makes the interface in a namespace. It is up without a carrier, and ends with the value. An existing TAP
    /// interface of the name with several queues is set up and used.
    ///
    /// # Errors
    ///
    /// No permission, no TUN driver, a name that is taken or too long, or an address that the kernel refuses; a
    /// sentence.
    pub fn make(&self, namespace: &Namespace) -> Result<Arc<Tap>, String> {
        let setup = self.clone();
        namespace.run(move || setup.make_here())
    }

    /// Makes the interface in the namespace of the calling thread.
    fn make_here(&self) -> Result<Arc<Tap>, String> {
        let name = &*self.name;
        let wrong = |e: io::Error| tap::failed("tap", name, &e);
        let control = sys::control_socket().map_err(wrong)?;
        let queue = sys::tap(name).map_err(wrong)?;
        self.set(&control)
            .map_err(|(what, e)| format!("cannot set {what} of interface {name}: {e}"))?;
        let parts = tap::parts(Layer::Ether, name, control, vec![queue], (0, 0));
        let (tap, _) = parts.map_err(wrong)?;
        let up = tap.set_carrier(false).and_then(|()| tap.set_up(true));
        up.map_err(|e| format!("cannot bring interface {name} up: {e}"))?;
        Ok(tap)
    }

    fn set(&self, control: &OwnedFd) -> Result<(), (&'static str, io::Error)> {
        let name = &*self.name;
        // No address of the interface's own, no duplicate address detection, no routes by advertisements: the port
        // elsewhere owns the addresses. A kernel without IPv6 lacks these settings.
        for (setting, value) in [
            ("addr_gen_mode", "1"),
            ("accept_dad", "0"),
            ("accept_ra", "0"),
        ] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{setting}"), value);
        }
        sys::set_mtu(control, name, self.mtu).map_err(|e| ("the MTU", e))?;
        if let Some((address, length)) = self.v4 {
            let mask = Prefix4::new(address, length).mask();
            sys::set_address(control, name, address, mask).map_err(|e| ("the IPv4 address", e))?;
        }
        for (address, length) in &self.v6 {
            match sys::add_address6(control, name, *address, *length) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(("an IPv6 address", e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tap_setup_tests.rs"]
mod tests;
