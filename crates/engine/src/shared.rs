//! State that several elements of one worker share: for instance rewriters with one set of flows.
//!
//! Elements find it by name and type when their state is made; the first one makes it. It lives as long as an element
//! holds it. It survives a hot swap, as the old graph ends after the new one exists.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// Shared state of a worker's elements, by name and type. It never leaves the worker.
#[derive(Default)]
pub struct Shared(RefCell<HashMap<(TypeId, String), Weak<dyn Any>>>);

impl Shared {
    /// The state shared under `name`; `make` makes it if no element holds it.
    pub fn get<T: Any>(&self, name: &str, make: impl FnOnce() -> T) -> Rc<T> {
        let key = (TypeId::of::<T>(), name.to_owned());
        let known = self.0.borrow().get(&key).and_then(Weak::upgrade);
        if let Some(Ok(found)) = known.map(Rc::downcast::<T>) {
            return found;
        }
        let made = Rc::new(make());
        let weak: Weak<T> = Rc::downgrade(&made);
        self.0.borrow_mut().insert(key, weak);
        made
    }

    /// Removes state that no element holds.
    pub(crate) fn remove_unused(&self) {
        self.0
            .borrow_mut()
            .retain(|_, weak| weak.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn shared_state_is_found_by_name_and_type_while_held() {
        let shared = Shared::default();
        let first = shared.get("a", || Cell::new(1u32));
        first.set(5);
        assert_eq!(shared.get("a", || Cell::new(1u32)).get(), 5);
        assert_eq!(shared.get("b", || Cell::new(2u32)).get(), 2);
        assert_eq!(*shared.get("a", || 7u8), 7);
        drop(first);
        shared.remove_unused();
        assert_eq!(shared.0.borrow().len(), 0);
        assert_eq!(shared.get("a", || Cell::new(1u32)).get(), 1);
    }
}
