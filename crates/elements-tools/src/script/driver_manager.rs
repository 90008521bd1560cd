//! A Script that decides when the router ends.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard;
//! DriverManager(wait_stop, print c.count, wait 1ms, stop);
//! ```
//!
//! Its arguments are those of Script; the default `TYPE` is `DRIVER`.
//!
//! Elements can request the end of the router (`STOP true`, the handler `stop`, a Script's `stop`). With a
//! DriverManager such a request does not end the router, but is a `step` of the script: the script continues after
//! the instruction that waits. So `wait_stop 3` waits for three requests. The router ends when the script ends.

use super::runner::Type;
use super::script::{Kind, Script};
use crate::prelude::*;

/// A script that handles no packets, and decides when the driver stops.
pub(super) struct Manager;

pub(super) type DriverManager = Script<Manager>;

impl Kind for Manager {
    const CLASS: &'static str = "DriverManager";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&[], &[], "a");
    const DROPS: &'static [&'static str] = &[];
    const TYPE: Option<Type> = Some(Type::Driver);
}
