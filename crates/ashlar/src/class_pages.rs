//! Reference pages of element classes, as Markdown: from the manual in the source, and from the class's own
//! description.

use engine::element::{Class, Copies, Facts, Flow, Ports};
use std::fmt::Write;

/// A topic: name, title, classes.
pub(crate) type Topic<'a> = (&'a str, &'a str, Vec<&'a Class>);

/// Classes by topic. The topic of an added class is its crate.
pub(crate) fn topics<'a>(classes: &[&'a Class]) -> Vec<Topic<'a>> {
    let mut topics: Vec<Topic> = classes::TOPICS
        .iter()
        .map(|&(name, title)| (name, title, Vec::new()))
        .collect();
    for class in classes {
        let name = class.folder();
        match topics.iter_mut().find(|topic| topic.0 == name) {
            Some(topic) => topic.2.push(class),
            None => topics.push((name, name, vec![class])),
        }
    }
    topics.retain(|topic| !topic.2.is_empty());
    topics
}

/// A line per class.
pub(crate) fn list(classes: &[&Class]) -> String {
    let width = classes.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let line = |c: &&Class| format!("{:width$}  {}\n", c.name, c.summary());
    classes.iter().map(line).collect()
}

/// A line per class, by topic.
pub(crate) fn list_by_topic(topics: &[Topic]) -> String {
    let parts: Vec<String> = topics
        .iter()
        .map(|(name, title, classes)| format!("{title} ({name})\n\n{}", list(classes)))
        .collect();
    parts.join("\n")
}

/// Classes that match all words: first by name or topic, then by summary, then by manual page.
pub(crate) fn find<'a>(topics: &[Topic<'a>], words: &[String]) -> Vec<&'a Class> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let mut found: Vec<(usize, &Class)> = Vec::new();
    for (name, title, classes) in topics {
        for class in classes {
            let places = [
                format!("{} {name} {title}", class.name),
                class.summary(),
                class.manual(),
            ];
            let rank = |word: &String| places.iter().position(|text| has_word(text, word));
            let ranks: Option<Vec<usize>> = words.iter().map(rank).collect();
            if let Some(worst) = ranks.and_then(|ranks| ranks.into_iter().max()) {
                found.push((worst, class));
            }
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, class)| class).collect()
}

/// True if a word of the text begins with `word`, which is in lower case.
fn has_word(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    let mut ends = text.match_indices(word).map(|(at, _)| &text[..at]);
    ends.any(|before| !before.ends_with(|c: char| c.is_alphanumeric()))
}

/// Page of a topic: all its classes.
pub(crate) fn reference((_, title, classes): &Topic) -> String {
    let mut text = format!("# {title}\n");
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
    let rows = ports_text(class, "input", class.ports.inputs)
        + &ports_text(class, "output", class.ports.outputs);
    if !rows.is_empty() {
        *text += "\n| port | name | processing | packets |\n|---|---|---|---|\n";
        *text += &rows;
    }
}

fn ports_text(class: &Class, side: &str, names: &[&str]) -> String {
    let mut rows = String::new();
    for (port, name) in names.iter().enumerate() {
        let (flow, facts, verb) = if side == "input" {
            (class.ports.input_flow(port), class.needs_at(port), "need")
        } else {
            (class.ports.output_flow(port), class.gives_at(port), "have")
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
            facts_text(verb, facts)
        );
    }
    rows
}

fn facts_text(verb: &str, facts: Facts) -> String {
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

    /// Index of the reference, with links to the pages of the topics.
    fn index(topics: &[Topic]) -> String {
        let mut text = "# Element reference\n\n\
            Made by `make docs` from the classes' sources: change those. `ashlar doc WORD` searches.\n"
            .to_owned();
        for (name, title, classes) in topics {
            let _ = write!(text, "\n## [{title}]({name}.md)\n\n");
            for class in classes {
                let (class, summary) = (class.name, class.summary());
                let _ = writeln!(
                    text,
                    "- [{class}]({name}.md#{}): {summary}",
                    class.to_lowercase()
                );
            }
        }
        text
    }

    #[test]
    fn docs_elements_match_the_sources() {
        let registry = classes::registry();
        let topics = topics(&registry.classes());
        crate::generated_pages::check_or_bless("docs/elements/README.md", |_| index(&topics));
        for topic in &topics {
            crate::generated_pages::check_or_bless(
                &format!("docs/elements/{}.md", topic.0),
                |_| reference(topic),
            );
        }
    }

    #[test]
    fn words_find_topics_names_and_pages() {
        let registry = classes::registry();
        let topics = topics(&registry.classes());
        let names = |words: &[&str]| -> Vec<&str> {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            find(&topics, &words)
                .iter()
                .map(|class| class.name)
                .collect()
        };
        assert!(names(&["firewall"]).contains(&"IPFilter"));
        assert_eq!(names(&["NAT", "ping"])[0], "ICMPPingRewriter");
        assert!(names(&["mpls"])[0].starts_with("MPLS"));
        assert!(names(&["rfc", "8289"]).contains(&"CoDel"));
        assert!(names(&["no-such-word"]).is_empty());
        // A word matches from its start, not from its middle.
        assert!(!names(&["ewall"]).contains(&"IPFilter"));
    }

    #[test]
    fn tables_survive_bars_and_line_ends() {
        assert_eq!(cell("a|b\nc"), "a\\|b c");
    }
}
