//! The graph of a plan as a drawing.

pub(crate) mod dot;
mod layers;
mod layout;
pub(crate) mod svg;

use engine::plan::Plan;
use std::collections::HashMap;

/// Content of a drawing.
pub(crate) struct Drawing {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    /// Compounds; the first is the whole router. Each comes after the one around it.
    pub(crate) frames: Vec<Frame>,
    pub(crate) workers: usize,
}

/// A compound element: the elements whose names begin with its name.
pub(crate) struct Frame {
    /// Name in the frame around it.
    pub(crate) name: String,
    /// The frame around it; that of the whole router is itself.
    pub(crate) parent: usize,
}

/// An element.
pub(crate) struct Node {
    /// Name in its frame; empty if the element is anonymous.
    pub(crate) name: String,
    pub(crate) class: String,
    /// Configuration, shortened.
    pub(crate) text: String,
    /// The frame directly around it.
    pub(crate) frame: usize,
    /// Workers that have a copy of the element.
    pub(crate) workers: Vec<usize>,
    /// True if the element is drawn as a queue: pushed into, pulled from.
    pub(crate) queue: bool,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// A connection.
pub(crate) struct Link {
    pub(crate) from: (usize, usize),
    pub(crate) to: (usize, usize),
    pub(crate) pull: bool,
}

/// Maximum length of a configuration shown, in characters.
const CONFIG_MAX: usize = 22;

impl Drawing {
    pub(crate) fn of(plan: &Plan) -> Drawing {
        let mut frames = Frames::new();
        let node = |e: &engine::plan::PlanElement| {
            let (path, name) = e.name.rsplit_once('/').unwrap_or(("", &e.name));
            Node {
                name: if name.contains('@') { "" } else { name }.to_owned(),
                class: e.class.name.to_owned(),
                text: shorten(&e.text.split_whitespace().collect::<Vec<_>>().join(" ")),
                frame: frames.of(path),
                workers: e.workers.clone(),
                queue: e.inputs.contains(&false) && e.outputs.contains(&true),
                inputs: e.inputs.len(),
                outputs: e.outputs.len(),
            }
        };
        let link = |e: &engine::plan::Edge| Link {
            from: e.from,
            to: e.to,
            pull: e.pull,
        };
        Drawing {
            nodes: plan.elements.iter().map(node).collect(),
            links: plan.edges.iter().map(link).collect(),
            frames: frames.all,
            workers: plan.workers,
        }
    }
}

/// Frames by their path of names.
struct Frames {
    all: Vec<Frame>,
    by_path: HashMap<String, usize>,
}

impl Frames {
    fn new() -> Frames {
        let whole = Frame {
            name: String::new(),
            parent: 0,
        };
        Frames {
            all: vec![whole],
            by_path: HashMap::from([(String::new(), 0)]),
        }
    }

    /// The frame of a path such as `a/b`, which is added with those around it if it is new.
    fn of(&mut self, path: &str) -> usize {
        if let Some(&known) = self.by_path.get(path) {
            return known;
        }
        let (around, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.of(around);
        self.all.push(Frame {
            name: if name.contains('@') { "" } else { name }.to_owned(),
            parent,
        });
        self.by_path.insert(path.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= CONFIG_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(CONFIG_MAX - 1).collect();
    format!("{}…", cut.trim_end())
}

/// Fill colours of workers; they repeat.
const COLOURS: [&str; 8] = [
    "#cfe3f7", "#fbe0b5", "#d4efcf", "#f3d0dd", "#e0d8f3", "#f4efb0", "#c9eeee", "#ead9c6",
];

/// Fill colour of an element: its worker's, or grey if several workers have copies.
fn colour(node: &Node) -> &'static str {
    match node.workers[..] {
        [worker] => COLOURS[worker % COLOURS.len()],
        _ => "#eeeeee",
    }
}

/// `worker 0`, `workers 0, 1`, nothing where there is one worker only.
fn workers_text(node: &Node, workers: usize) -> Option<String> {
    let list: Vec<String> = node.workers.iter().map(usize::to_string).collect();
    let word = if list.len() == 1 { "worker" } else { "workers" };
    (workers > 1).then(|| format!("{word} {}", list.join(", ")))
}
