//! The data plane's image of what a Linux kernel says: links, neighbours and routes.
//!
//! Control follows the kernel and writes; elements read. A [`Kernel`] belongs to the router as a whole
//! (elements reach it by [`Args::common`](engine::args::Args::common), control by the plan's commons) and
//! goes on when the configuration is replaced. What it does not know is a question to the kernel:
//! [`Kernel::take_asks`] for neighbours, the exception port for everything else.

mod asks;
mod interface;
mod kernel;
mod routes;

pub use asks::Ask;
pub use interface::{Interface, Neighbour};
pub use kernel::Kernel;
pub use routes::Routes;
pub use tables::fib::{Full, NoMemory, Prefix};
pub use tables::groups::{GroupError, GroupId, MEMBERS_MAX, Member};

/// Where a route leads ([`Member::port`]): to the router itself.
pub const LOCAL: u16 = 0;
/// To the kernel, which forwards it by ways of its own or answers with an error.
pub const EXCEPTION: u16 = 1;
/// Nowhere, without a word.
pub const BLACKHOLE: u16 = 2;
/// The first of the [interfaces' numbers](Interface::number).
const INTERFACES: u16 = 3;
