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
//! The arguments are instructions, which run one after the other:
//!
//! - `set VAR TEXT`: sets a variable. `init VAR TEXT`: sets it once, at the start; when the script reaches the
//!   instruction, it does nothing. `export VAR TEXT`: as `init`, and the variable can also be read as a handler.
//! - `print TEXT`: prints a text and a line end. A text that starts with a letter, `@` or `_` is the name of a
//!   handler, whose value is printed. `print >FILE TEXT` overwrites a file, `>>FILE` appends to it. `printn`
//!   prints no line end.
//! - `read HANDLER ARGUMENT`: writes a handler's name and value to the standard error output. `write HANDLER VALUE`:
//!   writes a handler; `$?` is then 0, or negative if the handler refused.
//! - `save HANDLER FILE`, `append HANDLER FILE`: writes a handler's value to a file, or appends it.
//! - `pause N`: waits for N (default 1) writes of the handler `step`; `wait_pause`, `wait_step`, `wait_stop` and a bare
//!   `wait` are the same. `wait TIME`: waits for a time or a step.
//! - `label NAME`; `goto NAME CONDITION`: continues at a label, if the condition is true or there is none.
//!   `goto` also takes `loop`, `end`, `exit`, `stop` and `error` as NAME. `loop`: starts again at the first
//!   instruction.
//! - `end`: ends the script, as the last instruction does. `exit`: the same, but a signal no longer starts the
//!   script, and the packet is dropped. `stop`: the same as `end`, and also requests the end of the router. `return
//!   VALUE`: ends the script with a value. `error TEXT`: ends the script with an error.
//!
//! An instruction whose name ends in `q` (`setq`, `initq`, `exportq`, `readq`, `writeq`, `printq`, `printnq`,
//! `returnq`, `errorq`) removes one layer of quotes from its text.
//!
//! In texts, outside single quotes, `$x` and `${x}` are variables, `${x-other}` is a variable with a default text,
//! and `$(HANDLER ARGUMENT)` is a handler's value; these can be nested. `$$` is the process number, `$?` the result
//! of the last write. `$0`, `$args`, `$1`, `$2` ..., `$#` and `$write` describe the call of the handler that started
//! the script, and `$input` is the packet's input. In the script itself its own handlers need no element name.
//!
//! Keyword arguments:
//!
//! - `TYPE`: event that starts the script. `ACTIVE`, the default without ports: the router's start. `PASSIVE`: the
//!   handler `run`. `PACKET`, the default with ports: a packet, which leaves by the output that the script
//!   returns (default 0), or is dropped. `PROXY`: a call of any handler of the element. `DRIVER`: the router's
//!   start; the script decides when the router ends, see DriverManager. `SIGNAL` with names or numbers: a
//!   signal.
//!
//! A script that jumps 1000 times without waiting is stopped. Scripts may call each other at most 50 deep, and 10000
//! times without waiting. A text has at most 16 MiB. There is one copy of a script, on one worker, and it runs when
//! none of that worker's elements is running. It reads and writes handlers of all copies of an element, as `ashlar
//! show` and `ashlar set` do. A script allocates memory for each packet, so do not use it on the fast path.

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
    /// Reason why packets are dropped.
    const DROPS: &'static [&'static str];
    /// Default of `TYPE`; `None` if it depends on the ports.
    const TYPE: Option<Type>;
}

/// A script of any kind.
pub(super) struct General;

impl Kind for General {
    const CLASS: &'static str = "Script";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in*"], &["out*"], "a/a");
    const DROPS: &'static [&'static str] = &["dropped"];
    const TYPE: Option<Type> = None;
}

pub(super) struct Script<K = General>(Runner, PhantomData<K>);

const DROPPED: u8 = 0;

impl<K: Kind> Element for Script<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(K::PORTS)
        .drops(K::DROPS)
        .copies(Copies::One)
        .extensions(&[&dynamic::of::<Self>(), &driver::of::<Self>()]);

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
            cx.defer(move |cx| match script.packet(input, cx) {
                Some(port) if port < script.outputs() => cx.emit(port, packet),
                _ => cx.drop(packet, DROPPED),
            });
        }
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let mut batch = cx.spare();
        cx.pull(0, max, &mut batch);
        for packet in batch.drain() {
            match self.0.packet(0, &mut cx.job_cx()) {
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
    fn has_handler(config: &Config, name: &str, wanted: Use) -> bool {
        config.has_handler(name, wanted)
    }

    fn handler_job(&self, name: &str, argument: &str, wanted: Use) -> Job {
        self.0.handler_job(name, argument, wanted)
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
