//! Handlers that an element's configuration names, beside those of its class.

use crate::element::{AnyConfig, Element};
use crate::extension::{config_of, element_of};
use crate::handler::{Job, Use};
use std::any::Any;

/// A class whose configurations name handlers, such as Script's `define`.
pub trait DynamicHandlers: Element {
    /// Whether there is a handler of this name beside [`Element::HANDLERS`].
    fn offers(config: &Self::Config, name: &str, wanted: Use) -> bool;

    /// The job of a handler that [`offers`](Self::offers) knows.
    fn offered(&self, name: &str, value: &str, wanted: Use) -> Job;
}

/// [`DynamicHandlers`] of a class, its type erased.
pub struct OfClass {
    pub(crate) offers: fn(&AnyConfig, &str, Use) -> bool,
    pub(crate) offered: fn(&dyn Any, &str, &str, Use) -> Job,
}

/// The extension of a class, for [`Element::EXTENSIONS`].
pub const fn of<E: DynamicHandlers>() -> OfClass {
    OfClass {
        offers: |config, name, wanted| E::offers(&config_of::<E>(config), name, wanted),
        offered: |element, name, value, wanted| {
            element_of::<E>(element).offered(name, value, wanted)
        },
    }
}
