//! What a class offers beside [`Element`].
//!
//! Few classes need more than `Element` has: they hold packets in a queue, receive from a descriptor, own a device.
//! Each of these is a trait of its own, in the module that uses it. A class implements the trait and lists it:
//!
//! ```ignore
//! const EXTENSIONS: Extensions = &[&resources::of::<Self>(), &io::of::<Self>()];
//! ```
//!
//! Whoever uses an extension finds it in the class by its type ([`Class::extension`]). So the kernel need not name
//! what classes offer to crates above it.

use crate::element::{AnyConfig, Element};
use std::any::Any;
use std::sync::Arc;

/// The extensions of a class, each found by its type.
pub type Extensions = &'static [&'static (dyn Any + Send + Sync)];

/// The configuration of a class, as its own type. An extension is given only configurations that its class has parsed.
pub fn config_of<E: Element>(config: &AnyConfig) -> Arc<E::Config> {
    Arc::clone(config)
        .downcast()
        .unwrap_or_else(|_| unreachable!("a class is given only configurations that it parsed"))
}

/// An element, as its own type. An extension is given only elements of its class.
pub fn element_of<E: Element>(element: &dyn Any) -> &E {
    let element = element.downcast_ref();
    element.unwrap_or_else(|| unreachable!("an extension is given only elements of its class"))
}

/// As [`element_of`], to change.
pub fn element_of_mut<E: Element>(element: &mut dyn Any) -> &mut E {
    let element = element.downcast_mut();
    element.unwrap_or_else(|| unreachable!("an extension is given only elements of its class"))
}

/// Values that passes of the planner attach to an element, each found by its type.
#[derive(Default)]
pub struct Attached(Vec<Box<dyn Any + Send + Sync>>);

impl Attached {
    /// Attaches a value, in the place of one of the same type.
    pub fn set<T: Any + Send + Sync>(&mut self, value: T) {
        self.0.retain(|one| !one.is::<T>());
        self.0.push(Box::new(value));
    }

    /// The value of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find_map(|one| one.downcast_ref())
    }
}
