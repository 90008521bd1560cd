//! The system call bpf(2), and socket calls without a safe wrapper.
#![allow(unsafe_code)]

use super::program;
use crate::sys::{check, owned, set_option};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_long};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Commands, kinds and flags (linux/bpf.h).
const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const MAP_DELETE: c_int = 3;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const MAP_HASH: u32 = 1;
const MAP_XSK: u32 = 17;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const NO_PREALLOC: u32 = 1;
const HAS_FRAGS: u32 = 1 << 5;
/// Flag for drivers without XDP (linux/if_link.h).
const SKB_MODE: u32 = 1 << 1;

/// Maximum number of kernel addresses of an interface.
const ADDRESSES_MAX: u32 = 4096;

fn bpf<T>(command: c_int, attributes: &T) -> io::Result<c_int> {
    let pointer = std::ptr::from_ref(attributes);
    // SAFETY: pointer and length describe the command's attributes; where they hold pointers, these are to memory that
    // outlives the call, and the kernel only reads it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            c_long::from(command),
            pointer,
            size_of::<T>(),
        )
    };
    check(result as c_int)
}

#[repr(C)]
struct NewMap {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

fn map(kind: u32, key: usize, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    owned(bpf(
        MAP_CREATE,
        &NewMap {
            kind,
            key: key as u32,
            value: 4,
            entries,
            flags,
        },
    )?)
}

#[repr(C)]
struct Entry {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Entry {
    /// An entry whose value is at address `value`; 0 for commands without one.
    fn of(map: &OwnedFd, key: &[u8], value: u64) -> Entry {
        Entry {
            map: map.as_raw_fd() as u32,
            pad: 0,
            key: key.as_ptr().addr() as u64,
            value,
            flags: 0,
        }
    }
}

fn set(map: &OwnedFd, key: &[u8], value: u32) -> io::Result<()> {
    let at = std::ptr::from_ref(&value).addr() as u64;
    bpf(MAP_UPDATE, &Entry::of(map, key, at)).map(drop)
}

fn delete(map: &OwnedFd, key: &[u8]) -> io::Result<()> {
    bpf(MAP_DELETE, &Entry::of(map, key, 0)).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct NewProgram {
    kind: u32,
    instructions: u32,
    text: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attaches_to: u32,
}

#[repr(C)]
struct NewLink {
    program: u32,
    interface: c_int,
    kind: u32,
    flags: u32,
}

/// The program with its maps, not attached yet.
pub(super) struct Filter {
    program: OwnedFd,
    addresses: OwnedFd,
    sockets: OwnedFd,
    /// True if frames may have several descriptors, as frames longer than a page do.
    pub(super) takes_parts: bool,
    /// The kernel's addresses that the map contains.
    kernel_addresses: BTreeSet<IpAddr>,
}

/// The attached program of an interface. It is detached when this value is dropped or the process ends.
pub(super) struct Attached(#[expect(dead_code, reason = "held open")] OwnedFd);

impl Filter {
    /// Makes the kernel check and compile the program, for an interface with `queues` queues.
    ///
    /// # Errors
    /// The kernel refuses a map or the program.
    pub(super) fn new(queues: usize) -> io::Result<Filter> {
        let addresses = map(MAP_HASH, program::KEY_BYTES, ADDRESSES_MAX, NO_PREALLOC)?;
        let sockets = map(MAP_XSK, 4, queues as u32, 0)?;
        let text = program::text(addresses.as_raw_fd(), sockets.as_raw_fd());
        let mut attributes = NewProgram {
            kind: PROG_XDP,
            instructions: text.len() as u32,
            text: text.as_ptr().addr() as u64,
            license: c"Apache-2.0".as_ptr().addr() as u64,
            flags: HAS_FRAGS,
            name: *b"ashlar_port\0\0\0\0\0",
            attaches_to: ATTACH_XDP,
            ..NewProgram::default()
        };
        let mut takes_parts = true;
        let loaded = bpf(PROG_LOAD, &attributes).or_else(|_| {
            // Kernels before 5.18 do not support frames in several parts.
            (attributes.flags, takes_parts) = (0, false);
            bpf(PROG_LOAD, &attributes)
        });
        Ok(Filter {
            program: owned(loaded?)?,
            addresses,
            sockets,
            takes_parts,
            kernel_addresses: BTreeSet::new(),
        })
    }

    /// Attaches the program to an interface. Returns true if the driver runs it. Otherwise the kernel runs it (generic
    /// XDP), after it has made its own structures of a frame.
    ///
    /// # Errors
    /// The kernel refuses to attach the program; EBUSY: the interface has another one.
    pub(super) fn attach(&self, index: c_int) -> io::Result<(Attached, bool)> {
        let link = |flags| {
            let attributes = NewLink {
                program: self.program.as_raw_fd() as u32,
                interface: index,
                kind: ATTACH_XDP,
                flags,
            };
            owned(bpf(LINK_CREATE, &attributes)?)
        };
        match link(0) {
            Ok(link) => Ok((Attached(link), true)),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Err(e),
            Err(e) => match link(SKB_MODE) {
                Ok(link) => Ok((Attached(link), false)),
                Err(_) => Err(e),
            },
        }
    }

    /// Directs the frames of a queue to a socket.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub(super) fn serve(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let socket = socket.as_raw_fd() as u32;
        set(&self.sockets, &queue.to_ne_bytes(), socket)
    }

    /// Sets the addresses whose packets are left to the kernel.
    ///
    /// # Errors
    /// There are more addresses than the kernel's map holds.
    pub(super) fn leave(&mut self, addresses: &BTreeSet<IpAddr>) -> io::Result<()> {
        let old: Vec<IpAddr> = self
            .kernel_addresses
            .difference(addresses)
            .copied()
            .collect();
        for address in old {
            delete(&self.addresses, &program::key(address))?;
            self.kernel_addresses.remove(&address);
        }
        let new: Vec<IpAddr> = addresses
            .difference(&self.kernel_addresses)
            .copied()
            .collect();
        for address in new {
            set(&self.addresses, &program::key(address), 1)?;
            self.kernel_addresses.insert(address);
        }
        Ok(())
    }
}

/// Moves the kernel's receive work for a socket into the polls of that socket. The socket works without, too.
pub(super) fn poll_by_worker(socket: &OwnedFd) -> io::Result<()> {
    /// Microseconds that a poll may take, and frames that it may bring.
    const TIME: c_int = 20;
    const FRAMES: c_int = 64;
    // Numbers from asm-generic/socket.h, since libc does not name them; architectures with their own numbers are not
    // supported.
    const SO_PREFER_BUSY_POLL: c_int = 69;
    const SO_BUSY_POLL_BUDGET: c_int = 70;
    let fd = socket.as_raw_fd();
    set_option(fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &TIME)?;
    set_option(fd, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &FRAMES)
}

/// True if the kernel knows the receive work (NAPI) that polls of a socket do. Some drivers report it with the first
/// frame; for others (veth) Linux has not known it since 6.13.
pub(super) fn knows_receive_work(socket: &OwnedFd) -> bool {
    let (mut id, mut bytes): (u32, _) = (0, size_of::<u32>() as libc::socklen_t);
    // SAFETY: pointer and length describe `id`.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_INCOMING_NAPI_ID,
            std::ptr::from_mut(&mut id).cast(),
            &raw mut bytes,
        )
    };
    got == 0 && id != 0
}

/// Sets the socket's send buffer size in bytes, as far as this process is permitted.
pub(super) fn send_ahead(socket: &OwnedFd, bytes: usize) {
    let bytes = bytes.min(i32::MAX as usize / 2) as c_int;
    let forced = set_option(
        socket.as_raw_fd(),
        libc::SOL_SOCKET,
        libc::SO_SNDBUFFORCE,
        &bytes,
    );
    if forced.is_err() {
        _ = set_option(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            &bytes,
        );
    }
}

/// Makes the kernel receive frames now.
pub(super) fn ask(socket: &OwnedFd) {
    // SAFETY: the buffer is empty, so nothing is written.
    unsafe {
        libc::recv(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
        )
    };
}

/// Makes the kernel send the frames in the ring.
///
/// # Errors
/// The kernel's: EAGAIN if there are more than it takes at once, or the device has no room.
pub(super) fn send(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: no bytes are sent but those of the ring.
    let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
    check(sent as c_int).map(drop)
}
