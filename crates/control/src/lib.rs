//! The control plane: everything asynchronous, and the only crate that knows tokio.
//!
//! A [`Process`] has routers; a [`Control`] holds each running [`Router`](router::Router), with its source, ports,
//! netlink follower and balance. They are served together: HTTP and JSON over
//! a UNIX socket ([`api`]), Prometheus text, signals, logs. Control runs on one thread beside the workers
//! and never touches a packet buffer: it reaches workers by messages that they run between batches.
//!
//! A request goes from [`api::request`] (a pure function of method, path and query) through
//! [`Control`]'s methods (which may wait for workers, so they run on a blocking thread) to JSON of
//! the shapes in [`view`]. [`client`] is the other end, as the program's subcommands use it.

pub mod api;
pub mod balance;
pub mod balancer;
pub mod books;
pub mod capture;
pub mod client;
pub mod cluster;
mod consequences;
mod cores;
pub mod describe;
pub mod file;
mod handlers;
pub mod isolated;
pub mod log;
mod memory;
pub mod metrics;
pub mod netlink;
pub mod pcapng;
pub mod point;
mod policers;
pub mod process;
mod reload;
pub mod runtime;
pub mod saved;
pub mod service;
pub mod socket;
pub mod source;
mod tap_interfaces;
pub mod terminal;
pub mod trace;
mod unreadable;
pub mod user;
pub mod view;

mod state;

pub use arguments::text_file;
pub use cores::{leave_to_workers, odd_workers, pin};
pub use handlers::GLOBAL as GLOBAL_HANDLERS;
pub use process::Process;
pub use runtime::{Ended, Runtime, Serve, metrics_listener};
pub use source::{Compiled, Source, compile};
pub use state::{Control, Failure, Start};
