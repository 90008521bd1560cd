//! System calls for information that no file contains: ethtool's ioctls, interface addresses, limits.
#![allow(unsafe_code)]

use crate::{Kernel, Offload};
use std::ffi::{CStr, c_int};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Request number, which libc lacks for some targets.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

// Commands of linux/ethtool.h.
const GET_DRIVER_INFO: u32 = 0x03;
const GET_RX_CHECKSUM: u32 = 0x14;
const GET_TX_CHECKSUM: u32 = 0x16;
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const GET_CHANNELS: u32 = 0x3c;
// Bits of GET_FLAGS.
const TX_VLAN: u32 = 1 << 7;
const RX_VLAN: u32 = 1 << 8;
const LRO: u32 = 1 << 15;

/// Marks all descriptors from `from` on as close-on-exec, for this process and its children.
///
/// # Errors
/// The kernel lacks the call.
pub fn close_on_exec(from: u32) -> io::Result<()> {
    let flag = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: descriptors are marked, and stay open here.
    match unsafe { libc::syscall(libc::SYS_close_range, from, libc::c_uint::MAX, flag) } {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The calling thread's network namespace.
pub(crate) struct Live;

fn socket() -> Option<OwnedFd> {
    // SAFETY: plain system call.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    // SAFETY: the kernel has just returned this descriptor, and it has no other owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends an ethtool command to an interface's driver; `T` is the command's structure, whose first word is the
/// command.
fn ethtool<T>(interface: &str, question: &mut T) -> bool {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let Some(socket) = socket().filter(|_| interface.len() < request.ifr_name.len()) else {
        return false;
    };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(question).cast();
    // SAFETY: the request points to the structure that its command requires, which outlives the call.
    unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) == 0 }
}

/// Result of a command that returns one number (`struct ethtool_value`).
fn ethtool_value(interface: &str, command: u32) -> u32 {
    let mut question = [command, 0];
    match ethtool(interface, &mut question) {
        true => question[1],
        false => 0,
    }
}

impl Kernel for Live {
    fn driver(&self, interface: &str) -> Option<String> {
        // `struct ethtool_drvinfo`: the command, the driver's name in 32 bytes, and fields that are not used here.
        let mut info = [0u32; 49];
        info[0] = GET_DRIVER_INFO;
        if !ethtool(interface, &mut info) {
            return None;
        }
        let bytes: Vec<u8> = info[1..9]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let text = CStr::from_bytes_until_nul(&bytes).ok()?;
        Some(text.to_string_lossy().into_owned()).filter(|text| !text.is_empty())
    }

    fn queues(&self, interface: &str) -> Option<(usize, usize)> {
        // `struct ethtool_channels`: four maxima, then rx, tx, other, combined.
        let mut channels = [0u32; 9];
        channels[0] = GET_CHANNELS;
        if !ethtool(interface, &mut channels) {
            return None;
        }
        let [.., rx, tx, _, combined] = channels;
        Some(((rx + combined) as usize, (tx + combined) as usize))
    }

    fn offloads(&self, interface: &str) -> Vec<Offload> {
        let simple = [
            (GET_GRO, Offload::Gro),
            (GET_TSO, Offload::Tso),
            (GET_GSO, Offload::Gso),
            (GET_TX_CHECKSUM, Offload::TxChecksum),
            (GET_RX_CHECKSUM, Offload::RxChecksum),
        ];
        let on = simple
            .into_iter()
            .filter(|(command, _)| ethtool_value(interface, *command) != 0);
        let mut all: Vec<Offload> = on.map(|(_, offload)| offload).collect();
        let flags = ethtool_value(interface, GET_FLAGS);
        let more = [
            (LRO, Offload::Lro),
            (RX_VLAN, Offload::RxVlan),
            (TX_VLAN, Offload::TxVlan),
        ];
        all.extend(
            more.into_iter()
                .filter(|(bit, _)| flags & bit != 0)
                .map(|(_, offload)| offload),
        );
        all.sort();
        all
    }

    fn addresses(&self) -> Vec<(String, IpAddr)> {
        let mut found = Vec::new();
        let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
        // SAFETY: getifaddrs makes a list that is walked once and freed below; names are terminated, and each address
        // has the structure of its family.
        unsafe {
            if libc::getifaddrs(&mut list) != 0 {
                return found;
            }
            let mut entry = list;
            while let Some(e) = entry.as_ref() {
                let address = match e.ifa_addr.as_ref().map(|a| c_int::from(a.sa_family)) {
                    Some(libc::AF_INET) => {
                        let v4 = &*e.ifa_addr.cast::<libc::sockaddr_in>();
                        Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
                    }
                    Some(libc::AF_INET6) => {
                        let v6 = &*e.ifa_addr.cast::<libc::sockaddr_in6>();
                        Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
                    }
                    _ => None,
                };
                let name = CStr::from_ptr(e.ifa_name).to_string_lossy().into_owned();
                found.extend(address.map(|address| (name, address)));
                entry = e.ifa_next;
            }
            libc::freeifaddrs(list);
        }
        found
    }
}
