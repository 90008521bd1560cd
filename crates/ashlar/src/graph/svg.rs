//! A drawing as SVG. Ports are black where they push and white where they pull, as in drawings of
//! Click; a queue has bars.

use super::layout::{GAP, HEIGHT, Layout, layout};
use super::{COLOURS, Drawing, Link, Node, colour, whose};
use std::fmt::Write;

/// Width of a character of the small font, generously.
const LETTER: f64 = 6.6;
const PORT: f64 = 5.0;
/// Distance of a queue's bars.
const BAR: f64 = 5.0;
const LEGEND: f64 = 30.0;

fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn width(node: &Node) -> f64 {
    let letters = node.name.chars().count().max(node.class.chars().count());
    let ports = node.inputs.max(node.outputs) as f64 * 3.0 * PORT;
    let bars = if node.queue { 8.0 * BAR } else { 0.0 };
    (letters as f64 * LETTER + 18.0).max(ports).max(50.0) + bars
}

/// The drawing as a file of its own.
pub(crate) fn render(drawing: &Drawing) -> String {
    let widths: Vec<f64> = drawing.nodes.iter().map(width).collect();
    let layout = layout(drawing, &widths);
    let swatches = drawing.workers.min(COLOURS.len()) as f64 * 80.0 + 320.0;
    let (w, h) = (layout.width.max(swatches), layout.height + LEGEND);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.0} {h:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (n, link) in drawing.links.iter().enumerate() {
        connection(&mut out, drawing, &layout, n, link);
    }
    for (n, node) in drawing.nodes.iter().enumerate() {
        element(&mut out, drawing, &layout, n, node);
    }
    legend(&mut out, drawing, h);
    out += "</svg>\n";
    out
}

/// Position of a port: ports are spread over an element's width.
fn port_x(layout: &Layout, node: usize, port: usize, ports: usize) -> f64 {
    let place = &layout.places[node];
    place.x - place.width / 2.0 + place.width * (port as f64 + 0.5) / ports.max(1) as f64
}

fn connection(out: &mut String, drawing: &Drawing, layout: &Layout, n: usize, link: &Link) {
    let outputs = drawing.nodes[link.from.0].outputs;
    let inputs = drawing.nodes[link.to.0].inputs;
    let start = (
        port_x(layout, link.from.0, link.from.1, outputs),
        layout.places[link.from.0].y + HEIGHT / 2.0 + PORT,
    );
    let end = (
        port_x(layout, link.to.0, link.to.1, inputs),
        layout.places[link.to.0].y - HEIGHT / 2.0 - PORT,
    );
    let bends = layout.bends[n]
        .iter()
        .map(|&b| (layout.places[b].x, layout.places[b].y));
    let points: Vec<(f64, f64)> = std::iter::once(start).chain(bends).chain([end]).collect();
    let mut path = format!("M{:.1} {:.1}", start.0, start.1);
    for pair in points.windows(2) {
        let [(x1, y1), (x2, y2)] = [pair[0], pair[1]];
        // Lines leave and reach ports upright, also those that lead back up.
        let reach = ((y2 - y1) / 2.0).max(GAP);
        let _ = write!(
            path,
            " C{x1:.1} {:.1} {x2:.1} {:.1} {x2:.1} {y2:.1}",
            y1 + reach,
            y2 - reach
        );
    }
    let dash = if link.pull {
        " stroke-dasharray=\"5 3\""
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#555\"{dash}/>"
    );
}

fn element(out: &mut String, drawing: &Drawing, layout: &Layout, n: usize, node: &Node) {
    let place = &layout.places[n];
    let (left, top) = (place.x - place.width / 2.0, place.y - HEIGHT / 2.0);
    let (w, fill) = (place.width, colour(node));
    let _ = write!(out, "<g>");
    if let Some(whose) = whose(node, drawing.workers) {
        let _ = write!(out, "<title>{}</title>", escape(&whose));
    }
    let _ = write!(
        out,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{w:.1}\" height=\"{HEIGHT}\" fill=\"{fill}\" stroke=\"black\"/>"
    );
    if node.queue {
        for bar in 1..4 {
            let x = left + w - f64::from(bar) * BAR;
            let _ = write!(
                out,
                "<path d=\"M{x:.1} {top:.1}v{HEIGHT}\" stroke=\"black\"/>"
            );
        }
    }
    for (side, ports, y) in [
        (true, node.inputs, top),
        (false, node.outputs, top + HEIGHT),
    ] {
        for port in 0..ports {
            triangle(
                out,
                drawing,
                port_x(layout, n, port, ports),
                y,
                (n, port, side),
            );
        }
    }
    let (x, class) = (place.x, escape(&node.class));
    let _ = match node.name.is_empty() {
        true => write!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\">{class}</text>",
            place.y + 4.0
        ),
        false => write!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text><text x=\"{x:.1}\" \
                y=\"{:.1}\">{class}</text>",
            place.y - 3.0,
            escape(&node.name),
            place.y + 10.0
        ),
    };
    *out += "</g>\n";
}

fn triangle(
    out: &mut String,
    drawing: &Drawing,
    x: f64,
    y: f64,
    (node, port, input): (usize, usize, bool),
) {
    let end = (node, port);
    let mine = |l: &&Link| if input { l.to == end } else { l.from == end };
    let Some(link) = drawing.links.iter().find(mine) else {
        return;
    };
    let fill = if link.pull { "white" } else { "black" };
    // Input and output triangles both point down, the direction of packets.
    let top = if input { y - PORT } else { y };
    let (a, b, tip) = (x - PORT, x + PORT, top + PORT);
    let _ = write!(
        out,
        "<path d=\"M{a:.1} {top:.1}H{b:.1}L{x:.1} {tip:.1}Z\" fill=\"{fill}\" stroke=\"black\" stroke-width=\"0.8\"/>"
    );
}

fn legend(out: &mut String, drawing: &Drawing, height: f64) {
    let y = height - 12.0;
    let mut x = GAP;
    *out += "<g text-anchor=\"start\">";
    let mut line = |dash: &str, word: &str| {
        let _ = write!(
            out,
            "<path d=\"M{x:.0} {:.0}h28\" stroke=\"#555\"{dash}/><text x=\"{:.0}\" y=\"{y:.0}\">{word}</text>",
            y - 4.0,
            x + 34.0
        );
        x += 76.0;
    };
    line("", "push");
    line(" stroke-dasharray=\"5 3\"", "pull");
    if drawing.workers > 1 {
        let several = ("#eeeeee", "several workers".to_owned());
        let each = COLOURS.iter().take(drawing.workers).enumerate();
        let each = each.map(|(worker, fill)| (*fill, format!("worker {worker}")));
        for (fill, word) in each.chain([several]) {
            let (top, after) = (y - 10.0, x + 17.0);
            let _ = write!(
                out,
                "<rect x=\"{x:.0}\" y=\"{top:.0}\" width=\"12\" height=\"12\" fill=\"{fill}\" \
                 stroke=\"black\"/><text x=\"{after:.0}\" y=\"{y:.0}\">{word}</text>"
            );
            x += 80.0;
        }
    }
    *out += "</g>\n";
}
