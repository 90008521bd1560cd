//! Handlers that every element has (name, class, configuration, ports), and those of tasks.

use crate::contract::Runs;
use crate::graph::{Core, DriverOfClass, ExternalOfClass};
use crate::handler_info::{Access, HandlerInfo};
use crate::plan::{Edge, Plan, PlanElement};
use crate::ports::Flow;
use crate::stats::{NodeStats, drop_names};
use std::fmt::Write;

const fn read_only(name: &'static str, doc: &'static str) -> HandlerInfo {
    HandlerInfo {
        name,
        doc,
        access: Access::Text,
        inner: false,
        argument: false,
    }
}

/// Handlers of every element.
pub const COMMON: [HandlerInfo; 7] = [
    read_only("name", "the element's name"),
    read_only("class", "its class"),
    read_only("config", "its configuration string"),
    read_only(
        "ports",
        "its ports: push or pull, packets that passed the outputs, and what they lead to",
    ),
    read_only(
        "handlers",
        "its handlers, each with r if it can be read and w if it can be written",
    ),
    read_only("packets", "packets that came in, or were pulled from it"),
    read_only("named_drops", "packets dropped, by name"),
];

/// Further handlers of elements with a task.
pub const TASK: [HandlerInfo; 4] = [
    read_only("scheduled", "true if its task is ready to run"),
    read_only("tickets", "its task's share of the worker's time"),
    HandlerInfo {
        name: "tickets",
        doc: "its task's share of the worker's time",
        access: Access::Set,
        inner: false,
        argument: false,
    },
    read_only("home_thread", "the worker that runs its task"),
];

/// Handler of elements that can be reconfigured while the router runs.
const RECONFIGURE: [HandlerInfo; 1] = [HandlerInfo {
    name: "config",
    doc: "gives it another configuration",
    access: Access::Set,
    inner: false,
    argument: false,
}];

/// True if an element can be reconfigured while the router runs. Excluded are elements without ports, which describe
/// others or drive the router, and elements with a device or descriptor, which they would lose.
pub(super) fn may_be_reconfigured(plan: &Plan, element: &PlanElement) -> bool {
    let class = element.class;
    let has_ports = !(element.inputs.is_empty() && element.outputs.is_empty());
    plan.as_click
        && has_ports
        && class.extension::<ExternalOfClass>().is_none()
        && class.extension::<DriverOfClass>().is_none()
        && element.device().is_none()
}

/// The standard handlers of an element that its class does not replace.
pub fn list(plan: &Plan, element: &PlanElement) -> Vec<HandlerInfo> {
    let config: &[HandlerInfo] = match may_be_reconfigured(plan, element) {
        true => &RECONFIGURE,
        false => &[],
    };
    let own = (element.class.handlers)();
    let task: &[HandlerInfo] = match element.runs {
        Runs::OnPackets => &[],
        _ => &TASK,
    };
    let replaced = |h: &HandlerInfo| own.iter().any(|o| o.name == h.name);
    let all = COMMON.iter().chain(config).chain(task).copied();
    all.filter(|h| !replaced(h)).collect()
}

/// True if the handler belongs to a task, so that every worker must be asked.
pub fn is_of_task(name: &str) -> bool {
    TASK.iter().any(|h| h.name == name)
}

/// Value of a standard handler, from the counters of all copies.
pub fn text(plan: &Plan, node: usize, name: &str, counts: &NodeStats) -> String {
    let about = &plan.elements[node];
    match name {
        "name" => about.name.clone(),
        "class" => about.class.name.to_owned(),
        "config" => lang::masked(&about.text).into_owned(),
        "handlers" => handlers(plan, about),
        "ports" => ports(plan, node, counts),
        "packets" => counts.packets.to_string(),
        "named_drops" => {
            let named = drop_names(about).into_iter().zip(&counts.drops);
            let some = named.filter(|(_, n)| **n > 0);
            some.map(|(name, n)| format!("{name}\t{n}\n")).collect()
        }
        _ => String::new(),
    }
}

/// Reads a standard handler of this worker's copy.
pub(crate) fn read(core: &Core, node: usize, name: &str) -> String {
    match (name, core.tasks.iter().find(|t| t.node == node)) {
        ("scheduled", task) => task.is_some_and(|t| t.is_ready()).to_string(),
        ("tickets", task) => task.map_or(0, |t| t.tickets()).to_string(),
        ("config", _) if core.texts.contains_key(&node) => {
            lang::masked(&core.texts[&node]).into_owned()
        }
        ("home_thread", _) => core.plan.elements[node].task_worker.to_string(),
        _ => text(&core.plan, node, name, &core.stats[node]),
    }
}

/// Writes a standard handler of this worker's copy.
pub(crate) fn write(
    core: &mut Core,
    node: usize,
    name: &str,
    value: &str,
) -> Result<String, String> {
    let task = core.tasks.iter_mut().find(|t| t.node == node);
    match (name, task) {
        ("tickets", Some(task)) => {
            task.set_tickets(arguments::units::parse_in(value, 1..=1 << 15)?);
            Ok(String::new())
        }
        _ => Err(format!("`{name}` can only be read")),
    }
}

/// List of handlers, one line for each name, with `r`, `w` or both.
fn handlers(plan: &Plan, about: &PlanElement) -> String {
    let mut lines: Vec<(&str, bool, bool)> = Vec::new();
    let own = (about.class.handlers)();
    for handler in list(plan, about).iter().chain(&own) {
        let (read, write) = (handler.access.readable(), handler.access.writable());
        match lines.iter_mut().find(|(name, ..)| *name == handler.name) {
            Some(line) => (line.1, line.2) = (line.1 || read, line.2 || write),
            None => lines.push((handler.name, read, write)),
        }
    }
    let mark = |on: bool, letter| if on { letter } else { "" };
    let line =
        |(name, r, w): (&str, bool, bool)| format!("{name}\t{}{}\n", mark(r, "r"), mark(w, "w"));
    lines.into_iter().map(line).collect()
}

/// Ports in Click's format: processing, packets, and the ports at the other ends. Unconnected optional ports at the end
/// are left out.
fn ports(plan: &Plan, node: usize, counts: &NodeStats) -> String {
    let about = &plan.elements[node];
    let ends = |port, of: fn(&Edge) -> (End, End)| -> Vec<(&str, usize)> {
        let here = plan.edges.iter().map(of);
        here.filter(|(near, _)| *near == (node, port))
            .map(|(_, (far, at))| (&*plan.elements[far].name, at))
            .collect()
    };
    let mut text = String::new();
    let mut side = |what: &str, flows: &[bool], of: fn(&Edge) -> (End, End), sent: &[u64]| {
        let mut each: Vec<Vec<(&str, usize)>> =
            (0..flows.len()).map(|port| ends(port, of)).collect();
        while each.last().is_some_and(Vec::is_empty) {
            each.pop();
        }
        let is_input = what == "input";
        let _ = writeln!(text, "{}", lang::count(each.len(), what));
        for (port, ends) in each.iter().enumerate() {
            let flow = if flows[port] { "pull" } else { "push" };
            let of_class = match is_input {
                true => about.class.ports.input_flow(port),
                false => about.class.ports.output_flow(port),
            };
            // Click's mark of an agnostic port.
            let mark = if of_class == Flow::Agnostic { "~" } else { "" };
            let passed = sent.get(port).map_or("-".to_owned(), u64::to_string);
            let end = |(far, at): &(&str, usize)| match is_input {
                true => format!("{far} [{at}]"),
                false => format!("[{at}] {far}"),
            };
            let ends: Vec<String> = ends.iter().map(end).collect();
            let _ = writeln!(text, "{flow}{mark}\t{passed}\t{}", ends.join(", "));
        }
    };
    side("input", &about.inputs, |e| (e.to, e.from), &[]);
    side("output", &about.outputs, |e| (e.from, e.to), &counts.sent);
    text
}

/// Element and port.
type End = (usize, usize);
