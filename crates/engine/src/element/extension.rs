//! Extensions: optional traits of a class beside [`Element`].
//!
//! Few classes need more than `Element` has: they hold packets in a queue, receive from a descriptor, own a device.
//! Each of these is a trait of its own, in the module that uses it. A class implements the trait and lists it:
//!
//! ```ignore
//! const EXTENSIONS: Extensions = &[&resources::of::<Self>(), &io::of::<Self>()];
//! ```
//!
//! A user of an extension finds it in the class by its type ([`Class::extension`]). So the engine need not know
//! extensions that higher crates define.

use crate::element::{AnyConfig, Element};
use std::any::Any;
use std::sync::Arc;

/// Casts a configuration to its own type. An extension is given only configurations that its class has parsed.
pub fn config_of<E: Element>(config: &AnyConfig) -> Arc<E::Config> {
    Arc::clone(config)
        .downcast()
        .unwrap_or_else(|_| unreachable!("a class is given only configurations that it parsed"))
}

/// Casts an element to its own type. An extension is given only elements of its class.
pub fn element_of<E: Element>(element: &dyn Any) -> &E {
    let element = element.downcast_ref();
    element.unwrap_or_else(|| unreachable!("an extension is given only elements of its class"))
}

/// Mutable form of [`element_of`].
pub fn element_of_mut<E: Element>(element: &mut dyn Any) -> &mut E {
    let element = element.downcast_mut();
    element.unwrap_or_else(|| unreachable!("an extension is given only elements of its class"))
}
