//! Extensions of classes that concern a router as a whole; crates above the engine define them.

use crate::Router;
use engine::handler::AskError;
use engine::plan::Plan;
use std::sync::MutexGuard;

/// Write function for handlers: router, plan, number of the element, name of the handler, value.
pub type Write = fn(&Router, &Plan, usize, &str, &str) -> Option<Result<String, AskError>>;

/// Extension of classes whose elements need the router as a whole: to act on several workers, or before a reload.
/// Classes may share an extension; a reload calls it once.
pub struct RouterExtension {
    /// Checks that `new` may replace `old`, before anything has changed. The error is a sentence.
    pub check_reload: fn(old: &Plan, new: &Plan) -> Result<(), String>,
    /// Prepares the workers for plan `new`. If the reload fails later, the workers continue with `old`.
    pub before_reload: fn(router: &Router, old: &Plan, new: &Plan) -> Result<(), AskError>,
    /// Writes a handler of an element. Returns `None` if the handler needs no special treatment.
    pub write: Write,
}

/// Extensions of all classes of both plans, without duplicates.
pub(crate) fn of(old: &Plan, new: &Plan) -> Vec<&'static RouterExtension> {
    let mut found: Vec<&'static RouterExtension> = Vec::new();
    let both = old.elements.iter().chain(&new.elements);
    for extension in both.filter_map(|e| e.class.extension()) {
        if !found.iter().any(|known| std::ptr::eq(*known, extension)) {
            found.push(extension);
        }
    }
    found
}

impl Router {
    /// Locks the plan and the ownership of buckets and queues until the guard is dropped.
    pub fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.change_lock.lock()
    }

    pub(crate) fn write_by_extension(
        &self,
        plan: &Plan,
        node: usize,
        handler: &str,
        value: &str,
    ) -> Option<Result<String, AskError>> {
        let extension: &RouterExtension = plan.elements[node].class.extension()?;
        (extension.write)(self, plan, node, handler, value)
    }
}
