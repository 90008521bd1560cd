//! Resources of this machine for ports, and the missing ones: network interfaces, PCI devices, memory, rights.
//!
//! All data is read from `/sys`, `/proc` and by ioctls at the time of the call, without DPDK. In tests, a [`Machine`]
//! can be a folder with files like those of Linux; [`Kernel`] supplies properties that are in no file.
//!
//! [`interfaces`](Machine::interfaces) and [`devices`](Machine::devices) list; [`bind`] gives PCI devices to another
//! driver; [`doctor`] finds missing resources and their remedies.

pub mod bind;
pub mod doctor;
mod files;
mod interface;
mod pci;
mod program;
mod sys;
#[cfg(test)]
mod testing;
mod vfio;

pub use interface::{Interface, Offload, Xdp};
pub use pci::{Device, is_address};
pub use program::program;
pub use sys::close_on_exec;

use files::Files;
use std::net::IpAddr;
use std::path::Path;

/// Properties of interfaces that Linux does not show in files.
pub trait Kernel: Send + Sync {
    /// The driver, for interfaces that have no device in `/sys`.
    fn driver(&self, interface: &str) -> Option<String>;
    /// Receive and transmit queues that are in use.
    fn queues(&self, interface: &str) -> Option<(usize, usize)>;
    /// Offloads that are on.
    fn offloads(&self, interface: &str) -> Vec<Offload>;
    /// All addresses, with the names of their interfaces.
    fn addresses(&self) -> Vec<(String, IpAddr)>;
}

/// A machine, as one network namespace sees it.
pub struct Machine {
    files: Files,
    kernel: Box<dyn Kernel>,
}

impl Machine {
    /// This machine, and the calling thread's network namespace.
    pub fn here() -> Machine {
        Machine::at(Path::new("/"), Box::new(sys::Live))
    }

    /// A machine whose `/sys`, `/proc`, `/dev` and `/usr` lie in a folder.
    pub fn at(root: &Path, kernel: Box<dyn Kernel>) -> Machine {
        Machine {
            files: Files::at(root),
            kernel,
        }
    }

    /// All addresses, with the names of their interfaces.
    pub fn addresses(&self) -> Vec<(String, IpAddr)> {
        self.kernel.addresses()
    }
}
