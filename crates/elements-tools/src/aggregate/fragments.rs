//! Fragments that wait for their datagram's first one, and later packets between the same addresses.
//!
//! Packets between two addresses leave in order of arrival. While a fragment with unknown ports waits, all later
//! packets between its addresses wait, too.

use super::bounded_map::BoundedMap;
use engine::packet::Packet;
use std::collections::VecDeque;

/// Maximum number of waiting packets, and of datagrams with known ports, so that fragments cannot use up all buffers.
const WAITING_MAX: usize = 1024;
const PORTS_MAX: usize = 65_536;
/// Maximum number of queues. Each contains a packet, and one excess packet may wait until the oldest are released.
const QUEUES_MAX: usize = WAITING_MAX + 1;

/// Source and destination address, the lower one first.
type Pair = [u32; 2];

/// Key of a datagram: source, destination, identification, protocol.
pub(super) type Datagram = (u32, u32, u16, u8);

/// A waiting packet.
struct WaitingPacket {
    packet: Packet,
    stamp: i64,
    /// Datagram whose ports the packet needs; `None` if its ports are known.
    needs: Option<Datagram>,
}

/// Ports of each datagram, with the time at which they were recorded.
type Ports = BoundedMap<Datagram, ([u16; 2], i64)>;

/// Waiting fragments, and ports of incomplete datagrams.
pub(super) struct Fragments {
    /// Queues of fragments, in the order of their creation.
    queues: BoundedMap<Pair, VecDeque<WaitingPacket>>,
    ports: Ports,
    held: usize,
}

impl Default for Fragments {
    fn default() -> Fragments {
        Fragments {
            queues: BoundedMap::new(QUEUES_MAX),
            ports: BoundedMap::new(PORTS_MAX),
            held: 0,
        }
    }
}

/// A released packet with its ports; `None` if they never arrived.
pub(super) type Ready = (Packet, Option<[u16; 2]>);

impl Fragments {
    /// Number of waiting packets.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Records the ports of a datagram from its first fragment.
    pub(super) fn learn(&mut self, datagram: Datagram, ports: [u16; 2], stamp: i64) {
        self.ports.insert(datagram, (ports, stamp), |_, _| ());
    }

    /// Adds a packet, and releases those between its addresses that need not wait, in order. `needs` is the datagram
    /// whose ports the packet lacks. Fragments older than `oldest` are released. If too many packets wait, those of the
    /// oldest queue are released.
    pub(super) fn add(
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
        if !self.queues.has(&pair)
            && let Some(ports) = known(&needs)
        {
            ready.push((packet, ports));
            return;
        }
        let held = WaitingPacket {
            packet,
            stamp,
            needs,
        };
        self.held += 1;
        match self.queues.get_mut(&pair) {
            Some(queue) => queue.push_back(held),
            None => self.queues.insert(pair, VecDeque::from([held]), |_, _| ()),
        }
        if let Some(queue) = self.queues.get_mut(&pair)
            && go_on(queue, &self.ports, oldest, &mut self.held, ready)
        {
            self.queues.remove(&pair);
        }
        if self.held > WAITING_MAX
            && let Some((_, queue)) = self.queues.pop_idlest()
        {
            self.let_go(queue, ready);
        }
    }

    /// Removes ports recorded before `oldest`, and releases packets that need not wait longer.
    pub(super) fn remove_expired(&mut self, oldest: i64, ready: &mut Vec<Ready>) {
        self.ports.remove_if(|_, (_, stamp)| *stamp < oldest);
        let mut queues = std::mem::replace(&mut self.queues, BoundedMap::new(QUEUES_MAX));
        while let Some((pair, mut queue)) = queues.pop_idlest() {
            if !go_on(&mut queue, &self.ports, oldest, &mut self.held, ready) {
                self.queues.insert(pair, queue, |_, _| ());
            }
        }
    }

    /// Releases all waiting packets.
    pub(super) fn clear(&mut self, ready: &mut Vec<Ready>) {
        while let Some((_, queue)) = self.queues.pop_idlest() {
            self.let_go(queue, ready);
        }
        self.ports.drain();
    }

    /// Releases the packets of a queue, with their ports if known.
    fn let_go(&mut self, queue: VecDeque<WaitingPacket>, ready: &mut Vec<Ready>) {
        for held in queue {
            let ports = held.needs.and_then(|d| self.ports.get(&d));
            ready.push((held.packet, ports.map(|(ports, _)| *ports)));
            self.held -= 1;
        }
    }
}

/// Removes packets from the front of a queue that need not wait. Returns true if the queue is empty.
fn go_on(
    queue: &mut VecDeque<WaitingPacket>,
    ports: &Ports,
    oldest: i64,
    held: &mut usize,
    ready: &mut Vec<Ready>,
) -> bool {
    while let Some(front) = queue.front() {
        let ports = match front.needs.map(|datagram| ports.get(&datagram)) {
            None => None,
            Some(Some((ports, _))) => Some(*ports),
            Some(None) if front.stamp < oldest => None,
            Some(None) => return false,
        };
        if let Some(gone) = queue.pop_front() {
            *held -= 1;
            ready.push((gone.packet, ports));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(fragments: &mut Fragments, source: u32, stamp: i64, ready: &mut Vec<Ready>) {
        let packet = Packet::from_bytes(b"x").expect("the pool has buffers");
        let needs = Some((source, 1, 7, 17));
        fragments.add(packet, [source, 1], stamp, needs, stamp - 10, ready);
    }

    #[test]
    fn lone_fragments_take_few_buffers_and_go_on_when_their_time_is_over() {
        let (mut fragments, mut ready) = (Fragments::default(), Vec::new());
        for source in 0..3000 {
            wait(&mut fragments, source, 100, &mut ready);
        }
        assert_eq!(
            (fragments.held(), ready.len()),
            (WAITING_MAX, 3000 - WAITING_MAX)
        );
        ready.clear();
        // The fragments that have waited longest are removed, so that the last one still gets its ports.
        fragments.learn((2999, 1, 7, 17), [1, 2], 100);
        wait(&mut fragments, 2999, 100, &mut ready);
        let ports: Vec<_> = ready.drain(..).map(|(_, ports)| ports).collect();
        assert_eq!(ports, [Some([1, 2]); 2]);
        wait(&mut fragments, 3000, 100, &mut ready);
        fragments.remove_expired(100, &mut ready);
        assert_eq!((fragments.held(), ready.len()), (WAITING_MAX, 0));
        fragments.remove_expired(101, &mut ready);
        assert_eq!((fragments.held(), ready.len()), (0, WAITING_MAX));
        // The entries of these pairs of addresses are free again.
        wait(&mut fragments, 5, 200, &mut ready);
        assert_eq!((fragments.held(), fragments.queues.len()), (1, 1));
        fragments.learn((6, 1, 7, 17), [1, 2], 200);
        for n in 0..2 * PORTS_MAX as u32 {
            fragments.learn((n, 2, 7, 17), [1, 2], 200);
        }
        assert_eq!(fragments.ports.len(), PORTS_MAX);
        // The newest replace those that were unused longest.
        assert!(!fragments.ports.has(&(6, 1, 7, 17)));
        assert!(fragments.ports.has(&(2 * PORTS_MAX as u32 - 1, 2, 7, 17)));
    }
}
