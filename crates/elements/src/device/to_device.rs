//! Sends packets to a port.
//!
//! ```click
//! FromDevice(null:64) -> ToDevice(null:, BURST 16, TIMEOUT 50us);
//! ```
//!
//! Packets are gathered into bursts for the port (kn of RouteBricks, Table 1). A burst that is not
//! full goes when the worker has nothing else to do in its turn, and at the latest after `TIMEOUT`:
//! the bound that RouteBricks left open. Every worker that reaches ToDevice has a transmit queue of
//! its own. With a pull input, ToDevice asks for packets as the port takes them.
//!
//! Arguments:
//!
//! - `DEVICE`: the port; see FromDevice.
//!
//! Keyword arguments:
//!
//! - `BURST`: packets handed to the port at a time. Default 64.
//! - `TIMEOUT`: longest time that a packet waits for a burst to fill. Default 0: not beyond the turn.
//! - `QUEUE`: packets that may wait, in push mode, for a port that is busy. Default 1024; what comes
//!   beyond is dropped (`full`).
//! - `CORES`: in pull mode, the workers that send.
//! - `DESCRIPTORS`: frames that each queue holds. Default is the port's.
//! - `METHOD`, `DEBUG`: taken for Click's sake, and without effect.

use crate::prelude::*;
use engine::anno::Anno;
use engine::port::{Slot, TxQueue};
use engine::ring::reached;
use engine::units::Cores;
use std::marker::PhantomData;
use std::time::Duration;

const FULL: usize = 0;
/// How soon a port that was busy is tried again.
const AGAIN: Duration = Duration::from_micros(20);

pub(crate) struct Config {
    pub(super) device: String,
    pub(super) cores: Option<Cores>,
    pub(super) burst: usize,
    pub(super) timeout: Duration,
    pub(super) room: usize,
    pub(super) descriptors: usize,
}

/// What ToDevice and ToDPDKDevice differ in: their arguments.
pub(crate) trait Style: 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    fn configure(args: &mut Args) -> Config;
}

/// ToDevice's arguments.
pub(crate) struct Click;

impl Style for Click {
    const CLASS: &'static str = "ToDevice";
    const MANUAL: &'static str = manual!();

    fn configure(args: &mut Args) -> Config {
        let device = args.required("DEVICE", "the port");
        args.key_maybe::<String>("METHOD", "taken, and without effect");
        args.key_maybe::<bool>("DEBUG", "taken, and without effect");
        Config {
            device,
            cores: args.key_maybe("CORES", "in pull mode, the workers that send"),
            burst: args.key(
                "BURST",
                super::BURST,
                "packets handed to the port at a time",
            ),
            timeout: args.key(
                "TIMEOUT",
                Duration::ZERO,
                "longest time that a packet waits for a burst to fill",
            ),
            room: args.key("QUEUE", 1024, "packets that may wait for a busy port"),
            descriptors: args.key(
                "DESCRIPTORS",
                0,
                "frames that each queue holds; 0 = the port's default",
            ),
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
    /// Packets may come without annotations.
    bare: bool,
    waiting: Batch,
    /// One burst of those, where more than one wait.
    part: Batch,
    count: u64,
    bytes: u64,
    busy: u64,
}

impl<S> Drop for ToDevice<S> {
    fn drop(&mut self) {
        self.flush();
        if let (Some(slot), Some(queue)) = (&self.slot, self.queue.take()) {
            slot.give(queue);
        }
    }
}

impl<S> ToDevice<S> {
    /// Hands waiting packets to the port. False if it did not take all of them.
    fn flush(&mut self) -> bool {
        let mut waiting = std::mem::take(&mut self.waiting);
        let all = waiting.is_empty() || self.send(&mut waiting);
        self.waiting = waiting;
        all
    }

    /// Hands packets to the port. False if it did not take all of them.
    #[inline(always)] // once where packets come, once where they have waited
    fn send(&mut self, batch: &mut Batch) -> bool {
        if self.queue.is_none() {
            self.queue = self.slot.as_ref().and_then(Slot::take);
        }
        let Some(queue) = &mut self.queue else {
            return false;
        };
        let (packets, bytes) = (batch.len(), batch.bytes());
        let sent = if packets <= self.burst {
            queue.transmit(batch)
        } else {
            in_bursts(&mut **queue, batch, &mut self.part, self.burst)
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

    /// Whether so many packets are to go now.
    #[inline]
    fn is_due(&self, packets: usize) -> bool {
        packets >= self.burst || self.timeout.is_zero()
    }

    /// Lets packets wait that the port has not taken, or behind others.
    #[inline(never)]
    fn gather(&mut self, batch: &mut Batch, refused: bool, cx: &mut Cx) {
        if self.bare && !cx.watched() {
            // Whoever begins to look now must not see what others have left in the buffers.
            let each = batch.iter_mut();
            each.for_each(|packet| *packet.anno_mut() = Anno::EMPTY);
        }
        self.waiting.append(batch);
        let due = self.is_due(self.waiting.len());
        if due && !refused && self.flush() {
            return;
        }
        cx.set_timer(cx.now() + if due { AGAIN } else { self.timeout });
        if self.waiting.len() > self.room {
            let mut late = self.waiting.split_off(self.room);
            cx.note_overflow(late.len());
            cx.drop_batch(&mut late, FULL);
        }
    }
}

/// Hands packets to the port, `burst` at a time, until it does not take them; how many it took.
fn in_bursts(
    queue: &mut dyn TxQueue,
    waiting: &mut Batch,
    part: &mut Batch,
    burst: usize,
) -> usize {
    let mut sent = 0;
    while part.is_empty() && !waiting.is_empty() {
        part.extend(waiting.drain_front(burst));
        sent += queue.transmit(part);
    }
    part.append(waiting);
    std::mem::swap(part, waiting);
    sent
}

impl<S: Style> Element for ToDevice<S> {
    const CLASS: &'static str = S::CLASS;
    const MANUAL: &'static str = S::MANUAL;
    const PORTS: Ports = Ports::coded(&["in"], &[], "a");
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const ANNOTATIONS: bool = false;
    const DROPS: &'static [&'static str] = &["full"];
    const RUNS: Runs = Runs::AsTaskIfPull;

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
            waiting: Batch::new(),
            part: Batch::new(),
            count: 0,
            bytes: 0,
            busy: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let at_once = self.waiting.is_empty() && self.is_due(batch.len());
        if !at_once || !self.send(batch) {
            self.gather(batch, at_once, cx);
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if self.waiting.len() < self.burst {
            cx.pull(0, self.burst - self.waiting.len(), &mut self.waiting);
        }
        if self.waiting.is_empty() {
            return cx.rest(0);
        }
        let before = self.waiting.len();
        self.flush();
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
    }

    fn must_poll(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn mark(&self) -> usize {
        (self.count as usize).wrapping_add(self.waiting.len())
    }

    fn is_past(&self, mark: usize) -> bool {
        self.waiting.is_empty() || reached(self.count as usize, mark)
    }

    fn take(&mut self, mut old: ToDevice<S>) {
        self.waiting.append(&mut old.waiting);
        (self.count, self.bytes, self.busy) = (old.count, old.bytes, old.busy);
    }

    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            device: Some(Device {
                name: config.device.clone(),
                receives: false,
                queues: None,
                descriptors: config.descriptors,
                promiscuous: false,
                notes: false,
            }),
            ..Placement::default()
        }
    }

    const HANDLERS: &'static [Handler<ToDevice<S>>] = &[
        Handler::sum("count", "packets sent", |e| e.count),
        Handler::sum("byte_count", "bytes sent", |e| e.bytes),
        Handler::sum(
            "busy",
            "times that the port did not take all packets",
            |e| e.busy,
        ),
        Handler::sum("waiting", "packets that wait for the port", |e| {
            e.waiting.len() as u64
        }),
        Handler::text("burst", "packets handed to the port at a time", |e, _| {
            Ok(e.burst.to_string())
        }),
        Handler::set("set_burst", "changes BURST, 1 to 1024", |e, value, _| {
            e.burst = engine::units::parse_in(value, 1..=1024)?;
            Ok(())
        }),
        Handler::set("set_timeout", "changes TIMEOUT", |e, value, _| {
            assign(&mut e.timeout, value)
        }),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a number of packets each time and remembers how many it was shown.
    struct Takes(Vec<usize>, Vec<usize>);

    impl TxQueue for Takes {
        fn transmit(&mut self, batch: &mut Batch) -> usize {
            self.1.push(batch.len());
            let n = self.0.remove(0).min(batch.len());
            batch.drain_front(n);
            n
        }
    }

    fn lengths(n: u8) -> Batch {
        let packet = |len| Packet::from_bytes(&vec![0; usize::from(len)]).expect("memory");
        (1..=n).map(packet).collect()
    }

    #[test]
    fn a_port_is_handed_a_burst_at_a_time() {
        let (mut waiting, mut part) = (lengths(5), Batch::new());
        let mut port = Takes(vec![2, 2, 1], Vec::new());
        assert_eq!(in_bursts(&mut port, &mut waiting, &mut part, 2), 5);
        assert_eq!(port.1, [2, 2, 1]);
        assert!(waiting.is_empty() && part.is_empty());
    }

    #[test]
    fn what_a_busy_port_leaves_waits_in_order() {
        let (mut waiting, mut part) = (lengths(5), Batch::new());
        let mut port = Takes(vec![2, 1], Vec::new());
        assert_eq!(in_bursts(&mut port, &mut waiting, &mut part, 2), 3);
        assert_eq!(port.1, [2, 2]);
        let left: Vec<usize> = waiting.iter().map(Packet::len).collect();
        assert_eq!(left, [4, 5]);
        assert!(part.is_empty());
    }
}
