//! Neighbours: the kernel's messages about them, passed to the interfaces.

use super::links::Links;
use forwarding::Neighbour as State;
use std::collections::HashMap;
use std::net::IpAddr;
use wire::netlink::{
    Change, NTF_PROXY, NUD_DELAY, NUD_FAILED, NUD_NOARP, NUD_PERMANENT, NUD_PROBE, NUD_REACHABLE,
    NUD_STALE, Neighbour,
};

/// Key of a neighbour: link index and address.
pub(super) type NeighbourKey = (u32, IpAddr);

/// Neighbours with a known Ethernet address on all links, since the configuration may name further links later. The
/// kernel bounds their number (`gc_thresh3`).
#[derive(Default)]
pub(super) struct Neighbours {
    known: HashMap<NeighbourKey, (State, u32)>,
    last_dump: u32,
}

impl Neighbours {
    /// Processes a message about a neighbour.
    pub(super) fn process(&mut self, links: &Links, change: Change, neighbour: &Neighbour) {
        // Groups are not resolved, and proxy entries only make the kernel answer for others.
        let proxy = neighbour.flags & NTF_PROXY != 0;
        let Some(address) = neighbour.dst.filter(|a| !proxy && !a.is_multicast()) else {
            return;
        };
        let place = (neighbour.interface, address);
        let state = match change {
            Change::Gone => State::Gone,
            Change::New => match state(neighbour) {
                Some(state) => state,
                None => return,
            },
        };
        match state {
            State::Gone | State::Failed => {
                // An unknown neighbour need not be removed, but packets that wait for it must learn that resolution
                // failed.
                let known = self.known.remove(&place).is_some();
                if !known && state == State::Gone {
                    return;
                }
            }
            _ => {
                self.known.insert(place, (state, self.last_dump));
            }
        }
        publish(links, place, state);
    }

    /// Passes all neighbours of a link to its interface, when the configuration begins to name it.
    pub(super) fn tell_all(&self, links: &Links, index: u32) {
        let of_it = self.known.iter().filter(|(place, _)| place.0 == index);
        of_it.for_each(|(place, (state, _))| publish(links, *place, *state));
    }

    /// Removes the neighbours of a removed link.
    pub(super) fn remove_link(&mut self, index: u32) {
        self.known.retain(|place, _| place.0 != index);
    }

    /// Begins a dump of all neighbours.
    pub(super) fn begin_sync(&mut self) {
        self.last_dump = self.last_dump.wrapping_add(1);
    }

    /// Ends a dump of neighbours: removes those that it did not contain.
    pub(super) fn end_sync(&mut self, links: &Links) {
        let sync = self.last_dump;
        self.known.retain(|place, (_, seen)| {
            if *seen != sync {
                publish(links, *place, State::Gone);
            }
            *seen == sync
        });
    }

    /// True if the Ethernet address of a neighbour is known.
    pub(super) fn is_resolved(&self, place: &NeighbourKey) -> bool {
        self.known.contains_key(place)
    }

    /// Number of neighbours.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

fn publish(links: &Links, (index, address): NeighbourKey, state: State) {
    if let Some(interface) = links.interface(index) {
        interface.set_neighbour(address, state);
    }
}

/// Neighbour state for the kernel's state; `None` while the kernel resolves the address for the first time.
fn state(neighbour: &Neighbour) -> Option<State> {
    const STALE: u16 = NUD_STALE | NUD_DELAY | NUD_PROBE;
    const FIXED: u16 = NUD_PERMANENT | NUD_NOARP;
    let (is, mac) = (neighbour.state, neighbour.ether.map(|ether| ether.0));
    match mac {
        _ if is & NUD_FAILED != 0 => Some(State::Failed),
        Some(mac) if is & FIXED != 0 => Some(State::Permanent(mac)),
        Some(mac) if is & NUD_REACHABLE != 0 => Some(State::Reachable(mac)),
        Some(mac) if is & STALE != 0 => Some(State::Stale(mac)),
        _ => None,
    }
}
