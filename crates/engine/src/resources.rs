//! What a configuration takes of the machine: files, devices, cores, memory, ports.

use crate::element::Element;
use crate::element::extension::config_of;
use crate::placement::Placement;
pub use crate::placement::ResourcesOfClass;

/// A class whose configuration takes something of the machine, or says how many ports its elements have.
pub trait Resources: Element {
    /// Opens what the configuration names beside devices, such as files: on control, once, before any
    /// state is made of a new configuration. What is opened waits in the configuration (in a
    /// [`Slot`](crate::port::Slot)) for [`Element::new`]. The error is a sentence.
    fn initialize(config: &Self::Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// Cores, devices and queues that this configuration asks for.
    fn placement(config: &Self::Config) -> Placement {
        let _ = config;
        Placement::default()
    }

    /// Bytes of what the copies share (tables, rings), for `ashlar plan`; 0 if it is not worth saying.
    fn memory(config: &Self::Config) -> usize {
        let _ = config;
        0
    }

    /// Bytes that each copy takes for itself, likewise.
    fn memory_each(config: &Self::Config) -> usize {
        let _ = config;
        0
    }

    /// Least number of inputs and outputs that the configuration implies, where ports vary.
    fn port_count(config: &Self::Config) -> (Option<usize>, Option<usize>) {
        let _ = config;
        (None, None)
    }
}

/// The extension of a class, for [`Element::EXTENSIONS`].
pub const fn of<E: Resources>() -> ResourcesOfClass {
    ResourcesOfClass {
        initialize: |config| E::initialize(&config_of::<E>(config)),
        placement: |config| E::placement(&config_of::<E>(config)),
        memory: |config| E::memory(&config_of::<E>(config)),
        memory_each: |config| E::memory_each(&config_of::<E>(config)),
        port_count: |config| E::port_count(&config_of::<E>(config)),
    }
}
