//! Machine resources of a configuration: files, devices, cores, memory, ports.

use crate::element::Element;
use crate::element::extension::config_of;
use crate::placement::Placement;
pub use crate::placement::ResourcesOfClass;

/// A class whose configuration uses a resource of the machine, or determines the number of its elements' ports.
pub trait Resources: Element {
    /// Opens files and other resources of the configuration, except devices. It runs once, on the control thread,
    /// before the first state of a new configuration is made. The resources wait in the configuration (in a
    /// [`Slot`](crate::port::Slot)) for [`Element::new`].
    ///
    /// # Errors
    /// A resource cannot be opened; a sentence with the reason.
    fn initialize(config: &Self::Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// Cores, devices and queues that this configuration asks for.
    fn placement(config: &Self::Config) -> Placement {
        let _ = config;
        Placement::default()
    }

    /// Memory shared by all copies (tables, rings), in bytes, for `ashlar plan`; 0 if negligible.
    fn memory(config: &Self::Config) -> usize {
        let _ = config;
        0
    }

    /// Memory of each copy, in bytes, for `ashlar plan`; 0 if negligible.
    fn memory_each(config: &Self::Config) -> usize {
        let _ = config;
        0
    }

    /// Minimum number of inputs and outputs that the configuration implies, for classes with any number of ports.
    fn port_count(config: &Self::Config) -> (Option<usize>, Option<usize>) {
        let _ = config;
        (None, None)
    }
}

/// The extension of a class, for [`Contract::extensions`](crate::element::Contract::extensions).
pub const fn of<E: Resources>() -> ResourcesOfClass {
    ResourcesOfClass {
        initialize: |config| E::initialize(&config_of::<E>(config)),
        placement: |config| E::placement(&config_of::<E>(config)),
        memory: |config| E::memory(&config_of::<E>(config)),
        memory_each: |config| E::memory_each(&config_of::<E>(config)),
        port_count: |config| E::port_count(&config_of::<E>(config)),
    }
}
