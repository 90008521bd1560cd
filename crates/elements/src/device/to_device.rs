//! Sends packets to a port.
//!
//! ```click
//! FromDevice(null:64) -> ToDevice(null:, BURST 16, TIMEOUT 50us);
//! ```
//!
//! Packets are gathered into bursts for the port (kn of RouteBricks, Table 1). A burst that is not full is sent when
//! the worker has no other work in its turn, and at the latest after `TIMEOUT` (a bound that RouteBricks leaves
//! open). Every worker from which packets reach ToDevice has its own transmit queue. With a pull input, ToDevice
//! pulls packets as fast as the port takes them.
//!
//! Packets that the port can never send are dropped as `refused`: longer than its MTU, while its link is down, or
//! refused by the kernel. The port's counters distinguish these (`tx_too_long`, `tx_link_down`, `tx_errors`; `ashlar
//! top`). A card that DPDK drives has only its counters.
//!
//! Packets of the second input have priority over all waiting packets, have their own queue, and do not wait for
//! `TIMEOUT`. This input is for a few packets that must not be lost or delayed by the many others, such as
//! heartbeats.
//!
//! Arguments:
//!
//! - `DEVICE`: the port; see FromDevice.
//!
//! Keyword arguments:
//!
//! - `BURST`: packets handed to the port at a time. Default 64.
//! - `TIMEOUT`: maximum time that a packet waits for a burst to fill. Default 0: until the end of the worker's turn.
//! - `QUEUE`: maximum number of packets that wait for a busy port, in push mode. Default 1024; further packets are
//!   dropped (`full`). The second input has a queue of the same size.
//! - `CORES`: in pull mode, the workers that send.
//! - `DESCRIPTORS`: frames that each queue holds. Default is the port's.
//! - `METHOD`, `DEBUG`: accepted for compatibility with Click, and without effect.

use crate::prelude::*;
use arguments::units::Cores;
use engine::external::{self, External};
use engine::packet::anno::Anno;
use engine::packet::super_frame::cut_all;
use engine::port::{Slot, TxQueue};
use engine::ring::has_reached;
use engine::storage::{self, Storage};
use std::marker::PhantomData;
use std::time::Duration;

drops! {
    FULL = "full",
    REFUSED = "refused",
}
/// Delay before a busy port is retried.
const AGAIN: Duration = Duration::from_micros(20);
/// Number of bits for one input in a progress mark.
const HALF: u32 = usize::BITS / 2;

pub(crate) struct Config {
    pub(super) device: String,
    pub(super) cores: Option<Cores>,
    pub(super) burst: usize,
    pub(super) timeout: Duration,
    pub(super) room: usize,
    pub(super) descriptors: usize,
}

/// Argument style, in which ToDevice and ToDPDKDevice differ.
pub(crate) trait Style: 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    fn configure(args: &mut Args) -> Config;
}

/// Argument style of ToDevice.
pub(crate) struct Click;

impl Style for Click {
    const CLASS: &'static str = "ToDevice";
    const MANUAL: &'static str = manual!();

    fn configure(args: &mut Args) -> Config {
        let device = args.required("DEVICE", "the port");
        args.key_maybe::<String>("METHOD", "accepted, and without effect");
        args.key_maybe::<bool>("DEBUG", "accepted, and without effect");
        let doc = "frames that each queue holds; 0 = the port's default";
        Config::of(args, device, "QUEUE", ("DESCRIPTORS", doc))
    }
}

impl Config {
    /// Parses the arguments common to all styles. `room` is the keyword for the maximum number of waiting packets.
    pub(super) fn of(
        args: &mut Args,
        device: String,
        room: &'static str,
        (descriptors, doc): (&'static str, &'static str),
    ) -> Config {
        Config {
            device,
            cores: args.key_maybe("CORES", "in pull mode, the workers that send"),
            burst: args.key(
                "BURST",
                crate::burst::BURST,
                "packets handed to the port at a time",
            ),
            timeout: args.key(
                "TIMEOUT",
                Duration::ZERO,
                "longest time that a packet waits for a burst to fill",
            ),
            room: args.capacity(room, 1024, "packets that may wait for a busy port"),
            descriptors: args.key(descriptors, 0, doc),
        }
    }
}

pub(crate) struct ToDevice<S = Click> {
    style: PhantomData<S>,
    slot: Option<Slot<Box<dyn TxQueue>>>,
    queue: Option<Box<dyn TxQueue>>,
    burst: usize,
    timeout: Duration,
    room: usize,
    /// True if packets may arrive without annotations.
    bare: bool,
    /// True if GSO super-frames may arrive.
    whole: bool,
    waiting: Batch,
    /// Number of waiting packets from the second input, which precede all others.
    ahead: usize,
    /// Next burst, if more packets wait than one burst holds.
    part: Batch,
    /// Packets refused by the port; they are dropped at the next call that has a context.
    refused: Batch,
    /// Number of packets handed to the port, including refused ones.
    count: u64,
    /// Number of packets in `count` from the second input.
    preceded: u64,
    /// Number of packets refused by the port.
    unsent: u64,
    /// Bytes of sent packets.
    bytes: u64,
    busy: u64,
    /// Number of packets dropped because too many were waiting.
    lost: u64,
    /// Number of packets already sent when the counters were reset.
    sent_at_reset: u64,
}

impl<S> Drop for ToDevice<S> {
    fn drop(&mut self) {
        self.flush();
        if let (Some(slot), Some(queue)) = (&self.slot, self.queue.take()) {
            slot.put_back(queue);
        }
    }
}

impl<S> ToDevice<S> {
    /// Hands waiting packets to the port. Returns false if packets are left.
    fn flush(&mut self) -> bool {
        let mut waiting = std::mem::take(&mut self.waiting);
        let before = waiting.len();
        let all = waiting.is_empty() || self.send(&mut waiting);
        let went = self.ahead.min(before.saturating_sub(waiting.len()));
        self.ahead -= went;
        self.preceded += went as u64;
        self.waiting = waiting;
        all
    }

    /// Inserts packets of the second input before all waiting packets of the first, and sends without waiting for a
    /// full burst.
    #[inline(never)]
    fn precede(&mut self, batch: &mut Batch, cx: &mut Cx) {
        self.clear_annotations(batch, cx);
        let mut others = self.waiting.split_off(self.ahead);
        self.ahead += batch.len();
        self.waiting.append(batch);
        self.waiting.append(&mut others);
        if self.flush() {
            return;
        }
        cx.set_timer(cx.now() + AGAIN);
        if self.ahead > self.room {
            let mut others = self.waiting.split_off(self.ahead);
            self.drop_waiting_after(self.room, cx);
            self.ahead = self.room;
            self.waiting.append(&mut others);
        }
    }

    /// Drops all waiting packets except the first `kept`.
    fn drop_waiting_after(&mut self, kept: usize, cx: &mut Cx) {
        let mut late = self.waiting.split_off(kept);
        self.lost += late.len() as u64;
        cx.note_overflow(late.len());
        cx.drop_batch(&mut late, FULL);
    }

    /// Number of sent packets of the first input.
    fn first_input_sent(&self) -> u64 {
        self.count - self.preceded
    }

    /// Number of waiting packets of the first input.
    fn first_input_waiting(&self) -> usize {
        self.waiting.len() - self.ahead
    }

    /// Takes the port's queue once the former owner has released it.
    #[inline(always)]
    fn take_queue(&mut self) {
        if self.queue.is_none() {
            self.queue = self.slot.as_ref().and_then(Slot::take);
        }
    }

    /// Segments super-frames if the port does not support them.
    #[inline(never)]
    fn segment_if_needed(&mut self, batch: &mut Batch, cx: &mut Cx) {
        self.take_queue();
        let queue = self.queue.as_ref();
        if !queue.is_some_and(|queue| queue.takes_super_frames()) {
            cx.segment(batch);
        }
    }

    /// Hands packets to the port. Returns false if packets are left.
    #[inline(always)] // once where packets come, once where they have waited
    fn send(&mut self, batch: &mut Batch) -> bool {
        let whole = self.whole;
        self.take_queue();
        let Some(queue) = &mut self.queue else {
            return false;
        };
        let refused = &mut self.refused;
        let mut transmit = |batch: &mut Batch| match whole {
            true => queue.transmit_whole(batch, refused),
            false => queue.transmit(batch, refused),
        };
        let (packets, bytes) = (batch.len(), batch.bytes());
        let sent = if packets <= self.burst {
            transmit(batch)
        } else {
            in_bursts(transmit, batch, &mut self.part, self.burst)
        };
        self.count += sent as u64;
        self.bytes += bytes;
        if batch.is_empty() {
            return true;
        }
        self.bytes -= batch.bytes();
        self.busy += 1;
        false
    }

    /// Drops the packets that the port has refused.
    #[inline]
    fn drop_refused(&mut self, cx: &mut Cx) {
        if self.refused.is_empty() {
            return;
        }
        let refused = self.refused.len() as u64;
        (self.count, self.unsent) = (self.count + refused, self.unsent + refused);
        self.bytes -= self.refused.bytes();
        cx.drop_batch(&mut self.refused, REFUSED);
    }

    /// Number of sent packets.
    fn sent(&self) -> u64 {
        self.count - self.unsent
    }

    /// True if `packets` waiting packets are to be sent now.
    #[inline]
    fn is_due(&self, packets: usize) -> bool {
        packets >= self.burst || self.timeout.is_zero()
    }

    /// Appends packets that cannot be sent yet to the waiting ones.
    #[inline(never)]
    fn append_waiting(&mut self, batch: &mut Batch, is_busy: bool, cx: &mut Cx) {
        self.clear_annotations(batch, cx);
        self.waiting.append(batch);
        self.send_or_schedule(is_busy, cx);
    }

    /// Clears the annotations of packets that were received without them: a reader of the waiting packets must not see
    /// stale buffer contents.
    fn clear_annotations(&self, batch: &mut Batch, cx: &Cx) {
        if self.bare && !cx.watched() {
            let each = batch.iter_mut();
            each.for_each(|packet| *packet.anno_mut() = Anno::EMPTY);
        }
    }

    /// Sends the waiting packets if they are due; otherwise sets a timer.
    fn send_or_schedule(&mut self, is_busy: bool, cx: &mut Cx) {
        let due = self.is_due(self.waiting.len());
        if due && !is_busy && self.flush() {
            return;
        }
        cx.set_timer(cx.now() + if due { AGAIN } else { self.timeout });
        if self.first_input_waiting() > self.room {
            self.drop_waiting_after(self.ahead + self.room, cx);
        }
    }
}

/// Hands packets to the port in bursts, until the port refuses some. Returns the number of accepted packets.
fn in_bursts(
    mut transmit: impl FnMut(&mut Batch) -> usize,
    waiting: &mut Batch,
    part: &mut Batch,
    burst: usize,
) -> usize {
    let mut sent = 0;
    while part.is_empty() && !waiting.is_empty() {
        part.extend(waiting.drain_front(burst));
        sent += transmit(part);
    }
    part.append(waiting);
    std::mem::swap(part, waiting);
    sent
}

impl<S: Style> Element for ToDevice<S> {
    const CONTRACT: Contract = Contract::new(S::CLASS, S::MANUAL)
        .ports(Ports::coded(&["in", "first?"], &[], "ah"))
        .needs(&[Facts::ETHER])
        .drops(DROPS)
        .runs(Runs::AsTaskIfPull)
        .extensions(&[
            &resources::of::<Self>(),
            &external::of::<Self>(),
            &storage::of::<Self>(),
        ])
        .carries_super_frames()
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        S::configure(args)
    }

    fn new(config: &Arc<Config>, init: &Init) -> ToDevice<S> {
        let port = init.ports.get(&config.device);
        ToDevice {
            style: PhantomData,
            slot: port.and_then(|p| p.tx.get(*init.queues.first()?).cloned()),
            queue: None,
            burst: config.burst.max(1),
            timeout: config.timeout,
            room: config.room,
            bare: init.bare,
            whole: init.super_frames,
            waiting: Batch::new(),
            ahead: 0,
            part: Batch::new(),
            refused: Batch::new(),
            count: 0,
            preceded: 0,
            unsent: 0,
            bytes: 0,
            busy: 0,
            lost: 0,
            sent_at_reset: 0,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        if self.whole {
            self.segment_if_needed(batch, cx);
        }
        if input != 0 {
            self.precede(batch, cx);
        } else {
            let at_once = self.waiting.is_empty() && self.is_due(batch.len());
            if !at_once || !self.send(batch) {
                self.append_waiting(batch, at_once, cx);
            }
        }
        self.drop_refused(cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if self.waiting.len() < self.burst {
            cx.pull(0, self.burst - self.waiting.len(), &mut self.waiting);
        }
        if self.waiting.is_empty() {
            return cx.idle_result(0);
        }
        let before = self.waiting.len();
        self.flush();
        self.drop_refused(cx);
        if self.waiting.len() < before {
            Did::Work
        } else {
            Did::Nothing
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        if !self.flush() {
            cx.set_timer(cx.now() + AGAIN);
        }
        self.drop_refused(cx);
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn take(&mut self, mut old: ToDevice<S>) {
        (self.ahead, self.preceded) = (old.ahead, old.preceded);
        if old.whole && !self.whole {
            let mut others = old.waiting.split_off(old.ahead);
            for part in [&mut old.waiting, &mut others] {
                cut_all(part, |_| self.lost += 1);
            }
            self.ahead = old.waiting.len();
            old.waiting.append(&mut others);
        }
        self.waiting.append(&mut old.waiting);
        (self.count, self.bytes, self.busy) = (old.count, old.bytes, old.busy);
        (self.lost, self.sent_at_reset) = (self.lost + old.lost, old.sent_at_reset);
        self.unsent = old.unsent;
    }

    const HANDLERS: &'static [Handler<ToDevice<S>>] = &[
        Handler::sum("count", "packets sent", |e| e.sent() - e.sent_at_reset),
        Handler::sum("byte_count", "bytes sent", |e| e.bytes),
        Handler::sum(
            "busy",
            "times that the port did not take all packets",
            |e| e.busy,
        ),
        Handler::sum("waiting", "packets that wait for the port", |e| {
            e.waiting.len() as u64
        }),
        Handler::sum("dropped", "packets for which there was no room", |e| e.lost),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            // `count` itself is not reset, because progress marks are made of it.
            (e.sent_at_reset, e.bytes, e.busy, e.lost) = (e.sent(), 0, 0, 0);
            Ok(())
        }),
        Handler::show("burst", "packets handed to the port at a time", |e| {
            &e.burst
        }),
        Handler::set("set_burst", "changes BURST, 1 to 1024", |e, value, _| {
            e.burst = arguments::units::parse_in(value, 1..=1024)?;
            Ok(())
        }),
        Handler::assign("set_timeout", "changes TIMEOUT", |e| &mut e.timeout),
    ];
}

impl<S: Style> Resources for ToDevice<S> {
    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            device: Some(Device {
                name: config.device.clone(),
                descriptors: config.descriptors,
                ..Device::default()
            }),
            ..Placement::default()
        }
    }
}

impl<S: Style> External for ToDevice<S> {
    fn must_poll(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl<S: Style> Storage for ToDevice<S> {
    // Packets of one input may overtake the other's, so each input has half of the mark's bits.
    fn mark(&self) -> usize {
        let first = (self.first_input_sent() as usize).wrapping_add(self.first_input_waiting());
        let second = (self.preceded as usize).wrapping_add(self.ahead);
        (first << HALF) | (second << HALF >> HALF)
    }

    fn is_past(&self, mark: usize) -> bool {
        // Values in the upper half of the bits wrap like complete counters.
        let (first, second) = (mark >> HALF << HALF, mark << HALF);
        (self.first_input_waiting() == 0
            || has_reached((self.first_input_sent() as usize) << HALF, first))
            && (self.ahead == 0 || has_reached((self.preceded as usize) << HALF, second))
    }
}

#[cfg(test)]
#[path = "to_device_tests.rs"]
mod tests;
