//! The graph of a plan as a drawing.

pub(crate) mod dot;
mod layout;
pub(crate) mod svg;

use engine::plan::Plan;

/// Content of a drawing.
pub(crate) struct Drawing {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) workers: usize,
}

/// An element.
pub(crate) struct Node {
    /// Name; empty if the element is anonymous.
    pub(crate) name: String,
    /// Class and configuration, shortened.
    pub(crate) class: String,
    /// Workers with a copy.
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
const CONFIG_MAX: usize = 28;

impl Drawing {
    pub(crate) fn of(plan: &Plan) -> Drawing {
        let node = |e: &engine::plan::PlanElement| Node {
            name: if e.name.contains('@') {
                String::new()
            } else {
                e.name.clone()
            },
            class: match e.text.split_whitespace().collect::<Vec<_>>().join(" ") {
                text if text.is_empty() => e.class.name.to_owned(),
                text => format!("{}({})", e.class.name, shorten(&text)),
            },
            workers: e.workers.clone(),
            queue: e.inputs.contains(&false) && e.outputs.contains(&true),
            inputs: e.inputs.len(),
            outputs: e.outputs.len(),
        };
        let link = |e: &engine::plan::Edge| Link {
            from: e.from,
            to: e.to,
            pull: e.pull,
        };
        Drawing {
            nodes: plan.elements.iter().map(node).collect(),
            links: plan.edges.iter().map(link).collect(),
            workers: plan.workers,
        }
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

/// The colour of an element: its worker's, or grey where several have copies.
fn colour(node: &Node) -> &'static str {
    match node.workers[..] {
        [worker] => COLOURS[worker % COLOURS.len()],
        _ => "#eeeeee",
    }
}

/// `worker 0`, `workers 0, 1`, nothing where there is one worker only.
fn whose(node: &Node, workers: usize) -> Option<String> {
    let list: Vec<String> = node.workers.iter().map(usize::to_string).collect();
    let word = if list.len() == 1 { "worker" } else { "workers" };
    (workers > 1).then(|| format!("{word} {}", list.join(", ")))
}
