//! `ashlar plan`

use super::{Done, cluster, compile_source, described, optimizing, plan_routers, print, say};
use crate::cli::Plan;
use control::Source;
use control::describe::describe;
use control::{errors_of_all, text_of_all};
use planner::Registry;
use std::fmt::Write;

pub(crate) fn plan(args: &Plan, registry: &Registry) -> Done {
    let (configuration, workers) = (&args.configuration, &args.workers);
    let (source, workers) = match described(configuration, (None, None))? {
        Some((file, parsed)) if parsed.description.is_some() => {
            let which = (&*configuration.file, configuration.server.as_deref());
            cluster::one(which, workers, file.source, parsed)?
        }
        Some((file, mut parsed)) => {
            let all = plan_routers(configuration, registry, workers, &file, &mut parsed);
            say(&text_of_all(&parsed, &all));
            if errors_of_all(&parsed, &all) > 0 {
                return Err(String::new());
            }
            return routers(&all, args.json);
        }
        None => {
            let (file, definitions) = (&configuration.file, configuration.definitions.clone());
            (Source::read(file, definitions)?, workers.count())
        }
    };
    let ports = ports::Directory::new();
    let compiled = compile_source(
        &source,
        &optimizing(registry, configuration),
        workers,
        &ports,
        false,
    );
    say(&compiled.text());
    let Some(plan) = &compiled.plan else {
        return Err(String::new());
    };
    let view = describe(plan);
    if args.json {
        let text = serde_json::to_string_pretty(&view).map_err(|e| e.to_string())?;
        print(&format!("{text}\n"))
    } else {
        print(&view.to_string())
    }
}

/// The plans of several routers.
fn routers(all: &[control::Planned], json: bool) -> Done {
    let mut text = String::new();
    let mut views = serde_json::Map::new();
    for one in all {
        let Some(plan) = &one.compiled.plan else {
            continue;
        };
        let (section, view) = (&one.section, describe(plan));
        if json {
            let view = serde_json::to_value(&view).map_err(|e| e.to_string())?;
            views.insert(section.name.clone(), view);
            continue;
        }
        let netns = section
            .netns
            .as_deref()
            .map(|netns| format!(", namespace {netns}"));
        let _ = writeln!(
            text,
            "router {}: {}, share {}{}, priority {}{}{}\n{view}",
            section.name,
            section.source.name,
            section.share.tickets,
            super::show::of_group(section.share.group.map(|group| group.tickets)),
            section.share.priority,
            super::show::bounds(section.share.buffers, section.source.routes),
            netns.unwrap_or_default()
        );
    }
    if json {
        text = serde_json::to_string_pretty(&views).map_err(|e| e.to_string())? + "\n";
    }
    print(&text)
}
