//! `mem:NAME`: a port whose other end is controlled by a test.
//!
//! Frames are copied under a lock, since the far end may be on any thread. The port is for tests and demonstrations,
//! not for speed. Sleeping workers wake as they would for a real port.

use crate::scheme::{Parts, PortContext, Resource, Scheme};
use crate::sys;
use engine::packet::anno::PacketType;
use engine::packet::super_frame::{Shape, cut_all};
use engine::packet::{Batch, Packet};
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sync::Lock;

/// Maximum number of queues that a memory port can have, in each direction.
const QUEUES_MAX: usize = 64;

/// A frame that the router sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The transmit queue by which the frame left.
    pub queue: usize,
    /// Bytes of the frame.
    pub frame: Vec<u8>,
}

/// A frame that the router has not received yet.
struct Frame {
    bytes: Vec<u8>,
    /// Payload bytes of each segment of a super-frame; 0 for other frames.
    segment: u16,
}

#[derive(Default)]
struct State {
    /// Frames that wait in each receive queue; the list grows with the queues in use.
    rx: Vec<VecDeque<Frame>>,
    wake_fds: Vec<Arc<OwnedFd>>,
    sent: VecDeque<Sent>,
    rx_limit: usize,
    tx_limit: usize,
    up: bool,
    super_frames: bool,
    /// True after the first super-frame.
    has_super_frames: bool,
    ended: bool,
    too_long: u64,
    rx_full: u64,
    link_down: u64,
}

struct Shared {
    state: Lock<State>,
    changed: Condvar,
}

/// The far end of a memory port: it injects packets that the router receives, and collects packets that the router
/// sends. Clones are handles to the same port.
#[derive(Clone)]
pub struct Memory(Arc<Shared>);

impl Default for Memory {
    /// A port with its link up, 8192 frames of room in every receive queue and no limit for sent
    /// frames.
    fn default() -> Memory {
        let state = State {
            rx_limit: 8192,
            tx_limit: usize::MAX,
            up: true,
            ..State::default()
        };
        Memory(Arc::new(Shared {
            state: Lock::new(state),
            changed: Condvar::new(),
        }))
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Limits the frames that wait in each receive queue, and those sent and not collected yet.
    pub fn limit(&self, rx: usize, tx: usize) {
        let mut state = self.lock();
        (state.rx_limit, state.tx_limit) = (rx, tx);
    }

    /// Sends a frame to a receive queue of the router. False if the queue is full (counted as
    /// `rx_full`) or the link is down (`link_down`).
    pub fn inject(&self, queue: usize, frame: &[u8]) -> bool {
        self.inject_all(queue, [frame]) == 1
    }

    /// Like [`inject`](Self::inject) for several frames at once; returns how many were taken.
    pub fn inject_all<'a>(
        &self,
        queue: usize,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) -> usize {
        self.inject_each(queue, frames.into_iter().map(|frame| (frame, 0)))
    }

    /// Makes the port deliver and accept super-frames, or segment them if `on` is false.
    pub fn carry_super_frames(&self, on: bool) {
        self.lock().super_frames = on;
    }

    /// Injects a TCP super-frame with `segment` bytes of payload in each segment; its checksum field holds only the sum
    /// of the pseudo-header. Returns false as [`inject`](Self::inject) does.
    pub fn inject_super_frame(&self, queue: usize, frame: &[u8], segment: u16) -> bool {
        self.inject_each(queue, [(frame, segment)].into_iter()) == 1
    }

    fn inject_each<'a>(
        &self,
        queue: usize,
        frames: impl Iterator<Item = (&'a [u8], u16)>,
    ) -> usize {
        let mut state = self.lock();
        state.grow(queue + 1);
        let mut taken = 0;
        for (frame, segment) in frames {
            if !state.up {
                state.link_down += 1;
            } else if state.rx[queue].len() >= state.rx_limit {
                state.rx_full += 1;
            } else {
                let bytes = frame.to_vec();
                state.has_super_frames |= segment > 0;
                state.rx[queue].push_back(Frame { bytes, segment });
                taken += 1;
            }
        }
        if taken > 0
            && let Some(bell) = state.wake_fds.get(queue)
        {
            sys::signal(bell);
        }
        taken
    }

    /// Number of frames that wait in a receive queue.
    pub fn waiting(&self, queue: usize) -> usize {
        self.lock().rx.get(queue).map_or(0, VecDeque::len)
    }

    /// Takes all frames that the router has sent, in order.
    pub fn collect(&self) -> Vec<Sent> {
        let sent = self.lock().sent.drain(..).collect();
        self.0.changed.notify_all();
        sent
    }

    /// Waits until `frames` frames are ready to collect, for at most `limit`, then collects all.
    pub fn collect_at_least(&self, frames: usize, limit: Duration) -> Vec<Sent> {
        self.wait(limit, |state| state.sent.len() >= frames);
        self.collect()
    }

    /// Waits until all injected frames are received; false if the time is over.
    pub fn wait_received(&self, limit: Duration) -> bool {
        self.wait(limit, |state| state.rx.iter().all(VecDeque::is_empty))
    }

    fn wait(&self, limit: Duration, ready: impl Fn(&State) -> bool) -> bool {
        let end = Instant::now() + limit;
        let mut state = self.lock();
        while !ready(&state) {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return false;
            };
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Sets the link up or down. While the link is down, frames are lost in both directions.
    pub fn set_link(&self, up: bool) {
        self.lock().up = up;
    }

    /// Marks the end: no more frames will be injected.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        for bell in &state.wake_fds {
            sys::signal(bell);
        }
    }
}

impl State {
    fn grow(&mut self, queues: usize) {
        if self.rx.len() < queues {
            self.rx.resize_with(queues, VecDeque::new);
        }
    }
}

impl Port for Memory {
    fn info(&self) -> PortInfo {
        PortInfo {
            super_frames: self.lock().super_frames,
            ..info()
        }
    }

    fn link_up(&self) -> bool {
        self.lock().up
    }

    fn counters(&self) -> Vec<PortCounter> {
        let state = self.lock();
        vec![
            ("too_long", None, state.too_long),
            ("rx_full", None, state.rx_full),
            ("link_down", None, state.link_down),
        ]
    }
}

struct Rx {
    memory: Memory,
    queue: usize,
    wake_fd: Option<Arc<OwnedFd>>,
}

impl Rx {
    /// True if there may be super-frames among the waiting frames.
    fn brings_super_frames(&self) -> bool {
        self.memory.lock().has_super_frames
    }

    /// Moves at most `max` waiting frames into a batch, as packets, and returns their number. `note` sets the
    /// annotations that a port knows.
    fn take(&self, into: &mut Batch, max: usize, note: fn(&mut Packet)) -> usize {
        let mut state = self.memory.lock();
        let mut n = 0;
        while n < max
            && let Some(frame) = state.rx[self.queue].pop_front()
        {
            if frame.segment == 0 && frame.bytes.len() > engine::packet::pool::data_bytes() {
                state.too_long += 1;
                continue;
            }
            let Some(mut packet) = frame.packet() else {
                // The pool is empty: the frame waits, as it would in a device.
                state.rx[self.queue].push_front(frame);
                break;
            };
            note(&mut packet);
            into.push(packet);
            n += 1;
        }
        if state.rx[self.queue].is_empty() {
            if let Some(bell) = self.wake_fd.as_ref().filter(|_| !state.ended) {
                sys::clear(bell);
            }
            if n > 0 {
                self.memory.0.changed.notify_all();
            }
        }
        n
    }
}

impl Frame {
    fn packet(&self) -> Option<Packet> {
        if self.segment == 0 {
            return Packet::from_bytes(&self.bytes);
        }
        let mut packet = Packet::large(self.bytes.len())?;
        packet.put(self.bytes.len())?.copy_from_slice(&self.bytes);
        if let Some(shape) = Shape::of_frame(&self.bytes, self.bytes.len()) {
            packet.set_super_frame(&shape, self.segment);
        }
        Some(packet)
    }
}

fn note(packet: &mut Packet) {
    packet.set_mac_here();
    packet.anno_mut().packet_type = PacketType::of_frame(packet.data());
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        if !self.brings_super_frames() {
            return self.take(into, max, note);
        }
        let mut received = Batch::new();
        self.take(&mut received, max, note);
        cut_all(&mut received, |_| self.memory.lock().too_long += 1);
        let packets = received.len();
        into.append(&mut received);
        packets
    }

    fn receive_whole(&mut self, into: &mut Batch, max: usize) -> usize {
        self.take(into, max, note)
    }

    /// Sets wrong annotations on purpose: an element that reads them in spite of its declaration does so in every test.
    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        let received = self.receive(into, max);
        for packet in into.iter_mut().skip(before) {
            packet.set_network_offset(0);
            packet.cold_mut().timestamp = 0xbad;
            let anno = packet.anno_mut();
            (anno.mac, anno.paint, anno.trace, anno.tail) = (1, 0xba, 0xbad, 0xbad);
            anno.packet_type = PacketType::OtherHost;
        }
        received
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.wake_fd.as_ref().map(|bell| bell.as_raw_fd())
    }

    fn ended(&self) -> bool {
        let state = self.memory.lock();
        state.ended && state.rx[self.queue].is_empty()
    }

    fn fill(&self) -> Option<f64> {
        let state = self.memory.lock();
        Some(state.rx[self.queue].len() as f64 / state.rx_limit.max(1) as f64)
    }

    fn waiting(&self) -> Option<usize> {
        Some(self.memory.waiting(self.queue))
    }
}

struct Tx {
    memory: Memory,
    queue: usize,
}

impl TxQueue for Tx {
    fn takes_super_frames(&self) -> bool {
        self.memory.lock().super_frames
    }

    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        let mut state = self.memory.lock();
        if !state.up {
            state.link_down += batch.len() as u64;
            refused.append(batch);
            return 0;
        }
        let n = batch
            .len()
            .min(state.tx_limit.saturating_sub(state.sent.len()));
        let queue = self.queue;
        let frames = batch.drain_front(n);
        state.sent.extend(frames.map(|packet| Sent {
            queue,
            frame: packet.data().to_vec(),
        }));
        if n > 0 {
            self.memory.0.changed.notify_all();
        }
        n
    }
}

/// Description of a memory port.
pub(crate) fn info() -> PortInfo {
    PortInfo::of_process("memory", QUEUES_MAX)
}

/// The memory ports of a directory, by name.
#[derive(Default)]
pub(crate) struct Memories(Lock<BTreeMap<String, Memory>>);

impl Memories {
    /// The far end of a port, made at the first call.
    pub(crate) fn get(&self, name: &str) -> Memory {
        self.0.lock().entry(name.to_owned()).or_default().clone()
    }
}

impl Scheme for Memories {
    fn name_syntax(&self) -> &'static str {
        "mem:NAME"
    }

    fn resource(&self, _: &str) -> Resource {
        Resource::Nothing
    }

    fn probe(&self, name: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        Ok(self.get(name).info())
    }

    fn open(
        &self,
        name: &str,
        request: &PortRequest,
        _: &PortContext<'_>,
    ) -> Result<Parts, String> {
        Ok(open(&self.get(name), request))
    }
}

/// Opens the router's end.
pub(crate) fn open(memory: &Memory, request: &PortRequest) -> Parts {
    let mut state = memory.lock();
    state.grow(request.rx_queues);
    // Frames may wait already, so the bells start rung. Without a descriptor the port is polled.
    let bells = (0..state.rx.len()).map(|_| sys::eventfd().map(Arc::new));
    state.wake_fds = bells.collect::<Result<_, _>>().unwrap_or_default();
    state.wake_fds.iter().for_each(|bell| sys::signal(bell));
    let rx = (0..request.rx_queues).map(|queue| {
        let bell = state.wake_fds.get(queue).cloned();
        Box::new(Rx {
            memory: memory.clone(),
            queue,
            wake_fd: bell,
        }) as Box<dyn RxQueue>
    });
    let rx = rx.collect();
    let tx = (0..request.tx_queues)
        .map(|queue| {
            Box::new(Tx {
                memory: memory.clone(),
                queue,
            }) as Box<dyn TxQueue>
        })
        .collect();
    drop(state);
    Parts {
        port: Arc::new(memory.clone()),
        rx,
        tx,
    }
}
