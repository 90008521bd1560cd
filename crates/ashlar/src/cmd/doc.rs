//! `ashlar doc`

use super::{Done, print, print_json};
use crate::cli::Doc;
use crate::doc;
use engine::element::Class;
use planner::Registry;
use serde_json::json;

pub(crate) fn doc(asked: &Doc, registry: &Registry) -> Done {
    let classes = registry.classes();
    let topics = doc::topics(&classes);
    let exact = match asked.words.as_slice() {
        [name] => registry.get(name),
        _ => None,
    };
    if let Some(class) = exact {
        let page = doc::page(class);
        return match asked.json {
            true => {
                print_json(&json!({"class": class.name, "summary": class.summary(), "page": page}))
            }
            false => print(&page),
        };
    }
    let found = match asked.words.is_empty() {
        true => classes.clone(),
        false => doc::find(&topics, &asked.words),
    };
    if found.is_empty() {
        return Err(unknown(asked, &classes));
    }
    if asked.json {
        let each = found
            .iter()
            .map(|c| json!({"class": c.name, "topic": c.folder(), "summary": c.summary()}));
        return print_json(&each.collect());
    }
    print(&match (asked.markdown, asked.words.is_empty()) {
        (true, _) => doc::topics(&found).iter().map(doc::reference).collect(),
        (false, true) => doc::list_by_topic(&topics),
        (false, false) => doc::list(&found),
    })
}

/// The error for words that no class has.
fn unknown(asked: &Doc, classes: &[&Class]) -> String {
    let words = asked.words.join(" ");
    let near = arguments::near::nearest(&words, classes.iter().map(|c| c.name));
    let near = near.map_or("`ashlar doc` lists all by topic".to_owned(), |n| {
        format!("did you mean `{n}`?")
    });
    format!("no element class is named `{words}` or has these words; {near}")
}
