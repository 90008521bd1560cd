//! `ashlar doc`

use super::{Done, print, print_json};
use crate::cli::Doc;
use crate::doc;
use planner::Registry;
use serde_json::json;

pub(crate) fn doc(asked: &Doc, registry: &Registry) -> Done {
    let classes = registry.classes();
    let Some(name) = &asked.class else {
        if asked.json {
            let each = classes
                .iter()
                .map(|c| json!({"class": c.name, "summary": c.summary()}));
            return print_json(&each.collect());
        }
        let text = match asked.markdown {
            true => doc::reference(&classes),
            false => doc::list(&classes),
        };
        return print(&text);
    };
    let Some(class) = registry.get(name) else {
        let names = classes.iter().map(|c| c.name);
        let near = arguments::near::nearest(name, names);
        let near = near.map_or("`ashlar doc` lists them".to_owned(), |n| {
            format!("did you mean `{n}`?")
        });
        return Err(format!("there is no element class `{name}`; {near}"));
    };
    if asked.json {
        let page = doc::page(class);
        return print_json(&json!({"class": class.name, "summary": class.summary(), "page": page}));
    }
    print(&doc::page(class))
}
