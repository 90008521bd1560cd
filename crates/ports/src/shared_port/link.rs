//! A link between two routers of the process: a packet that one router sends reaches the other in the same buffer, on
//! the same worker.

use super::lane::{Lane, Lanes, Open, Producer};
use crate::counts::Counts;
use crate::scheme::Parts;
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use engine::wake::Wakers;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

/// Maximum number of links that a packet may cross. It ends loops of frames that have no TTL of their own.
const HOPS_MAX: u16 = 255;

/// Names of the drop counters.
const NAMES: [&str; 2] = ["loop", "no_router"];
const LOOP: usize = 0;
const NO_ROUTER: usize = 1;

/// Packets from one router to the other.
struct Direction {
    lanes: Vec<Arc<Lane>>,
    counts: Vec<Counts<2>>,
}

impl Direction {
    fn new(workers: usize, packets: usize) -> Direction {
        Direction {
            lanes: (0..workers).map(|_| Lane::new(packets)).collect(),
            counts: (0..workers).map(|_| Counts::new(NAMES)).collect(),
        }
    }
}

/// A link.
pub(super) struct Link {
    directions: [Direction; 2],
    /// Open ports of each side: a reload opens one before it closes another.
    open: [AtomicUsize; 2],
}

impl Link {
    pub(super) fn new(workers: usize, packets: usize) -> Link {
        Link {
            directions: [(); 2].map(|()| Direction::new(workers, packets)),
            open: Default::default(),
        }
    }
}

/// End of a link at one router.
#[derive(Clone)]
pub(crate) struct End {
    pub(super) link: Arc<Link>,
    /// 0 or 1: which direction is sent.
    pub(super) side: usize,
}

impl End {
    fn sends(&self) -> &Direction {
        &self.link.directions[self.side]
    }

    fn receives(&self) -> &Direction {
        &self.link.directions[1 - self.side]
    }

    pub(super) fn probe(&self) -> PortInfo {
        let queues = self.sends().lanes.len();
        PortInfo {
            driver: "link".into(),
            max_rx_queues: queues,
            max_tx_queues: queues,
            // Different at both ends.
            mac: [2, 0, 0, 0, 0, 1 + self.side as u8],
            mtu: crate::buffer_mtu(),
            node: None,
            super_frames: false,
            remarks: Vec::new(),
        }
    }

    pub(super) fn open(&self, request: &PortRequest) -> Parts {
        let open = Open::new(self.receives().lanes.iter().cloned());
        let rx = (0..request.rx_queues).map(|queue| {
            let lanes = self.receives().lanes.iter();
            let lanes = lanes.skip(queue).step_by(request.rx_queues);
            Box::new(Rx(Lanes::new(lanes, &open))) as Box<dyn RxQueue>
        });
        let tx = (0..request.tx_queues).map(|queue| {
            Box::new(Tx {
                to: Producer::new(&self.sends().lanes[queue]),
                end: self.clone(),
                queue,
            }) as Box<dyn TxQueue>
        });
        Parts {
            rx: rx.collect(),
            tx: tx.collect(),
            port: Arc::new(Opened::new(self)),
        }
    }
}

/// An open port of one side.
struct Opened(End);

impl Opened {
    fn new(end: &End) -> Opened {
        end.link.open[end.side].fetch_add(1, Relaxed);
        Opened(end.clone())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.link.open[self.0.side].fetch_sub(1, Relaxed);
    }
}

impl Port for Opened {
    fn info(&self) -> PortInfo {
        self.0.probe()
    }

    /// True if the other router has the link open: to receive, to send, or both.
    fn link_up(&self) -> bool {
        self.0.link.open[1 - self.0.side].load(Relaxed) > 0
    }

    fn counters(&self) -> Vec<PortCounter> {
        let mut all = Vec::new();
        let each = self.0.sends().counts.iter().enumerate();
        each.for_each(|(queue, counts)| counts.report(queue, &mut all));
        all
    }
}

struct Rx(Lanes);

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        let n = self.0.receive(into, max);
        for packet in into.iter_mut().skip(before) {
            let hops = packet.anno_mut().hops;
            packet.arrived(PacketType::of_frame);
            packet.anno_mut().hops = hops;
            packet.set_hash(0); // a device's hash would cover the packet as it came into the sender
        }
        n
    }

    fn wakes(&mut self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        self.0.wakes(wakers, worker)
    }

    fn fill(&self) -> Option<f64> {
        Some(self.0.fill())
    }

    fn waiting(&self) -> Option<usize> {
        Some(self.0.waiting())
    }
}

struct Tx {
    to: Producer,
    end: End,
    queue: usize,
}

impl Tx {
    /// Counts a link in a packet's annotations. Returns false if the packet has crossed too many links.
    #[inline]
    fn crosses(packet: &mut Packet) -> bool {
        let hops = &mut packet.anno_mut().hops;
        *hops = hops.saturating_add(1);
        *hops <= HOPS_MAX
    }
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        let counts = &self.end.sends().counts[self.queue];
        if !self.to.lane.is_open() {
            counts.at(NO_ROUTER).add(batch.len() as u64);
            refused.append(batch);
            return 0;
        }
        let Some(tail) = self.to.tail() else {
            return 0;
        };
        let room = tail.capacity().saturating_sub(tail.len()).min(batch.len());
        let mut packets = batch.drain_front(room).filter_map(|mut packet| {
            if Tx::crosses(&mut packet) {
                return Some(packet);
            }
            counts.at(LOOP).add(1);
            refused.push(packet);
            None
        });
        let sent = tail.push_from(room, &mut packets);
        drop(packets);
        fence(SeqCst);
        self.to.ring();
        sent
    }
}
