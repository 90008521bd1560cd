//! Connections through the ports of compound elements and groups, joined end to end.

use crate::diagnostic::Diagnostic;
use crate::graph::{Connection, Port, Unconnected};
use crate::source::Span;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of connections, of ports that they imply, and of steps through tunnels to find them.
const CONNECTIONS_MAX: usize = 1 << 19;
const PORTS_MAX: usize = 1 << 20;
const STEPS_MAX: usize = 4 << 20;

/// End of a wire.
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

/// Wires by the tunnel ports at one of their ends; those of a tunnel are ordered by port.
type Tunnels = BTreeMap<(usize, u32), Vec<usize>>;

/// All wires of a router.
pub(crate) struct Wires<'w> {
    wires: &'w [Wire],
    out_of: Tunnels,
    into: Tunnels,
    steps: Cell<usize>,
}

impl<'w> Wires<'w> {
    pub(crate) fn new(wires: &'w [Wire]) -> Wires<'w> {
        let (mut out_of, mut into) = (Tunnels::new(), Tunnels::new());
        for (i, wire) in wires.iter().enumerate() {
            if let (End::Tunnel(tunnel), port) = wire.from {
                out_of.entry((tunnel, port)).or_default().push(i);
            }
            if let (End::Tunnel(tunnel), port) = wire.to {
                into.entry((tunnel, port)).or_default().push(i);
            }
        }
        Wires {
            wires,
            out_of,
            into,
            steps: Cell::new(0),
        }
    }

    /// The connections between elements, each once.
    pub(crate) fn connect(&self) -> Result<Vec<Connection>, TooMany> {
        let (wires, out_of) = (self.wires, &self.out_of);
        let (mut connections, mut known) = (Vec::new(), HashSet::new());
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
                self.step(wire.span)?;
                if connections.len() > CONNECTIONS_MAX {
                    return Err(too_many(CONNECTIONS_MAX, "connections", wire.span));
                }
            }
        }
        check_ports(&connections)?;
        Ok(connections)
    }

    /// Counts a step through tunnels; fails beyond the limit.
    fn step(&self, span: Span) -> Result<(), TooMany> {
        self.steps.set(self.steps.get() + 1);
        match self.steps.get() > STEPS_MAX {
            true => Err(too_many(
                STEPS_MAX,
                "connections inside compound elements",
                span,
            )),
            false => Ok(()),
        }
    }

    /// Inner ends of the ports of a compound element, given the tunnels of its inputs and outputs.
    pub(crate) fn inner_ends(
        &self,
        name: String,
        span: Span,
        (input, output): (usize, usize),
    ) -> Result<Unconnected, TooMany> {
        Ok(Unconnected {
            name,
            span,
            inputs: self.follow(input, &self.out_of, |wire| wire.to)?,
            outputs: self.follow(output, &self.into, |wire| wire.from)?,
        })
    }

    /// The element ports to which each port of a tunnel leads.
    fn follow(
        &self,
        tunnel: usize,
        by: &Tunnels,
        far: fn(&Wire) -> (End, u32),
    ) -> Result<Vec<Vec<Port>>, TooMany> {
        let mut found: Vec<Vec<Port>> = Vec::new();
        for (&(_, at), own) in by.range((tunnel, 0)..=(tunnel, u32::MAX)) {
            let (mut open, mut seen) = (own.clone(), HashSet::new());
            while let Some(next) = open.pop() {
                match far(&self.wires[next]) {
                    (End::Element(element), port) => {
                        found.resize_with(found.len().max(at as usize + 1), Vec::new);
                        let port = port as usize;
                        found[at as usize].push(Port { element, port });
                    }
                    (End::Tunnel(tunnel), port) if seen.insert((tunnel, port)) => {
                        open.extend(by.get(&(tunnel, port)).into_iter().flatten());
                    }
                    _ => {}
                }
                self.step(self.wires[next].span)?;
            }
        }
        Ok(found)
    }
}

/// Limits the number of ports: a port implies all lower ports of its element.
fn check_ports(connections: &[Connection]) -> Result<(), TooMany> {
    let mut last: HashMap<(usize, bool), usize> = HashMap::new();
    let mut ports = 0;
    for connection in connections {
        for (end, is_input) in [(connection.from, false), (connection.to, true)] {
            let last = last.entry((end.element, is_input)).or_default();
            ports += (end.port + 1).saturating_sub(*last);
            *last = (end.port + 1).max(*last);
        }
        if ports > PORTS_MAX {
            return Err(too_many(PORTS_MAX, "ports", connection.span));
        }
    }
    Ok(())
}

/// Error: the router exceeds a limit.
pub(crate) struct TooMany {
    limit: usize,
    what: &'static str,
    span: Span,
}

fn too_many(limit: usize, what: &'static str, span: Span) -> TooMany {
    TooMany { limit, what, span }
}

impl From<TooMany> for Diagnostic {
    fn from(TooMany { limit, what, span }: TooMany) -> Diagnostic {
        Diagnostic::error("too-large", format!("the router has more than {limit} {what}"))
            .at(span)
            .help("compound elements multiply the connections to their ports; use fewer of them in each other")
    }
}
