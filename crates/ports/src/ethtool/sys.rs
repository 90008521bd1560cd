//! The ioctl and its structures.
#![allow(unsafe_code)]

use crate::sys::{check, request};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Request number, which libc does not have for all targets.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_drvinfo` of linux/ethtool.h.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 32 + 32 + 32 + 32 + 12 + 5 * 4],
}

/// The kernel driver of an interface (`veth`, `ixgbe` ...), if the driver reports its name.
pub(crate) fn kernel_driver(socket: &OwnedFd, name: &str) -> Option<String> {
    const GET_DRIVER_INFO: u32 = 3;
    let mut info = DriverInfo {
        cmd: GET_DRIVER_INFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    let mut r = request(name)?;
    r.ifr_ifru.ifru_data = std::ptr::from_mut(&mut info).cast();
    // SAFETY: `r` points to an ethtool_drvinfo that outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut r) }).ok()?;
    let text = CStr::from_bytes_until_nul(&info.driver).ok()?;
    Some(text.to_string_lossy().into_owned())
}

/// `struct ethtool_value` of linux/ethtool.h: sent with a command, comes back with a value.
fn ethtool_value(socket: &OwnedFd, name: &str, mut value: [u32; 2]) -> io::Result<u32> {
    let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
    r.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: `r` points to an ethtool_value that outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut r) })?;
    Ok(value[1])
}

/// True if the kernel merges packets that an interface receives (GRO).
pub(crate) fn gro(socket: &OwnedFd, name: &str) -> bool {
    const GET_GRO: u32 = 0x2b;
    ethtool_value(socket, name, [GET_GRO, 0]).is_ok_and(|on| on != 0)
}

/// Switches the kernel's merging of received packets (GRO) on or off for an interface.
pub(crate) fn set_gro(socket: &OwnedFd, name: &str, on: bool) -> io::Result<()> {
    const SET_GRO: u32 = 0x2c;
    ethtool_value(socket, name, [SET_GRO, on.into()]).map(drop)
}

/// `struct ethtool_channels` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// Receive and transmit queues that an interface has now; 1 each if the driver does not report them.
pub(crate) fn channels(socket: &OwnedFd, name: &str) -> (usize, usize) {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = Channels {
        cmd: GET_CHANNELS,
        ..Channels::default()
    };
    let Some(mut r) = request(name) else {
        return (1, 1);
    };
    r.ifr_ifru.ifru_data = std::ptr::from_mut(&mut channels).cast();
    // SAFETY: `r` points to an ethtool_channels that outlives the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut r) } != 0 {
        return (1, 1);
    }
    let each = [channels.rx, channels.tx].map(|own| (own + channels.combined).max(1) as usize);
    (each[0], each[1])
}

/// Changes that a device makes to received frames, as flags for [`set_rx_flags`]: merging (LRO) and VLAN stripping. 0
/// if unknown.
pub(crate) fn rx_flags(socket: &OwnedFd, name: &str) -> u32 {
    let all = ethtool_value(socket, name, [GET_FLAGS, 0]).unwrap_or(0);
    all & (LRO | RX_VLAN)
}

/// Switches these changes to received frames on or off.
pub(crate) fn set_rx_flags(socket: &OwnedFd, name: &str, flags: u32, on: bool) -> io::Result<()> {
    const SET_FLAGS: u32 = 0x26;
    let all = ethtool_value(socket, name, [GET_FLAGS, 0])?;
    let all = match on {
        true => all | flags,
        false => all & !flags,
    };
    ethtool_value(socket, name, [SET_FLAGS, all]).map(drop)
}

const GET_FLAGS: u32 = 0x25;
const RX_VLAN: u32 = 1 << 8;
const LRO: u32 = 1 << 15;
