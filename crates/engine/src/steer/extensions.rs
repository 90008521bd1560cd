//! What classes offer to who steers packets: extensions of [`Element`].

use super::{PortTable, Sorter, Steering, Table};
use crate::element::extension::{config_of, element_of_mut};
use crate::element::{AnyConfig, Element};
use crate::graph::Cx;
use crate::plan::PlanElement;
use std::any::Any;
use std::sync::Arc;

/// A class that steers packets to the workers that own their buckets. The router answers its handlers `move` and `table`
/// to be written.
pub trait Steers: Element {
    /// The table by which packets are steered.
    fn table(config: &Self::Config) -> Arc<Table>;

    /// This copy, for who moves buckets.
    fn steering(&mut self) -> &mut dyn Steering;
}

/// [`Steers`] of a class, its type erased.
pub struct SteersOfClass {
    table: fn(&AnyConfig) -> Arc<Table>,
    pub(super) steering: fn(&mut dyn Any) -> &mut dyn Steering,
}

impl SteersOfClass {
    /// The extension of a class, for [`Element::EXTENSIONS`].
    pub const fn of<E: Steers>() -> SteersOfClass {
        SteersOfClass {
            table: |config| E::table(&config_of::<E>(config)),
            steering: |element| element_of_mut::<E>(element).steering(),
        }
    }
}

/// The table by which an element steers packets, if it does.
pub fn table_of(element: &PlanElement) -> Option<Arc<Table>> {
    let class: &SteersOfClass = element.class.extension()?;
    Some((class.table)(&element.config))
}

/// A class that sorts packets into buckets by their flow.
pub trait Sorts: Element {
    /// By what it sorts, if that is the flow.
    fn sorter(config: &Self::Config) -> Option<Arc<dyn Sorter>>;
}

/// [`Sorts`] of a class, its type erased.
pub struct SortsOfClass(fn(&AnyConfig) -> Option<Arc<dyn Sorter>>);

impl SortsOfClass {
    /// The extension of a class, for [`Element::EXTENSIONS`].
    pub const fn of<E: Sorts>() -> SortsOfClass {
        SortsOfClass(|config| E::sorter(&config_of::<E>(config)))
    }
}

/// By what an element sorts packets into buckets, if that is their flow.
pub fn sorter_of(element: &PlanElement) -> Option<Arc<dyn Sorter>> {
    let class: &SortsOfClass = element.class.extension()?;
    (class.0)(&element.config)
}

/// A class that keeps state of flows by bucket, so that the state moves with its bucket.
pub trait KeepsFlows: Element {
    /// Whether the state of one owner ([`Copies::Owner`](crate::element::Copies::Owner)) may be split by buckets all the same: behind
    /// elements that steer packets, sorted by their flow so that both directions meet, each worker then owns the
    /// state of its buckets. [`Init::sorter`](crate::element::Init::sorter) says so.
    fn splits(config: &Self::Config) -> bool {
        let _ = config;
        false
    }

    /// Gives up the state of the flows of a bucket, which another worker is to own. No packet of the bucket
    /// is held here, and none comes before the state is where they go.
    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>>;

    /// Takes over what another copy gave up.
    fn take_bucket(&mut self, bucket: u16, state: Box<dyn Any + Send>, cx: &mut Cx);
}

/// [`KeepsFlows`] of a class, its type erased.
pub struct KeepsFlowsOfClass {
    splits: fn(&AnyConfig) -> bool,
    pub(super) give_bucket: fn(&mut dyn Any, u16) -> Option<Box<dyn Any + Send>>,
    pub(super) take_bucket: fn(&mut dyn Any, u16, Box<dyn Any + Send>, &mut Cx),
}

impl KeepsFlowsOfClass {
    /// The extension of a class, for [`Element::EXTENSIONS`].
    pub const fn of<E: KeepsFlows>() -> KeepsFlowsOfClass {
        KeepsFlowsOfClass {
            splits: |config| E::splits(&config_of::<E>(config)),
            give_bucket: |element, bucket| element_of_mut::<E>(element).give_bucket(bucket),
            take_bucket: |element, bucket, state, cx| {
                element_of_mut::<E>(element).take_bucket(bucket, state, cx);
            },
        }
    }
}

/// Whether an element's state may be split by buckets.
pub fn splits(element: &PlanElement) -> bool {
    let class: Option<&KeepsFlowsOfClass> = element.class.extension();
    class.is_some_and(|class| (class.splits)(&element.config))
}

/// A class that receives from a port whose own table may follow moves of buckets. It must have inner handlers. `drain`: written,
/// it notes what waits in a queue of this worker; read, it names the queues that have not delivered that. `keep`: written,
/// `QUEUE on` or `off`, what comes by a queue of this worker waits, or goes; read, it counts what waits.
pub trait Follows: Element {
    /// The table by which the port gives packets to queues, if the port may follow.
    fn port_table(config: &Arc<Self::Config>) -> Option<Arc<dyn PortTable>>;
}

/// [`Follows`] of a class, its type erased.
pub struct FollowsOfClass(fn(&AnyConfig) -> Option<Arc<dyn PortTable>>);

impl FollowsOfClass {
    /// The extension of a class, for [`Element::EXTENSIONS`].
    pub const fn of<E: Follows>() -> FollowsOfClass {
        FollowsOfClass(|config| E::port_table(&config_of::<E>(config)))
    }
}

/// The table of the port that an element receives from, if the port may follow moves of buckets.
pub(crate) fn port_table_of(element: &PlanElement) -> Option<Arc<dyn PortTable>> {
    let class: &FollowsOfClass = element.class.extension()?;
    (class.0)(&element.config)
}
