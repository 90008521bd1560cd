//! Load balancing over ordinary routers (the multistage router of Bianco et al.): the choice of a back end for each
//! packet.
//!
//! A flow's hash names one of [`BUCKETS`] buckets. Rendezvous hashing gives each bucket an owner from the names and
//! weights of the back ends alone. So all balancers compute the same table, whatever their history. A planned change
//! moves a bucket when it is idle; a crash moves it at once.

mod agreement;
mod health;
mod load_levelling;
mod members;
pub mod message;
mod plan;
mod pool;
mod rendezvous;
mod round_robin;
/// A multistage router in virtual time.
pub mod simulate;
mod table;

pub use agreement::{Agreement, Heard, Relation};
pub use health::{Cause, Change, Settings as HealthSettings, Watch};
pub use members::{Class, Intent, Member, State};
pub use plan::{Demand, Layout, plan};
pub use pool::{Ended, Pool, Settings};
pub use rendezvous::{BUCKETS, Candidate, NOBODY, WEIGHT_MAX, key, owners, retarget};
pub use round_robin::TURNS;
pub use table::Table;

#[cfg(test)]
mod agreement_tests;
#[cfg(test)]
mod tests;
