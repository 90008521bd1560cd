//! A drawing as SVG. As in drawings of Click, push ports are black and pull ports white, and a queue has bars. A
//! compound element is a frame.

use super::layers::{LAYER_GAP, Segment};
use super::layout::{Area, Layout, Line, layout, port_x};
use super::{COLOURS, Drawing, Frame, Link, Node, colour, workers_text};
use std::fmt::Write;

/// Width of a character of the small and of the bold font, generously.
const CHARACTER_WIDTH: f64 = 5.6;
const BOLD_LETTER: f64 = 6.8;
const LINE: f64 = 12.0;
const PORT: f64 = 4.0;
/// Distance of a queue's bars.
const BAR: f64 = 5.0;
const LEGEND: f64 = 30.0;
/// Distance by which a back edge extends beyond its end before it turns.
const BEND_LENGTH: f64 = LAYER_GAP / 2.0;
/// Fill of frames; they lie on each other, so inner ones are darker.
const FRAME_FILL: &str = "fill=\"#456\" fill-opacity=\"0.06\" stroke=\"#888\"";

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

/// Lines of text in an element: its name in bold, its class, its configuration.
fn lines(node: &Node) -> impl Iterator<Item = (&str, bool)> {
    let all = [
        (node.name.as_str(), true),
        (&node.class, node.name.is_empty()),
        (&node.text, false),
    ];
    all.into_iter().filter(|(text, _)| !text.is_empty())
}

/// Width and height of an element.
fn size(node: &Node) -> (f64, f64) {
    let letter = |bold: bool| if bold { BOLD_LETTER } else { CHARACTER_WIDTH };
    let text = lines(node).map(|(text, bold)| text.chars().count() as f64 * letter(bold) + 10.0);
    let ports = node.inputs.max(node.outputs) as f64 * 4.0 * PORT;
    let bars = if node.queue { 8.0 * BAR } else { 0.0 };
    let height = lines(node).count() as f64 * LINE + 8.0;
    (text.fold(ports.max(30.0), f64::max) + bars, height)
}

/// The drawing as a file of its own.
pub(crate) fn render(drawing: &Drawing) -> String {
    let sizes: Vec<(f64, f64)> = drawing.nodes.iter().map(size).collect();
    let layout = layout(drawing, &sizes);
    let whole = layout.frames[0];
    let swatches = drawing.workers.min(COLOURS.len()) as f64 * 80.0 + 320.0;
    let (w, h) = (whole.width.max(swatches), whole.height + LEGEND);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.0} {h:.0}\" \
         font-family=\"sans-serif\" font-size=\"10\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (frame, area) in drawing.frames.iter().zip(&layout.frames).skip(1) {
        compound(&mut out, frame, *area);
    }
    for line in &layout.lines {
        connection(&mut out, line);
    }
    for (n, node) in drawing.nodes.iter().enumerate() {
        element(&mut out, drawing, &layout, n, node);
    }
    legend(&mut out, drawing, h);
    out += "</svg>\n";
    out
}

fn compound(out: &mut String, frame: &Frame, area: Area) {
    let Area {
        x,
        y,
        width,
        height,
    } = area;
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\" {FRAME_FILL}/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-weight=\"bold\" fill=\"#456\" text-anchor=\"start\">{}</text>",
        x + 6.0,
        y + 12.0,
        escape(&frame.name)
    );
}

fn connection(out: &mut String, line: &Line) {
    let mut path = String::new();
    for (n, leg) in line.legs.iter().enumerate() {
        match n.checked_sub(1).map(|before| &line.legs[before]) {
            None => {
                let _ = write!(path, "M{:.1} {:.1}", leg.x, leg.from);
            }
            Some(before) => curve(&mut path, before, leg),
        }
        if leg.from != leg.to {
            let _ = write!(path, "V{:.1}", leg.to);
        }
    }
    let dash = if line.pull {
        " stroke-dasharray=\"5 3\""
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#555\"{dash}/>"
    );
}

/// A curve from the end of a leg to the beginning of the next, upright at both.
fn curve(path: &mut String, before: &Segment, after: &Segment) {
    let (start, end) = (before.to, after.from);
    if before.x == after.x && start == end {
        return;
    }
    let reach = ((end - start).abs() / 2.0).max(BEND_LENGTH);
    let direction = |leg: &Segment| if leg.to < leg.from { -1.0 } else { 1.0 };
    let _ = write!(
        path,
        "C{:.1} {:.1} {:.1} {:.1} {:.1} {end:.1}",
        before.x,
        start + direction(before) * reach,
        after.x,
        end - direction(after) * reach,
        after.x
    );
}

fn element(out: &mut String, drawing: &Drawing, layout: &Layout, n: usize, node: &Node) {
    let Area {
        x,
        y,
        width,
        height,
    } = layout.nodes[n];
    let fill = colour(node);
    *out += "<g>";
    if let Some(whose) = workers_text(node, drawing.workers) {
        let _ = write!(out, "<title>{}</title>", escape(&whose));
    }
    let _ = write!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{fill}\" stroke=\"black\"/>"
    );
    if node.queue {
        for bar in 1..4 {
            let x = x + width - f64::from(bar) * BAR;
            let _ = write!(
                out,
                "<path d=\"M{x:.1} {y:.1}v{height}\" stroke=\"black\"/>"
            );
        }
    }
    for (input, ports) in [(true, node.inputs), (false, node.outputs)] {
        for port in 0..ports {
            let x = x + port_x(width, port, ports);
            port_of(
                out,
                drawing,
                (n, port, input),
                ports,
                (x, if input { y } else { y + height }),
            );
        }
    }
    let middle = x + width / 2.0;
    for (at, (text, bold)) in lines(node).enumerate() {
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let _ = write!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\"{weight}>{}</text>",
            y + 13.0 + at as f64 * LINE,
            escape(text)
        );
    }
    *out += "</g>\n";
}

/// A port as a triangle, which points in the direction of packets, and its number if there are several.
fn port_of(
    out: &mut String,
    drawing: &Drawing,
    (node, port, input): (usize, usize, bool),
    ports: usize,
    (x, y): (f64, f64),
) {
    let mine = |l: &&Link| {
        if input {
            l.to == (node, port)
        } else {
            l.from == (node, port)
        }
    };
    let Some(link) = drawing.links.iter().find(mine) else {
        return;
    };
    let fill = if link.pull { "white" } else { "black" };
    let top = if input { y - PORT } else { y };
    let (a, b, tip) = (x - PORT, x + PORT, top + PORT);
    let _ = write!(
        out,
        "<path d=\"M{a:.1} {top:.1}H{b:.1}L{x:.1} {tip:.1}Z\" fill=\"{fill}\" stroke=\"black\" stroke-width=\"0.8\"/>"
    );
    if ports > 1 {
        let y = if input { y - 5.0 } else { y + 10.0 };
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"7\" fill=\"#555\" text-anchor=\"start\">{port}</text>",
            x + PORT
        );
    }
}

fn legend(out: &mut String, drawing: &Drawing, height: f64) {
    let y = height - 12.0;
    let mut x = 24.0;
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
