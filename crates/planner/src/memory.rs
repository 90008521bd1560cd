//! Checks that there is memory for all elements: a failed allocation later would end the process.

use super::title;
use engine::plan::Plan;
use lang::{Diagnostic, Router};
use std::hint::black_box;
use std::sync::Arc;

/// Checks that the memory of all elements is available: reserves it and releases it. Memory of the previous plan is
/// already allocated. Memory that parsing this plan's configurations has allocated is counted twice: the estimate is
/// too high rather than too low.
pub(super) fn check(
    plan: &Plan,
    router: &Router,
    previous: Option<&Plan>,
    errors: &mut Vec<Diagnostic>,
) {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for (element, written) in plan.elements.iter().zip(&router.elements) {
        let is_kept = previous.and_then(|before| before.find(&element.name));
        let is_kept = is_kept
            .zip(previous)
            .is_some_and(|(at, before)| Arc::ptr_eq(&before.elements[at].config, &element.config));
        let (bytes, mut room) = (element.memory(), Vec::new());
        if is_kept || room.try_reserve_exact(bytes).is_ok() {
            all.push(room);
            continue;
        }
        let message = format!(
            "the system refuses the {} MiB that it takes",
            bytes.div_ceil(1 << 20)
        );
        let wrong = Diagnostic::error("no-memory", message).at(written.span);
        let wrong = wrong.about(title(written), written.span, Some("initializing"));
        let help = "request less memory, or raise the process's limit (`ulimit -v`)";
        errors.push(wrong.help(help));
    }
    black_box(all); // keeps the compiler from removing the allocations
}
