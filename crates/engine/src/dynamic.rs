//! Handlers that an element's configuration names, in addition to those of its class.

use crate::element::Element;
use crate::element::extension::{config_of, element_of};
use crate::element::handler::{Job, Use};
use crate::graph::DynamicOfClass;

/// A class whose configurations name handlers, such as Script's `define`.
pub trait DynamicHandlers: Element {
    /// True if the configuration defines a handler of this name, in addition to [`Element::HANDLERS`].
    fn has_handler(config: &Self::Config, name: &str, wanted: Use) -> bool;

    /// Job that runs a handler for which [`has_handler`](Self::has_handler) returns true.
    fn handler_job(&self, name: &str, value: &str, wanted: Use) -> Job;
}

/// The extension of a class, for [`Contract::extensions`](crate::element::Contract::extensions).
pub const fn of<E: DynamicHandlers>() -> DynamicOfClass {
    DynamicOfClass {
        offers: |config, name, wanted| E::has_handler(&config_of::<E>(config), name, wanted),
        handler_job: |element, name, value, wanted| {
            element_of::<E>(element).handler_job(name, value, wanted)
        },
    }
}
