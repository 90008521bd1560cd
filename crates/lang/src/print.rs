//! Prints a graph as Click text.

use crate::args;
use crate::graph::{Port, Router};
use std::collections::HashMap;
use std::fmt::Write;

/// Canonical text of a router: requirements, declarations, then connections in chains.
///
/// Parsing the text gives the same router again, and printing that gives the same text: the order of connections
/// depends only on the order of elements.
pub fn print(router: &Router) -> String {
    let mut out = String::new();
    let requirements = router.requirements.iter().map(|requirement| {
        let name = args::quote(&requirement.name);
        match requirement.kind.as_str() {
            // `compact_config` is a request to the driver, not a package.
            "package" if name == "compact_config" => name,
            kind => format!("{} {name}", args::quote(kind)),
        }
    });
    let requirements: Vec<String> = requirements.collect();
    if !requirements.is_empty() {
        let _ = writeln!(out, "require({});\n", requirements.join(", "));
    }
    for element in &router.elements {
        let _ = write!(out, "{} :: {}", element.name, element.class);
        if !element.config.text.is_empty() {
            let _ = write!(out, "({})", element.config.text);
        }
        out.push_str(";\n");
    }
    if !router.elements.is_empty() {
        out.push('\n');
    }
    if !router.connections.is_empty() {
        print_connections(&mut out, router);
    }
    out
}

/// Prints connections as Click does: a chain continues through port 0 of an element with the first connection there,
/// and begins where no chain leads.
fn print_connections(out: &mut String, router: &Router) {
    let mut edges: Vec<(Port, Port)> = router.connections.iter().map(|c| (c.from, c.to)).collect();
    edges.sort_unstable_by_key(|&(from, to)| (to, from));
    edges.dedup();
    let mut leaving: HashMap<Port, Vec<usize>> = HashMap::new();
    for (edge, (from, _)) in edges.iter().enumerate() {
        leaving.entry(*from).or_default().push(edge);
    }
    // The first other connection to an input 0; without one, the last.
    let after = |edge: usize| -> Option<usize> {
        let to = edges[edge].1;
        let all = leaving.get(&to).filter(|_| to.port == 0)?;
        let others = || all.iter().copied().filter(|&other| other != edge);
        let first = others().find(|&other| edges[other].1.port == 0);
        first.or_else(|| others().next_back())
    };
    let mut follows = vec![false; edges.len()];
    for edge in 0..edges.len() {
        if let Some(next) = after(edge) {
            follows[next] = true;
        }
    }
    let starts = (0..edges.len()).filter(|&e| !follows[e]);
    // The remaining connections form cycles.
    let order: Vec<usize> = starts.chain(0..edges.len()).collect();
    let mut printed = vec![false; edges.len()];
    for first in order {
        if printed[first] {
            continue;
        }
        out.push_str(name(router, edges[first].0));
        let (mut next, mut arrow) = (Some(first), " -> ");
        while let Some(edge) = next.filter(|&e| !printed[e]) {
            let (from, to) = edges[edge];
            printed[edge] = true;
            if from.port != 0 {
                let _ = write!(out, " [{}]", from.port);
            }
            out.push_str(arrow);
            if to.port != 0 {
                let _ = write!(out, "[{}] ", to.port);
            }
            out.push_str(name(router, to));
            (next, arrow) = (after(edge), "\n    -> ");
        }
        out.push_str(";\n");
    }
}

fn name(router: &Router, port: Port) -> &str {
    router.elements.get(port.element).map_or("", |e| &e.name)
}
