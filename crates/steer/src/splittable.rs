//! Elements whose state can be split by buckets: all paths to such an element lead through elements that steer by one
//! table, sorted by flow so that both directions of a flow meet.

use super::extensions::{sorter_of, splits};
use super::{Sorter, Table, table_of};
use engine::element::{Copies, Silent};
use engine::plan::Plan;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Attachment of [`PASS`](crate::PASS) to an element whose state is split by buckets: the function that sorts its
/// packets.
pub struct SortedBy(pub Arc<dyn Sorter>);

/// Attaches [`SortedBy`] to elements whose state can be split by buckets.
pub(crate) fn mark(plan: &mut Plan) {
    for i in 0..plan.elements.len() {
        let element = &plan.elements[i];
        let splits = element.class.copies == Copies::Owner && splits(element);
        if splits && element.workers.len() > 1 {
            let sorter = sorter(plan, i);
            let element = &mut plan.elements[i];
            element.split = sorter.as_ref().map(|sorter| sorter.kind());
            if let Some(sorter) = sorter {
                element.attached.set(SortedBy(sorter));
            }
        }
    }
}

/// The function that sorts all packets that reach an element; `None` if they are not all sorted alike.
fn sorter(plan: &Plan, element: usize) -> Option<Arc<dyn Sorter>> {
    let mut found: Option<(Arc<Table>, Arc<dyn Sorter>)> = None;
    let mut seen = BTreeSet::from([element]);
    let mut to_do = vec![element];
    while let Some(at) = to_do.pop() {
        for edge in plan.edges.edges_to(at) {
            let up = edge.from.0;
            let above = &plan.elements[up];
            if let Some(table) = table_of(above) {
                let by = upstream_sorter(plan, up)?;
                match &found {
                    Some((t, s)) if !Arc::ptr_eq(t, &table) || s.kind() != by.kind() => {
                        return None;
                    }
                    _ => found = Some((table, by)),
                }
                continue;
            }
            let crosses = above.outputs.contains(&true) && above.pushers != above.pullers;
            let begins = above.inputs.is_empty() && above.class.extension::<Silent>().is_none();
            if crosses || begins {
                return None;
            }
            if seen.insert(up) {
                to_do.push(up);
            }
        }
    }
    found.map(|(_, sorter)| sorter)
}

/// The function that sorts all packets right before a steering element, if it is symmetric.
fn upstream_sorter(plan: &Plan, steer: usize) -> Option<Arc<dyn Sorter>> {
    let mut found: Option<Arc<dyn Sorter>> = None;
    for edge in plan.edges.edges_to(steer) {
        let above = &plan.elements[edge.from.0];
        let by = sorter_of(above)?;
        let alike = found.as_ref().is_none_or(|s| s.kind() == by.kind());
        if !by.is_symmetric() || !alike {
            return None;
        }
        found = Some(by);
    }
    found
}
