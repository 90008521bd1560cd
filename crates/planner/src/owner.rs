//! Elements whose state has one owner ([`Copies::Owner`]): where several workers reach such an element, or
//! elements that share state with it, a Queue and an Unqueue are put before each of their inputs, so that
//! packets cross over to the worker that owns them all. Packets of a flow keep their order on the way.

use engine::element::Copies;
use engine::plan::Plan;
use lang::{Config, Connection, Element, Port, Router};
use std::collections::BTreeSet;

/// Packets that may be on their way to an owner, per input.
const CROSSING: usize = 4096;

/// Elements that need a crossing before their inputs, with the worker that owns them.
pub(super) fn crossings(plan: &Plan) -> Vec<(usize, usize)> {
    let owned = |&i: &usize| plan.elements[i].class.copies == Copies::Owner;
    let all: Vec<usize> = (0..plan.elements.len()).filter(owned).collect();
    // The least number of a group stands for it.
    let mut group: Vec<usize> = (0..plan.elements.len()).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for &i in &all {
            let partners = plan.elements[i].looked.iter().flatten().copied();
            for partner in partners.filter(owned) {
                let least = group[i].min(group[partner]);
                changed |= group[i] != least || group[partner] != least;
                (group[i], group[partner]) = (least, least);
            }
        }
    }
    let mut found = Vec::new();
    for &head in all.iter().filter(|&&i| group[i] == i) {
        let members = || all.iter().copied().filter(|&i| group[i] == head);
        let splits = || members().map(|i| plan.elements[i].split);
        if splits().all(|split| split.is_some() && Some(split) == splits().next()) {
            // Each worker owns its part of the state.
            continue;
        }
        let workers: BTreeSet<usize> = members()
            .flat_map(|i| plan.elements[i].workers.clone())
            .collect();
        if workers.len() > 1
            && let Some(&owner) = workers.first()
        {
            let away = members().filter(|&i| plan.elements[i].workers != [owner]);
            found.extend(away.map(|i| (i, owner)));
        }
    }
    found
}

/// Puts the crossings into the router.
pub(super) fn cross(router: &mut Router, crossings: &[(usize, usize)]) {
    for &(element, owner) in crossings {
        let reaches = router
            .connections
            .iter()
            .filter(|c| c.to.element == element);
        let inputs: BTreeSet<usize> = reaches.map(|c| c.to.port).collect();
        for input in inputs {
            let queue = add(
                router,
                element,
                &format!("queue{input}"),
                "Queue",
                CROSSING.to_string(),
            );
            let cores = format!("CORES {owner}");
            let unqueue = add(
                router,
                element,
                &format!("unqueue{input}"),
                "Unqueue",
                cores,
            );
            let to = Port {
                element,
                port: input,
            };
            let mut span = router.elements[element].span;
            for connection in router.connections.iter_mut().filter(|c| c.to == to) {
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
        within: at.within.clone(),
    };
    router.elements.push(new);
    router.elements.len() - 1
}
