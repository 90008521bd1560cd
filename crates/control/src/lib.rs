//! The control plane: all asynchronous code, and the only crate that uses tokio.
//!
//! Its folders are layers. Each uses those above it in this list, and none below:
//!
//! - `host`: the process on its machine: log, service manager, sockets, users, namespaces.
//! - `description`: the contents of a user's files: Click text with its definitions, TOML, clusters, balancers.
//! - `compile`: from a description to plans. Nothing that runs is changed.
//! - [`view`]: output formats: the API's JSON types, Prometheus text, pcapng, packet accounting.
//! - [`netlink`]: the kernel's routes, neighbours and IPsec state, mirrored. [`balance`]: owners of buckets.
//! - `running`: one running router, [`Control`]: its handlers, counts, captures, traces, saved settings, reload.
//! - [`isolated`]: supervision of routers that are processes of their own.
//! - `process`: a [`Process`], which has workers, ports and routers, and reloads all of them.
//! - [`agreement`]: a server's, and its operator's, part in the agreement of a cluster's servers.
//! - [`api`]: requests by HTTP. [`runtime`]: the control thread, which serves the API and handles signals.
//!
//! [`client`] is the other end of the API, as the program's subcommands use it.
//!
//! Control runs on one thread beside the workers and never touches a packet buffer: it reaches workers by messages that
//! they run between batches. A request goes from [`api::request`] (a pure function of method, path and query) through
//! [`Control`]'s methods (which may wait for workers, so they run on a blocking thread) to JSON of the shapes in
//! [`view`].

pub mod agreement;
pub mod api;
pub mod balance;
pub mod client;
mod compile;
mod description;
mod host;
pub mod isolated;
pub mod netlink;
mod process;
mod running;
pub mod runtime;
pub mod view;

pub use arguments::text_file;
pub use compile::{
    Base, Compiled, Planned, compile, compile_all, describe, errors_of_all, json_of_all,
    text_of_all,
};
pub use description::{balancer, cluster, file, source};
pub use host::cores::{leave_to_workers, odd_workers, pin};
pub use host::{log, namespace, needs, service, socket, terminal, user};
pub use process::{Common, Process, directory};
pub use running::handlers::GLOBAL as GLOBAL_HANDLERS;
pub use running::{Control, Start, saved, trace};
pub use runtime::{Ended, Runtime, Serve, metrics_listener};
pub use source::Source;
pub use view::Failure;
