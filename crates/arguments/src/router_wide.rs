//! Values that all elements of a router share, one per type: for example a limit for the whole router. They survive a
//! reload of the configuration.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use sync::Lock;

type Values = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// A router's shared values. Elements access them by [`Args::router_wide`](crate::Args::router_wide).
#[derive(Clone, Default)]
pub struct RouterWide(Arc<Lock<Values>>);

impl RouterWide {
    /// The router's value of this type, if it has been requested before.
    pub fn find<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let values = self.0.lock();
        Arc::clone(values.get(&TypeId::of::<T>())?).downcast().ok()
    }

    /// The router's value of this type, created at the first request.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.0.lock();
        let value = values
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        Arc::clone(value)
            .downcast()
            .unwrap_or_else(|_| unreachable!("it is stored under its type"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_of_a_type() {
        let router_wide = RouterWide::default();
        assert!(router_wide.find::<Lock<u8>>().is_none());
        let (a, b) = (router_wide.get::<Lock<u8>>(), router_wide.clone().get());
        assert!(Arc::ptr_eq(&a, &b));
        assert!(
            router_wide
                .find()
                .is_some_and(|found| Arc::ptr_eq(&a, &found))
        );
        assert!(!Arc::ptr_eq(&a, &RouterWide::default().get()));
    }
}
