//! Connections through the ports of compound elements and groups, joined end to end.

use crate::diagnostic::Diagnostic;
use crate::graph::{Connection, Loose, Port};
use crate::source::Span;
use std::collections::{HashMap, HashSet};

/// Most connections, and most steps through tunnels to find them.
const CONNECTIONS_MAX: usize = 4 << 20;
const STEPS_MAX: usize = 32 << 20;

/// What a wire is fixed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Element(usize),
    /// `input` or `output` of one compound element or group.
    Tunnel(usize),
    Nowhere,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) from: (End, u32),
    pub(crate) to: (End, u32),
    pub(crate) span: Span,
}

/// The connections between elements, each once.
pub(crate) fn connect(wires: &[Wire]) -> (Vec<Connection>, Option<Diagnostic>) {
    let mut out_of: HashMap<(usize, u32), Vec<usize>> = HashMap::new();
    for (i, wire) in wires.iter().enumerate() {
        if let (End::Tunnel(tunnel), port) = wire.from {
            out_of.entry((tunnel, port)).or_default().push(i);
        }
    }
    let (mut connections, mut known) = (Vec::new(), HashSet::new());
    let mut steps = 0;
    for (i, wire) in wires.iter().enumerate() {
        let (End::Element(element), port) = wire.from else {
            continue;
        };
        let from = Port {
            element,
            port: port as usize,
        };
        let (mut open, mut seen) = (vec![i], HashSet::new());
        while let Some(next) = open.pop() {
            steps += 1;
            match wires[next].to {
                (End::Element(element), port) => {
                    let port = port as usize;
                    let to = Port { element, port };
                    if known.insert((from, to)) {
                        let span = wire.span;
                        connections.push(Connection { from, to, span });
                    }
                }
                (End::Tunnel(tunnel), port) if seen.insert((tunnel, port)) => {
                    let behind = out_of.get(&(tunnel, port));
                    open.extend(behind.into_iter().flatten().rev());
                }
                _ => {}
            }
            if steps > STEPS_MAX || connections.len() > CONNECTIONS_MAX {
                return (connections, Some(too_many(wire.span)));
            }
        }
    }
    (connections, None)
}

/// Where the ports of a compound element lead inside of it, given the tunnels of its inputs and outputs.
pub(crate) fn ends(
    wires: &[Wire],
    name: String,
    span: Span,
    (input, output): (usize, usize),
) -> Loose {
    let ports = |tunnel: usize, end: fn(&Wire) -> (End, u32), other: fn(&Wire) -> (End, u32)| {
        let mut found: Vec<Vec<Port>> = Vec::new();
        let (mut open, mut seen) = (Vec::new(), HashSet::new());
        let own = wires.iter().filter(|w| end(w).0 == End::Tunnel(tunnel));
        open.extend(own.map(|w| (end(w).1 as usize, *w)));
        while let Some((at, wire)) = open.pop() {
            match other(&wire) {
                (End::Element(element), port) => {
                    found.resize_with(found.len().max(at + 1), Vec::new);
                    let port = port as usize;
                    found[at].push(Port { element, port });
                }
                (End::Tunnel(next), port) if seen.insert((at, next, port)) => {
                    let behind = wires.iter().filter(|w| end(w) == (End::Tunnel(next), port));
                    open.extend(behind.map(|w| (at, *w)));
                }
                _ => {}
            }
        }
        found
    };
    Loose {
        name,
        span,
        inputs: ports(input, |w| w.from, |w| w.to),
        outputs: ports(output, |w| w.to, |w| w.from),
    }
}

fn too_many(span: Span) -> Diagnostic {
    Diagnostic::error("too-large", format!("more than {CONNECTIONS_MAX} connections"))
        .at(span)
        .help("compound elements multiply the connections to their ports; use fewer of them in each other")
}
