//! What an element is: one trait for authors, one erased face for the graph.
//!
//! An author writes [`Element`] for a type that is the state of one element *on one core*. Most
//! elements write [`step`](Element::step), which looks at one packet and names its output; those
//! that gain from batches, make packets or hold them write [`process`](Element::process) instead.
//! Implementing one gives the other. Nothing in an element knows threads, locks or queue numbers:
//! what crosses cores is `Config` (shared, immutable or made of atomics and published tables) or a
//! packet in a queue.

pub use crate::class::{AnyConfig, Class};
use crate::cx::Cx;
use crate::extension::Extensions;
pub use crate::facts::Facts;
use crate::handler::Handler;
use crate::packet::{Batch, Packet};
use arguments::Args;
pub use init::Init;
pub use ports::{Flow, Ports};
use std::sync::Arc;

mod init;
mod ports;

/// Where a packet goes after a step: on by output 0, out by another port, or dropped by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(u16);

impl Verdict {
    /// On by output 0.
    pub const ON: Verdict = Verdict(0);

    /// Out by `port`.
    #[inline]
    pub const fn out(port: u8) -> Verdict {
        Verdict(port as u16)
    }

    /// Dropped under the `reason`-th name of [`Element::DROPS`].
    #[inline]
    pub const fn drop(reason: u8) -> Verdict {
        Verdict::reject(reason, 0xff)
    }

    /// Out by `port` if that is connected, else dropped under the `reason`-th name.
    #[inline]
    pub const fn reject(reason: u8, port: u8) -> Verdict {
        Verdict((reason as u16 + 1) << 8 | port as u16)
    }

    /// The port, or 255: as an index less than PORTS.
    #[inline]
    pub fn port(self) -> usize {
        usize::from(self.0 as u8)
    }

    /// The drop reason.
    #[inline]
    pub fn reason(self) -> Option<usize> {
        usize::from(self.0 >> 8).checked_sub(1)
    }
}

/// How many copies of an element may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One per core that reaches it.
    PerCore,
    /// One: the element keeps an order or a state that cannot be split.
    One,
    /// One, on a worker that owns its state and that of elements which it names: packets that come on
    /// other workers cross over, through queues that the plan puts before its inputs. They must be push.
    Owner,
}

/// Whether an element starts work by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Only when packets come or a timer fires.
    OnPackets,
    /// As a task; always ready.
    AsTask,
    /// As a task if its input is pull, else when packets come (ToDevice, Discard).
    AsTaskIfPull,
    /// As a task if its output is push, else when it is asked (InfiniteSource).
    AsTaskIfPush,
}

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It moved packets: run it again soon.
    Work,
    /// Nothing was there; poll it again.
    Nothing,
    /// Nothing was there, and a notifier or a timer will wake it; see [`Cx::rest`].
    Sleep,
    /// It will never have work again (its file has ended, its limit is reached).
    End,
}

/// An extension: packets may come to elements of the class without annotations although somebody behind them reads some.
/// They give packets those of a new one by [`Packet::arrived`] where [`Init::annotates`] says so, unless packets are
/// watched. [`Element::READS_ANNOTATIONS`] must be false.
pub struct Annotates;

/// An element class: the state of one element on one core.
pub trait Element: Sized + 'static {
    /// The class name that configurations use.
    const CLASS: &'static str;
    /// The manual page: write `crate::manual!()`, which is the module's documentation.
    const MANUAL: &'static str;
    /// Ports by name.
    const PORTS: Ports;
    /// Facts that must hold for packets that come, per input; the last counts for all further inputs.
    const NEEDS: &'static [Facts] = &[Facts::NONE];
    /// Facts that hold for packets that leave, per output; the last counts for all further outputs.
    const GIVES: &'static [Facts] = &[Facts::NONE];
    /// Facts that no longer hold behind the element.
    const SPOILS: Facts = Facts::NONE;
    /// Names of drops, for [`Verdict::drop`] and [`Cx::drop`].
    const DROPS: &'static [&'static str] = &[];
    /// How many copies may run.
    const COPIES: Copies = Copies::PerCore;
    /// True if the class reads annotations, or hands packets to somebody who may, by a copy or a queue. If no class
    /// downstream of a device does, the port skips initialising them. The annotations that `NEEDS` guarantees, and the
    /// hash, are always valid.
    const READS_ANNOTATIONS: bool = false;
    /// When an element starts work by itself.
    const RUNS: Runs = Runs::OnPackets;
    /// Handlers beside those that every element has.
    const HANDLERS: &'static [Handler<Self>] = &[];
    /// What the class offers beside this trait; see [`extension`](crate::extension).
    const EXTENSIONS: Extensions = &[];

    /// The parsed configuration, shared by all cores. What control changes at run time lives here
    /// too, as atomics, published tables or rings.
    type Config: Send + Sync + 'static;

    /// Parses the configuration. It never fails: `args` records mistakes and returns a stand-in.
    /// It runs on control, sometimes only to describe itself, so it opens and changes nothing.
    fn configure(args: &mut Args) -> Self::Config;

    /// Makes the state for one core. It runs on the worker, so the state need not be `Send`.
    fn new(config: &Arc<Self::Config>, init: &Init) -> Self;

    /// Looks at one packet and says where it goes. Packets that it emits itself may overtake packets before this
    /// one that leave by verdicts other than [`Verdict::ON`]: those leave together.
    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let _ = (packet, cx);
        Verdict::ON
    }

    /// Handles a batch that came by `input`. Packets that are left in `batch` go on by output 0, after
    /// those that were emitted. The default has [`step`](Self::step) look at each packet.
    #[inline]
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let _ = input;
        cx.sort(batch, |packet, cx| self.step(packet, cx));
    }

    /// Appends up to `max` packets for pull output `output`. The default pulls from input 0 and
    /// processes what comes.
    #[inline]
    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let _ = output;
        let mut batch = cx.spare();
        cx.pull(0, max, &mut batch);
        if !batch.is_empty() {
            self.process(0, &mut batch, cx);
        }
        into.append(&mut batch);
        cx.keep_spare(batch);
    }

    /// Does a bounded piece of work as a task.
    fn task(&mut self, cx: &mut Cx) -> Did {
        let _ = cx;
        Did::Sleep
    }

    /// Called once, before the first turn of the graph that this state was made for. Jobs that it
    /// leaves run when every element has been called.
    fn start(&mut self, cx: &mut Cx) {
        let _ = cx;
    }

    /// Called when the timer set with [`Cx::set_timer`] is due.
    fn timer(&mut self, cx: &mut Cx) {
        let _ = cx;
    }

    /// Packets that this copy holds and that may still leave it, for the counters and for a clean end.
    fn held(&self) -> usize {
        0
    }

    /// Hot swap, on control: the element was reconfigured; take over what the old configuration
    /// shared (tables, rings).
    fn inherit(config: &mut Self::Config, old: &Self::Config) {
        let _ = (config, old);
    }

    /// Hot swap, on the worker: take over the state of the element of the same name and class.
    fn take(&mut self, old: Self) {
        drop(old);
    }
}

/// The manual page of the file in which it is written: its leading `//!` lines. Outside this workspace
/// the file is named, as the file itself would include it: `manual!("my_element.rs")`.
#[macro_export]
macro_rules! manual {
    ($file:literal) => {
        include_str!($file)
    };
    () => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", file!()))
    };
}
