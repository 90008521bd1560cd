//! `ashlar doc`

use super::{Done, print};
use crate::cli::Doc;
use crate::doc;
use planner::Registry;

pub(crate) fn doc(asked: &Doc, registry: &Registry) -> Done {
    let classes = registry.classes();
    let Some(name) = &asked.class else {
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
    print(&doc::page(class))
}
