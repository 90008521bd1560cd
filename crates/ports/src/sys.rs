//! The system calls that several ports share: interface ioctls, link events, eventfd, epoll.
#![allow(unsafe_code)]

use engine::waiter::Usage;
use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::time::Duration;

/// Turns the result of a system call into a `Result`.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Takes ownership of a descriptor that a system call has just made.
pub(crate) fn owned(result: c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the kernel has just returned this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of a socket to a plain value.
pub(crate) fn set_option<T>(fd: RawFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Runs `job` on a thread of its own; files that it creates are accessible to this user only.
pub(crate) fn with_private_umask<T: Send>(job: impl FnOnce() -> T + Send) -> io::Result<T> {
    let inside = || {
        // SAFETY: gives this thread, which ends with the job, its own copy of what threads share of the file system:
        // root, current folder and mask of modes.
        check(unsafe { libc::unshare(libc::CLONE_FS) })?;
        // SAFETY: a plain argument; only this thread's mask changes.
        unsafe { libc::umask(0o077) };
        Ok(job())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, inside)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Process (0 if invisible) and user that listen at the UNIX address to which a socket is connected.
pub(crate) fn peer(socket: &OwnedFd) -> io::Result<(u32, u32)> {
    let mut who = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: pointer and length describe `who`, which outlives the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut who).cast(),
            &raw mut length,
        )
    })?;
    Ok((who.pid.unsigned_abs(), who.uid))
}

/// An interface request that carries `name`; `None` if the name is too long.
pub(crate) fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

/// An interface as the kernel describes it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: c_int,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: usize,
    /// Administratively up.
    pub(crate) up: bool,
    /// Up and with a carrier.
    pub(crate) running: bool,
    /// True if the interface's frames are Ethernet frames.
    pub(crate) ethernet: bool,
}

/// A socket for interface ioctls.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}

/// Looks an interface up by name.
pub(crate) fn interface(socket: &OwnedFd, name: &str) -> io::Result<Interface> {
    let no_device = || io::Error::from_raw_os_error(libc::ENODEV);
    let mut r = request(name).ok_or_else(no_device)?;
    let fd = socket.as_raw_fd();
    // SAFETY: `r` is a valid ifreq with a terminated name; each ioctl fills the union member that
    // is read right after it.
    unsafe {
        check(libc::ioctl(fd, libc::SIOCGIFINDEX, &mut r))?;
        let index = r.ifr_ifru.ifru_ifindex;
        check(libc::ioctl(fd, libc::SIOCGIFFLAGS, &mut r))?;
        let flags = c_int::from(r.ifr_ifru.ifru_flags);
        check(libc::ioctl(fd, libc::SIOCGIFMTU, &mut r))?;
        let mtu = r.ifr_ifru.ifru_mtu.max(0) as usize;
        check(libc::ioctl(fd, libc::SIOCGIFHWADDR, &mut r))?;
        let hardware = r.ifr_ifru.ifru_hwaddr;
        let mac = std::array::from_fn(|i| hardware.sa_data[i] as u8);
        let family = hardware.sa_family;
        Ok(Interface {
            index,
            mac,
            mtu,
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
            ethernet: family == libc::ARPHRD_ETHER || family == libc::ARPHRD_LOOPBACK,
        })
    }
}

/// A packet socket that receives nothing yet.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    // Protocol 0: nothing is received before it is bound.
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call.
    owned(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })
}

/// Subscribes a socket to frames for all groups, or with `all_stations` for all stations, or ends this (`on` false). A
/// router is a member of a solicited-node group for each of its IPv6 addresses (RFC 4291, 2.8).
pub(crate) fn subscribe(
    socket: &OwnedFd,
    index: c_int,
    all_stations: bool,
    on: bool,
) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid packet_mreq.
    let mut wish: libc::packet_mreq = unsafe { std::mem::zeroed() };
    wish.mr_ifindex = index;
    wish.mr_type = match all_stations {
        true => libc::PACKET_MR_PROMISC as u16,
        false => libc::PACKET_MR_ALLMULTI as u16,
    };
    set_option(
        socket.as_raw_fd(),
        libc::SOL_PACKET,
        match on {
            true => libc::PACKET_ADD_MEMBERSHIP,
            false => libc::PACKET_DROP_MEMBERSHIP,
        },
        &wish,
    )
}

/// Brings an interface up, or takes it down.
pub(crate) fn set_up(socket: &OwnedFd, name: &str, up: bool) -> io::Result<()> {
    let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
    let fd = socket.as_raw_fd();
    // SAFETY: as in `interface`; the flags are read back changed.
    unsafe {
        check(libc::ioctl(fd, libc::SIOCGIFFLAGS, &mut r))?;
        let flag = libc::IFF_UP as libc::c_short;
        let others = r.ifr_ifru.ifru_flags & !flag;
        r.ifr_ifru.ifru_flags = if up { others | flag } else { others };
        check(libc::ioctl(fd, libc::SIOCSIFFLAGS, &mut r)).map(drop)
    }
}

/// Opens one more queue of a TAP interface, non-blocking and without packet information. The first queue makes the
/// interface.
pub(crate) fn tap(name: &str) -> io::Result<OwnedFd> {
    tunnel(name, libc::IFF_TAP).map(|(fd, _)| fd)
}

/// Opens one more queue of an interface of a kind (IFF_TAP, IFF_TUN), non-blocking and without packet information. The
/// first queue makes the interface. Returns its name, which the kernel completes if it ends in `%d`.
pub(crate) fn tunnel(name: &str, kind: c_int) -> io::Result<(OwnedFd, String)> {
    let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENAMETOOLONG))?;
    let flags = kind | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE;
    r.ifr_ifru.ifru_flags = flags as libc::c_short;
    let mode = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: a terminated path; then a valid ifreq that outlives the call, in which the kernel leaves a
    // terminated name.
    unsafe {
        let fd = owned(libc::open(c"/dev/net/tun".as_ptr(), mode))?;
        check(libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &mut r))?;
        let name = CStr::from_ptr(r.ifr_name.as_ptr());
        Ok((fd, name.to_string_lossy().into_owned()))
    }
}

/// Sets a property of a TAP interface that is a plain number, by one of its queues.
pub(crate) fn tap_set(queue: &OwnedFd, what: libc::Ioctl, value: c_int) -> io::Result<()> {
    // SAFETY: these calls (TUNSETPERSIST ...) take the number itself.
    check(unsafe { libc::ioctl(queue.as_raw_fd(), what, libc::c_long::from(value)) }).map(drop)
}

/// The name of the TAP interface with several queues that a descriptor is a queue of.
pub(crate) fn tap_name(queue: &OwnedFd) -> io::Result<String> {
    // SAFETY: all-zero bytes are a valid ifreq, which outlives the call; the kernel leaves a terminated
    // name and flags in it.
    let (flags, name) = unsafe {
        let mut r: libc::ifreq = std::mem::zeroed();
        check(libc::ioctl(queue.as_raw_fd(), libc::TUNGETIFF, &mut r))?;
        let name = CStr::from_ptr(r.ifr_name.as_ptr());
        (r.ifr_ifru.ifru_flags, name.to_string_lossy().into_owned())
    };
    let wanted = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE) as libc::c_short;
    match flags & wanted == wanted {
        true => Ok(name),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// True if a TAP interface is in the network namespace of the calling thread. Also true before Linux 5.9, which cannot
/// tell.
pub(crate) fn tap_is_here(queue: &OwnedFd) -> bool {
    /// `_IO('T', 227)` of linux/if_tun.h.
    const TUNGETDEVNETNS: c_int = 0x54e3;
    // SAFETY: the call takes no argument and gives a new descriptor.
    let its = unsafe { libc::ioctl(queue.as_raw_fd(), TUNGETDEVNETNS as _) };
    let Ok(its) = owned(its).and_then(|fd| File::from(fd).metadata()) else {
        return true;
    };
    let ours = std::fs::metadata("/proc/thread-self/ns/net");
    ours.is_ok_and(|ours| (ours.dev(), ours.ino()) == (its.dev(), its.ino()))
}

/// Sets a TAP interface's carrier, by one of its queues.
pub(crate) fn tap_set_carrier(queue: &OwnedFd, up: bool) -> io::Result<()> {
    let carrier = c_int::from(up);
    // SAFETY: the call reads a number that outlives it.
    check(unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNSETCARRIER, &carrier) }).map(drop)
}

/// An IPv4 socket address of an address.
fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: both are plain bytes of the same length, for which all-zero bytes are valid.
    unsafe {
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = libc::AF_INET as _;
        to.sin_addr.s_addr = u32::from(address).to_be();
        std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(to)
    }
}

/// Sets an interface's IPv4 address and netmask.
pub(crate) fn set_address(
    socket: &OwnedFd,
    name: &str,
    address: Ipv4Addr,
    mask: Ipv4Addr,
) -> io::Result<()> {
    let settings = [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)];
    for (what, value) in settings {
        let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        r.ifr_ifru.ifru_addr = socket_address(value);
        // SAFETY: a valid ifreq with a terminated name.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), what, &r) })?;
    }
    Ok(())
}

/// Adds an IPv6 address to an interface.
pub(crate) fn add_address6(
    socket: &OwnedFd,
    name: &str,
    address: Ipv6Addr,
    length: u8,
) -> io::Result<()> {
    // SAFETY: plain system call.
    let family =
        owned(unsafe { libc::socket(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    let request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr {
            s6_addr: address.octets(),
        },
        ifr6_prefixlen: length.into(),
        ifr6_ifindex: interface(socket, name)?.index,
    };
    // SAFETY: the call reads a request that outlives it.
    check(unsafe { libc::ioctl(family.as_raw_fd(), libc::SIOCSIFADDR, &request) }).map(drop)
}

/// Sets an interface's MTU.
pub(crate) fn set_mtu(socket: &OwnedFd, name: &str, mtu: usize) -> io::Result<()> {
    let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
    r.ifr_ifru.ifru_mtu = c_int::try_from(mtu).unwrap_or(c_int::MAX);
    // SAFETY: a valid ifreq with a terminated name.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU, &r) }).map(drop)
}

/// Sets an Ethernet interface's address.
pub(crate) fn set_mac(socket: &OwnedFd, name: &str, mac: [u8; 6]) -> io::Result<()> {
    let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
    let mut hardware = socket_address(Ipv4Addr::UNSPECIFIED);
    hardware.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in hardware.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    r.ifr_ifru.ifru_hwaddr = hardware;
    // SAFETY: a valid ifreq with a terminated name.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFHWADDR, &r) }).map(drop)
}

/// Adds a default route.
pub(crate) fn default_route(socket: &OwnedFd, gateway: Ipv4Addr) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid rtentry, which outlives the call.
    unsafe {
        let mut route: libc::rtentry = std::mem::zeroed();
        route.rt_dst = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_genmask = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_gateway = socket_address(gateway);
        route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT, &route)).map(drop)
    }
}

/// Writes to a non-blocking descriptor, all at once or not at all.
pub(crate) fn write(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `bytes`.
    let n = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Interfaces, and the IP addresses of each.
pub(crate) fn interfaces() -> Vec<(String, Vec<IpAddr>)> {
    let mut found: Vec<(String, Vec<IpAddr>)> = Vec::new();
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs makes a list that is walked once and freed below; names are terminated, addresses of family
    // AF_INET are sockaddr_in, those of AF_INET6 sockaddr_in6.
    unsafe {
        if libc::getifaddrs(&mut list) != 0 {
            return found;
        }
        let mut entry = list;
        while let Some(e) = entry.as_ref() {
            let name = CStr::from_ptr(e.ifa_name).to_string_lossy().into_owned();
            let address = match e.ifa_addr.as_ref().map(|a| c_int::from(a.sa_family)) {
                Some(libc::AF_INET) => {
                    let v4 = &*e.ifa_addr.cast::<libc::sockaddr_in>();
                    Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
                }
                Some(libc::AF_INET6) => {
                    let v6 = &*e.ifa_addr.cast::<libc::sockaddr_in6>();
                    Some(IpAddr::from(v6.sin6_addr.s6_addr))
                }
                _ => None,
            };
            let known = match found.iter().position(|(n, _)| *n == name) {
                Some(known) => known,
                None => {
                    found.push((name, Vec::new()));
                    found.len() - 1
                }
            };
            found[known].1.extend(address);
            entry = e.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    found
}

/// IP addresses of an interface.
pub(crate) fn addresses(name: &str) -> Vec<IpAddr> {
    let all = interfaces();
    // An IPv4 address may have a label, which follows the name (ip-address(8)).
    let is_own = |known: &str| known.split(':').next() == Some(name);
    let own = all.into_iter().filter(|(known, _)| is_own(known));
    own.flat_map(|(_, addresses)| addresses).collect()
}

/// A netlink socket that becomes readable when any link or address changes.
pub(crate) fn interface_events() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call; then the address is a valid sockaddr_nl that outlives `bind`.
    unsafe {
        let socket = owned(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?;
        let mut address: libc::sockaddr_nl = std::mem::zeroed();
        address.nl_family = libc::AF_NETLINK as _;
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        address.nl_groups = groups as u32;
        check(libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_nl>() as _,
        ))?;
        Ok(socket)
    }
}

/// Reads from a non-blocking descriptor; 0 if nothing waits or it failed.
pub(crate) fn read(fd: RawFd, into: &mut [u8]) -> usize {
    // SAFETY: pointer and length describe `into`.
    let n = unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) };
    n.max(0) as usize
}

/// An event counter, non-blocking.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Makes an event counter readable.
pub(crate) fn signal(fd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: an eventfd takes eight bytes. If the counter is at its maximum, the call fails; it is readable then.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Makes an event counter unreadable; true if it was readable.
pub(crate) fn clear(fd: &OwnedFd) -> bool {
    read(fd.as_raw_fd(), &mut [0; 8]) == 8
}

/// Waits until a descriptor is readable, for at most `limit`. Returns true for each readable descriptor.
pub(crate) fn poll<const N: usize>(fds: [RawFd; N], limit: Duration) -> [bool; N] {
    let mut list = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let millis = limit.as_millis().min(i32::MAX as u128) as c_int;
    // SAFETY: pointer and length describe `list`.
    unsafe { libc::poll(list.as_mut_ptr(), N as _, millis) };
    list.map(|entry| entry.revents != 0)
}

/// Makes every other thread of this process pass a full memory barrier before this returns; returns false if the kernel
/// cannot.
pub(crate) fn barrier_on_all_threads() -> bool {
    const PRIVATE_EXPEDITED: c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;
    // SAFETY: plain system calls.
    let ask = |command: c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 };
    // Repeated registration is harmless.
    ask(REGISTER_PRIVATE_EXPEDITED) && ask(PRIVATE_EXPEDITED)
}

/// An empty epoll set.
pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

/// Adds a descriptor to an epoll set (readable, level-triggered).
pub(crate) fn epoll_add(set: &OwnedFd, fd: RawFd) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: fd as u64,
    };
    // SAFETY: `event` outlives the call.
    check(unsafe { libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })
        .map(drop)
}

/// Takes a descriptor out of an epoll set; it need not be in it.
pub(crate) fn epoll_remove(set: &OwnedFd, fd: RawFd) {
    // SAFETY: the event argument is ignored for this operation.
    unsafe {
        libc::epoll_ctl(
            set.as_raw_fd(),
            libc::EPOLL_CTL_DEL,
            fd,
            std::ptr::null_mut(),
        );
    }
}

/// Waits for an event in the set, for at most `limit`. Returns true if there is one. Precise to nanoseconds where the
/// kernel has epoll_pwait2 (5.11), to milliseconds, rounded up, elsewhere.
pub(crate) fn epoll_wait(set: &OwnedFd, limit: Duration) -> bool {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let time = libc::timespec {
        tv_sec: limit.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    // SAFETY: one event of room, a valid timespec, no signal mask.
    unsafe {
        let mut n = libc::epoll_pwait2(set.as_raw_fd(), &mut event, 1, &time, std::ptr::null());
        if n < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            let millis = limit.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128);
            n = libc::epoll_wait(set.as_raw_fd(), &mut event, 1, millis as c_int);
        }
        n > 0
    }
}

/// Processor time of the calling thread; `None` if the kernel does not tell.
pub(crate) fn usage() -> Option<Usage> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: all-zero bytes are a valid rusage.
    let mut counts: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: room for one timespec, and for one rusage.
    let failed = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time)
            | libc::getrusage(libc::RUSAGE_THREAD, &mut counts)
    };
    (failed == 0).then(|| Usage {
        cpu_ns: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        voluntary_switches: counts.ru_nvcsw as u64,
        page_faults: (counts.ru_minflt + counts.ru_majflt) as u64,
    })
}

/// Sets this thread's timer slack to a microsecond instead of 50.
pub(crate) fn precise_sleep() {
    // SAFETY: sets a property of the calling thread; failure leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000 as libc::c_ulong) };
}

/// Puts descriptor `new` in the place of `old`, atomically; the number stays.
pub(crate) fn replace(old: &OwnedFd, new: OwnedFd) -> io::Result<()> {
    // SAFETY: both are open; `old` keeps owning its number, `new` is closed on return.
    check(unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) }).map(drop)
}
