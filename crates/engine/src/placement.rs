//! Placement requests of an element's configuration: cores, and queues of devices.

use crate::contract::AnyConfig;

/// Cores and devices of one element. The default requires nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Workers on which the element's task runs; `None` = chosen by the plan.
    pub workers: Option<Vec<usize>>,
    /// True if packets leave the element only on the workers of its task, and on all of these, whatever workers they
    /// come from. Without `workers` these are all workers.
    pub gathers: bool,
    /// Number of workers that the element can distinguish: it runs only on workers below this number.
    pub workers_max: Option<usize>,
    /// A device that the element receives from or sends to.
    pub device: Option<Device>,
    /// Workers that this element assigns to other elements, by name (StaticThreadSched).
    pub assigns: Vec<(String, Vec<usize>)>,
}

/// Use of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The port's name.
    pub name: String,
    /// True if the element receives packets from the device; false if it sends packets to it.
    pub receives: bool,
    /// Number of queues requested; `None` = one per worker.
    pub queues: Option<usize>,
    /// Number of descriptors (frames) per queue; 0 = default.
    pub descriptors: usize,
    /// True if frames for other stations are wanted.
    pub promiscuous: bool,
    /// True if the device must set annotations that the configuration requires, such as the time.
    pub notes: bool,
}

/// Machine resources that a class's configurations use; see `Resources`.
pub struct ResourcesOfClass {
    /// Opens files.
    pub initialize: fn(&AnyConfig) -> Result<(), String>,
    /// Cores and devices.
    pub placement: fn(&AnyConfig) -> Placement,
    /// Memory shared by all copies, in bytes.
    pub memory: fn(&AnyConfig) -> usize,
    /// Bytes of each copy.
    pub memory_each: fn(&AnyConfig) -> usize,
    /// Least number of inputs and outputs.
    pub port_count: fn(&AnyConfig) -> (Option<usize>, Option<usize>),
}
