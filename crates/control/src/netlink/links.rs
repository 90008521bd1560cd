//! Links: their state in the kernel, and the interfaces of the configuration with the same names.

use forwarding::{Interface, Kernel};
use std::collections::HashMap;
use std::sync::Arc;
use wire::EtherAddr;
use wire::netlink::{AF_UNSPEC, Change, Link};

/// Known state of a kernel link.
struct KernelLink {
    name: Box<[u8]>,
    up: bool,
    carrier: bool,
    mac: [u8; 6],
    mtu: usize,
    /// True if the kernel accepts MPLS packets from the link.
    takes_labels: bool,
    /// Index of the lower link of a stacked device, such as a VLAN.
    lower_link: Option<u32>,
    /// Interface with the link's name, if the configuration has one.
    interface: Option<Arc<Interface>>,
    /// Number of the last dump that contained the link.
    last_dump: u32,
}

/// Links of the namespace, by index.
#[derive(Default)]
pub(super) struct Links {
    known: HashMap<u32, KernelLink>,
    /// Links by interface number. During a rename two links may match; the last one counts.
    by_number: HashMap<u16, u32>,
    interfaces: Vec<Arc<Interface>>,
    generation: Option<u64>,
    last_dump: u32,
}

/// State of a link, as far as routes depend on it.
pub(super) type State = super::model::Link;

impl KernelLink {
    fn state(&self) -> State {
        State {
            number: self.interface.as_ref().map(|i| i.number()),
            up: self.up,
            carrier: self.carrier,
        }
    }

    /// Copies the link's state to its interface.
    fn publish(&self) {
        if let Some(interface) = &self.interface {
            interface.set_state(self.up, self.mac, self.mtu);
            interface.set_takes_labels(self.takes_labels);
        }
    }
}

impl Links {
    /// True if interfaces were added or renamed since [`renumber`](Self::renumber) ran.
    pub(super) fn is_outdated(&self, kernel: &Kernel) -> bool {
        self.generation != Some(kernel.generation())
    }

    /// Matches links to interfaces again. Returns the links whose interface has changed, by index.
    pub(super) fn renumber(&mut self, kernel: &Kernel) -> Vec<(u32, State)> {
        // The generation is read before the list: an interface added in between is handled by the next call.
        self.generation = Some(kernel.generation());
        self.interfaces = kernel.interfaces();
        let mut changed = Vec::new();
        for (index, link) in &mut self.known {
            let interface = named(&self.interfaces, &link.name);
            let number = |i: &Option<Arc<Interface>>| i.as_ref().map(|i| i.number());
            if number(&interface) == number(&link.interface) {
                continue;
            }
            if let Some(before) = std::mem::replace(&mut link.interface, interface) {
                before.clear_neighbours();
                before.set_state(false, [0; 6], before.mtu());
                before.set_takes_labels(false);
                before.set_others(Vec::new());
            }
            changed.push(*index);
        }
        let numbered = self.known.iter();
        let numbered =
            numbered.filter_map(|(index, k)| Some((k.interface.as_ref()?.number(), *index)));
        self.by_number = numbered.collect();
        // Interfaces are updated after all removals, because one link may take over another's interface.
        let tell = |index: u32| {
            let link = &self.known[&index];
            link.publish();
            self.tell_others(index);
            (index, link.state())
        };
        changed.into_iter().map(tell).collect()
    }

    /// Processes a message. Returns the link's new state, or `Some(None)` if the link was removed. `None` if the
    /// message is not about a link as such.
    pub(super) fn process(&mut self, change: Change, link: &Link<'_>) -> Option<Option<State>> {
        if link.family != AF_UNSPEC {
            return None;
        }
        if change == Change::Gone {
            self.remove(link.index);
            return Some(None);
        }
        let (name, up) = (link.name, link.is_up());
        let old = self.known.get(&link.index);
        if old.is_some_and(|old| *old.name != *name) {
            // The link was renamed: the interface with its old name loses the link.
            self.remove(link.index);
        }
        let old = self.known.get(&link.index);
        let known = KernelLink {
            interface: named(&self.interfaces, name),
            up,
            carrier: link.has_carrier(),
            mac: link.ether.map_or([0; 6], |ether| ether.0),
            mtu: match link.mtu {
                0 => old.map_or(1500, |old| old.mtu),
                mtu => mtu as usize,
            },
            takes_labels: old.is_some_and(|old| old.takes_labels),
            lower_link: link.lower_link,
            name: name.into(),
            last_dump: self.last_dump,
        };
        known.publish();
        let state = known.state();
        if let Some(number) = state.number {
            self.by_number.insert(number, link.index);
        }
        let was_upon = old.and_then(|old| old.lower_link);
        self.known.insert(link.index, known);
        self.tell_others(link.index);
        for upon in [
            was_upon,
            link.lower_link.filter(|_| was_upon != link.lower_link),
        ] {
            upon.into_iter().for_each(|upon| self.tell_others(upon));
        }
        Some(Some(state))
    }

    /// Passes the Ethernet addresses of a link's active upper links, such as VLANs, to the link's interface.
    fn tell_others(&self, index: u32) {
        let Some(link) = self.known.get(&index) else {
            return;
        };
        if let Some(interface) = &link.interface {
            let upon = self
                .known
                .values()
                // FRR's vrrpd leaves the interface of a backup router up, and removes its carrier.
                .filter(|k| k.lower_link == Some(index) && k.up && k.carrier);
            let others = upon
                .map(|k| k.mac)
                .filter(|mac| *mac != link.mac && *mac != [0; 6]);
            interface.set_others(others.map(EtherAddr).collect());
        }
    }

    /// Sets whether the kernel accepts MPLS packets from a link.
    pub(super) fn set_takes_labels(&mut self, index: u32, takes: bool) {
        if let Some(link) = self.known.get_mut(&index) {
            link.takes_labels = takes;
            link.publish();
        }
    }

    /// Begins a dump of all links.
    pub(super) fn begin_sync(&mut self) {
        self.last_dump = self.last_dump.wrapping_add(1);
    }

    /// Ends a dump of links. Returns the links that the dump did not contain.
    pub(super) fn end_sync(&mut self) -> Vec<u32> {
        let unseen = self
            .known
            .iter()
            .filter(|(_, k)| k.last_dump != self.last_dump);
        let removed: Vec<u32> = unseen.map(|(index, _)| *index).collect();
        removed.iter().for_each(|index| self.remove(*index));
        removed
    }

    /// Interface of a link; `None` if the configuration has none.
    pub(super) fn interface(&self, index: u32) -> Option<&Arc<Interface>> {
        self.known.get(&index)?.interface.as_ref()
    }

    /// Link index of an interface that is up.
    pub(super) fn index(&self, interface: u16) -> Option<u32> {
        let index = self.by_number.get(&interface)?;
        self.known.get(index).filter(|k| k.up).map(|_| *index)
    }

    /// Number of links, and number of links with an interface.
    pub(super) fn count(&self) -> (usize, usize) {
        let named = self.known.values().filter(|k| k.interface.is_some());
        (self.known.len(), named.count())
    }

    fn remove(&mut self, index: u32) {
        let Some(mut link) = self.known.remove(&index) else {
            return;
        };
        if let Some(interface) = &link.interface {
            interface.clear_neighbours();
        }
        // After a rename, the dump may report the new owner of a name before the former owner's change.
        let mut others = self.known.iter();
        let other = others.find(|(_, other)| other.name == link.name);
        if let Some(interface) = &link.interface {
            match other {
                Some((index, _)) => self.by_number.insert(interface.number(), *index),
                None => self.by_number.remove(&interface.number()),
            };
        }
        match other {
            Some((_, other)) => other.publish(),
            None => {
                (link.up, link.takes_labels) = (false, false);
                link.publish();
                if let Some(interface) = &link.interface {
                    interface.set_others(Vec::new());
                }
            }
        }
        if let Some(upon) = link.lower_link {
            self.tell_others(upon);
        }
    }
}

fn named(interfaces: &[Arc<Interface>], name: &[u8]) -> Option<Arc<Interface>> {
    let mut interfaces = interfaces.iter();
    interfaces
        .find(|i| i.known_as().as_bytes() == name)
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::netlink::{IFF_LOWER_UP, IFF_UP};

    fn link(index: u32, name: &[u8]) -> Link<'_> {
        Link {
            family: AF_UNSPEC,
            index,
            flags: IFF_UP | IFF_LOWER_UP,
            name,
            ether: Some(EtherAddr([2, 0, 0, 0, 0, index as u8])),
            mtu: 1500,
            lower_link: None,
        }
    }

    #[test]
    fn an_interface_has_the_addresses_of_links_upon_it_while_they_are_up() {
        let kernel = Kernel::default();
        let eth0 = kernel.interface("eth0").expect("room");
        let mut links = Links::default();
        links.renumber(&kernel);
        let upon = |index: u32, upon: u32| Link {
            lower_link: Some(upon),
            ..link(index, b"vrrp")
        };
        let others = || -> Vec<u8> { eth0.other_addresses().iter().map(|mac| mac.0[5]).collect() };
        // A dump may report it before the interface below it.
        links.process(Change::New, &upon(8, 5));
        links.process(Change::New, &link(5, b"eth0"));
        assert_eq!(others(), [8]);
        links.process(
            Change::New,
            &Link {
                name: b"vrrp9",
                ..upon(9, 5)
            },
        );
        links.process(
            Change::New,
            &Link {
                name: b"vrrp7",
                ..upon(7, 6)
            },
        );
        assert_eq!(others(), [8, 9]);
        for flags in [0, IFF_UP] {
            links.process(
                Change::New,
                &Link {
                    flags,
                    ..upon(8, 5)
                },
            );
            assert_eq!(others(), [9]);
        }
        links.process(Change::New, &upon(8, 5));
        links.process(
            Change::Gone,
            &Link {
                name: b"vrrp9",
                ..upon(9, 5)
            },
        );
        assert_eq!(others(), [8]);
        // An address equal to the interface's own is no further address.
        let same = Link {
            ether: Some(EtherAddr([2, 0, 0, 0, 0, 5])),
            ..upon(8, 5)
        };
        links.process(Change::New, &same);
        assert_eq!(others(), [0; 0]);
        links.process(Change::New, &upon(8, 5));
        links.process(Change::Gone, &link(5, b"eth0"));
        assert_eq!(others(), [0; 0]);
    }

    #[test]
    fn links_are_found_by_the_names_that_interfaces_have_now() {
        let kernel = Kernel::default();
        let names = ["eth0", "eth1"];
        let interfaces = names.map(|name| kernel.interface(name).expect("room"));
        let mut links = Links::default();
        links.renumber(&kernel);
        links.process(Change::New, &link(5, b"eth0"));
        links.process(Change::New, &link(6, b"eth1"));
        let macs = || interfaces.each_ref().map(|i| i.mac().map(|mac| mac.0[5]));
        // The kernel's message arrives before that of the thread that follows the name.
        links.process(Change::New, &link(5, b"wan"));
        assert_eq!(macs(), [None, Some(6)]);
        assert!(!links.is_outdated(&kernel));
        kernel.renamed(&interfaces[0], "wan");
        assert!(links.is_outdated(&kernel));
        let changed = links.renumber(&kernel);
        let numbers: Vec<_> = changed.iter().map(|(i, s)| (*i, s.number)).collect();
        assert_eq!(numbers, [(5, Some(interfaces[0].number()))]);
        assert_eq!(macs(), [Some(5), Some(6)]);
        // Or after it.
        kernel.renamed(&interfaces[0], "eth1");
        kernel.renamed(&interfaces[1], "wan");
        assert_eq!(links.renumber(&kernel).len(), 2);
        assert_eq!(macs(), [Some(6), Some(5)]);
        links.process(Change::New, &link(7, b"eth0"));
        assert_eq!(macs(), [Some(6), Some(5)]);
    }

    #[test]
    fn a_dump_after_links_have_swapped_names_or_were_recreated_leaves_interfaces_up() {
        let kernel = Kernel::default();
        let names = ["eth0", "eth1"];
        let interfaces = names.map(|name| kernel.interface(name).expect("room"));
        let mut links = Links::default();
        links.renumber(&kernel);
        let mut dump = |told: &[(u32, &str)]| {
            links.begin_sync();
            for (index, name) in told {
                links.process(Change::New, &link(*index, name.as_bytes()));
            }
            links.end_sync();
            let mac = |i: &Arc<Interface>| i.mac().map(|mac| mac.0[5]);
            let both = interfaces.each_ref().map(mac);
            let found = interfaces.each_ref().map(|i| links.index(i.number()));
            assert_eq!(both.map(|mac| mac.map(u32::from)), found);
            both
        };
        assert_eq!(dump(&[(5, "eth0"), (6, "eth1")]), [Some(5), Some(6)]);
        assert_eq!(dump(&[(5, "eth1"), (6, "eth0")]), [Some(6), Some(5)]);
        assert_eq!(dump(&[(5, "eth1"), (7, "eth0")]), [Some(7), Some(5)]);
        assert_eq!(dump(&[(7, "eth0"), (8, "eth2")]), [Some(7), None]);
    }
}
