//! Runs a script that uses the router's handlers.
//!
//! ```click
//! InfiniteSource(LIMIT 100) -> c :: Counter -> Discard;
//! Script(set n 0,
//!        label again,
//!        print "round $n: $(c.count) packets",
//!        wait 1ms,
//!        set n $(add $n 1),
//!        goto again $(lt $n 3),
//!        stop);
//! ```
//!
//! Arguments are instructions, which run one after the other:
//!
//! - `set VAR TEXT`: sets a variable. `init VAR TEXT`: sets it once, at the start; the instruction
//!   itself does nothing. `export VAR TEXT`: as `init`, and the variable is a handler to be read.
//! - `print TEXT`: prints a text and ends the line. If it starts with a letter, `@` or `_` it is a
//!   handler, whose value is printed. `print >FILE TEXT` writes a file anew, `>>FILE` appends.
//!   `printn` does not end the line.
//! - `read HANDLER ARGUMENT`: writes a handler's name and value to the standard error output.
//!   `write HANDLER VALUE`: writes a handler; `$?` is then 0, or negative if it refused.
//! - `save HANDLER FILE`, `append HANDLER FILE`: a handler's value as a file, or at its end.
//! - `pause N`: waits for N (1) writes of the handler `step`; `wait_step`, `wait_stop` and a bare
//!   `wait` are the same. `wait TIME`: waits for a time or a step.
//! - `label NAME`; `goto NAME CONDITION`: goes on at a label if the condition, if any, is true.
//!   `goto` also knows `loop`, `end`, `exit`, `stop` and `error`. `loop`: starts again.
//! - `end`, or the last instruction: the end. `exit`: an end after which a signal no longer starts
//!   the script, and which drops the packet. `stop`: an end that asks the driver to stop.
//!   `return VALUE`: an end with a value. `error TEXT`: an end that is an error.
//!
//! With a `q` behind the name (`setq`, `initq`, `exportq`, `readq`, `writeq`, `printq`, `printnq`,
//! `returnq`, `errorq`) an instruction removes a layer of quotes from its text.
//!
//! In texts, outside single quotes, `$x` and `${x}` are variables, `${x-other}` one with a text for
//! when it is not set, and `$(HANDLER ARGUMENT)` is a handler's value; these may stand inside each
//! other. `$$` is the process, `$?` how the last write went; `$0`, `$args`, `$1`, `$2` ..., `$#` and
//! `$write` tell of the handler that started the script, `$input` of the packet. The handlers below
//! need no element's name in the script itself.
//!
//! Keyword arguments:
//!
//! - `TYPE`: what starts the script. `ACTIVE`, the default without ports: the router's start.
//!   `PASSIVE`: the handler `run`. `PACKET`, the default with ports: a packet, which leaves by the
//!   output that the script returns (0), or is dropped. `PROXY`: any handler. `DRIVER`: the start, and
//!   it decides when the router ends, see DriverManager. `SIGNAL` and names or numbers: a signal.
//!
//! A script that makes 1000 jumps without waiting is given up; scripts call each other at most 50
//! deep, and 10000 times in one go; a text has at most 16 MiB. There is one copy of a script, on one
//! worker, and it runs when none of that worker's elements is running. A handler that it reads or writes
//! is that of all copies of an element, as for `ashlar show` and `ashlar set`. A packet that a script
//! handles costs allocations: it is not for the fast path.

use super::runner::{Config, Runner, Scripted, Type, handlers};
use crate::prelude::*;
use engine::driver::{self, Driver};
use engine::dynamic::{self, DynamicHandlers};
use std::marker::PhantomData;

/// A class that is a script.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Ports of packets that a script handles.
    const PORTS: Ports;
    /// Why packets are dropped.
    const DROPS: &'static [&'static str];
    /// What starts it if `TYPE` is not given; `None`: that depends on its ports.
    const TYPE: Option<Type>;
}

/// Any script.
pub(super) struct General;

impl Kind for General {
    const CLASS: &'static str = "Script";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in*"], &["out*"], "a/a");
    const DROPS: &'static [&'static str] = &["dropped"];
    const TYPE: Option<Type> = None;
}

pub(super) struct Script<K = General>(Runner, PhantomData<K>);

const DROPPED: usize = 0;

impl<K: Kind> Element for Script<K> {
    const CLASS: &'static str = K::CLASS;
    const MANUAL: &'static str = K::MANUAL;
    const PORTS: Ports = K::PORTS;
    const DROPS: &'static [&'static str] = K::DROPS;
    const READS_ANNOTATIONS: bool = true;
    const COPIES: Copies = Copies::One;
    const EXTENSIONS: Extensions = &[&dynamic::of::<Self>(), &driver::of::<Self>()];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::parse(args, K::TYPE)
    }

    fn new(config: &Arc<Config>, init: &Init) -> Script<K> {
        Script(Runner::new(config, K::CLASS, init), PhantomData)
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            let script = self.0.clone();
            cx.defer(move |outside| match script.packet(input, outside) {
                Some(port) if port < script.outputs() => outside.emit(port, packet),
                _ => outside.drop(packet, DROPPED),
            });
        }
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let mut batch = cx.spare();
        cx.pull(0, max, &mut batch);
        for packet in batch.drain() {
            match self.0.packet(0, &mut cx.outside()) {
                Some(port) if port == output => into.push(packet),
                Some(port) if port < self.0.outputs() => cx.emit(port, packet),
                _ => cx.drop(packet, DROPPED),
            }
        }
        cx.keep_spare(batch);
    }

    fn start(&mut self, cx: &mut Cx) {
        self.0.start(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.0.timer(cx);
    }

    const HANDLERS: &'static [Handler<Script<K>>] = &handlers::<Script<K>>();
}

impl<K: Kind> DynamicHandlers for Script<K> {
    fn offers(config: &Config, name: &str, wanted: Use) -> bool {
        config.offers(name, wanted)
    }

    fn offered(&self, name: &str, argument: &str, wanted: Use) -> Job {
        self.0.offered(name, argument, wanted)
    }
}

impl<K: Kind> Driver for Script<K> {
    fn signals(&self) -> Vec<i32> {
        self.0.signals()
    }

    fn signal(&mut self, _: i32, cx: &mut Cx) {
        self.0.signal(cx);
    }

    fn drives(config: &Config) -> bool {
        config.manages()
    }

    fn stop_asked(&mut self, cx: &mut Cx) {
        self.0.stop_asked(cx);
    }
}

impl<K: Kind> Scripted for Script<K> {
    fn runner(&self) -> &Runner {
        &self.0
    }
}
