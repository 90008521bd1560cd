//! A graph as Click text.

use crate::args;
use crate::graph::{Port, Router};
use std::fmt::Write;

/// Canonical text of a router: requirements, declarations, then connections in chains.
///
/// Reading the text gives the same router again, and printing that gives the same text: the order of
/// connections depends on the elements' order only.
pub fn print(router: &Router) -> String {
    let mut out = String::new();
    for requirement in &router.requirements {
        let name = args::quote(&requirement.name);
        let _ = match requirement.kind.as_str() {
            "" => writeln!(out, "require({name});"),
            kind => writeln!(out, "require({kind} {name});"),
        };
    }
    if !router.requirements.is_empty() {
        out.push('\n');
    }
    for element in &router.elements {
        let _ = write!(out, "{} :: {}", element.name, element.class);
        if !element.config.text.is_empty() {
            let _ = write!(out, "({})", element.config.text);
        }
        out.push_str(";\n");
    }
    if !router.connections.is_empty() {
        out.push('\n');
        print_connections(&mut out, router);
    }
    out
}

fn print_connections(out: &mut String, router: &Router) {
    let mut edges: Vec<(Port, Port)> = router.connections.iter().map(|c| (c.from, c.to)).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut printed = vec![false; edges.len()];
    for first in 0..edges.len() {
        let mut next = (!printed[first]).then_some(first);
        if let Some(edge) = next {
            out.push_str(name(router, edges[edge].0));
        }
        let mut chained = false;
        while let Some(edge) = next {
            let (from, to) = edges[edge];
            printed[edge] = true;
            if from.port != 0 {
                let _ = write!(out, " [{}]", from.port);
            }
            out.push_str(if chained { "\n    -> " } else { " -> " });
            if to.port != 0 {
                let _ = write!(out, "[{}] ", to.port);
            }
            out.push_str(name(router, to));
            chained = true;
            // The chain goes on with the first connection of the element that is not printed yet.
            let start = edges.partition_point(|(from, _)| from.element < to.element);
            next = (start..edges.len())
                .take_while(|&i| edges[i].0.element == to.element)
                .find(|&i| !printed[i]);
        }
        if chained {
            out.push_str(";\n");
        }
    }
}

fn name(router: &Router, port: Port) -> &str {
    router.elements.get(port.element).map_or("", |e| &e.name)
}
