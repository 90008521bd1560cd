//! An interface of the router's namespace, the counterpart of a port.

use super::neighbour::{Bounds, Link};
use super::neighbour_requests::{Ask, RequestChannel};
use engine::clock::Time;
use engine::random::secret;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use sync::Lock;
use tables::neighbours::{Refused, State, Timing};
use wire::EtherAddr;

/// Maximum number of neighbours of an interface, of both families. The kernel's own bound
/// (`net.ipv4.neigh.default.gc_thresh3`) is 1024 by default.
const NEIGHBOURS_MAX: usize = 32_768;
/// Flag in the state word: the interface is up. The low 48 bits hold the Ethernet address.
const UP: u64 = 1 << 63;

/// Bounds and timeouts of a link's neighbours. The kernel sends three requests in three seconds. Packets wait here for
/// two seconds and then in the kernel, which forwards them if an answer arrives. If not, it sends an ICMP error as
/// early as for its own packets.
const BOUNDS: Bounds = Bounds {
    entries: NEIGHBOURS_MAX,
    packets: 2048,
    packets_each: 64,
    drop_divisor: usize::MAX,
    timing: Timing {
        reachable: u64::MAX,
        retry: 1_000_000_000,
        idle: u64::MAX,
        tries: 2,
        slow_interval: None,
        told: true,
    },
    // No limit here: the kernel limits its own requests.
    asks: (0, 0),
};

/// Neighbour table key for both families; IPv4 addresses are mapped (RFC 4291, 2.5.5.2). Thus packets of one family can
/// have a next hop of the other.
pub type Key = [u8; 16];

/// The kernel's state of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// Recently confirmed address.
    Reachable([u8; 6]),
    /// Known address without recent confirmation, perhaps being probed. Packets still use it, and make the kernel
    /// confirm it.
    Stale([u8; 6]),
    /// Static address, or address on a link without address resolution (NUD_PERMANENT, NUD_NOARP).
    Permanent([u8; 6]),
    /// The neighbour does not answer.
    Failed,
    /// The kernel has no entry for the neighbour.
    Gone,
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Neighbour::Reachable(mac) => write!(f, "{} reachable", EtherAddr(*mac)),
            Neighbour::Stale(mac) => write!(f, "{} stale", EtherAddr(*mac)),
            Neighbour::Permanent(mac) => write!(f, "{} permanent", EtherAddr(*mac)),
            Neighbour::Failed => f.write_str("failed"),
            Neighbour::Gone => f.write_str("gone"),
        }
    }
}

/// State of a kernel interface that elements name. Initially the interface is down.
pub struct Interface {
    name: String,
    number: u16,
    device: Lock<Option<String>>,
    /// Current name of the interface in the kernel.
    known_as: Lock<String>,
    /// Flag [`UP`] and the Ethernet address.
    state: AtomicU64,
    mtu: AtomicUsize,
    takes_labels: AtomicBool,
    /// Sorted additional unicast addresses, and the number of their changes.
    others: Lock<Vec<EtherAddr>>,
    others_changes: AtomicU64,
    link: Arc<Link<Key>>,
    asks: Arc<RequestChannel>,
}

impl Interface {
    /// An interface that the kernel has not reported yet.
    pub(crate) fn new(name: &str, number: u16, asks: &Arc<RequestChannel>) -> Interface {
        Interface {
            name: name.to_owned(),
            number,
            device: Lock::new(None),
            known_as: Lock::new(name.to_owned()),
            state: AtomicU64::new(0),
            mtu: AtomicUsize::new(1500),
            takes_labels: AtomicBool::new(false),
            others: Lock::default(),
            others_changes: AtomicU64::new(0),
            link: Arc::new(Link::new(BOUNDS, secret())),
            asks: Arc::clone(asks),
        }
    }

    /// Name of the interface in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name in the kernel: the configuration's name, unless the [interface was renamed](super::Kernel::renamed).
    pub fn known_as(&self) -> String {
        self.known_as.lock().clone()
    }

    /// Sets the kernel's name. Returns true if the name has changed.
    pub(crate) fn set_known_as(&self, name: &str) -> bool {
        let mut known_as = self.known_as.lock();
        let changes = *known_as != name;
        if changes {
            name.clone_into(&mut known_as);
        }
        changes
    }

    /// Number of the interface in next hops ([`Member::port`](super::Member::port)); constant while the router runs.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Name of the port through which the interface's packets travel, if a configuration has set it.
    pub fn device(&self) -> Option<String> {
        self.device.lock().clone()
    }

    /// Sets the name of the port through which the interface's packets travel.
    pub fn set_device(&self, device: &str) {
        *self.device.lock() = Some(device.to_owned());
    }

    /// Sets the kernel's state of the interface. `mtu` is the maximum length of an IP packet, in bytes.
    pub fn set_state(&self, up: bool, mac: [u8; 6], mtu: usize) {
        let up = if up { UP } else { 0 };
        self.mtu.store(mtu, Relaxed);
        self.state.store(up | EtherAddr(mac).to_u64(), Relaxed);
    }

    /// Sets the additional Ethernet addresses of the interface, such as those of VRRP interfaces on top of it. Returns
    /// true if they have changed.
    pub fn set_others(&self, mut macs: Vec<EtherAddr>) -> bool {
        macs.sort_unstable();
        macs.dedup();
        let mut others = self.others.lock();
        let changes = *others != macs;
        if changes {
            *others = macs;
            self.others_changes.fetch_add(1, Release);
        }
        changes
    }

    /// Sorted addresses of the last call of [`set_others`](Self::set_others).
    pub fn other_addresses(&self) -> Vec<EtherAddr> {
        self.others.lock().clone()
    }

    /// Number of changes of [`other_addresses`](Self::other_addresses).
    #[inline]
    pub fn others_changes(&self) -> u64 {
        self.others_changes.load(Acquire)
    }

    /// Sets whether the kernel accepts MPLS packets from the interface (`net.mpls.conf.NAME.input`).
    pub fn set_takes_labels(&self, takes: bool) {
        self.takes_labels.store(takes, Relaxed);
    }

    /// True if the kernel accepts MPLS packets from the interface; false at first.
    #[inline]
    pub fn takes_labels(&self) -> bool {
        self.takes_labels.load(Relaxed)
    }

    /// True if the interface is up.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.state.load(Relaxed) & UP != 0
    }

    /// Ethernet address; `None` while the interface is down.
    #[inline]
    pub fn mac(&self) -> Option<EtherAddr> {
        let state = self.state.load(Relaxed);
        (state & UP != 0).then(|| EtherAddr::from_u64(state & !UP))
    }

    /// Maximum length of an IP packet on the interface, in bytes.
    #[inline]
    pub fn mtu(&self) -> usize {
        self.mtu.load(Relaxed)
    }

    /// Sets the kernel's state of a neighbour. Packets that wait for it leave within 2 ms, or as exceptions within 250
    /// ms if the neighbour does not answer. If the neighbour table is full, its packets go to the kernel.
    pub fn set_neighbour(&self, address: IpAddr, neighbour: Neighbour) {
        let (table, Time(now), key) = (self.link.table(), self.link.now(), key(address));
        let busy = || match neighbour {
            Neighbour::Reachable(mac) => table.set_reachable(key, EtherAddr(mac), now).map(|_| ()),
            Neighbour::Stale(mac) => table.set_stale(key, EtherAddr(mac), now).map(|_| ()),
            Neighbour::Permanent(mac) => table.set_permanent(key, EtherAddr(mac), now).map(|_| ()),
            Neighbour::Failed => table.set_unreachable(key, now),
            Neighbour::Gone => table.remove(key).map(|_| ()),
        };
        // Workers hold the table only briefly.
        while busy() == Err(Refused::Contended) {
            std::hint::spin_loop();
        }
    }

    /// Removes all neighbours.
    pub fn clear_neighbours(&self) {
        self.link.clear(true);
    }

    /// Known neighbours in no particular order, without those that are still being resolved.
    pub fn neighbours(&self) -> Vec<(IpAddr, Neighbour)> {
        let each = self.link.table().iter().filter_map(|(key, neighbour)| {
            let mac = neighbour.mac.0;
            let neighbour = match neighbour.state {
                State::Incomplete => return None,
                State::Reachable => Neighbour::Reachable(mac),
                State::Stale | State::Probe => Neighbour::Stale(mac),
                State::Permanent => Neighbour::Permanent(mac),
            };
            Some((address(key), neighbour))
        });
        each.collect()
    }

    /// The interface's neighbours.
    pub fn link(&self) -> &Arc<Link<Key>> {
        &self.link
    }

    /// Requests the kernel to resolve or confirm a neighbour.
    pub fn ask(&self, address: IpAddr) {
        self.asks.send(Ask {
            interface: self.number,
            address,
        });
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interface { name, number, .. } = self;
        write!(f, "{number} {name} {:?} {}", self.mac(), self.mtu())
    }
}

/// Key of an address in the neighbour table.
fn key(address: IpAddr) -> Key {
    match address {
        IpAddr::V4(address) => key4(address.octets()).to_be_bytes(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Key of an IPv4 address in the neighbour table, as a number.
#[inline]
pub fn key4(address: [u8; 4]) -> u128 {
    0xffff_0000_0000 | u128::from(u32::from_be_bytes(address))
}

/// Address of a neighbour table key.
pub fn address(key: Key) -> IpAddr {
    IpAddr::from(key).to_canonical()
}
