//! A Script that decides when the router ends.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard;
//! DriverManager(wait_stop, print c.count, wait 1ms, stop);
//! ```
//!
//! Arguments are a Script's, and its `TYPE` is `DRIVER` if none is given.
//!
//! Elements ask for the router's end (`STOP true`, the handler `stop`, a Script's `stop`). With a
//! DriverManager each request is a `step` of its script instead: it takes the script past the
//! instruction that waits, so `wait_stop 3` waits for three requests. The router ends when the
//! script ends.

use super::runner::{Config, Runner, Scripted, Type, handlers};
use crate::prelude::*;

pub(super) struct DriverManager(Runner);

impl Element for DriverManager {
    const CLASS: &'static str = "DriverManager";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&[], &[], "a");
    const COPIES: Copies = Copies::One;
    const LISTENS: bool = true;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::parse(args, Some(Type::Driver))
    }

    fn new(config: &Arc<Config>, init: &Init) -> DriverManager {
        DriverManager(Runner::new(config, Self::CLASS, init))
    }

    fn start(&mut self, cx: &mut Cx) {
        self.0.start(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.0.timer(cx);
    }

    fn offers(config: &Config, name: &str, wanted: Use) -> bool {
        config.offers(name, wanted)
    }

    fn offered(&self, name: &str, argument: &str, wanted: Use) -> Job {
        self.0.offered(name, argument, wanted)
    }

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

    const HANDLERS: &'static [Handler<DriverManager>] = &handlers::<DriverManager>();
}

impl Scripted for DriverManager {
    fn runner(&self) -> &Runner {
        &self.0
    }
}
