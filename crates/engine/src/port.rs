//! Interface of ports: queues, each of which one worker owns.
//!
//! A queue belongs to one core (RouteBricks, RB1): [`RxQueue`] and [`TxQueue`] are `Send`, are not `Clone` and work
//! through `&mut self`. A [`Slot`] holds a queue while no worker owns it. A worker takes the queue when it builds its
//! graph, and puts it back when it takes the graph down. So a reload or a rebalancing hands queues over between
//! batches.

use crate::packet::{Batch, Packet};
use crate::wake::Wakers;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use sync::Lock;
use wire::FlowKey;

/// A receive queue.
pub trait RxQueue: Send {
    /// Appends up to `max` received packets to `into`, in order of arrival; returns their number.
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize;

    /// Like [`receive`](Self::receive), for callers that read no annotation but the hash. Other annotations may hold
    /// data of the buffer's last user.
    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        self.receive(into, max)
    }

    /// Like [`receive`](Self::receive), for callers that also accept super-frames: see
    /// [`super_frame`](crate::packet::super_frame).
    fn receive_whole(&mut self, into: &mut Batch, max: usize) -> usize {
        self.receive(into, max)
    }

    /// A descriptor that becomes readable when packets wait; `None` if the port must be polled.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    /// Requests that the queue wake `worker` through `wakers` when packets arrive. Returns false if the queue cannot.
    /// If true, the queue need not be polled while its router [rests](Wakers::rest).
    fn wakes(&mut self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        let _ = (wakers, worker);
        false
    }

    /// True if no further packet will ever arrive (a file has ended).
    fn ended(&self) -> bool {
        false
    }

    /// Fill level of the queue, 0 to 1; `None` if unknown. Asked now and then while polls return as many packets as
    /// they may.
    fn fill(&self) -> Option<f64> {
        None
    }

    /// Upper bound of the packets that wait in the queue, such as its capacity; `None` if unknown.
    fn waiting(&self) -> Option<usize> {
        None
    }
}

/// A transmit queue.
pub trait TxQueue: Send {
    /// Sends packets from the front of `batch`; packets for which the queue has no room now stay. Packets that the
    /// port can never send (too long for its MTU, link down, refused by the kernel) go to `refused`, and the port
    /// counts them by name. Returns the number of sent packets.
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize;

    /// True if the queue sends super-frames whole; see [`super_frame`](crate::packet::super_frame).
    fn takes_super_frames(&self) -> bool {
        false
    }

    /// Like [`transmit`](Self::transmit), for batches that may contain super-frames, if the queue takes them.
    fn transmit_whole(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        self.transmit(batch, refused)
    }
}

/// Fate of a frame that was offered to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxOutcome {
    /// The frame was sent.
    Sent,
    /// The frame will never be sent.
    Refused,
    /// The queue has no room for the frame now; the frame stays in the batch.
    NoRoom,
}

/// Offers frames from the front of `batch` one by one until one stays, for ports that send frame by frame. Returns
/// the number of sent frames.
pub fn offer_each(
    batch: &mut Batch,
    refused: &mut Batch,
    mut offer: impl FnMut(&Packet) -> TxOutcome,
) -> usize {
    let mut sent = 0;
    loop {
        // Successive sent frames leave the batch together.
        let (mut run, mut fate) = (0, TxOutcome::NoRoom);
        for packet in batch.iter() {
            fate = offer(packet);
            if fate != TxOutcome::Sent {
                break;
            }
            run += 1;
        }
        drop(batch.drain_front(run));
        sent += run;
        if fate != TxOutcome::Refused {
            return sent;
        }
        refused.extend(batch.drain_front(1));
    }
}

/// Description of a port, available before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The driver in words: `af_packet`, `dpdk net_null`, `pcap` ...
    pub driver: String,
    /// Receive queues that can be opened.
    pub max_rx_queues: usize,
    /// Transmit queues that can be opened.
    pub max_tx_queues: usize,
    /// MAC address; zeros if the port has none.
    pub mac: [u8; 6],
    /// Largest network-layer packet, in bytes.
    pub mtu: usize,
    /// NUMA node, if known.
    pub node: Option<u32>,
    /// True if the port brings super-frames to callers that accept them; see
    /// [`super_frame`](crate::packet::super_frame).
    pub super_frames: bool,
    /// Messages for the user: a fallback taken, or a kernel that routes the same packets.
    pub remarks: Vec<String>,
}

impl PortInfo {
    /// A port implemented in this process, with `queues` queues in each direction and its own address.
    pub fn of_process(driver: &str, queues: usize) -> PortInfo {
        PortInfo {
            driver: driver.to_owned(),
            max_rx_queues: queues,
            max_tx_queues: queues,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            node: None,
            super_frames: false,
            remarks: Vec::new(),
        }
    }
}

/// Request of a plan for a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRequest {
    /// Receive queues to open.
    pub rx_queues: usize,
    /// Transmit queues to open.
    pub tx_queues: usize,
    /// Number of descriptors (frames) per queue; 0 = the driver's default.
    pub descriptors: usize,
    /// True if frames for other stations are wanted too.
    pub promiscuous: bool,
}

/// A counter of a port: name, queue (`None` = whole port), value.
pub type PortCounter = (&'static str, Option<usize>, u64);

/// Rule that selects packets for one of a port's receive queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// The five-tuple.
    Flow(FlowKey),
    /// The destination address, the VLAN of the outermost tag, or both.
    Station {
        /// Destination address, if tested.
        address: Option<[u8; 6]>,
        /// VLAN, if tested.
        vlan: Option<u16>,
    },
    /// The first bits of the destination address.
    Prefix {
        /// The address; bits after the first `len` are ignored.
        address: IpAddr,
        /// Length of the prefix in bits.
        len: u8,
        /// True to match the source instead of the destination.
        is_source: bool,
    },
}

/// Progress of a port with the rules that it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directed {
    /// Number of rules that the port has.
    pub held: usize,
    /// Number of rules that the port refused.
    pub refused: usize,
    /// Number of rules that wait to be given to the driver.
    pub waiting: usize,
    /// Error text of the first rule that the port refused.
    pub why: Option<String>,
}

/// The part of an open port that control sees.
pub trait Port: Send + Sync {
    /// State now: MAC and MTU can change while the port is open.
    fn info(&self) -> PortInfo;

    /// True if the link is up.
    fn link_up(&self) -> bool;

    /// True while the link is down because the port is new and its other end may be about to start.
    fn is_settling(&self) -> bool {
        false
    }

    /// Holds the link down for the other end (`down` is true), or shows the link's true state, if the port can do that.
    fn hold_down(&self, down: bool) {
        let _ = down;
    }

    /// Switches the reception of frames for other stations on or off, as a reload may change what [`PortRequest`] asked
    /// for.
    fn set_promiscuous(&self, promiscuous: bool) {
        let _ = promiscuous;
    }

    /// Sets the port's Ethernet address, if no other program owns it.
    ///
    /// # Errors
    /// The port cannot change its address, or another program owns it; a sentence.
    fn set_mac(&self, mac: [u8; 6]) -> Result<(), String> {
        let _ = mac;
        Err("that of its device is to be changed instead".into())
    }

    /// Sets the port's MTU in bytes, if no other program owns it.
    ///
    /// # Errors
    /// The port cannot change its MTU, or another program owns it; a sentence.
    fn set_mtu(&self, mtu: usize) -> Result<(), String> {
        let _ = mtu;
        Err("that of its device is to be changed instead".into())
    }

    /// Sets the key by which the port hashes flows, and the queues to which it gives them. A packet with hash `h` goes
    /// to queue `queues[h % queues.len()]`, as far as the port's own indirection table is large enough. When a flow
    /// changes queue, its packets in the old queue may be overtaken.
    ///
    /// # Errors
    /// The port cannot hash by this key or use these queues; a sentence says why. Nothing has changed then.
    fn set_rss(&self, key: &[u8; 40], queues: &[u16]) -> Result<(), String> {
        let _ = (key, queues);
        Err("the port cannot be told how to spread flows over its queues".into())
    }

    /// The queues of the port's own indirection table, in its order; none if it has no such table.
    fn redirection_table(&self) -> Vec<u16> {
        Vec::new()
    }

    /// The key by which the port hashes flows (RSS) and notes the hash with packets, if it does.
    fn hash_key(&self) -> Option<[u8; 40]> {
        None
    }

    /// Number of changes of the hash settings, if the port counts them. It takes no lock. Workers ask for the key again
    /// when this number changes; where it is `None`, they ask each time.
    fn hash_changes(&self) -> Option<u64> {
        None
    }

    /// Steers packets that match a rule to a queue; a rule with `None` is removed. With `all`, these are all rules, and
    /// others are removed. Returns at once: the port applies the rules in its own time, and may refuse any. When
    /// packets change queue, those in the old queue may be overtaken.
    fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
        let _ = (rules, all);
    }

    /// Progress with the rules; `None` if the port has no rules.
    fn directed(&self) -> Option<Directed> {
        None
    }

    /// Counters that only the port knows: `kernel_drops`, `rx_no_buffer`, `tx_errors` ...
    fn counters(&self) -> Vec<PortCounter>;
}

/// The control side of a port that lies within the process: nothing about it changes, and nothing is lost.
impl Port for PortInfo {
    fn info(&self) -> PortInfo {
        self.clone()
    }

    fn link_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<PortCounter> {
        Vec::new()
    }
}

/// An open port: its queues wait in slots for their workers.
#[derive(Clone)]
pub struct OpenPort {
    /// The name that configurations use.
    pub name: String,
    /// The control side.
    pub port: Arc<dyn Port>,
    /// One slot per receive queue.
    pub rx: Vec<Slot<Box<dyn RxQueue>>>,
    /// One slot per transmit queue.
    pub tx: Vec<Slot<Box<dyn TxQueue>>>,
}

/// Finds and opens ports by name. `ports` implements it; tests use in-memory ports.
pub trait PortDirectory: Send + Sync {
    /// Describes the port without opening it.
    ///
    /// # Errors
    /// There is no such port, or it cannot be used; a sentence with cause and remedy.
    fn probe(&self, name: &str) -> Result<PortInfo, String>;

    /// True if the port keeps annotations with the packets sent to it, as a file keeps timestamps.
    fn keeps_annotations(&self, _name: &str) -> bool {
        false
    }

    /// Opens a port, or returns it if it is open already. The error is a sentence with cause and
    /// remedy.
    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String>;

    /// An open port.
    fn get(&self, name: &str) -> Option<OpenPort>;

    /// Names of open ports.
    fn names(&self) -> Vec<String>;

    /// Closes a port that no configuration names, once its queues are back in their slots.
    fn close(&self, name: &str);
}

/// A slot for a value that no worker owns at the moment.
pub struct Slot<T>(Arc<Lock<Option<T>>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot(Arc::clone(&self.0))
    }
}

impl<T> Default for Slot<T> {
    /// An empty slot.
    fn default() -> Slot<T> {
        Slot(Arc::default())
    }
}

impl<T> Slot<T> {
    /// A slot that holds `thing`.
    pub fn new(thing: T) -> Slot<T> {
        Slot(Arc::new(Lock::new(Some(thing))))
    }

    /// Takes the value, if the slot has one. Not for the packet path: workers call it when they build a graph, and once
    /// per poll while a queue that they wait for is still with another worker.
    pub fn take(&self) -> Option<T> {
        self.0.lock().take()
    }

    /// Puts the value back for the next owner.
    pub fn put_back(&self, thing: T) {
        *self.0.lock() = Some(thing);
    }
}

/// A directory without ports, for configurations and tests that need none.
pub struct NoPorts;

impl PortDirectory for NoPorts {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        Err(format!("there is no device `{name}`"))
    }

    fn open(&self, name: &str, _: &PortRequest) -> Result<OpenPort, String> {
        Err(format!("there is no device `{name}`"))
    }

    fn get(&self, _: &str) -> Option<OpenPort> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn close(&self, _: &str) {}
}
