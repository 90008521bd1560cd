//! What an element is: one trait for authors, one erased face for the graph.
//!
//! An author writes [`Element`] for a type that is the state of one element *on one core*. Most
//! elements write [`step`](Element::step), which looks at one packet and names its output; those
//! that gain from batches, make packets or hold them write [`process`](Element::process) instead.
//! Implementing one gives the other. Nothing in an element knows threads, locks or queue numbers:
//! what crosses cores is `Config` (shared, immutable or made of atomics and published tables) or a
//! packet in a queue.

use crate::args::Args;
pub use crate::class::{AnyConfig, Class};
use crate::cx::Cx;
pub use crate::facts::Facts;
pub use crate::graph::Fate;
use crate::handler::{Handler, Job, Use};
use crate::packet::{Batch, Packet};
use crate::placement::Placement;
use crate::steer::{PortTable, Sorter, Steering, Table};
pub use init::Init;
pub use ports::{Flow, Ports};
use std::any::Any;
use std::os::fd::RawFd;
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

/// An element class: the state of one element on one core.
pub trait Element: Sized + 'static {
    /// The class name that configurations use.
    const CLASS: &'static str;
    /// The manual page: write `crate::manual!()`, which is the module's documentation.
    const MANUAL: &'static str;
    /// Ports by name.
    const PORTS: Ports;
    /// What packets need, per input; the last counts for all further inputs.
    const NEEDS: &'static [Facts] = &[Facts::NONE];
    /// What packets gain, per output; the last counts for all further outputs.
    const GIVES: &'static [Facts] = &[Facts::NONE];
    /// What no longer holds after the element.
    const SPOILS: Facts = Facts::NONE;
    /// Names of drops, for [`Verdict::drop`] and [`Cx::drop`].
    const DROPS: &'static [&'static str] = &[];
    /// How many copies may run.
    const COPIES: Copies = Copies::PerCore;
    /// Whether it may look at annotations (those in the mbuf's header, too) or leave packets to who does, by
    /// a copy or a queue. Where nothing behind a device does, packets come without. Those that what it needs
    /// ([`NEEDS`](Self::NEEDS)) speaks of do not count, nor does the hash: they are right on every packet.
    const ANNOTATIONS: bool = true;
    /// Whether packets may come to it without annotations although somebody behind it looks: it gives packets
    /// those of a new one by [`Packet::arrived`] where [`Init::annotates`] says so, unless they are watched.
    /// [`ANNOTATIONS`](Self::ANNOTATIONS) must be false.
    const ANNOTATES: bool = false;
    /// Whether it has a task.
    const RUNS: Runs = Runs::OnPackets;
    /// Whether it says when packets may be pulled from it, by [`Cx::wake_pullers`], and when not, by
    /// [`Cx::note_empty`]. At the start there are none.
    const NOTIFIES: bool = false;
    /// Pull outputs that are nothing but a pull input: what is asked of the first of a pair goes
    /// straight on to the input, past the element. So a detour may lead from an element to itself.
    const PULL_WIRES: &'static [(usize, usize)] = &[];
    /// Whether it may want signals.
    const LISTENS: bool = false;
    /// Whether it says when it takes no more packets, by [`Cx::note_full`], and when it does again, by
    /// [`Cx::wake_pushers`]. At the start it does.
    const NOTIFIES_ROOM: bool = false;
    /// Handlers beside those that every element has.
    const HANDLERS: &'static [Handler<Self>] = &[];

    /// The parsed configuration, shared by all cores. What control changes at run time lives here
    /// too, as atomics, published tables or rings.
    type Config: Send + Sync + 'static;

    /// Parses the configuration. It never fails: `args` records mistakes and returns a stand-in.
    /// It runs on control, sometimes only to describe itself, so it opens and changes nothing.
    fn configure(args: &mut Args) -> Self::Config;

    /// Opens what the configuration names beside ports, such as files: on control, once, before any
    /// state is made of a new configuration. What is opened waits in the configuration (in a
    /// [`Slot`](crate::port::Slot)) for [`new`](Self::new). The error is a sentence.
    fn initialize(config: &Self::Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// Makes the state for one core. It runs on the worker, so the state need not be `Send`.
    fn new(config: &Arc<Self::Config>, init: &Init) -> Self;

    /// What says of most packets at once where they go. It is made anew for the packets that follow each other without a
    /// [`step`](Self::step) between them, and should hold what it goes by itself, so that this stays in registers. `None`:
    /// the packet is as it was, and `step` is to look, which must do without this, too.
    #[inline]
    fn quick(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let _ = cx;
        |_: &mut Packet| None
    }

    /// Looks at one packet and says where it goes. What it emits itself may overtake packets before this
    /// one that leave by verdicts other than [`Verdict::ON`]: they leave together. The default is for classes
    /// whose [`quick`](Self::quick) always knows.
    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        debug_assert!(!Self::STEPS_ALL, "`step_all` knows, and nobody else");
        self.quick(cx)(packet).unwrap_or(Verdict::ON)
    }

    /// What becomes of one packet: what [`quick`](Self::quick) says of it, or else [`step`](Self::step).
    #[inline(always)]
    fn verdict(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let quick = self.quick(cx)(packet);
        quick.unwrap_or_else(|| self.step(packet, cx))
    }

    /// Handles a batch that came by `input`. What is left in `batch` goes on by output 0, after
    /// what was emitted.
    #[inline]
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let _ = input;
        if Self::FORESEES {
            if !Self::STEPS_ALL {
                batch.iter().for_each(self.foresee()); // nobody else shows it packets
            }
            let verdicts = cx.step_all(self, batch);
            cx.sort_as(batch, &verdicts);
            cx.keep_verdicts(verdicts);
        } else {
            cx.sort(batch, |packet, cx| self.verdict(packet, cx));
        }
    }

    /// Whether packets are looked at a batch at a time, by [`step_all`](Self::step_all), and not by [`step`](Self::step).
    const STEPS_ALL: bool = false;

    /// Says of each packet of a batch, in order, where it goes: for who looks all of them up at once. A class
    /// that does must say so by [`STEPS_ALL`](Self::STEPS_ALL).
    #[inline]
    fn step_all(&mut self, batch: &mut Batch, verdicts: &mut Vec<Verdict>, cx: &mut Cx) {
        self.step_each(batch, verdicts, cx);
    }

    /// What steps say of each packet of a batch, in order.
    #[inline]
    fn step_each(&mut self, batch: &mut Batch, verdicts: &mut Vec<Verdict>, cx: &mut Cx) {
        verdicts.resize(batch.len(), Verdict::ON);
        let mut rest = batch.iter_mut().zip(verdicts);
        loop {
            let quick = self.quick(cx);
            let slow = rest.find_map(|(packet, verdict)| match quick(packet) {
                Some(said) => {
                    *verdict = said;
                    None
                }
                None => Some((packet, verdict)),
            });
            drop(quick);
            match slow {
                Some((packet, verdict)) => *verdict = self.step(packet, cx),
                None => return,
            }
        }
    }

    /// Whether all that it does is to count what comes by its input, by [`count`](Self::count), and to send it on: a row
    /// may go past it, and tell it.
    const COUNTS: bool = false;

    /// So many packets have passed, at least one, with so many bytes.
    fn count(&mut self, packets: u64, bytes: u64, cx: &mut Cx) {
        let _ = (packets, bytes, cx);
    }

    /// Whether it is enough that it is told of packets when a row has run; else none goes past it.
    fn counts_later(&self) -> bool {
        true
    }

    /// Whether it looks ahead, by [`foresee`](Self::foresee): a row begins a new loop with it.
    const FORESEES: bool = Self::STEPS_ALL;

    /// What looks at each packet of a batch that comes next to [`step_all`](Self::step_all), behind all those that it has been
    /// shown: memory may be fetched ahead while elements before it look at others. It is a hint, which need not come.
    #[inline]
    fn foresee(&self) -> impl Fn(&Packet) {
        |_: &Packet| ()
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

    /// An output overflows to which packets of this source go, or did within the last second: what came of
    /// the last run of its task. A source of packets that would be lost anyway may rest a while, but not while
    /// some go elsewhere.
    fn overflowed(&mut self, fate: Fate, cx: &mut Cx) {
        let _ = (fate, cx);
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

    /// Whether there is a handler of this name beside [`HANDLERS`](Self::HANDLERS): one that the
    /// configuration names.
    fn offers(config: &Self::Config, name: &str, wanted: Use) -> bool {
        let _ = (config, name, wanted);
        false
    }

    /// The job of a handler that [`offers`](Self::offers) knows.
    fn offered(&self, name: &str, value: &str, wanted: Use) -> Job {
        let _ = (value, wanted);
        let wrong = format!("there is no handler `{name}`");
        Box::new(move |_| Err(wrong))
    }

    /// Signals that this element wants to hear of now, by number. Asked of classes that
    /// [`LISTENS`](Self::LISTENS); the driver of `ashlar click` delivers them.
    fn signals(&self) -> Vec<i32> {
        Vec::new()
    }

    /// A signal has come that [`signals`](Self::signals) named.
    fn signal(&mut self, number: i32, cx: &mut Cx) {
        let _ = (number, cx);
    }

    /// Whether this element decides when the router ends: then it hears of requests to stop by
    /// [`stop_asked`](Self::stop_asked), and ends the router with [`Cx::end`]. Without such an
    /// element the first request ends it; of several the first one decides.
    fn drives(config: &Self::Config) -> bool {
        let _ = config;
        false
    }

    /// Somebody has asked the router to stop; called once for each request.
    fn stop_asked(&mut self, cx: &mut Cx) {
        cx.end();
    }

    /// Adds the descriptors that become readable when this element's task has work.
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        let _ = fds;
    }

    /// Whether this element's task may find work without a descriptor saying so, so that a worker
    /// must poll it while idle.
    fn must_poll(&self) -> bool {
        false
    }

    /// Packets that this copy holds and that may still leave it, for the books and for a clean end.
    fn held(&self) -> usize {
        0
    }

    /// Packets that wait in this copy or in what it shares with others, for who asks how full it is.
    fn waiting(&self) -> usize {
        self.held()
    }

    /// What this copy has taken in by now, for [`is_past`](Self::is_past).
    fn mark(&self) -> usize {
        0
    }

    /// Whether what had been taken in at a [`mark`](Self::mark) has left. Where packets leave in the order in
    /// which they came that can be told while others follow; the default waits until nothing is held.
    fn is_past(&self, mark: usize) -> bool {
        let _ = mark;
        self.held() == 0
    }

    /// The table by which packets are steered to the workers that own them. The class must answer by
    /// [`steering`](Self::steering), and the router answers its handlers `move` and `table` to be written.
    fn steers(config: &Self::Config) -> Option<Arc<Table>> {
        let _ = config;
        None
    }

    /// Of an element that receives: the table by which its port gives packets to queues, if the port may follow moves of
    /// buckets. The class must have inner handlers. `drain`: written, it notes what waits in a queue of this worker; read, it names
    /// the queues that have not delivered that. `keep`: written, `QUEUE on` or `off`, what comes by a queue of this worker waits, or
    /// goes; read, it counts what waits.
    fn port_table(config: &Arc<Self::Config>) -> Option<Arc<dyn PortTable>> {
        let _ = config;
        None
    }

    /// By what packets are sorted into buckets here, if that is their flow.
    fn sorts(config: &Self::Config) -> Option<Arc<dyn Sorter>> {
        let _ = config;
        None
    }

    /// Whether the state of one owner ([`Copies::Owner`]) may be split by buckets all the same: behind elements
    /// that steer packets, sorted by their flow so that both directions meet, each worker then owns the
    /// state of its buckets. [`Init::sorter`] says so.
    fn splits(config: &Self::Config) -> bool {
        let _ = config;
        false
    }

    /// This copy, for who moves buckets.
    fn steering(&mut self) -> Option<&mut dyn Steering> {
        None
    }

    /// Gives up the state of the flows of a bucket, which another worker is to own. No packet of the bucket
    /// is held here, and none comes before the state is where they go.
    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>> {
        let _ = bucket;
        None
    }

    /// Takes over what another copy gave up.
    fn take_bucket(&mut self, bucket: u16, state: Box<dyn Any + Send>, cx: &mut Cx) {
        let _ = (bucket, state, cx);
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

    /// Cores, devices and queues that this configuration asks for.
    fn placement(config: &Self::Config) -> Placement {
        let _ = config;
        Placement::default()
    }

    /// Bytes of what the copies share (tables, rings), for `ashlar plan`; 0 if it is not worth saying.
    fn memory(config: &Self::Config) -> usize {
        let _ = config;
        0
    }

    /// Bytes that each copy takes for itself, likewise.
    fn memory_each(config: &Self::Config) -> usize {
        let _ = config;
        0
    }

    /// Least number of outputs and inputs that the configuration implies, where ports vary.
    fn port_count(config: &Self::Config) -> (Option<usize>, Option<usize>) {
        let _ = config;
        (None, None)
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
