//! Values that all elements of a router share, one per type: for example the table of the kernel's routes. They survive
//! a reload of the configuration.
//!
//! Beside them are values of one plan, such as the limits under which its elements are configured. A plan may be
//! refused, so planning must not change values that a running router uses.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use sync::Lock;

type Values = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// Router-wide values. Elements reach them by [`Args::router_wide`](crate::Args::router_wide).
#[derive(Clone, Default)]
pub struct RouterWide {
    shared: Arc<Lock<Values>>,
    of_plan: Arc<Lock<Values>>,
}

impl RouterWide {
    /// The router's value of this type, if it has been requested before.
    pub fn find<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let values = self.shared.lock();
        Arc::clone(values.get(&TypeId::of::<T>())?).downcast().ok()
    }

    /// The router's value of this type, created at the first request.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        get(&self.shared)
    }

    /// The plan's value of this type, created at the first request.
    pub fn of_plan<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        get(&self.of_plan)
    }

    /// Values for the next plan of the router: the router's are shared, the plan's are new.
    #[must_use]
    pub fn for_next_plan(&self) -> RouterWide {
        RouterWide {
            shared: Arc::clone(&self.shared),
            of_plan: Arc::default(),
        }
    }
}

fn get<T: Default + Send + Sync + 'static>(values: &Lock<Values>) -> Arc<T> {
    let mut values = values.lock();
    let value = values
        .entry(TypeId::of::<T>())
        .or_insert_with(|| Arc::new(T::default()));
    Arc::clone(value)
        .downcast()
        .unwrap_or_else(|_| unreachable!("it is stored under its type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_value() {
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

    #[test]
    fn next_plan_shares_values_of_the_router_and_has_its_own() {
        let running = RouterWide::default();
        *running.get::<Lock<u8>>().lock() = 1;
        *running.of_plan::<Lock<u8>>().lock() = 2;
        let next = running.for_next_plan();
        *next.of_plan::<Lock<u8>>().lock() = 3;
        assert_eq!(*next.get::<Lock<u8>>().lock(), 1);
        assert_eq!(*running.of_plan::<Lock<u8>>().lock(), 2);
    }
}
