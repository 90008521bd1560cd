//! Reference pages of element classes, as Markdown: from the manual in the source, and from the class's own
//! description.

use engine::element::{Class, Copies, Facts, Flow, Ports};
use std::fmt::Write;

/// All classes, one per line.
pub(crate) fn list(classes: &[&Class]) -> String {
    let width = classes.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let line = |c: &&Class| format!("{:width$}  {}\n", c.name, c.summary());
    classes.iter().map(line).collect()
}

/// The whole reference.
pub(crate) fn reference(classes: &[&Class]) -> String {
    let mut text = "# Element reference\n\n\
        Made by `ashlar doc --markdown` from the classes' sources: change those.\n\n"
        .to_owned();
    for class in classes {
        let _ = writeln!(
            text,
            "- [{0}](#{1}): {2}",
            class.name,
            class.name.to_lowercase(),
            class.summary()
        );
    }
    for class in classes {
        let _ = write!(text, "\n{}", page(class).replacen("# ", "## ", 1));
    }
    text
}

/// A class's page.
pub(crate) fn page(class: &Class) -> String {
    let mut text = format!("# {}\n\n{}\n", class.name, class.manual().trim());
    arguments(&mut text, class);
    ports(&mut text, class);
    let drops = class
        .drops
        .iter()
        .map(|d| format!("`{d}`"))
        .collect::<Vec<_>>();
    if !drops.is_empty() {
        let _ = write!(text, "\nDrops by name: {}.\n", drops.join(", "));
    }
    if class.copies == Copies::One {
        text += "\nOne copy: all packets for it must come from one worker.\n";
    }
    if class.copies == Copies::Owner {
        text += "\nOne copy, on a worker that owns its state and that of elements which it names: packets \
                 of other workers cross over, by queues that the plan puts before its inputs.\n";
    }
    handlers(&mut text, class);
    text
}

/// A cell of a table: `|` and line ends would break it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn arguments(text: &mut String, class: &Class) {
    let arguments = class.arguments();
    if arguments.is_empty() {
        return;
    }
    *text += "\n| argument | type | default | |\n|---|---|---|---|\n";
    for a in arguments {
        let default = match a.default.as_deref() {
            None => "required".to_owned(),
            Some("") => String::new(),
            Some(value) => format!("`{}`", cell(value)),
        };
        let keyword = if a.keyword { " (keyword)" } else { "" };
        let _ = writeln!(
            text,
            "| `{}`{keyword} | {} | {default} | {} |",
            a.name,
            cell(a.kind),
            cell(a.doc)
        );
    }
}

fn ports(text: &mut String, class: &Class) {
    let rows =
        side(class, "input", class.ports.inputs) + &side(class, "output", class.ports.outputs);
    if !rows.is_empty() {
        *text += "\n| port | name | processing | packets |\n|---|---|---|---|\n";
        *text += &rows;
    }
}

fn side(class: &Class, side: &str, names: &[&str]) -> String {
    let mut rows = String::new();
    for (port, name) in names.iter().enumerate() {
        let (flow, facts, verb) = if side == "input" {
            (class.ports.input_flow(port), class.needs(port), "need")
        } else {
            (class.ports.output_flow(port), class.gives(port), "have")
        };
        let flow = match flow {
            Flow::Push => "push",
            Flow::Pull => "pull",
            Flow::Agnostic => "agnostic",
        };
        let number = match name.ends_with(['*', '+']) {
            true => format!("{port}, {} ...", port + 1),
            false => port.to_string(),
        };
        let may = if Ports::optional(names, port) {
            ", may be left open"
        } else {
            ""
        };
        let name = name.trim_end_matches(['?', '*', '+']);
        let _ = writeln!(
            rows,
            "| {side} {number} | `{name}`{may} | {flow} | {} |",
            words(verb, facts)
        );
    }
    rows
}

fn words(verb: &str, facts: Facts) -> String {
    let words: Vec<&str> = facts.words().collect();
    match words.is_empty() {
        true => String::new(),
        false => format!("{verb} {}", words.join(", ")),
    }
}

fn handlers(text: &mut String, class: &Class) {
    let handlers = (class.handlers)();
    if handlers.is_empty() {
        return;
    }
    *text += "\n| handler | use | |\n|---|---|---|\n";
    for h in handlers {
        let used = match (h.access.readable(), h.access.writable()) {
            (true, true) => "read, write",
            (true, false) => "read",
            _ => "write",
        };
        let _ = writeln!(text, "| `{}` | {used} | {} |", h.name, cell(h.doc));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_elements_md_is_what_the_sources_say() {
        crate::docs::keep("docs/elements.md", |_| {
            reference(&elements::registry().classes())
        });
    }

    #[test]
    fn tables_survive_bars_and_line_ends() {
        assert_eq!(cell("a|b\nc"), "a\\|b c");
    }
}
