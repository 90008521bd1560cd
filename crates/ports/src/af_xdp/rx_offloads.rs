//! Makes a device deliver frames as on the wire. A device that removes VLAN tags or merges packets reports this in the
//! kernel's metadata, which AF_XDP does not pass on. So the port turns such offloads off.

use crate::{ethtool, sys};
use std::io;

/// Switches off a device's changes to received frames (LRO, VLAN stripping) until this value is dropped.
pub(super) struct RxOffloadsOff {
    name: String,
    /// Flags that were on before.
    flags: u32,
}

impl RxOffloadsOff {
    /// # Errors
    /// The kernel's: the device does not let it be switched off.
    pub(super) fn of(name: &str) -> io::Result<RxOffloadsOff> {
        let control = sys::control_socket()?;
        let flags = ethtool::rx_flags(&control, name);
        if flags != 0 {
            ethtool::set_rx_flags(&control, name, flags, false)?;
        }
        let name = name.to_owned();
        Ok(RxOffloadsOff { name, flags })
    }
}

impl Drop for RxOffloadsOff {
    /// Does nothing if the interface is gone.
    fn drop(&mut self) {
        if self.flags != 0
            && let Ok(control) = sys::control_socket()
        {
            _ = ethtool::set_rx_flags(&control, &self.name, self.flags, true);
        }
    }
}
