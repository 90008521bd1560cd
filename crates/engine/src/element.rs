//! What an element is: one trait for authors, one erased face for the graph.
//!
//! An author writes [`Element`] for a type that is the state of one element *on one core*. Most
//! elements write [`step`](Element::step), which looks at one packet and names its output; those
//! that gain from batches, make packets or hold them write [`process`](Element::process) instead.
//! Implementing one gives the other. Nothing in an element knows threads, locks or queue numbers:
//! what crosses cores is `Config` (shared, immutable or made of atomics and published tables) or a
//! packet in a queue.

use crate::args::Args;
use crate::cx::Cx;
use crate::handler::{Handler, HandlerInfo};
use crate::packet::{Batch, Packet};
use crate::placement::Placement;
use crate::port::PortDirectory;
use std::any::Any;
use std::os::fd::RawFd;
use std::sync::Arc;

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

    /// The port, or 255.
    #[inline]
    pub fn port(self) -> usize {
        usize::from(self.0 & 0xff)
    }

    /// The drop reason.
    #[inline]
    pub fn reason(self) -> Option<usize> {
        usize::from(self.0 >> 8).checked_sub(1)
    }
}

/// How ports move packets, as Click spells it in processing codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// `h`: the source sends.
    Push,
    /// `l`: the destination asks.
    Pull,
    /// `a`: as the neighbours want.
    Agnostic,
}

/// Names and processing of an element's ports.
///
/// A name that ends in `?` may stay unconnected: what leaves by such an output is dropped under
/// the port's name. A last name that ends in `*` stands for any number of ports (also none), `+`
/// for one or more. Processing is Click's code for inputs and outputs: `h` push, `l` pull, `a`
/// agnostic; the last letter counts for all further ports.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Input names.
    pub inputs: &'static [&'static str],
    /// Output names.
    pub outputs: &'static [&'static str],
    /// Click's processing code, such as `h/lh`.
    pub processing: &'static str,
}

impl Ports {
    /// Agnostic ports.
    pub const fn new(inputs: &'static [&'static str], outputs: &'static [&'static str]) -> Ports {
        Ports {
            inputs,
            outputs,
            processing: "a/ah",
        }
    }

    /// Ports with a processing code.
    pub const fn coded(
        inputs: &'static [&'static str],
        outputs: &'static [&'static str],
        processing: &'static str,
    ) -> Ports {
        Ports {
            inputs,
            outputs,
            processing,
        }
    }

    fn code(&self, side: usize, port: usize) -> Flow {
        let mut halves = self.processing.splitn(2, '/');
        let inputs = halves.next().unwrap_or("a");
        let letters = if side == 0 {
            inputs
        } else {
            halves.next().unwrap_or(inputs)
        };
        match letters.as_bytes().get(port).or(letters.as_bytes().last()) {
            Some(b'h') => Flow::Push,
            Some(b'l') => Flow::Pull,
            _ => Flow::Agnostic,
        }
    }

    /// Processing of an input.
    pub fn input_flow(&self, port: usize) -> Flow {
        self.code(0, port)
    }

    /// Processing of an output.
    pub fn output_flow(&self, port: usize) -> Flow {
        self.code(1, port)
    }

    /// Fewest and most ports of a side.
    pub fn range(names: &[&str]) -> (usize, usize) {
        let least = names.iter().filter(|n| !n.ends_with(['?', '*'])).count();
        let open = names.last().is_some_and(|n| n.ends_with(['*', '+']));
        (least, if open { usize::MAX } else { names.len() })
    }

    /// Whether a port may stay unconnected.
    pub fn optional(names: &[&str], port: usize) -> bool {
        names
            .get(port)
            .or(names.last())
            .is_some_and(|n| n.ends_with(['?', '*']))
    }

    /// A port's name without its mark, with the number where a name stands for many ports.
    pub fn port_name(names: &[&str], port: usize) -> String {
        let many = |n: &&&str| n.ends_with(['*', '+']);
        match names.get(port) {
            Some(name) if !many(&name) => name.trim_end_matches('?').to_owned(),
            _ => match names.last().filter(many) {
                Some(name) => format!("{}{port}", name.trim_end_matches(['*', '+'])),
                None => port.to_string(),
            },
        }
    }
}

/// What is known about every packet at a place in the graph; proved before start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts(u16);

impl Facts {
    /// Nothing.
    pub const NONE: Facts = Facts(0);
    /// Everything: the identity when facts of several paths meet.
    pub const ALL: Facts = Facts(u16::MAX);
    /// The data starts with an Ethernet header.
    pub const ETHER: Facts = Facts(1);
    /// The network header annotation marks an IPv4 header that was checked.
    pub const IP4: Facts = Facts(2);
    /// The network header annotation marks an IPv6 header that was checked.
    pub const IP6: Facts = Facts(4);
    /// The data starts with the network header.
    pub const AT_NETWORK: Facts = Facts(8);
    /// The destination address annotation is set to an IPv4 address.
    pub const DST4: Facts = Facts(16);
    /// The destination address annotation is set to an IPv6 address.
    pub const DST6: Facts = Facts(32);

    const NAMES: [(Facts, &'static str, &'static str); 6] = [
        (
            Facts::ETHER,
            "an Ethernet header at the start",
            "do not strip it before, or put EtherEncap before it",
        ),
        (
            Facts::IP4,
            "a checked IPv4 header",
            "put CheckIPHeader (or MarkIPHeader) before it",
        ),
        (
            Facts::IP6,
            "a checked IPv6 header",
            "put CheckIP6Header (or MarkIP6Header) before it",
        ),
        (
            Facts::AT_NETWORK,
            "the network header at the start",
            "put Strip(14) before CheckIPHeader or CheckIP6Header",
        ),
        (
            Facts::DST4,
            "an IPv4 destination annotation",
            "put CheckIPHeader, GetIPAddress or a route lookup before it",
        ),
        (
            Facts::DST6,
            "an IPv6 destination annotation",
            "put CheckIP6Header or a route lookup before it",
        ),
    ];

    /// Both sets together.
    pub const fn and(self, other: Facts) -> Facts {
        Facts(self.0 | other.0)
    }

    /// What both sets have.
    pub const fn common(self, other: Facts) -> Facts {
        Facts(self.0 & other.0)
    }

    /// This set without `other`.
    pub const fn without(self, other: Facts) -> Facts {
        Facts(self.0 & !other.0)
    }

    /// Whether all of `needed` is known.
    pub const fn has(self, needed: Facts) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Each fact in words, and what gives it.
    pub fn words(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        Facts::NAMES
            .into_iter()
            .filter(move |(f, ..)| self.has(*f))
            .map(|(_, w, r)| (w, r))
    }
}

/// How many copies of an element may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One per core that reaches it.
    PerCore,
    /// One: the element keeps an order or a state that cannot be split.
    One,
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
}

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It moved packets: run it again soon.
    Work,
    /// Nothing was there; poll it again.
    Nothing,
    /// Nothing was there, and a notifier upstream will wake it.
    Sleep,
    /// It will never have work again (its file has ended, its limit is reached).
    End,
}

/// What an element may know about its place when its state is made.
pub struct Init<'a> {
    /// Name of the element.
    pub name: &'a str,
    /// Worker on which this copy runs.
    pub worker: usize,
    /// Number of workers.
    pub workers: usize,
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// Whether input 0 is pull.
    pub input_pull: bool,
    /// Whether everything that this element pulls from wakes it when packets wait.
    pub notified: bool,
    /// Queues of the element's device that belong to this copy.
    pub queues: &'a [usize],
    /// Workers that push into this element, ascending.
    pub pushers: &'a [usize],
    /// Workers that pull from this element, ascending; for others, where it runs.
    pub pullers: &'a [usize],
    /// Open ports.
    pub ports: &'a dyn PortDirectory,
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
    /// Whether it has a task.
    const RUNS: Runs = Runs::OnPackets;
    /// Whether it holds packets and calls [`Cx::wake_pullers`] when some are there to pull.
    const NOTIFIES: bool = false;
    /// Handlers beside those that every element has.
    const HANDLERS: &'static [Handler<Self>] = &[];

    /// The parsed configuration, shared by all cores. What control changes at run time lives here
    /// too, as atomics, published tables or rings.
    type Config: Send + Sync + 'static;

    /// Parses the configuration. It never fails: `args` records mistakes and returns a stand-in.
    /// It runs on control, sometimes only to describe itself, so it opens and changes nothing.
    fn configure(args: &mut Args) -> Self::Config;

    /// Makes the state for one core. It runs on the worker, so the state need not be `Send`.
    fn new(config: &Arc<Self::Config>, init: &Init) -> Self;

    /// Looks at one packet and says where it goes.
    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let _ = (packet, cx);
        Verdict::ON
    }

    /// Handles a batch that came by `input`. What is left in `batch` goes on by output 0, after
    /// what was emitted.
    #[inline]
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let _ = input;
        batch.split(
            cx,
            |packet, cx| self.step(packet, cx),
            |packet, verdict, cx| cx.send(packet, verdict),
        );
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

    /// Called when the timer set with [`Cx::set_timer`] is due.
    fn timer(&mut self, cx: &mut Cx) {
        let _ = cx;
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

    /// Least number of outputs and inputs that the configuration implies, where ports vary.
    fn port_count(config: &Self::Config) -> (Option<usize>, Option<usize>) {
        let _ = config;
        (None, None)
    }
}

/// The manual page of the file in which it is written: its leading `//!` lines.
#[macro_export]
macro_rules! manual {
    () => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", file!()))
    };
}

/// A configuration whose class is not known here.
pub type AnyConfig = Arc<dyn Any + Send + Sync>;

/// An element class as the rest of the program sees it.
pub struct Class {
    /// The class name.
    pub name: &'static str,
    /// Source of the file that defines it; see [`Class::manual`].
    pub source: &'static str,
    /// Ports.
    pub ports: Ports,
    /// See [`Element::NEEDS`].
    pub needs: &'static [Facts],
    /// See [`Element::GIVES`].
    pub gives: &'static [Facts],
    /// See [`Element::SPOILS`].
    pub spoils: Facts,
    /// See [`Element::DROPS`].
    pub drops: &'static [&'static str],
    /// See [`Element::COPIES`].
    pub copies: Copies,
    /// See [`Element::RUNS`].
    pub runs: Runs,
    /// See [`Element::NOTIFIES`].
    pub notifies: bool,
    /// Handlers of the class.
    pub handlers: fn() -> Vec<HandlerInfo>,
    pub(crate) configure: fn(&mut Args) -> Box<dyn ErasedConfig>,
    pub(crate) build: fn(&AnyConfig, &Init) -> Box<dyn Node>,
    pub(crate) control: fn(&AnyConfig, usize, &str) -> Result<String, String>,
    pub(crate) placement: fn(&AnyConfig) -> Placement,
    pub(crate) memory: fn(&AnyConfig) -> usize,
    pub(crate) port_count: fn(&AnyConfig) -> (Option<usize>, Option<usize>),
}

impl Class {
    /// The class of an element type.
    pub const fn of<E: Element>() -> Class {
        Class {
            name: E::CLASS,
            source: E::MANUAL,
            ports: E::PORTS,
            needs: E::NEEDS,
            gives: E::GIVES,
            spoils: E::SPOILS,
            drops: E::DROPS,
            copies: E::COPIES,
            runs: E::RUNS,
            notifies: E::NOTIFIES,
            handlers: || E::HANDLERS.iter().map(Handler::info).collect(),
            configure: |args| Box::new(Fresh::<E>(E::configure(args))),
            build: |config, init| {
                let config = typed::<E>(config);
                Box::new(Running {
                    element: E::new(&config, init),
                    config,
                })
            },
            control: |config, index, value| {
                E::HANDLERS[index].run_control(&typed::<E>(config), value)
            },
            placement: |config| E::placement(&typed::<E>(config)),
            memory: |config| E::memory(&typed::<E>(config)),
            port_count: |config| E::port_count(&typed::<E>(config)),
        }
    }

    /// The manual page as text: the file's leading `//!` lines.
    pub fn manual(&self) -> String {
        let lines = self.source.lines().take_while(|l| l.starts_with("//!"));
        let mut text = String::new();
        for line in lines {
            let line = line.trim_start_matches("//!");
            text.push_str(line.strip_prefix(' ').unwrap_or(line));
            text.push('\n');
        }
        text
    }

    /// The first sentence of the manual page.
    pub fn summary(&self) -> String {
        let manual = self.manual();
        let first: Vec<&str> = manual.lines().take_while(|l| !l.is_empty()).collect();
        first.join(" ")
    }

    /// What an input needs.
    pub fn needs(&self, input: usize) -> Facts {
        self.needs
            .get(input)
            .or(self.needs.last())
            .copied()
            .unwrap_or(Facts::NONE)
    }

    /// What an output gives.
    pub fn gives(&self, output: usize) -> Facts {
        self.gives
            .get(output)
            .or(self.gives.last())
            .copied()
            .unwrap_or(Facts::NONE)
    }
}

impl std::fmt::Debug for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn typed<E: Element>(config: &AnyConfig) -> Arc<E::Config> {
    Arc::clone(config)
        .downcast::<E::Config>()
        .unwrap_or_else(|_| unreachable!("a class is given only configurations that it parsed"))
}

/// A configuration that was parsed and is not yet shared.
pub(crate) trait ErasedConfig {
    fn inherit(&mut self, old: &AnyConfig);
    fn share(self: Box<Self>) -> AnyConfig;
}

struct Fresh<E: Element>(E::Config);

impl<E: Element> ErasedConfig for Fresh<E> {
    fn inherit(&mut self, old: &AnyConfig) {
        E::inherit(&mut self.0, &typed::<E>(old));
    }

    fn share(self: Box<Self>) -> AnyConfig {
        Arc::new(self.0)
    }
}

/// An element as the graph sees it.
pub(crate) trait Node {
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx);
    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx);
    fn task(&mut self, cx: &mut Cx) -> Did;
    fn timer(&mut self, cx: &mut Cx);
    fn wait_fds(&self, fds: &mut Vec<RawFd>);
    fn must_poll(&self) -> bool;
    fn held(&self) -> usize;
    fn read(&self, handler: usize, argument: &str) -> Result<String, String>;
    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String>;
    fn take(&mut self, old: Box<dyn Any>);
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

struct Running<E: Element> {
    element: E,
    config: Arc<E::Config>,
}

impl<E: Element> Node for Running<E> {
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.element.process(input, batch, cx);
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        self.element.pull(output, max, into, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        self.element.task(cx)
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.element.timer(cx);
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.element.wait_fds(fds);
    }

    fn must_poll(&self) -> bool {
        self.element.must_poll()
    }

    fn held(&self) -> usize {
        self.element.held()
    }

    fn read(&self, handler: usize, argument: &str) -> Result<String, String> {
        E::HANDLERS[handler].run_read(&self.element, &self.config, argument)
    }

    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String> {
        E::HANDLERS[handler].run_write(&mut self.element, value, cx)
    }

    fn take(&mut self, old: Box<dyn Any>) {
        if let Ok(old) = old.downcast::<Running<E>>() {
            self.element.take(old.element);
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
