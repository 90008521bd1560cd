//! Tables that control writes and workers read: the image of a Linux kernel, its interfaces, routes and labels, and the
//! neighbours of a link, and when an own address is announced to these.
//!
//! Control follows the kernel and writes; elements read. A [`Kernel`] belongs to the router as a whole (elements reach
//! it by [`Args::router_wide`](arguments::Args::router_wide), control by the plan's `router_wide`), and outlives a
//! reload. Where the image has no answer, elements ask: [`Kernel::take_asks`] is for neighbours, the exception port for
//! all else.

mod address_sets;
pub mod announcement;
pub mod args;
pub mod family;
mod interface;
mod kernel;
pub mod label_table;
mod labels;
pub mod neighbour;
mod neighbour_requests;
mod route_bound;
pub mod route_syntax;
pub mod route_table;
mod routes;
pub mod store;

pub use address_sets::Listed;
pub use interface::{Interface, Key, Neighbour, address, key4};
pub use kernel::Kernel;
pub use label_table::Hop as LabelHop;
pub use labels::LabelRoutes;
pub use neighbour_requests::Ask;
pub use route_bound::RouteBound;
pub use routes::Routes;
pub use tables::fib::{Full, NoMemory, Prefix};
pub use tables::groups::{GroupError, GroupId, MEMBERS_MAX, Member};

/// Next-hop port of local destinations ([`Member::port`]).
pub const LOCAL: u16 = 0;
/// Next-hop port of packets that the kernel forwards itself or answers with an ICMP error.
pub const EXCEPTION: u16 = 1;
/// Next-hop port of packets that are dropped silently.
pub const BLACKHOLE: u16 = 2;
/// Next-hop port of packets that the kernel forwards through an interface that is no port, such as a tunnel. The value
/// is never an interface number.
pub const FORWARDED: u16 = u16::MAX - 1;
/// First of the [interface numbers](Interface::number).
const INTERFACES: u16 = 3;
