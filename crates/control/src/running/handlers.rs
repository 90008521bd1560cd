//! Lists of handlers, and Click's handlers of the router as a whole.

use super::Control;
use crate::compile::describe::edge_name;
use crate::view;
use engine::graph::standard;
use engine::plan::{Plan, PlanElement};

/// Handlers of the router: name and sentence.
pub const GLOBAL: [(&str, &str); 6] = [
    ("version", "version of the program"),
    ("list", "the elements: their number, then one name a line"),
    ("config", "the configuration as it was read"),
    (
        "flatconfig",
        "the running elements and connections, compound elements opened",
    ),
    (
        "netlink",
        "counts of the kernel's messages about links, neighbours and routes",
    ),
    (
        "balance",
        "load of the workers, proposed moves and their reasons; to be set: on, even, off, now, share 10%, \
            interval 100ms, workers 2, workers auto",
    ),
];

/// Handlers of an element, those of its class first.
pub(crate) fn list(plan: &Plan, element: &PlanElement) -> Vec<view::Handler> {
    let own = (element.class.handlers)();
    let mut all: Vec<view::Handler> = Vec::new();
    for handler in own.iter().chain(&standard::list(plan, element)) {
        let (read, write) = (handler.access.readable(), handler.access.writable());
        match all.iter_mut().find(|h| h.name == handler.name) {
            Some(known) => (known.read, known.write) = (known.read || read, known.write || write),
            None => all.push(view::Handler {
                name: handler.name.to_owned(),
                doc: handler.doc.to_owned(),
                read,
                write,
            }),
        }
    }
    all
}

/// Reads a handler of the router; `None` if there is none of this name.
pub(crate) fn global(control: &Control, name: &str) -> Option<String> {
    let plan = &*control.router.plan();
    let text = match name {
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "list" => {
            let names: Vec<&str> = plan.elements.iter().map(|e| e.name.as_str()).collect();
            format!("{}\n{}", names.len(), names.join("\n"))
        }
        "config" => lang::masked(&control.source().text).into_owned(),
        "flatconfig" => flat(plan),
        "netlink" => counts(control),
        _ if is_balance(control, name) => control.balance.show(),
        _ => return None,
    };
    Some(text)
}

/// True if a handler belongs to the balancer: `balance`, or that of an element that steers.
pub(crate) fn is_balance(control: &Control, path: &str) -> bool {
    let plan = control.router.plan();
    let steers = |name: &str| {
        let element = &plan.elements[plan.find(name)?];
        steer::table_of(element).map(|_| ())
    };
    let element = path.strip_suffix(".balance");
    path == "balance" || element.is_some_and(|name| steers(name).is_some())
}

fn counts(control: &Control) -> String {
    let counts = control.kernel_counts();
    let line = |(_, name, _, value): &(_, &str, _, u64)| format!("{name} {value}\n");
    counts.iter().map(line).collect()
}

fn flat(plan: &Plan) -> String {
    let declared = plan.elements.iter().map(|e| {
        if e.text.is_empty() {
            format!("{} :: {};\n", e.name, e.class.name)
        } else {
            let text = lang::masked(&e.text);
            format!("{} :: {}({text});\n", e.name, e.class.name)
        }
    });
    let edges = plan
        .edges
        .iter()
        .map(|e| format!("{};\n", edge_name(plan, e)));
    declared.chain(edges).collect()
}
