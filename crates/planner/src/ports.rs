//! Checks the ports that connections use against the ports of classes and configurations.

use super::{Configured, Options, title};
use engine::element::{Class, Ports};
use engine::placement::ResourcesOfClass;
use lang::{Diagnostic, Router};

/// Maximum number of inputs or outputs that a configuration may request.
const PORTS_MAX: usize = 1024;
/// Maximum number of unused ports that an error lists one by one.
const UNUSED_MAX: usize = 16;

/// Checks the number of inputs and outputs of every element against its class.
pub(super) fn count(
    router: &Router,
    classes: &[Option<&'static Class>],
    configs: &[Configured],
    options: &Options<'_>,
    errors: &mut Vec<Diagnostic>,
) -> Vec<(usize, usize)> {
    let mut used = vec![(Vec::new(), Vec::new()); router.elements.len()];
    for connection in &router.connections {
        mark(&mut used[connection.from.element].1, connection.from.port);
        mark(&mut used[connection.to.element].0, connection.to.port);
    }
    if options.open_inputs {
        for ((inputs, _), class) in used.iter_mut().zip(classes) {
            let names = class.map_or(&[][..], |c| c.ports.inputs);
            inputs.resize(inputs.len().max(Ports::range(names).0), true);
            inputs.iter_mut().for_each(|used| *used = true);
        }
    }
    let mut counts = Vec::new();
    let mut limits = Vec::new();
    for (i, (inputs, outputs)) in used.iter().enumerate() {
        let Some(class) = classes[i] else {
            counts.push((inputs.len(), outputs.len()));
            limits.push((usize::MAX, usize::MAX));
            continue;
        };
        let resources = class.extension::<ResourcesOfClass>();
        let port_count = |class: &ResourcesOfClass| (class.port_count)(&configs[i].config);
        let (least_in, least_out) = resources.map_or((None, None), port_count);
        let element = &router.elements[i];
        let side = |name, names, used, configured| PortSide {
            name,
            names,
            used,
            configured,
            may_skip: !options.as_click,
        };
        let input = side("input", class.ports.inputs, inputs, least_in);
        let output = side("output", class.ports.outputs, outputs, least_out);
        let n_in = check_side(element, &input, errors);
        let n_out = check_side(element, &output, errors);
        counts.push((n_in, n_out));
        limits.push((input.ports_max(), output.ports_max()));
    }
    if options.as_click {
        check_each(router, &limits, errors);
    }
    counts
}

/// Reports connections to ports that do not exist, in the order of connections, as Click does.
fn check_each(router: &Router, limits: &[(usize, usize)], errors: &mut Vec<Diagnostic>) {
    for connection in &router.connections {
        let (to, from) = (connection.to, connection.from);
        for (side, end, most) in [
            ("input", to, limits[to.element].0),
            ("output", from, limits[from.element].1),
        ] {
            if end.port >= most {
                let element = &router.elements[end.element];
                let text = format!("`{}` has no {side} {}", title(element), end.port);
                let error = Diagnostic::error("ports", text).at(element.span);
                errors.push(error.about(title(element), element.span, None));
            }
        }
    }
}

/// True if an element has no other name than its class and number.
fn is_anonymous(element: &lang::Element) -> bool {
    element.span == element.class_span
}

fn mark(used: &mut Vec<bool>, port: usize) {
    if used.len() <= port {
        used.resize(port + 1, false);
    }
    used[port] = true;
}

/// The inputs or the outputs of an element.
struct PortSide<'a> {
    /// `input` or `output`.
    name: &'static str,
    names: &'static [&'static str],
    used: &'a [bool],
    /// Number of ports that the configuration asks for.
    configured: Option<usize>,
    /// True if optional ports below a used one may stay unused, which Click refuses.
    may_skip: bool,
}

impl PortSide<'_> {
    /// Maximum number of ports. `+` stands for exactly as many ports as the configuration requests, `*` for at least
    /// as many.
    fn ports_max(&self) -> usize {
        let (_, most) = Ports::range(self.names);
        self.configured.filter(|_| !self.is_open()).unwrap_or(most)
    }

    fn is_open(&self) -> bool {
        self.names.last().is_some_and(|name| name.ends_with('*'))
    }
}

fn check_side(element: &lang::Element, side: &PortSide<'_>, errors: &mut Vec<Diagnostic>) -> usize {
    let PortSide {
        names,
        used,
        configured,
        may_skip: gaps,
        ..
    } = *side;
    let (least, _) = Ports::range(names);
    let (open, most) = (side.is_open(), side.ports_max());
    let mut wrong = |message: String, help: String| {
        errors.push(
            Diagnostic::error("ports", message)
                .at(element.span)
                .about(title(element), element.span, None)
                .help(help),
        );
    };
    if let Some(n) = configured.filter(|&n| n > PORTS_MAX) {
        wrong(
            format!("`{}` cannot have {n} {}s", title(element), side.name),
            format!("its arguments ask for them; an element has {PORTS_MAX} at most"),
        );
        return used.len();
    }
    let side = side.name;
    let mut unused = 0;
    let plural = |n: usize| {
        if n == 1 {
            format!("1 {side}")
        } else {
            format!("{n} {side}s")
        }
    };
    // With Click's order of messages each connection is reported on its own.
    if used.len() > most && gaps {
        let which = used.len() - 1;
        wrong(
            format!("`{}` has no {side} {which}", title(element)),
            format!(
                "it has {}: remove the connection at {side} {which}, or see `ashlar doc {}`",
                plural(most),
                element.class
            ),
        );
    }
    let count = used
        .len()
        .max(configured.unwrap_or(least))
        .max(names.len().min(if most == usize::MAX {
            least
        } else {
            names.len()
        }));
    for port in 0..count.min(most) {
        let free = (gaps || port >= used.len())
            && Ports::optional(names, port)
            && (configured.is_none_or(|n| open && port >= n)
                || names.get(port).is_some_and(|n| n.ends_with('?')));
        if !used.get(port).copied().unwrap_or(false) && !free {
            unused += 1;
            if unused > UNUSED_MAX {
                continue;
            }
            let name = Ports::port_name(names, port);
            // An anonymous element can be named only by its position in the text.
            let (own, first) = match is_anonymous(element) {
                true => {
                    let own = element.class.to_lowercase();
                    let first = format!("give it a name, `{own} :: {}`, and ", element.class);
                    (own, first)
                }
                false => (element.name.clone(), String::new()),
            };
            let help = if side == "output" {
                format!(
                    "{first}connect it: `{own}[{port}] -> Discard` throws the packets away by name"
                )
            } else {
                format!("{first}connect it: `Idle -> [{port}]{own}` says that nothing comes there")
            };
            wrong(
                format!("`{}` {side} {port} unused", title(element)),
                format!("{name} is not connected; {help}"),
            );
        }
    }
    if unused > UNUSED_MAX {
        let more = plural(unused - UNUSED_MAX);
        wrong(
            format!("`{}` has {more} more that are unused", title(element)),
            "number the ports that are connected from 0 without gaps".to_owned(),
        );
    }
    // Connections beyond the last port were refused above; they still need an index.
    count.min(most).max(used.len())
}
