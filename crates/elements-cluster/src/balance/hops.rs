//! Next hops outside: the Ethernet address of each, and the back ends that wait for it.

use crate::prelude::*;
use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::hash::Hash;
use std::time::Duration;
use wire::EtherAddr;

/// Time for which a back end's request for a next hop stays pending.
const WAITS: Duration = Duration::from_secs(5);
/// Minimum interval between two announcements of one next hop to all back ends.
const BETWEEN: Duration = Duration::from_secs(1);
/// Time after which a silent next hop may be replaced.
const OLD: Duration = Duration::from_secs(60);
/// Minimum interval between searches of a full table.
const SEARCH: Duration = Duration::from_secs(1);
/// Age in ticks of BalanceOut's table up to which a next hop needs no new request.
pub(super) const FRESH: u32 = 30;

struct Hop {
    ether: Option<EtherAddr>,
    front: usize,
    heard: Time,
    /// Back ends with a pending request, each with the time of the request.
    asked: Vec<(u16, Time)>,
    /// Time of the last announcement to all back ends.
    told: Option<Time>,
}

/// Next hops, by IP address.
pub(super) struct Hops<A> {
    known: HashMap<A, Hop>,
    capacity: usize,
    search_at: Time,
}

impl<A: Copy + Eq + Hash + Ord + Display> Hops<A> {
    pub(super) fn new(capacity: usize, now: Time) -> Hops<A> {
        Hops {
            known: HashMap::new(),
            capacity,
            search_at: now,
        }
    }

    /// Takes over the next hops of another table, without pending requests, since back end numbers may differ.
    pub(super) fn follow(&mut self, old: Hops<A>) {
        self.known = old.known;
        self.known.values_mut().for_each(|hop| hop.asked.clear());
    }

    /// Ethernet address of a next hop; `None` if it is not resolved.
    pub(super) fn ether(&self, address: A) -> Option<EtherAddr> {
        self.known.get(&address)?.ether
    }

    /// Records a next hop. Returns the back ends to inform: those with a pending request, or all of `backends` if the
    /// Ethernet address has changed.
    pub(super) fn learn(
        &mut self,
        address: A,
        ether: EtherAddr,
        front: usize,
        backends: usize,
        now: Time,
    ) -> Vec<u16> {
        if !self.known.contains_key(&address) && !self.has_room(now) {
            return Vec::new();
        }
        let hop = self.entry(address, front, now);
        let changed = hop.ether.is_some_and(|known| known != ether);
        let waiting = hop.asked.drain(..).filter(|(_, at)| now.since(*at) < WAITS);
        let mut to: Vec<u16> = waiting.map(|(of, _)| of).collect();
        if changed && hop.told.is_none_or(|at| now.since(at) >= BETWEEN) {
            hop.told = Some(now);
            to = (0..backends as u16).collect();
        }
        (hop.ether, hop.front, hop.heard) = (Some(ether), front, now);
        to
    }

    /// Records a back end's request for a next hop. Returns false if the table is full.
    pub(super) fn wait(&mut self, address: A, front: usize, backend: u16, now: Time) -> bool {
        if !self.known.contains_key(&address) && !self.has_room(now) {
            return false;
        }
        let hop = self.entry(address, front, now);
        hop.asked
            .retain(|(of, at)| *of != backend && now.since(*at) < WAITS);
        hop.asked.push((backend, now));
        true
    }

    fn entry(&mut self, address: A, front: usize, now: Time) -> &mut Hop {
        self.known.entry(address).or_insert(Hop {
            ether: None,
            front,
            heard: now,
            asked: Vec::new(),
            told: None,
        })
    }

    /// True if the table has room for another next hop, after removal of old ones.
    fn has_room(&mut self, now: Time) -> bool {
        if self.known.len() >= self.capacity && now >= self.search_at {
            self.search_at = now + SEARCH;
            self.known.retain(|_, hop| now.since(hop.heard) < OLD);
        }
        self.known.len() < self.capacity
    }

    /// Text form of all next hops, one per line: IP address, Ethernet address, front port.
    pub(super) fn show(&self) -> String {
        let mut known: Vec<_> = self.known.iter().collect();
        known.sort_by_key(|(address, _)| **address);
        let mut text = String::new();
        for (address, hop) in known {
            let ether = hop.ether.map_or("?".to_owned(), |ether| ether.to_string());
            let _ = writeln!(text, "{address} {ether} {}", hop.front);
        }
        text
    }
}
