//! Chains of connections: resolves which port is connected to which.

use crate::ast::{Arrow, Chain, Item, ItemKind, Ports};
use crate::diagnostic::{Diagnostic, count};
use crate::name_resolution::{Builder, LINKS_MAX, Owner};
use crate::names::List;
use crate::source::Span;
use crate::template::{NodeId, NodeKind};
use std::collections::HashSet;

/// An item of a chain with its element.
struct PlacedItem {
    /// The element that connections enter, and the one that they leave; they differ for a group.
    enter: NodeId,
    leave: NodeId,
    group: Option<(usize, usize)>,
    /// Name of a group in Click's messages.
    title: String,
    inputs: Option<Ports>,
    outputs: Option<Ports>,
    span: Span,
}

/// The ports at one side of an arrow.
struct Side {
    ends: Vec<(NodeId, u32)>,
    /// `a` alone or `a[]`: has as many ports as the other side. Holds its position in `ends`.
    open: Option<Open>,
    /// Click's name of the first group.
    title: String,
    span: Span,
}

struct Open {
    position: usize,
    node: NodeId,
    /// True if the ports are written as `[]`.
    explicit: bool,
}

impl Builder<'_, '_> {
    pub(crate) fn chain(&mut self, chain: &Chain) {
        let Some((arrow, _)) = chain.rest.first() else {
            // Before an arrow with nothing readable behind it, items are no declarations.
            if matches!(self.map.slice(chain.next), "->" | "=>") {
                self.places(&chain.first, true, chain.next);
            } else {
                self.declarations(chain);
            }
            return;
        };
        let mut left = self.places(&chain.first, true, arrow.span);
        for place in &left {
            self.dangling(place.inputs.as_ref(), "input");
        }
        for (i, (arrow, items)) in chain.rest.iter().enumerate() {
            let arrow_behind = chain.rest.get(i + 1).map(|(arrow, _)| arrow.span);
            let right = self.places(items, false, arrow_behind.unwrap_or(chain.next));
            if arrow_behind.is_some() {
                for item in items {
                    self.not_implicit(item);
                }
            }
            self.connect(*arrow, &left, &right);
            if arrow_behind.is_none() && !chain.broken {
                for place in &right {
                    self.dangling(place.outputs.as_ref(), "output");
                }
            }
            left = right;
        }
    }

    /// `a, b :: Class` declares both; an item without a class is an anonymous element.
    fn declarations(&mut self, chain: &Chain) {
        let items = &chain.first;
        let list = self.list(chain.next);
        let mut names = Vec::new();
        for item in items {
            match &item.what {
                ItemKind::Name(name) => names.push(name),
                ItemKind::Declaration {
                    name,
                    class,
                    config,
                } => {
                    for name in names.drain(..) {
                        // Names before the last have no parentheses of their own.
                        let shared = List { nodes: 0, ..list };
                        self.declare(name, class, *config, shared);
                    }
                    self.declare(name, class, *config, list);
                }
                _ => {
                    self.place(item, true, list);
                }
            }
        }
        for name in names {
            let before = self.template().nodes.len();
            let node = self.named(name, chain.next);
            let broken =
                chain.broken || matches!(self.template().nodes[node].what, NodeKind::Broken);
            if node < before && !broken {
                let text = format!("this statement about `{}` does nothing", name.name);
                self.report(
                    Diagnostic::warning("no-effect", text)
                        .at(name.span)
                        .help("connect the element, or remove the statement"),
                );
            }
        }
        for item in items {
            self.dangling(item.inputs.as_ref(), "input");
        }
        for item in items.iter().filter(|_| !chain.broken) {
            self.dangling(item.outputs.as_ref(), "output");
        }
    }

    fn dangling(&mut self, ports: Option<&Ports>, side: &str) {
        let Some(ports) = ports else { return };
        let help = match side {
            "output" => "put `->` after it, or `;` before it if it belongs to what follows",
            _ => "put `->` before it, or remove it",
        };
        let text = format!("an {side} port is given, but no arrow");
        let place = match side {
            "output" => "end",
            _ => "start",
        };
        self.report(
            Diagnostic::error("dangling-port", text)
                .at(ports.span)
                .click(format!("{side} ports ignored at {place} of chain"))
                .help(help),
        );
    }

    fn not_implicit(&mut self, item: &Item) {
        if matches!(item.what, ItemKind::Implicit(_)) {
            self.report(
                Diagnostic::error("syntax", "an element is missing between two arrows")
                    .at(item.span)
                    .help("put an element's name or class there"),
            );
        }
    }

    /// The places of a list of items; `next` is the token behind it.
    fn places(&mut self, items: &[Item], first: bool, next: Span) -> Vec<PlacedItem> {
        let list = self.list(next);
        let place = |item| self.place(item, first, list);
        items.iter().map(place).collect()
    }

    fn list(&mut self, next: Span) -> List {
        let nodes = self.template().nodes.len();
        List { next, nodes }
    }

    fn place(&mut self, item: &Item, first: bool, list: List) -> PlacedItem {
        let next = list.next;
        self.read_to = next;
        let (mut group, mut title) = (None, String::new());
        let (enter, leave) = match &item.what {
            ItemKind::Name(name) => {
                let node = self.named(name, next);
                (node, node)
            }
            ItemKind::Declaration {
                name,
                class,
                config,
            } => {
                let node = self.declare(name, class, *config, list);
                (node, node)
            }
            ItemKind::Anonymous { class, config } => {
                let node = self.anonymous(class, *config, next);
                (node, node)
            }
            ItemKind::Implicit(found) => {
                let node = self.implicit(item, found, first);
                (node, node)
            }
            ItemKind::Group(statements) => {
                title = format!("@{}", self.scope().count + 1);
                // Click numbers the group itself, its `input` and its `output`.
                self.scope().count += 3;
                let input = self.tunnel("input", item.span);
                let output = self.tunnel("output", item.span);
                self.scope().tunnels.push((input, output));
                let since = self.template().links.len();
                self.statements(statements);
                self.scope().tunnels.pop();
                self.read_to = item.span.after();
                let owner = Owner {
                    text: "this group",
                    title: "<anonymous group>",
                    click_at: None,
                };
                let inputs = self.tunnel_ports(input, true, since, &owner);
                let outputs = self.tunnel_ports(output, false, since, &owner);
                self.read_to = next;
                group = Some((inputs, outputs));
                (input, output)
            }
        };
        PlacedItem {
            enter,
            leave,
            group,
            title,
            inputs: item.inputs.clone(),
            outputs: item.outputs.clone(),
            span: item.span,
        }
    }

    fn implicit(&mut self, item: &Item, found: &str, first: bool) -> NodeId {
        if let Some(&(input, output)) = self.scope().tunnels.last() {
            return if first { input } else { output };
        }
        let (what, place) = match first {
            true => ("starts", "before"),
            false => ("ends", "after"),
        };
        let mut error = Diagnostic::error(
            "missing-element",
            format!("a connection {what} without an element"),
        );
        if item.inputs.is_some() || item.outputs.is_some() {
            error = error.click("stranded port ignored");
        }
        self.report(
            error
                .at(item.span)
                .click(format!("syntax error near {found}"))
                .help(format!("put an element {place} the arrow; only inside `{{ ... }}` and `( ... )` it may be left \
                    out")),
        );
        let node = self.tunnel("", item.span);
        self.template().nodes[node].what = NodeKind::Broken;
        node
    }

    fn connect(&mut self, arrow: Arrow, left: &[PlacedItem], right: &[PlacedItem]) {
        if self.links > LINKS_MAX {
            return; // reported when the first surplus link was made
        }
        let sides = (
            self.arrow_side(arrow, left, true),
            self.arrow_side(arrow, right, false),
        );
        let (Some(mut left), Some(mut right)) = sides else {
            return;
        };
        let span = left.span.to(right.span);
        match (left.open.take(), right.open.take()) {
            (Some(a), Some(b)) if a.explicit || b.explicit => {
                self.report(
                    Diagnostic::error(
                        "ambiguous-ports",
                        "at most one expandable port allowed per connection",
                    )
                    .at(span)
                    .help("list the ports of one side: `a[0-2] => b`"),
                );
                return;
            }
            (Some(a), Some(b)) => {
                left.ends.insert(a.position, (a.node, 0));
                right.ends.insert(b.position, (b.node, 0));
            }
            (Some(open), None) => fill(&mut left, &open, right.ends.len()),
            (None, Some(open)) => fill(&mut right, &open, left.ends.len()),
            (None, None) => {}
        }
        if !arrow.many {
            self.connect_one(arrow, &left, &right, span);
            return;
        }
        let (outputs, inputs) = (left.ends.len(), right.ends.len());
        if outputs.min(inputs) == 1 {
            // One to many, as with `->`.
            self.connect_one(arrow, &left, &right, span);
            return;
        }
        if outputs != inputs {
            let text =
                format!("connection mismatch: {outputs} outputs connected to {inputs} inputs");
            self.report(
                Diagnostic::error("port-mismatch", text)
                    .at(span)
                    .help("`=>` needs as many ports on the left as on the right; `->` joins one port with many"),
            );
            return;
        }
        for (from, to) in left.ends.into_iter().zip(right.ends) {
            self.link(from, to, span);
        }
    }

    fn connect_one(&mut self, arrow: Arrow, left: &Side, right: &Side, span: Span) {
        let (outputs, inputs) = (left.ends.len(), right.ends.len());
        if outputs > 1 && inputs > 1 {
            let text = "syntax error: many-to-many connections require `=>`";
            self.report(
                Diagnostic::error("port-mismatch", text)
                    .at(arrow.span)
                    .help(format!(
                        "`=>` joins the {outputs} outputs and {inputs} inputs one to one"
                    )),
            );
            return;
        }
        if outputs == 0 || inputs == 0 {
            let (side, place, title) = match outputs {
                0 => ("output", left.span, &left.title),
                _ => ("input", right.span, &right.title),
            };
            self.report(
                Diagnostic::error("port-mismatch", format!("there is no {side} to connect"))
                    .at(place)
                    .click(format!("`{title}` has no {side} 0"))
                    .help(format!("connect something to `{side}` inside the group")),
            );
            return;
        }
        for &from in &left.ends {
            for &to in &right.ends {
                self.link(from, to, span);
            }
        }
    }

    /// The ports at one side of an arrow; `None` if the items have no such ports.
    fn arrow_side(&mut self, arrow: Arrow, places: &[PlacedItem], is_left: bool) -> Option<Side> {
        let (first, last) = (places.first()?, places.last()?);
        let mut side = Side {
            ends: Vec::new(),
            open: None,
            title: first.title.clone(),
            span: first.span.to(last.span),
        };
        let mut fine = true;
        for place in places {
            let (node, ports) = match is_left {
                true => (place.leave, &place.outputs),
                false => (place.enter, &place.inputs),
            };
            self.check_direction(place, is_left);
            let own = place
                .group
                .map(|(inputs, outputs)| if is_left { outputs } else { inputs });
            match (ports, own) {
                (Some(ports), _) if ports.ports.is_empty() => {
                    fine &= self.leave_open(&mut side, node, ports.span);
                }
                (Some(ports), Some(own)) => {
                    fine &= self.group_ports(place, ports, own, is_left);
                    side.ends
                        .extend(ports.ports.iter().map(|&port| (node, port)));
                }
                (Some(ports), None) => {
                    side.ends
                        .extend(ports.ports.iter().map(|&port| (node, port)));
                }
                (None, Some(own)) => side.ends.extend((0..own as u32).map(|port| (node, port))),
                (None, None) if places.len() == 1 && arrow.many => {
                    side.open = Some(Open {
                        position: 0,
                        node,
                        explicit: false,
                    });
                }
                (None, None) => side.ends.push((node, 0)),
            }
        }
        fine.then_some(side)
    }

    fn leave_open(&mut self, side: &mut Side, node: NodeId, span: Span) -> bool {
        if side.open.is_some() {
            self.report(
                Diagnostic::error(
                    "ambiguous-ports",
                    "at most one expandable port allowed per connection",
                )
                .at(span)
                .help("list the ports of one of them"),
            );
            return false;
        }
        side.open = Some(Open {
            position: side.ends.len(),
            node,
            explicit: true,
        });
        true
    }

    /// Checks a group's ports: exactly the listed ones must exist.
    fn group_ports(
        &mut self,
        place: &PlacedItem,
        ports: &Ports,
        own: usize,
        is_left: bool,
    ) -> bool {
        let side = if is_left { "output" } else { "input" };
        let listed: HashSet<u32> = ports.ports.iter().copied().collect();
        let text = if let Some(port) = ports.ports.iter().find(|&&port| port as usize >= own) {
            format!("this group has no {side} {port}")
        } else if let Some(port) = (0..own as u32).find(|port| !listed.contains(port)) {
            format!("{side} {port} of this group is left unconnected")
        } else {
            return true;
        };
        self.report(
            Diagnostic::error("group-port", text)
                .at(ports.span)
                .note_at(
                    place.span.before(),
                    format!("the group has {}", count(own, side)),
                )
                .help("list all its ports, or leave the list out"),
        );
        false
    }

    /// Notes a wrong direction: from inside, `input` has no inputs and `output` no outputs.
    fn check_direction(&mut self, place: &PlacedItem, is_left: bool) {
        let wrong = match self.scope().tunnels.last() {
            Some(&(input, _)) if !is_left && place.group.is_none() && place.enter == input => input,
            Some(&(_, output)) if is_left && place.group.is_none() && place.leave == output => {
                output
            }
            _ => return,
        };
        let (text, help) = if is_left {
            (
                "nothing can come from `output`",
                "write `... -> output`; what goes out enters `output`",
            )
        } else {
            (
                "nothing can lead to `input`",
                "write `input -> ...`; what comes in leaves `input`",
            )
        };
        let error = Diagnostic::error("pseudo-element", text);
        let misuse = error.at(place.span).help(help);
        self.scope().misuses.push((wrong, misuse));
    }
}

fn fill(side: &mut Side, open: &Open, wanted: usize) {
    let count = wanted.saturating_sub(side.ends.len()).max(1);
    let ports = (0..count as u32).map(|port| (open.node, port));
    side.ends.splice(open.position..open.position, ports);
}
