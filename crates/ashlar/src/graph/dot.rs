//! A drawing as text for Graphviz.

use super::{Drawing, colour, workers_text};
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

/// A frame's elements and the frames in it.
fn frame(out: &mut String, drawing: &Drawing, number: usize) {
    let inside = |n: &usize| drawing.nodes[*n].frame == number;
    for n in (0..drawing.nodes.len()).filter(inside) {
        element(out, drawing, n);
    }
    let inner = |n: &usize| drawing.frames[*n].parent == number;
    for n in (1..drawing.frames.len()).filter(inner) {
        let name = quote(&drawing.frames[n].name);
        let _ = writeln!(
            out,
            "  subgraph cluster_{n} {{\n  label={name}; fontname=\"sans-serif\"; fontsize=10;"
        );
        frame(out, drawing, n);
        *out += "  }\n";
    }
}

fn element(out: &mut String, drawing: &Drawing, n: usize) {
    let node = &drawing.nodes[n];
    let lines = [&node.name, &node.class, &node.text];
    let lines: Vec<&str> = lines
        .into_iter()
        .map(String::as_str)
        .filter(|line| !line.is_empty())
        .collect();
    let shape = if node.queue { ", peripheries=2" } else { "" };
    let tip = workers_text(node, drawing.workers);
    let tip = tip.map_or(String::new(), |tip| format!(", tooltip={}", quote(&tip)));
    let _ = writeln!(
        out,
        "  n{n} [label={}, fillcolor=\"{}\"{shape}{tip}];",
        quote(&lines.join("\n")),
        colour(node)
    );
}

/// The drawing in the DOT language.
pub(crate) fn render(drawing: &Drawing) -> String {
    let mut out = "digraph router {\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n  \
        edge [fontname=\"sans-serif\", fontsize=8];\n"
        .to_owned();
    frame(&mut out, drawing, 0);
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
