//! Handlers that every element has, and those of the router as a whole, as in Click. They are
//! answered here, from the plan and the counts.

use crate::state::{Control, Failure};
use crate::view;
use engine::plan::{Plan, PlanElement};
use engine::stats::{NodeStats, drop_names};

/// Of every element: name, sentence.
pub const COMMON: [(&str, &str); 7] = [
    ("name", "the element's name"),
    ("class", "its class"),
    ("config", "its configuration string"),
    (
        "handlers",
        "its handlers, and whether they may be read or written",
    ),
    (
        "ports",
        "its ports: push or pull, and packets that passed the outputs",
    ),
    ("packets", "packets that came in, or were pulled from it"),
    ("named_drops", "packets dropped, by name"),
];

/// Of the router: name, sentence.
pub const GLOBAL: [(&str, &str); 4] = [
    ("version", "version of the program"),
    ("list", "the elements: their number, then one name a line"),
    ("config", "the configuration as it was read"),
    (
        "flatconfig",
        "the running elements and connections, compound elements opened",
    ),
];

/// The handlers of an element, those of its class first.
pub(crate) fn list(element: &PlanElement) -> Vec<view::Handler> {
    let own = (element.class.handlers)();
    let common = COMMON
        .iter()
        .filter(|(name, _)| own.iter().all(|h| h.name != *name))
        .map(|(name, doc)| view::Handler {
            name: (*name).to_owned(),
            doc: (*doc).to_owned(),
            read: true,
            write: false,
        });
    own.iter()
        .map(|h| view::Handler {
            name: h.name.to_owned(),
            doc: h.doc.to_owned(),
            read: h.access.readable(),
            write: h.access.writable(),
        })
        .chain(common)
        .collect()
}

/// Reads a handler that no class defines; `None` if there is none of this name.
pub(crate) fn read(control: &Control, path: &str) -> Option<Result<String, Failure>> {
    let plan = control.router.plan();
    let Some((element, handler)) = path.rsplit_once('.') else {
        return global(control, &plan, path).map(Ok);
    };
    let node = plan.find(element)?;
    let about = &plan.elements[node];
    let own = (about.class.handlers)().iter().any(|h| h.name == handler);
    if own || !COMMON.iter().any(|(name, _)| *name == handler) {
        return None;
    }
    Some(common(control, about, handler))
}

fn global(control: &Control, plan: &Plan, name: &str) -> Option<String> {
    let text = match name {
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "list" => {
            let names: Vec<&str> = plan.elements.iter().map(|e| e.name.as_str()).collect();
            format!("{}\n{}", names.len(), names.join("\n"))
        }
        "config" => control.source().text,
        "flatconfig" => flat(plan),
        _ => return None,
    };
    Some(text)
}

fn flat(plan: &Plan) -> String {
    let declared = plan.elements.iter().map(|e| {
        if e.text.is_empty() {
            format!("{} :: {};\n", e.name, e.class.name)
        } else {
            format!("{} :: {}({});\n", e.name, e.class.name, e.text)
        }
    });
    let edges = plan
        .edges
        .iter()
        .map(|e| format!("{};\n", edge_name(plan, e)));
    declared.chain(edges).collect()
}

/// A connection as the language spells it: `a [1] -> [0] b`, zeros left out.
pub(crate) fn edge_name(plan: &Plan, edge: &engine::plan::Edge) -> String {
    let port = |p: usize| {
        if p == 0 {
            String::new()
        } else {
            format!("[{p}]")
        }
    };
    let (from, to) = (&plan.elements[edge.from.0], &plan.elements[edge.to.0]);
    let (output, input) = (port(edge.from.1), port(edge.to.1));
    format!("{}{output} -> {input}{}", from.name, to.name)
}

fn common(control: &Control, about: &PlanElement, handler: &str) -> Result<String, Failure> {
    Ok(match handler {
        "name" => about.name.clone(),
        "class" => about.class.name.to_owned(),
        "config" => about.text.clone(),
        "handlers" => list(about)
            .iter()
            .map(|h| {
                let (r, w) = (
                    if h.read { "r" } else { "" },
                    if h.write { "w" } else { "" },
                );
                format!("{}\t{r}{w}\n", h.name)
            })
            .collect(),
        "ports" => ports(about, &sum(control, &about.name)?),
        "packets" => sum(control, &about.name)?.packets.to_string(),
        _ => {
            let counts = sum(control, &about.name)?;
            let named = drop_names(about).into_iter().zip(counts.drops);
            named
                .filter(|(_, n)| *n > 0)
                .map(|(name, n)| format!("{name}\t{n}\n"))
                .collect()
        }
    })
}

fn sum(control: &Control, element: &str) -> Result<NodeStats, Failure> {
    let (plan, answers) = control.counts()?;
    let mut total = NodeStats::default();
    if let Some(node) = plan.find(element) {
        for answer in &answers {
            total.add(&answer.stats[node]);
        }
    }
    Ok(total)
}

fn ports(about: &PlanElement, counts: &NodeStats) -> String {
    let flow = |pull: bool| if pull { "pull" } else { "push" };
    let mut text = String::new();
    text += &format!("{} inputs\n", about.inputs.len());
    for pull in &about.inputs {
        text += &format!("{}\n", flow(*pull));
    }
    text += &format!("{} outputs\n", about.outputs.len());
    for (port, pull) in about.outputs.iter().enumerate() {
        let sent = counts.sent.get(port).copied().unwrap_or(0);
        text += &format!("{}\t{sent} packets\n", flow(*pull));
    }
    text
}
