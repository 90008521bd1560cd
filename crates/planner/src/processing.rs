//! Push or pull: propagates each port's fixed processing over connections and through agnostic elements, as Click
//! does.

use super::title;
use engine::element::{Class, Flow};
use engine::plan::Edge;
use lang::{Diagnostic, Router};
use std::collections::VecDeque;
use std::ops::Range;

/// True if each port is pull.
pub(super) struct PortProcessing {
    pub(super) inputs: Vec<Vec<bool>>,
    pub(super) outputs: Vec<Vec<bool>>,
}

impl PortProcessing {
    pub(super) fn edges(&self, router: &Router) -> Vec<Edge> {
        let edge = |c: &lang::Connection| Edge {
            from: (c.from.element, c.from.port),
            to: (c.to.element, c.to.port),
            pull: self.inputs[c.to.element]
                .get(c.to.port)
                .copied()
                .unwrap_or(false),
            span: c.span,
        };
        router.connections.iter().map(edge).collect()
    }
}

/// Indices of all ports of the graph: for each element its inputs, then its outputs.
struct Numbering {
    first: Vec<usize>,
    counts: Vec<(usize, usize)>,
}

impl Numbering {
    fn new(counts: &[(usize, usize)]) -> (Numbering, usize) {
        let mut total = 0;
        let first = counts.iter().map(|&(i, o)| {
            total += i + o;
            total - i - o
        });
        (
            Numbering {
                first: first.collect(),
                counts: counts.to_vec(),
            },
            total,
        )
    }

    fn input(&self, element: usize, port: usize) -> usize {
        self.first[element] + port
    }

    fn output(&self, element: usize, port: usize) -> usize {
        self.first[element] + self.counts[element].0 + port
    }

    /// Ports of an element.
    fn ports(&self, element: usize) -> Range<usize> {
        let (inputs, outputs) = self.counts[element];
        let first = self.first[element];
        first..first + inputs + outputs
    }
}

pub(super) fn resolve(
    router: &Router,
    classes: &[&'static Class],
    counts: &[(usize, usize)],
    errors: &mut Vec<Diagnostic>,
) -> PortProcessing {
    let (numbers, total) = Numbering::new(counts);
    let mut flow = vec![Flow::Agnostic; total];
    for (i, class) in classes.iter().enumerate() {
        for port in 0..counts[i].0 {
            flow[numbers.input(i, port)] = class.ports.input_flow(port);
        }
        for port in 0..counts[i].1 {
            flow[numbers.output(i, port)] = class.ports.output_flow(port);
        }
    }
    propagate(router, classes, &numbers, &mut flow);
    check_agnostic(router, classes, &numbers, &flow, errors);
    check(router, &numbers, &flow, errors);
    let is_pull = |at: usize| flow[at] == Flow::Pull;
    let each = |side: fn(&Numbering, usize, usize) -> usize,
                count: fn(&(usize, usize)) -> usize|
     -> Vec<Vec<bool>> {
        let ports = |i: usize| {
            (0..count(&counts[i]))
                .map(|p| is_pull(side(&numbers, i, p)))
                .collect()
        };
        (0..classes.len()).map(ports).collect()
    };
    PortProcessing {
        inputs: each(Numbering::input, |c| c.0),
        outputs: each(Numbering::output, |c| c.1),
    }
}

/// Propagates flow to agnostic ports from neighbours that have one; the remaining ones are push.
fn propagate(router: &Router, classes: &[&'static Class], numbers: &Numbering, flow: &mut [Flow]) {
    let agnostic: Vec<bool> = flow.iter().map(|&f| f == Flow::Agnostic).collect();
    let mut linked = vec![Vec::new(); flow.len()];
    for c in &router.connections {
        let from = numbers.output(c.from.element, c.from.port);
        let to = numbers.input(c.to.element, c.to.port);
        linked[from].push(to);
        linked[to].push(from);
    }
    let mut elements = vec![0; flow.len()];
    for element in 0..classes.len() {
        elements[numbers.ports(element)].fill(element);
    }
    // True for elements whose agnostic ports must all become push or all pull.
    let mut joins: Vec<bool> = classes.iter().map(|class| class.ports.joined).collect();
    let mut to_do: VecDeque<usize> = (0..flow.len()).filter(|&at| !agnostic[at]).collect();
    while let Some(at) = to_do.pop_front() {
        let mut give = |to: usize| {
            if flow[to] == Flow::Agnostic {
                flow[to] = flow[at];
                to_do.push_back(to);
            }
        };
        linked[at].iter().copied().for_each(&mut give);
        let element = elements[at];
        if agnostic[at] && std::mem::take(&mut joins[element]) {
            let ports = numbers.ports(element);
            ports.filter(|&port| agnostic[port]).for_each(give);
        }
    }
    flow.iter_mut()
        .filter(|f| **f == Flow::Agnostic)
        .for_each(|f| *f = Flow::Push);
}

/// Checks that the agnostic ports of an element are all push or all pull.
fn check_agnostic(
    router: &Router,
    classes: &[&'static Class],
    numbers: &Numbering,
    flow: &[Flow],
    errors: &mut Vec<Diagnostic>,
) {
    for (i, class) in classes.iter().enumerate().filter(|(_, c)| c.ports.joined) {
        let (inputs, outputs) = numbers.counts[i];
        let ins = (0..inputs).filter(|&p| class.ports.input_flow(p) == Flow::Agnostic);
        let outs = (0..outputs).filter(|&p| class.ports.output_flow(p) == Flow::Agnostic);
        let flows: Vec<Flow> = ins
            .map(|p| flow[numbers.input(i, p)])
            .chain(outs.map(|p| flow[numbers.output(i, p)]))
            .collect();
        if flows.contains(&Flow::Push) && flows.contains(&Flow::Pull) {
            let element = &router.elements[i];
            let pulls = flows[0] == Flow::Pull;
            let (before, behind) = if pulls {
                ("pull", "push")
            } else {
                ("push", "pull")
            };
            let message = format!(
                "agnostic `{}` in mixed context: {before} input 0, {behind} output 0",
                title(element)
            );
            let help = if pulls {
                "put `Unqueue` before or behind it"
            } else {
                "put `Queue` before or behind it"
            };
            errors.push(
                Diagnostic::error("processing", message)
                    .at(element.span)
                    .about(title(element), element.span, None)
                    .help(help),
            );
        }
    }
}

fn check(router: &Router, numbers: &Numbering, flow: &[Flow], errors: &mut Vec<Diagnostic>) {
    let word = |f: Flow| if f == Flow::Pull { "pull" } else { "push" };
    let mut users: Vec<Option<&lang::Connection>> = vec![None; flow.len()];
    // Inputs first, each side in the order of its ports, as in Click.
    let mut reused = Vec::new();
    for c in &router.connections {
        let (from, to) = (
            &router.elements[c.from.element],
            &router.elements[c.to.element],
        );
        let out = numbers.output(c.from.element, c.from.port);
        let inp = numbers.input(c.to.element, c.to.port);
        if flow[out] != flow[inp] {
            let message = format!(
                "`{}` {} output {} connected to `{}` {} input {}",
                title(from),
                word(flow[out]),
                c.from.port,
                title(to),
                word(flow[inp]),
                c.to.port
            );
            let help = if flow[out] == Flow::Pull {
                "put `Unqueue` between them"
            } else {
                "put `Queue` between them"
            };
            errors.push(
                Diagnostic::error("push-pull", message)
                    .at(c.span)
                    .about(title(from), from.span, None)
                    .help(help),
            );
            continue;
        }
        let single = if flow[inp] == Flow::Pull { inp } else { out };
        if let Some(first) = users[single].replace(c) {
            let (element, side, port, help) = if flow[inp] == Flow::Pull {
                (
                    to,
                    "pull input",
                    c.to.port,
                    "put a scheduler such as RoundRobinSched before it",
                )
            } else {
                (
                    from,
                    "push output",
                    c.from.port,
                    "put Tee behind it to copy packets",
                )
            };
            let message = format!("illegal reuse of `{}` {side} {port}", title(element));
            let error = Diagnostic::error("processing", message)
                .at(c.span)
                .about(title(element), element.span, None)
                .note_at(first.span, "first connected here")
                .help(help);
            let order = match flow[inp] {
                Flow::Pull => (0, c.to),
                _ => (1, c.from),
            };
            reused.push((order, error));
        }
    }
    reused.sort_by_key(|&(order, _)| order);
    errors.extend(reused.into_iter().map(|(_, error)| error));
}

/// Elements in topological order of push edges; where there are cycles, in order of first visit.
/// Returns the order and each element's rank.
pub(super) fn order(elements: usize, edges: &[Edge]) -> (Vec<usize>, Vec<usize>) {
    let mut next = vec![Vec::new(); elements];
    let mut has_before = vec![false; elements];
    for edge in edges.iter().filter(|e| !e.pull) {
        next[edge.from.0].push(edge.to.0);
        has_before[edge.to.0] = true;
    }
    let mut seen = vec![false; elements];
    let mut finished = Vec::with_capacity(elements);
    let roots = (0..elements).filter(|&e| !has_before[e]).chain(0..elements);
    for root in roots {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((node, child)) = path.last_mut() {
            match next[*node].get(*child) {
                Some(&to) => {
                    *child += 1;
                    if !std::mem::replace(&mut seen[to], true) {
                        path.push((to, 0));
                    }
                }
                None => {
                    finished.push(*node);
                    path.pop();
                }
            }
        }
    }
    finished.reverse();
    let mut rank = vec![0; elements];
    for (at, &element) in finished.iter().enumerate() {
        rank[element] = at;
    }
    (finished, rank)
}
