//! `vhost:PATH`: the router's end of a virtual machine's virtio card (vhost-user, DPDK's net_vhost).
//!
//! The rings are in the guest's memory, and a guest may write anything there: DPDK's vhost library translates and
//! bounds each address that it finds, and drops what does not fit. So the guest need not be trusted. Who connects to
//! the socket, however, hands over the memory itself, so only this user and root may: QEMU of another user needs
//! `chown`.

use super::DpdkSizes;
use crate::scheme::{Parts, PortContext, Resource, Scheme};
use crate::sys;
use engine::port::{PortInfo, PortRequest};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A name in the file system that a socket can have, and its end.
const PATH_MAX: usize = 107;

/// The scheme `vhost:`.
#[derive(Default)]
pub(crate) struct Vhost(pub(crate) DpdkSizes);

/// Arguments of DPDK for `vhost:REST`. The device is named after the digest of the port's name, so that the same name
/// means the same device.
fn devargs(rest: &str) -> String {
    let step = |d: u32, b: u8| d.wrapping_mul(31).wrapping_add(b.into());
    let number = rest.bytes().fold(0, step) % 1_000_000;
    format!("net_vhost{number},iface={rest}")
}

impl Scheme for Vhost {
    fn name_syntax(&self) -> &'static str {
        "vhost:SOCKET"
    }

    fn resource(&self, rest: &str) -> Resource {
        Resource::Dpdk(format!("vhost:{}", super::name_of(rest)))
    }

    fn probe(&self, rest: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        super::probe(&devargs(rest), self.0)
    }

    fn open(
        &self,
        rest: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        super::open(&devargs(rest), request, self.0, site.events())
    }
}

/// The socket of a device of net_vhost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Socket {
    socket: PathBuf,
    /// The virtual machine makes the socket.
    is_client: bool,
}

impl Socket {
    /// Settings of a DPDK device `NAME,WORD=VALUE,...`, if net_vhost drives it.
    pub(super) fn of(devargs: &str) -> Option<Socket> {
        let mut words = devargs.split(',');
        let name = words.next()?;
        if !name.starts_with("net_vhost") && !name.starts_with("eth_vhost") {
            return None;
        }
        let mut vhost = Socket {
            socket: PathBuf::new(),
            is_client: false,
        };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key.trim() {
                "iface" => vhost.socket = value.trim().into(),
                "client" => vhost.is_client = value.trim() == "1",
                _ => {}
            }
        }
        Some(vhost)
    }

    /// Checks the socket's path, and removes a socket that a former router has left.
    ///
    /// # Errors
    /// The path is invalid, its folder does not exist, or another program listens there; a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        let path = self.socket.display();
        if !self.socket.is_absolute() || self.socket.as_os_str().len() > PATH_MAX {
            return Err(format!(
                "the socket's path must be absolute, such as vhost:/run/vm1.sock, and of at most {PATH_MAX} bytes"
            ));
        }
        if let Some(folder) = self.socket.parent()
            && !folder.is_dir()
        {
            return Err(format!("there is no folder {}", folder.display()));
        }
        if self.is_client {
            return Ok(());
        }
        match self.socket.symlink_metadata() {
            Err(_) => Ok(()),
            Ok(seen) if !seen.file_type().is_socket() => {
                Err(format!("{path} is there and no socket: name another place"))
            }
            // The program that made it may have been killed: then there is no listener.
            Ok(_) => match UnixStream::connect(&self.socket) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    let removed = std::fs::remove_file(&self.socket);
                    removed.map_err(|e| format!("{path} is left over and cannot be removed: {e}"))
                }
                Ok(_) => Err(format!(
                    "another program listens at {path}: end it, or name another place; with client=1 the router \
                     connects to a virtual machine that listens"
                )),
                Err(e) => Err(format!("{path}: {e}")),
            },
        }
    }

    /// Opens the device, which makes the socket; only this user and root may connect to it.
    ///
    /// # Errors
    /// The arguments are wrong, or DPDK cannot open the device; a sentence says which.
    pub(super) fn open<T: Send>(
        &self,
        open: impl FnOnce() -> Result<T, String> + Send,
    ) -> Result<T, String> {
        if self.is_client {
            return open();
        }
        sys::with_private_umask(open)
            .map_err(|e| format!("its socket cannot be kept to this user: {e}"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn stale_socket_is_removed_and_a_live_one_stays() {
        let folder = std::env::temp_dir().join(format!("ashlar-vhost-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary folders can be made");
        let path = folder.join("vm.sock");
        let of = |more: &str| {
            let devargs = format!("net_vhost7,iface={}{more}", path.display());
            Socket::of(&devargs).expect("it is of net_vhost")
        };
        assert_eq!(of("").check(), Ok(()));
        let listener = UnixListener::bind(&path).expect("the folder is ours");
        let refused = of("").check().expect_err("somebody listens");
        assert!(refused.contains("another program listens"), "{refused}");
        assert_eq!(of(",queues=2,client=1").check(), Ok(()));
        drop(listener);
        assert!(path.exists());
        assert_eq!(of("").check(), Ok(()));
        assert!(!path.exists());
        std::fs::write(&path, "").expect("the folder is ours");
        let refused = of("").check().expect_err("it is a file");
        assert!(refused.contains("no socket"), "{refused}");
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
        let refused = of("").check().expect_err("it is gone");
        assert!(refused.contains("there is no folder"), "{refused}");
        let relative = Socket::of("net_vhost1,iface=vm.sock").expect("it is of net_vhost");
        let refused = relative.check().expect_err("it is relative");
        assert!(refused.contains("must be absolute"), "{refused}");
        assert_eq!(Socket::of("net_null0"), None);
    }
}
