//! `ashlar plan`

use super::{Done, compile, print, say};
use crate::cli::Plan;
use engine::plan::Registry;

pub(crate) fn plan(asked: &Plan, registry: &Registry) -> Done {
    let ports = ports::Directory::new();
    let (_, compiled) = compile(
        &asked.configuration,
        registry,
        asked.workers.count(),
        &ports,
        false,
    )?;
    say(&compiled.text());
    let Some(plan) = &compiled.plan else {
        return Err(String::new());
    };
    let view = control::describe::describe(plan);
    if asked.json {
        let text = serde_json::to_string_pretty(&view).map_err(|e| e.to_string())?;
        print(&format!("{text}\n"))
    } else {
        print(&view.to_string())
    }
}
