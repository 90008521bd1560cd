//! Connections through the ports of compound elements and groups, joined end to end.

use crate::diagnostic::Diagnostic;
use crate::graph::{Connection, Port};
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

fn too_many(span: Span) -> Diagnostic {
    Diagnostic::error("too-large", format!("more than {CONNECTIONS_MAX} connections"))
        .at(span)
        .help("compound elements multiply the connections to their ports; use fewer of them in each other")
}
