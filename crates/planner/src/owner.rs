//! Elements whose state has one owner ([`Copies::Owner`]). If several workers reach such elements, or elements that
//! share their state, one worker becomes the owner of all of them. A Queue and an Unqueue are inserted before each of
//! their inputs, to carry packets of other workers to the owner. Packets of a flow keep their order.

use engine::element::Copies;
use engine::plan::Plan;
use lang::{Config, Connection, Element, Port, Router};
use std::collections::{BTreeMap, BTreeSet};

/// Capacity, in packets, of the queue that carries packets to an owner, per input.
const CROSSING_QUEUE_PACKETS: usize = 4096;

/// Elements that need queues before their inputs, each with the worker that owns it.
pub(super) fn crossings(plan: &Plan) -> Vec<(usize, usize)> {
    let owned = |&i: &usize| plan.elements[i].class.copies == Copies::Owner;
    let all: Vec<usize> = (0..plan.elements.len()).filter(owned).collect();
    // The lowest element number represents a group.
    let mut roots: Vec<usize> = (0..plan.elements.len()).collect();
    for &i in &all {
        let partners = plan.elements[i].named_elements.iter().flatten().copied();
        for partner in partners.filter(owned) {
            let (a, b) = (find_root(&mut roots, i), find_root(&mut roots, partner));
            roots[a.max(b)] = a.min(b);
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &i in &all {
        groups.entry(find_root(&mut roots, i)).or_default().push(i);
    }
    let mut found = Vec::new();
    for members in groups.into_values() {
        let splits = || members.iter().map(|&i| plan.elements[i].split);
        if splits().all(|split| split.is_some() && Some(split) == splits().next()) {
            // The state is split by bucket: each worker owns a part, so no queue is needed.
            continue;
        }
        let workers: BTreeSet<usize> = members
            .iter()
            .flat_map(|&i| plan.elements[i].workers.clone())
            .collect();
        if workers.len() > 1
            && let Some(&owner) = workers.first()
        {
            let away = members.iter();
            let away = away.filter(|&&i| plan.elements[i].workers != [owner]);
            found.extend(away.map(|&i| (i, owner)));
        }
    }
    found
}

/// Representative of an element's group (union-find, with path compression).
fn find_root(roots: &mut [usize], mut at: usize) -> usize {
    while roots[at] != at {
        roots[at] = roots[roots[at]];
        at = roots[at];
    }
    at
}

/// Inserts the queues into the router.
pub(super) fn insert_queues(router: &mut Router, crossings: &[(usize, usize)]) {
    // Connections that lead to each input.
    let mut reaches: BTreeMap<Port, Vec<usize>> = BTreeMap::new();
    for (at, connection) in router.connections.iter().enumerate() {
        reaches.entry(connection.to).or_default().push(at);
    }
    for &(element, owner) in crossings {
        let port = |port| Port { element, port };
        let inputs = reaches.range(port(0)..=port(usize::MAX));
        for (&to, connections) in inputs {
            let input = to.port;
            let queue = add(
                router,
                element,
                &format!("queue{input}"),
                "Queue",
                CROSSING_QUEUE_PACKETS.to_string(),
            );
            let cores = format!("CORES {owner}");
            let unqueue = add(
                router,
                element,
                &format!("unqueue{input}"),
                "Unqueue",
                cores,
            );
            let mut span = router.elements[element].span;
            for &at in connections {
                let connection = &mut router.connections[at];
                connection.to = port0(queue);
                span = connection.span;
            }
            let between = [(port0(queue), port0(unqueue)), (port0(unqueue), to)];
            let between = between.map(|(from, to)| Connection { from, to, span });
            router.connections.extend(between);
        }
    }
}

fn port0(element: usize) -> Port {
    Port { element, port: 0 }
}

fn add(router: &mut Router, before: usize, what: &str, class: &str, config: String) -> usize {
    let at = &router.elements[before];
    let new = Element {
        name: format!("{}@{what}", at.name),
        class: class.to_owned(),
        config: Config::verbatim(config, at.config.span()),
        span: at.span,
        class_span: at.class_span,
    };
    router.elements.push(new);
    router.elements.len() - 1
}
