//! Parts of a plan that depend on a bucket table: receivers, elements that steer by it, and elements downstream.

use super::Table;
use engine::element::{Flow, Runs};
use engine::handler::AskError;
use engine::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of stages in series that are distinguished.
const STAGES: usize = 8;

/// Parts of a plan that depend on a bucket table.
#[derive(Clone)]
pub(crate) struct Dependents {
    pub(crate) table: Arc<Table>,
    /// Elements that steer packets by `table`.
    pub(crate) steers: Arc<[usize]>,
    /// Elements downstream of the elements in `steers`.
    pub(crate) downstream_nodes: Arc<[usize]>,
    /// Maximum number of elements in series that may hold packets.
    pub(crate) stages: usize,
    /// The workers of the plan: each may send packets to others.
    pub(crate) workers: Arc<[usize]>,
}

/// Attachment of [`PASS`](crate::PASS) to receivers: the nearest tables downstream, which steer their packets.
pub struct SteeredBy(pub Vec<Arc<Table>>);

impl Dependents {
    pub(crate) fn find(plan: &Plan, name: &str) -> Option<Dependents> {
        let tables = plan.elements.iter().map(super::extensions::table_of);
        let tables: Vec<Option<Arc<Table>>> = tables.collect();
        let named = |table: &&Arc<Table>| table.name() == name;
        let of_element = || tables[plan.find(name)?].as_ref();
        let table = tables.iter().flatten().find(named).or_else(of_element)?;
        let is_ours = |node: &usize| {
            tables[*node]
                .as_ref()
                .is_some_and(|t| Arc::ptr_eq(t, table))
        };
        let steers: Vec<usize> = (0..tables.len()).filter(is_ours).collect();
        let downstream_nodes = downstream(plan, &steers, &tables);
        Some(Dependents {
            table: Arc::clone(table),
            stages: stages(plan, &downstream_nodes),
            steers: steers.into(),
            downstream_nodes: downstream_nodes.into_iter().collect(),
            workers: (0..plan.workers).collect(),
        })
    }

    /// Groups the buckets to move by their owners; refuses buckets that do not exist.
    pub(crate) fn check(
        &self,
        buckets: &[u16],
        to: usize,
    ) -> Result<BTreeMap<usize, Vec<u16>>, AskError> {
        let (owners, workers) = (self.table.owners(), self.table.workers());
        if !workers.contains(&to) {
            let may = super::ranges(&workers);
            let why = format!(
                "worker {to} cannot own buckets of `{}`: workers {may} can",
                self.table.name()
            );
            return Err(AskError::Refused(why));
        }
        let mut from: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        for bucket in buckets.iter().copied().collect::<BTreeSet<u16>>() {
            match owners.get(usize::from(bucket)) {
                None => {
                    let last = owners.len().saturating_sub(1);
                    let why = format!("there is no bucket {bucket}: they are numbered 0 to {last}");
                    return Err(AskError::Refused(why));
                }
                Some(&owner) if owner == to => (),
                Some(&owner) => from.entry(owner).or_default().push(bucket),
            }
        }
        Ok(from)
    }
}

/// Attaches [`SteeredBy`] to receivers.
pub(crate) fn mark(plan: &mut Plan) {
    let tables: Vec<Option<Arc<Table>>> = plan
        .elements
        .iter()
        .map(super::extensions::table_of)
        .collect();
    for node in 0..plan.elements.len() {
        if tables.iter().any(Option::is_some)
            && plan.elements[node].device().is_some_and(|d| d.receives)
        {
            let mut found: Vec<Arc<Table>> = Vec::new();
            for at in downstream(plan, &[node], &tables) {
                if let Some(table) = &tables[at]
                    && !found.iter().any(|known| Arc::ptr_eq(known, table))
                {
                    found.push(Arc::clone(table));
                }
            }
            if !found.is_empty() {
                plan.elements[node].attached.set(SteeredBy(found));
            }
        }
    }
}

/// Elements reachable from `steers`, up to elements that steer by another table.
fn downstream(plan: &Plan, steers: &[usize], tables: &[Option<Arc<Table>>]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut to_do = steers.to_vec();
    while let Some(node) = to_do.pop() {
        for edge in plan.edges.from(node) {
            let to = edge.to.0;
            if !steers.contains(&to) && found.insert(to) && tables[to].is_none() {
                to_do.push(to);
            }
        }
    }
    found
}

/// Length of the longest chain of elements that store packets, among these elements.
fn stages(plan: &Plan, downstream_nodes: &BTreeSet<usize>) -> usize {
    let holds = |node: usize| {
        let element = &plan.elements[node];
        let queue = element.class.ports.output_flow(0) == Flow::Pull && !element.input_pull();
        let sends = element.device().is_some_and(|device| !device.receives);
        usize::from(queue || sends || element.runs == Runs::AsTask)
    };
    let mut depth: BTreeMap<usize, usize> = downstream_nodes
        .iter()
        .map(|&node| (node, holds(node)))
        .collect();
    // The number of rounds is bounded, because in a cycle depths would grow for ever.
    for _ in 0..downstream_nodes.len() {
        let before = depth.clone();
        for edge in &plan.edges {
            if let (Some(&from), Some(to)) = (before.get(&edge.from.0), depth.get_mut(&edge.to.0)) {
                *to = (*to).max(from + holds(edge.to.0)).min(STAGES);
            }
        }
        if depth == before {
            break;
        }
    }
    depth.into_values().max().unwrap_or(0)
}
