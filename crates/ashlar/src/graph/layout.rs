//! Positions of elements, frames and connections. Each frame is laid out by itself, innermost first, and is then one
//! item of the frame around it. A connection crosses a frame's border at a gate; connections to the same input share
//! one gate.

use super::layers::{Arranged, Border, End, GAP, Item, Segment, arrange};
use super::{Drawing, Node};
use std::collections::{HashMap, HashSet};

/// Margin inside a frame, and above it for the title.
const MARGIN: f64 = 14.0;
const TITLE: f64 = 16.0;

/// A rectangle: left, top, width and height.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A connection, or the part of one that is inside one frame.
pub(super) struct Line {
    pub(super) legs: Vec<Segment>,
    pub(super) pull: bool,
}

/// Positions of everything in a drawing.
pub(super) struct Layout {
    pub(super) nodes: Vec<Area>,
    /// Frames by number; that of the whole router is the whole drawing.
    pub(super) frames: Vec<Area>,
    pub(super) lines: Vec<Line>,
}

/// Distance of a port from the left side of its element.
pub(super) fn port_x(width: f64, port: usize, ports: usize) -> f64 {
    width * (port as f64 + 0.5) / ports.max(1) as f64
}

/// A gate of a frame: the border, and the input to which its connections lead.
type Gate = (Border, (usize, usize));

/// An end of a connection in one frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stop {
    /// Element and port.
    Port(usize, usize),
    /// A frame inside this one, and its gate.
    Inner(usize, Gate),
    /// A gate of this frame itself.
    Own(Gate),
}

/// Connections in one frame: their ends, and true for pull.
type Inside = Vec<(Stop, Stop, bool)>;

/// Lays out a drawing; `sizes` are width and height of its elements.
pub(super) fn layout(drawing: &Drawing, sizes: &[(f64, f64)]) -> Layout {
    let inside = split(drawing);
    let mut work = Work {
        drawing,
        sizes,
        nodes: vec![Area::default(); drawing.nodes.len()],
        frames: vec![Area::default(); drawing.frames.len()],
        gates: vec![HashMap::new(); drawing.frames.len()],
        begins: vec![false; drawing.frames.len()],
        lines: drawing.frames.iter().map(|_| Vec::new()).collect(),
    };
    for (n, node) in drawing.nodes.iter().enumerate() {
        if node.inputs == 0 && node.outputs > 0 {
            enclosing_frames(drawing, n)
                .into_iter()
                .for_each(|frame| work.begins[frame] = true);
        }
    }
    // A frame's number is higher than that of the frame around it.
    for frame in (0..drawing.frames.len()).rev() {
        work.frame(frame, &inside[frame]);
    }
    work.place()
}

/// The frames around an element, from its own to the whole router.
fn enclosing_frames(drawing: &Drawing, node: usize) -> Vec<usize> {
    let parent = |&frame: &usize| (frame > 0).then(|| drawing.frames[frame].parent);
    std::iter::successors(Some(drawing.nodes[node].frame), parent).collect()
}

/// Divides connections into their parts in each frame.
fn split(drawing: &Drawing) -> Vec<Inside> {
    let mut inside: Vec<Inside> = vec![Vec::new(); drawing.frames.len()];
    let mut seen = HashSet::new();
    for link in &drawing.links {
        let (out, into) = (
            enclosing_frames(drawing, link.from.0),
            enclosing_frames(drawing, link.to.0),
        );
        let common = out.iter().find(|frame| into.contains(frame));
        let common = *common.expect("the whole router is around all");
        let mut add = |frame: usize, from: Stop, to: Stop| {
            let part = (from, to, link.pull);
            if seen.insert((frame, part)) {
                inside[frame].push(part);
            }
        };
        let mut from = Stop::Port(link.from.0, link.from.1);
        for &frame in out.iter().take_while(|&&frame| frame != common) {
            let gate = (Border::Bottom, link.to);
            add(frame, from, Stop::Own(gate));
            from = Stop::Inner(frame, gate);
        }
        let mut to = Stop::Port(link.to.0, link.to.1);
        for &frame in into.iter().take_while(|&&frame| frame != common) {
            let gate = (Border::Top, link.to);
            add(frame, Stop::Own(gate), to);
            to = Stop::Inner(frame, gate);
        }
        add(common, from, to);
    }
    inside
}

struct Work<'a> {
    drawing: &'a Drawing,
    sizes: &'a [(f64, f64)],
    /// Areas inside the frame around, until all are placed.
    nodes: Vec<Area>,
    frames: Vec<Area>,
    /// For each frame, how far its gates are from its left side.
    gates: Vec<HashMap<Gate, f64>>,
    /// True for each frame that contains a source: an element with outputs only.
    begins: Vec<bool>,
    /// Parts of connections in each frame.
    lines: Vec<Vec<Line>>,
}

/// Kinds of items of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Node(usize),
    Frame(usize),
    Gate(Gate),
}

impl Work<'_> {
    /// Lays out the content of a frame.
    fn frame(&mut self, frame: usize, inside: &Inside) {
        let (items, loose) = self.items(frame, inside);
        let number: HashMap<Of, usize> = items.iter().enumerate().map(|(n, &of)| (of, n)).collect();
        let sized: Vec<Item> = items.iter().map(|&of| self.item(of)).collect();
        let end = |stop: Stop, output: bool| -> End {
            match stop {
                Stop::Port(node, port) => {
                    let ports = self.ports(node, output);
                    (
                        number[&Of::Node(node)],
                        port_x(self.sizes[node].0, port, ports),
                    )
                }
                Stop::Inner(inner, gate) => (number[&Of::Frame(inner)], self.gates[inner][&gate]),
                Stop::Own(gate) => (number[&Of::Gate(gate)], 0.0),
            }
        };
        let connections: Vec<(End, End)> = inside
            .iter()
            .map(|&(from, to, _)| (end(from, true), end(to, false)))
            .collect();
        let arranged = arrange(&sized, &connections);
        self.place_items(frame, &items, &loose, &arranged);
        let ((left, top), height) = (self.inset(frame), self.frames[frame].height);
        self.lines[frame] = arranged
            .routes
            .into_iter()
            .zip(inside)
            .map(|(legs, &(from, to, pull))| {
                let mut legs: Vec<Segment> = legs.iter().map(|leg| leg.moved(left, top)).collect();
                // Gates are at the border itself.
                if let (Stop::Own(_), Some(leg)) = (from, legs.first_mut()) {
                    leg.from = 0.0;
                }
                if let (Stop::Own(_), Some(leg)) = (to, legs.last_mut()) {
                    leg.to = height;
                }
                Line { legs, pull }
            })
            .collect();
    }

    fn ports(&self, node: usize, output: bool) -> usize {
        let Node {
            inputs, outputs, ..
        } = self.drawing.nodes[node];
        if output { outputs } else { inputs }
    }

    /// The connected items of a frame in the order of the configuration, and the others.
    fn items(&self, frame: usize, inside: &Inside) -> (Vec<Of>, Vec<Of>) {
        let mut gates = Vec::new();
        let mut connected = HashSet::new();
        for &(from, to, _) in inside {
            for stop in [from, to] {
                let of = match stop {
                    Stop::Port(node, _) => Of::Node(node),
                    Stop::Inner(inner, _) => Of::Frame(inner),
                    Stop::Own(gate) => Of::Gate(gate),
                };
                if connected.insert(of) && matches!(of, Of::Gate(_)) {
                    gates.push(of);
                }
            }
        }
        let nodes = self.drawing.nodes.iter().enumerate();
        let nodes = nodes
            .filter(|(_, node)| node.frame == frame)
            .map(|(n, _)| Of::Node(n));
        let frames = self.drawing.frames.iter().enumerate().skip(1);
        let frames = frames
            .filter(|(_, inner)| inner.parent == frame)
            .map(|(n, _)| Of::Frame(n));
        let (mut items, loose): (Vec<Of>, Vec<Of>) =
            nodes.chain(frames).partition(|of| connected.contains(of));
        items.extend(gates);
        (items, loose)
    }

    fn item(&self, item: Of) -> Item {
        let ((width, height), border, begins) = match item {
            Of::Node(node) => (self.sizes[node], None, false),
            Of::Frame(inner) => {
                let Area { width, height, .. } = self.frames[inner];
                ((width, height), None, self.begins[inner])
            }
            Of::Gate((border, _)) => ((0.0, 0.0), Some(border), false),
        };
        Item {
            width,
            height,
            border,
            begins,
        }
    }

    /// Left and top of a frame's content.
    fn inset(&self, frame: usize) -> (f64, f64) {
        if frame == 0 {
            (MARGIN, MARGIN)
        } else {
            (MARGIN, TITLE)
        }
    }

    /// Places items as arranged, unconnected ones in rows below, and the frame around them.
    fn place_items(&mut self, frame: usize, items: &[Of], loose: &[Of], arranged: &Arranged) {
        let (left, top) = self.inset(frame);
        for (&of, &(x, y)) in items.iter().zip(&arranged.items) {
            self.put(frame, of, x + left, y + top);
        }
        let (mut width, mut height) = (arranged.width, arranged.height);
        let room = width.max(400.0);
        let (mut x, mut y, mut row) = (0.0, if height > 0.0 { height + GAP } else { 0.0 }, 0.0_f64);
        for &of in loose {
            let item = self.item(of);
            if x > 0.0 && x + item.width > room {
                (x, y, row) = (0.0, y + row + GAP, 0.0);
            }
            self.put(frame, of, x + left, y + top);
            (width, row) = (width.max(x + item.width), row.max(item.height));
            (x, height) = (x + item.width + GAP, height.max(y + row));
        }
        self.frames[frame] = Area {
            x: 0.0,
            y: 0.0,
            width: width + 2.0 * MARGIN,
            height: height + top + MARGIN,
        };
    }

    fn put(&mut self, frame: usize, item: Of, x: f64, y: f64) {
        let area = match item {
            Of::Node(node) => &mut self.nodes[node],
            Of::Frame(inner) => &mut self.frames[inner],
            Of::Gate(gate) => {
                self.gates[frame].insert(gate, x);
                return;
            }
        };
        (area.x, area.y) = (x, y);
        if let Of::Node(node) = item {
            (area.width, area.height) = self.sizes[node];
        }
    }

    /// Converts coordinates relative to frames into coordinates of the drawing.
    fn place(mut self) -> Layout {
        for frame in 1..self.frames.len() {
            let around = self.frames[self.drawing.frames[frame].parent];
            self.frames[frame].x += around.x;
            self.frames[frame].y += around.y;
        }
        for (area, node) in self.nodes.iter_mut().zip(&self.drawing.nodes) {
            area.x += self.frames[node.frame].x;
            area.y += self.frames[node.frame].y;
        }
        let frames = &self.frames;
        let moved = |(frame, lines): (usize, Vec<Line>)| {
            lines.into_iter().map(move |line| Line {
                legs: line
                    .legs
                    .iter()
                    .map(|leg| leg.moved(frames[frame].x, frames[frame].y))
                    .collect(),
                ..line
            })
        };
        let lines = self.lines.into_iter().enumerate().flat_map(moved).collect();
        Layout {
            nodes: self.nodes,
            frames: self.frames,
            lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Frame, Link};
    use super::*;

    fn node(frame: usize, inputs: usize, outputs: usize) -> Node {
        Node {
            name: String::new(),
            class: String::new(),
            text: String::new(),
            frame,
            workers: vec![0],
            queue: false,
            inputs,
            outputs,
        }
    }

    fn frame(parent: usize) -> Frame {
        Frame {
            name: String::new(),
            parent,
        }
    }

    /// A source in two frames, a sink outside, a way back into the outer frame, and an element without connections.
    fn drawing() -> Drawing {
        let link = |from, to| Link {
            from,
            to,
            pull: false,
        };
        Drawing {
            nodes: vec![node(2, 0, 1), node(0, 1, 1), node(1, 1, 0), node(1, 0, 0)],
            links: vec![link((0, 0), (1, 0)), link((1, 0), (2, 0))],
            frames: vec![frame(0), frame(0), frame(1)],
            workers: 1,
        }
    }

    fn within(inner: Area, outer: Area) -> bool {
        inner.x >= outer.x
            && inner.y >= outer.y
            && inner.x + inner.width <= outer.x + outer.width
            && inner.y + inner.height <= outer.y + outer.height
    }

    #[test]
    fn frames_are_around_their_elements_and_no_others() {
        let layout = layout(&drawing(), &[(50.0, 20.0); 4]);
        let (nodes, frames) = (&layout.nodes, &layout.frames);
        assert!(within(frames[1], frames[0]) && within(frames[2], frames[1]));
        assert!(
            within(nodes[0], frames[2])
                && within(nodes[2], frames[1])
                && within(nodes[3], frames[1])
        );
        let outer = frames[1];
        assert!(
            nodes[1].y > outer.y + outer.height,
            "{:?} {outer:?}",
            nodes[1]
        );
    }

    #[test]
    fn the_parts_of_a_connection_meet_at_the_borders_of_frames() {
        let layout = layout(&drawing(), &[(50.0, 20.0); 4]);
        let ends: Vec<(f64, f64)> = layout
            .lines
            .iter()
            .map(|line| {
                let leg = line.legs[line.legs.len() - 1];
                (leg.x, leg.to)
            })
            .collect();
        let begins: Vec<(f64, f64)> = layout
            .lines
            .iter()
            .map(|line| (line.legs[0].x, line.legs[0].from))
            .collect();
        // Two borders on the way out, one on the way in.
        assert_eq!(layout.lines.len(), 5);
        let near =
            |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).abs() < 0.01 && (a.1 - b.1).abs() < 0.01;
        assert_eq!(
            ends.iter()
                .filter(|end| begins.iter().any(|begin| near(begin, end)))
                .count(),
            3
        );
    }

    #[test]
    fn connections_to_one_input_share_a_gate() {
        let mut drawing = drawing();
        drawing.nodes.push(node(2, 0, 1));
        let link = Link {
            from: (4, 0),
            to: (1, 0),
            pull: false,
        };
        drawing.links.push(link);
        let layout = layout(&drawing, &[(50.0, 20.0); 5]);
        assert_eq!(
            layout.lines.len(),
            6,
            "the new one is drawn in the inner frame only"
        );
    }
}
