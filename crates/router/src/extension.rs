//! Extensions of classes that act on a router as a whole, defined by crates above the engine.

use crate::Router;
use engine::handler::AskError;
use engine::plan::Plan;
use std::sync::MutexGuard;

/// Writes a handler of an element, named by its number in the plan and the handler's name; the last argument is the
/// value.
pub type Write = fn(&Router, &Plan, usize, &str, &str) -> Option<Result<String, AskError>>;

/// An extension of classes whose elements need the router as a whole: several workers, or the time before a reload.
/// Classes may share one: then a reload asks it once.
pub struct RouterExtension {
    /// True if a plan may be replaced by another one; the error is a sentence. Nothing has changed yet.
    pub check_reload: fn(old: &Plan, new: &Plan) -> Result<(), String>,
    /// Prepares the workers for another plan. If the reload fails after that, they go on with the old one.
    pub before_reload: fn(router: &Router, old: &Plan, new: &Plan) -> Result<(), AskError>,
    /// Writes a handler of an element, one of the plan's, named by number and the handler's name; `None` if it is like
    /// other handlers.
    pub write: Write,
}

/// The extensions of the classes that two plans use, each once.
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
    /// Locks the plan and the ownership of buckets and queues while the guard lives.
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
