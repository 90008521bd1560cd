//! A drawing as text for Graphviz.

use super::{Drawing, colour, whose};
use std::fmt::Write;

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The drawing in the DOT language.
pub(crate) fn render(drawing: &Drawing) -> String {
    let mut out = "digraph router {\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n  \
        edge [fontname=\"sans-serif\", fontsize=8];\n"
        .to_owned();
    for (n, node) in drawing.nodes.iter().enumerate() {
        let label = match node.name.is_empty() {
            true => node.class.clone(),
            false => format!("{}\n{}", node.name, node.class),
        };
        let shape = if node.queue { ", peripheries=2" } else { "" };
        let tip = whose(node, drawing.workers);
        let tip = tip.map_or(String::new(), |t| format!(", tooltip={}", quote(&t)));
        let _ = writeln!(
            out,
            "  n{n} [label={}, fillcolor=\"{}\"{shape}{tip}];",
            quote(&label),
            colour(node)
        );
    }
    for link in &drawing.links {
        let mut words = Vec::new();
        if link.pull {
            words.push("style=dashed, arrowhead=empty".to_owned());
        }
        if link.from.1 > 0 {
            words.push(format!("taillabel=\"{}\"", link.from.1));
        }
        if link.to.1 > 0 {
            words.push(format!("headlabel=\"{}\"", link.to.1));
        }
        let words = if words.is_empty() {
            String::new()
        } else {
            format!(" [{}]", words.join(", "))
        };
        let _ = writeln!(out, "  n{} -> n{}{words};", link.from.0, link.to.0);
    }
    out += "}\n";
    out
}
