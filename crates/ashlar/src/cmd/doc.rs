//! `ashlar doc`

use super::{Done, print, print_json};
use crate::class_pages;
use crate::cli::Doc;
use engine::element::Class;
use planner::Registry;
use serde_json::json;

pub(crate) fn doc(args: &Doc, registry: &Registry) -> Done {
    let classes = registry.classes();
    let topics = class_pages::topics(&classes);
    let exact = match args.words.as_slice() {
        [name] => registry.get(name),
        _ => None,
    };
    if let Some(class) = exact {
        let page = class_pages::page(class);
        return match args.json {
            true => {
                print_json(&json!({"class": class.name, "summary": class.summary(), "page": page}))
            }
            false => print(&page),
        };
    }
    let found = match args.words.is_empty() {
        true => classes.clone(),
        false => class_pages::find(&topics, &args.words),
    };
    if found.is_empty() {
        return Err(unknown(args, &classes));
    }
    if args.json {
        let each = found
            .iter()
            .map(|c| json!({"class": c.name, "topic": c.folder(), "summary": c.summary()}));
        return print_json(&each.collect());
    }
    print(&match (args.markdown, args.words.is_empty()) {
        (true, _) => class_pages::topics(&found)
            .iter()
            .map(class_pages::reference)
            .collect(),
        (false, true) => class_pages::list_by_topic(&topics),
        (false, false) => class_pages::list(&found),
    })
}

/// The error for words that no class has.
fn unknown(args: &Doc, classes: &[&Class]) -> String {
    let words = args.words.join(" ");
    let near = arguments::near::nearest(&words, classes.iter().map(|c| c.name));
    let near = near.map_or("`ashlar doc` lists all by topic".to_owned(), |n| {
        format!("did you mean `{n}`?")
    });
    format!("no element class is named `{words}` or has these words; {near}")
}
