//! Extensions of classes that concern a router as a whole; crates above the engine define them.

use crate::Router;
use engine::handler::AskError;
use engine::plan::Plan;
use std::sync::MutexGuard;

/// Write function for handlers: router, plan, number of the element, name of the handler, value.
pub type Write = fn(&Router, &Plan, usize, &str, &str) -> Option<Result<String, AskError>>;

/// Extension of classes whose elements need the router as a whole: to act on several workers, or before a reload.
/// Classes may share one: then a reload asks it once.
pub struct RouterExtension {
    /// Checks whether a plan may replace another one; the error is a sentence. Nothing has changed yet.
    pub check_reload: fn(old: &Plan, new: &Plan) -> Result<(), String>,
    /// Prepares the workers for another plan. If the reload fails after that, they continue with the old plan.
    pub before_reload: fn(router: &Router, old: &Plan, new: &Plan) -> Result<(), AskError>,
    /// Writes a handler of an element. Returns `None` if the handler needs no special treatment.
    pub write: Write,
}

/// The extensions of the classes that two plans use, without duplicates.
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
    pub fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
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
