//! Moves buckets, RX queues and entries of a port's indirection table between workers while packets arrive.
//!
//! Packets are sorted into buckets ([`Packet::bucket`](engine::packet::Packet::bucket)); a [`Table`] assigns every
//! bucket to a worker, as receive-side scaling does, for any classification and any port. Elements that steer by a
//! table hand packets to the owners of their buckets.
//!
//! Three things change their owner, each by the same [hand-over](hand_over), so that no packet is lost and no packet
//! of a flow overtakes another: a [bucket](move_buckets) with the state of its flows, an [RX queue](move_queue) of a
//! port, and an entry of the [indirection table of a port](follow), which directs packets to another queue.
//!
//! The crates `engine` and `router` do not depend on this crate. Classes list extensions ([`Steers`], [`Sorts`],
//! [`KeepsFlows`], [`Receives`]), and with them [`PASS`] and [`ROUTER`].

mod bucket_state;
mod buckets;
mod dependents;
mod extensions;
mod graph;
mod hand_over;
mod port_table;
mod router;
mod rx_queues;
mod splittable;
mod table;
mod table_update;

pub use bucket_state::Shards;
pub use buckets::{MoveResult, move_buckets, tables};
pub use dependents::SteeredBy;
pub use extensions::{
    KeepsFlows, KeepsFlowsOfClass, Receives, ReceivesOfClass, RxQueues, Sorter, Sorts,
    SortsOfClass, Steering, Steers, SteersOfClass, table_of,
};
pub use graph::steering;
pub use hand_over::Ask;
pub use port_table::{Misdelivered, PortTable};
pub use router::{Moves, PASS, ROUTER};
pub use rx_queues::{move_queue, queue_owners};
pub use splittable::SortedBy;
pub use table::{Assigned, Counts, HELD_MAX, Held, Pressure, Rings, Table, Tables, add, ranges};
pub use table_update::{FollowResult, follow, port_tables};
