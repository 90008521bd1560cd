//! Fragments that wait for their datagram's first one, and packets that must not overtake them.
//!
//! Packets between two addresses leave in the order in which they came. While a fragment waits whose
//! ports are not known yet, all later packets between its addresses wait behind it.

use engine::packet::Packet;
use std::collections::{HashMap, VecDeque};

/// Two addresses, the lower one first.
type Pair = [u32; 2];

/// A datagram: source, destination, identification, protocol.
pub(super) type Datagram = (u32, u32, u16, u8);

/// A packet that waits.
struct Held {
    packet: Packet,
    stamp: i64,
    /// The datagram whose ports it needs; `None` if it has its own.
    needs: Option<Datagram>,
}

/// What waits, and ports of datagrams that are under way.
#[derive(Default)]
pub(super) struct Fragments {
    queues: HashMap<Pair, VecDeque<Held>>,
    /// Ports of datagrams, and when they were learnt.
    ports: HashMap<Datagram, ([u16; 2], i64)>,
    held: usize,
}

/// A packet that may go on: with its ports, or without because they never came.
pub(super) type Ready = (Packet, Option<[u16; 2]>);

impl Fragments {
    /// Packets that wait.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Learns the ports of a datagram from its first fragment.
    pub(super) fn learn(&mut self, datagram: Datagram, ports: [u16; 2], stamp: i64) {
        self.ports.insert(datagram, (ports, stamp));
    }

    /// Takes a packet in, and gives those between its addresses that may go on now, in order.
    /// `needs`: the datagram whose ports it lacks. Fragments older than `oldest` wait no longer.
    pub(super) fn pass(
        &mut self,
        packet: Packet,
        addresses: Pair,
        stamp: i64,
        needs: Option<Datagram>,
        oldest: i64,
        ready: &mut Vec<Ready>,
    ) {
        let [a, b] = addresses;
        let pair = [a.min(b), a.max(b)];
        let ports = &self.ports;
        let known = |needs: &Option<Datagram>| match needs {
            None => Some(None),
            Some(datagram) => ports.get(datagram).map(|(ports, _)| Some(*ports)),
        };
        if !self.queues.contains_key(&pair)
            && let Some(ports) = known(&needs)
        {
            ready.push((packet, ports));
            return;
        }
        let queue = self.queues.entry(pair).or_default();
        queue.push_back(Held {
            packet,
            stamp,
            needs,
        });
        self.held += 1;
        while let Some(front) = queue.front() {
            let ports = match known(&front.needs) {
                Some(ports) => ports,
                None if front.stamp < oldest => None,
                None => return,
            };
            if let Some(held) = queue.pop_front() {
                self.held -= 1;
                ready.push((held.packet, ports));
            }
        }
        self.queues.remove(&pair);
    }

    /// Forgets ports learnt before `oldest`.
    pub(super) fn reap(&mut self, oldest: i64) {
        self.ports.retain(|_, (_, stamp)| *stamp >= oldest);
    }

    /// Gives everything that waits.
    pub(super) fn clear(&mut self, ready: &mut Vec<Ready>) {
        for (_, queue) in self.queues.drain() {
            for held in queue {
                let ports = held.needs.and_then(|d| self.ports.get(&d));
                ready.push((held.packet, ports.map(|(ports, _)| *ports)));
            }
        }
        self.ports.clear();
        self.held = 0;
    }
}
