//! An interface of the router's namespace, the twin of a port.

use super::asks::{Ask, Asks};
use crate::neighbour::{Bounds, Link};
use engine::clock::Time;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use tables::neighbours::{Key, Refused, State, Timing};
use wire::EtherAddr;

/// Neighbours of one family that an interface's table has room for. The kernel's own bound
/// (`net.ipv4.neigh.default.gc_thresh3`) is 1024 unless somebody raises it.
const NEIGHBOURS_MAX: usize = 16_384;
/// Set in the word of the state while the interface is up; the address is below.
const UP: u64 = 1 << 63;

/// What a link's neighbours may take, and when they are asked for: the kernel asks three times within three
/// seconds and then says that there is nobody. Should nobody speak for the kernel, it ends here after five.
const BOUNDS: Bounds = Bounds {
    entries: NEIGHBOURS_MAX,
    packets: 2048,
    packets_each: 64,
    slim: usize::MAX,
    timing: Timing {
        reachable: u64::MAX,
        retry: 1_000_000_000,
        idle: u64::MAX,
        tries: 5,
        slow: None,
        told: true,
    },
};

/// What the kernel says of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// Confirmed a short time ago.
    Reachable([u8; 6]),
    /// Known, but not confirmed lately (also while it is being probed): it is used on, and its use asks.
    Stale([u8; 6]),
    /// Configured, or of a link that needs no questions (NUD_PERMANENT, NUD_NOARP).
    Permanent([u8; 6]),
    /// It does not answer.
    Failed,
    /// The kernel knows nothing of it.
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

/// An interface that elements have named, as the kernel says it is. At first it is down.
pub struct Interface {
    name: String,
    number: u16,
    device: Mutex<Option<String>>,
    /// [`UP`] and the Ethernet address.
    state: AtomicU64,
    mtu: AtomicUsize,
    link4: Arc<Link<u32>>,
    link6: Arc<Link<[u8; 16]>>,
    asks: Arc<Asks>,
}

impl Interface {
    pub(super) fn new(name: &str, number: u16, asks: &Arc<Asks>) -> Interface {
        Interface {
            name: name.to_owned(),
            number,
            device: Mutex::new(None),
            state: AtomicU64::new(0),
            mtu: AtomicUsize::new(1500),
            link4: Arc::new(Link::new(BOUNDS)),
            link6: Arc::new(Link::new(BOUNDS)),
            asks: Arc::clone(asks),
        }
    }

    /// The kernel's name of it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As next hops name it ([`Member::port`](super::Member::port)); the same as long as the router runs.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The device behind it, where a configuration told: the port's name.
    pub fn device(&self) -> Option<String> {
        self.lock().clone()
    }

    pub(super) fn set_device(&self, device: &str) {
        *self.lock() = Some(device.to_owned());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the kernel says of the interface. The MTU is that of IP packets, in bytes.
    pub fn set_state(&self, up: bool, mac: [u8; 6], mtu: usize) {
        let up = if up { UP } else { 0 };
        self.mtu.store(mtu, Relaxed);
        self.state.store(up | EtherAddr(mac).to_u64(), Relaxed);
    }

    /// Whether it is up.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.state.load(Relaxed) & UP != 0
    }

    /// Its Ethernet address; none while it is down.
    #[inline]
    pub fn mac(&self) -> Option<EtherAddr> {
        let state = self.state.load(Relaxed);
        (state & UP != 0).then(|| EtherAddr::from_u64(state & !UP))
    }

    /// The longest IP packet that it takes, in bytes.
    #[inline]
    pub fn mtu(&self) -> usize {
        self.mtu.load(Relaxed)
    }

    /// What the kernel says of a neighbour. Packets that wait for it leave within 2 ms, as exceptions
    /// within 250 if it does not answer. If the table is full, packets to it are the kernel's to forward.
    pub fn set_neighbour(&self, address: IpAddr, neighbour: Neighbour) {
        match address {
            IpAddr::V4(address) => set(&self.link4, address.to_bits(), neighbour),
            IpAddr::V6(address) => set(&self.link6, address.octets(), neighbour),
        }
    }

    /// Forgets all neighbours.
    pub fn clear_neighbours(&self) {
        self.link4.clear(true);
        self.link6.clear(true);
    }

    /// What is known of neighbours, in no order. Those that are asked for and not known are left out.
    pub fn neighbours(&self) -> Vec<(IpAddr, Neighbour)> {
        let four = known(&self.link4, |key| Ipv4Addr::from(key).into());
        let six = known(&self.link6, |key| Ipv6Addr::from(key).into());
        four.into_iter().chain(six).collect()
    }

    pub(super) fn link4(&self) -> &Arc<Link<u32>> {
        &self.link4
    }

    pub(super) fn link6(&self) -> &Arc<Link<[u8; 16]>> {
        &self.link6
    }

    /// Asks the kernel for a neighbour.
    pub(super) fn ask(&self, address: IpAddr) {
        self.asks.put(Ask {
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

fn set<K: Key>(link: &Link<K>, key: K, neighbour: Neighbour) {
    let (table, Time(now)) = (link.table(), link.now());
    let busy = || match neighbour {
        Neighbour::Reachable(mac) => table.set_reachable(key, EtherAddr(mac), now).map(|_| ()),
        Neighbour::Stale(mac) => table.set_stale(key, EtherAddr(mac), now).map(|_| ()),
        Neighbour::Permanent(mac) => table.set_permanent(key, EtherAddr(mac), now).map(|_| ()),
        Neighbour::Failed => table.set_unreachable(key, now),
        Neighbour::Gone => table.remove(key).map(|_| ()),
    };
    // Workers write there for moments only.
    while busy() == Err(Refused::Busy) {
        std::hint::spin_loop();
    }
}

fn known<K: Key>(link: &Link<K>, address: impl Fn(K) -> IpAddr) -> Vec<(IpAddr, Neighbour)> {
    let each = link.table().iter().filter_map(|(key, neighbour)| {
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
