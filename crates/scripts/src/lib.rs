//! Scripts of the element class Script: Click's instructions and functions, run against a [`Host`].
//!
//! The crate is pure. Handlers, files, time and the driver are the host's.

mod dry_host;
mod expand;
mod functions;
mod handlers;
mod host;
mod machine;
#[cfg(test)]
mod machine_tests;
mod number;
mod program;
mod signal;
mod sprintf;

pub use dry_host::dry_run;
pub use functions::PURE;
pub use handlers::{READS, WRITES};
pub use host::{Host, NO_PARAMETERS, Sink, Use};
pub use machine::{Call, Context, Ended, Machine};
pub use program::{Mistake, Program};
pub use signal::number as signal;
