//! Extensions of [`Element`] for classes that take part in steering.

use super::{Held, PortTable, Table};
use engine::Cx;
use engine::element::{AnyConfig, Element};
use engine::extension::{config_of, element_of_mut};
use engine::plan::PlanElement;
use std::any::Any;
use std::sync::Arc;
use wire::FlowKey;

/// A class that steers packets to the workers that own their buckets. It also lists [`PASS`](crate::PASS) and
/// [`ROUTER`](crate::ROUTER), which implement its handler `move`.
pub trait Steers: Element {
    /// The table by which packets are steered.
    fn table(config: &Self::Config) -> Arc<Table>;

    /// This copy's interface for moving buckets.
    fn steering(&mut self) -> &mut dyn Steering;
}

/// Interface of a steering element's copy, for moving buckets.
pub trait Steering {
    /// Starts to hold packets of these buckets.
    fn hold(&mut self, buckets: &[u16]);

    /// Releases held buckets, which now belong to worker `to`: held packets go there first, then new ones. Repeated
    /// calls are allowed.
    fn release(&mut self, buckets: &[u16], to: usize);

    /// Number of packets that this copy has sent to a worker, for [`has_arrived`](Self::has_arrived).
    fn sent(&self, to: usize) -> usize;

    /// True if a worker has taken the first `sent` packets that this copy sent to it.
    fn has_arrived(&self, to: usize, sent: usize) -> bool;

    /// Packets that were held since the last [`hold`](Self::hold).
    fn held(&self) -> Held;
}

/// Type-erased [`Steers`].
pub struct SteersOfClass {
    table: fn(&AnyConfig) -> Arc<Table>,
    pub(crate) steering: fn(&mut dyn Any) -> &mut dyn Steering,
}

impl SteersOfClass {
    /// The extension of a class, for [`Contract::extensions`](engine::element::Contract::extensions).
    pub const fn of<E: Steers>() -> SteersOfClass {
        SteersOfClass {
            table: |config| E::table(&config_of::<E>(config)),
            steering: |element| element_of_mut::<E>(element).steering(),
        }
    }
}

/// The table by which an element steers packets; `None` if it does not.
pub fn table_of(element: &PlanElement) -> Option<Arc<Table>> {
    let class: &SteersOfClass = element.class.extension()?;
    Some((class.table)(&element.config))
}

/// Function that maps flows to buckets. It does not change while a value of this type exists.
pub trait Sorter: Send + Sync {
    /// The bucket of a flow's packets.
    fn function(&self) -> Box<dyn Fn(&FlowKey) -> u16>;

    /// True if both directions of a flow have the same bucket.
    fn is_symmetric(&self) -> bool;

    /// Identifier that is equal for all sorters with the same function.
    fn kind(&self) -> usize;
}

/// A class that sorts packets into buckets.
pub trait Sorts: Element {
    /// The function by which the class sorts packets; `None` if it does not sort by flow.
    fn sorter(config: &Self::Config) -> Option<Arc<dyn Sorter>>;
}

/// Type-erased [`Sorts`].
pub struct SortsOfClass(fn(&AnyConfig) -> Option<Arc<dyn Sorter>>);

impl SortsOfClass {
    /// The extension of a class, for [`Contract::extensions`](engine::element::Contract::extensions).
    pub const fn of<E: Sorts>() -> SortsOfClass {
        SortsOfClass(|config| E::sorter(&config_of::<E>(config)))
    }
}

/// The function by which an element sorts packets into buckets; `None` if it does not sort by flow.
pub(crate) fn sorter_of(element: &PlanElement) -> Option<Arc<dyn Sorter>> {
    let class: &SortsOfClass = element.class.extension()?;
    (class.0)(&element.config)
}

/// A class that keeps flow state per bucket, so that the state can move with its bucket. It also lists
/// [`ROUTER`](crate::ROUTER), which refuses reloads that would lose the state.
pub trait KeepsFlows: Element {
    /// True if the state of one owner ([`Copies::Owner`](engine::element::Copies::Owner)) may be split by buckets.
    /// This holds only downstream of elements that steer packets, sorted by flow so that both directions meet. Each
    /// worker then owns the state of its buckets, and [`SortedBy`](crate::SortedBy) is attached to the element.
    fn splits(config: &Self::Config) -> bool {
        let _ = config;
        false
    }

    /// Removes and returns the flow state of a bucket that another worker will own. No packet of the bucket is here,
    /// and none arrives before the state has been transferred.
    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>>;

    /// Adds flow state that another copy has given up.
    fn take_bucket(&mut self, bucket: u16, state: Box<dyn Any + Send>, cx: &mut Cx);
}

/// Type-erased [`KeepsFlows`].
pub struct KeepsFlowsOfClass {
    splits: fn(&AnyConfig) -> bool,
    pub(crate) give_bucket: fn(&mut dyn Any, u16) -> Option<Box<dyn Any + Send>>,
    pub(crate) take_bucket: fn(&mut dyn Any, u16, Box<dyn Any + Send>, &mut Cx),
}

impl KeepsFlowsOfClass {
    /// The extension of a class, for [`Contract::extensions`](engine::element::Contract::extensions).
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

/// True if an element's state may be split by buckets.
pub(crate) fn splits(element: &PlanElement) -> bool {
    let class: Option<&KeepsFlowsOfClass> = element.class.extension();
    class.is_some_and(|class| (class.splits)(&element.config))
}

/// A class that receives from the RX queues of a port, each polled by its owner. It also lists
/// [`ROUTER`](crate::ROUTER), which implements its handlers `queue_owners` and `rss`.
pub trait Receives: Element {
    /// The queues that have an owner, each with its worker.
    fn owners(config: &Self::Config) -> Vec<(usize, usize)>;

    /// The indirection table of the port, if it can follow moves of buckets.
    fn port_table(config: &Arc<Self::Config>) -> Option<Arc<dyn PortTable>>;

    /// The queues of this copy.
    fn queues(&mut self) -> &mut dyn RxQueues;
}

/// Interface to the RX queues of a port that one worker owns or will own. Other queues are ignored.
pub trait RxQueues {
    /// Starts to poll a queue as soon as its present owner has released it.
    fn poll(&mut self, queue: usize);

    /// Stops polling a queue until [`poll`](Self::poll) or [`release`](Self::release). Packets wait in the port
    /// meanwhile.
    fn hold(&mut self, queue: usize);

    /// Gives a queue to worker `to`, or stops waiting for a queue that `to` owns.
    fn release(&mut self, queue: usize, to: usize);

    /// Marks the packets that wait in a queue now, for [`is_drained`](Self::is_drained).
    fn drain(&mut self, queue: usize);

    /// True if all marked packets of all queues have been delivered.
    fn is_drained(&self) -> bool;

    /// Starts to keep the packets of a queue here, in order (`on`); or releases them, kept packets first.
    fn keep_packets(&mut self, queue: usize, on: bool);

    /// Number of kept packets of all queues.
    fn kept_packets(&self) -> usize;
}

/// Type-erased [`Receives`].
pub struct ReceivesOfClass {
    pub(crate) owners: fn(&AnyConfig) -> Vec<(usize, usize)>,
    pub(crate) port_table: fn(&AnyConfig) -> Option<Arc<dyn PortTable>>,
    pub(crate) queues: fn(&mut dyn Any) -> &mut dyn RxQueues,
}

impl ReceivesOfClass {
    /// The extension of a class, for [`Contract::extensions`](engine::element::Contract::extensions).
    pub const fn of<E: Receives>() -> ReceivesOfClass {
        ReceivesOfClass {
            owners: |config| E::owners(&config_of::<E>(config)),
            port_table: |config| E::port_table(&config_of::<E>(config)),
            queues: |element| element_of_mut::<E>(element).queues(),
        }
    }
}

/// The indirection table of the port that an element receives from, if it can follow moves of buckets.
pub(crate) fn port_table_of(element: &PlanElement) -> Option<Arc<dyn PortTable>> {
    let class: &ReceivesOfClass = element.class.extension()?;
    (class.port_table)(&element.config)
}
