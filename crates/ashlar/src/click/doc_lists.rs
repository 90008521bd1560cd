//! The lists of docs/click.md, generated from the program itself.

use super::global_handlers::HANDLERS;
use engine::handler::HandlerInfo;
use std::fmt::Write;

const BEGIN: &str = "<!-- made by `make docs` -->\n";

/// Handlers as `name (rw)`, each name once.
fn handlers(all: &[HandlerInfo]) -> String {
    let mut list: Vec<(&str, bool, bool)> = Vec::new();
    for handler in all {
        let (read, write) = (handler.access.readable(), handler.access.writable());
        match list.iter_mut().find(|(name, ..)| *name == handler.name) {
            Some(known) => (known.1, known.2) = (known.1 || read, known.2 || write),
            None => list.push((handler.name, read, write)),
        }
    }
    let mark = |on: bool, letter| if on { letter } else { "" };
    let each = list
        .iter()
        .map(|(name, r, w)| format!("`{name}` {}{}", mark(*r, "r"), mark(*w, "w")));
    each.collect::<Vec<_>>().join(", ")
}

fn lists() -> String {
    let mut text = String::from(BEGIN);
    text += "\n### Handlers of the router\n\n";
    for handler in HANDLERS {
        let (name, access, about) = (handler.name, handler.access(), handler.about);
        let _ = writeln!(text, "- `{name}` {access}: {about}");
    }
    let _ = writeln!(
        text,
        "\n### Handlers of every element\n\n{}; of elements with a task also {}.",
        handlers(&engine::graph::standard::COMMON),
        handlers(&engine::graph::standard::TASK)
    );
    text += "\n### Classes\n\nWith the keywords that they take and the handlers of their own.\n\n";
    for class in classes::registry().classes() {
        let arguments = class.arguments();
        let keywords = arguments.iter().filter(|a| a.keyword).map(|a| a.name);
        let keywords: Vec<&str> = keywords.collect();
        let own = handlers(&(class.handlers)());
        let parts: Vec<String> = [keywords.join(", "), own]
            .into_iter()
            .filter(|p| !p.is_empty())
            .collect();
        let end = if parts.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "- {}{end}{}", class.name, parts.join("; "));
    }
    text
}

#[test]
fn docs_click_md_has_the_present_lists() {
    crate::generated_pages::check_or_bless("docs/click.md", |page| {
        let written = page.split_once(BEGIN).map_or(page, |(written, _)| written);
        format!("{written}{}", lists())
    });
}
