//! `ashlar check`

use super::{Done, cluster, compile, described, errors, plan_routers, print};
use crate::cli::Check;
use control::Source;
use control::{errors_of_all, json_of_all, text_of_all};
use engine::plan::Plan;
use lang::{Diagnostic, Severity};
use planner::{Options, Registry};

pub(crate) fn check(check: &Check, registry: &Registry) -> Done {
    let configuration = &check.configuration;
    if let Some((file, mut parsed)) = described(configuration, (None, None))? {
        if parsed.description.is_some() && !check.json {
            return cluster::check_as(configuration, registry, &check.workers, file.source, parsed);
        }
        let all = plan_routers(configuration, registry, &check.workers, &file, &mut parsed);
        let (json, text) = (json_of_all(&parsed, &all), text_of_all(&parsed, &all));
        let found = if check.json {
            format!("{json}\n")
        } else {
            text
        };
        return print_result(&found, errors_of_all(&parsed, &all), check.json);
    }
    let ports = ports::Directory::new();
    let (source, mut compiled) = compile(
        configuration,
        registry,
        check.workers.count(),
        &ports,
        false,
    )?;
    if let Some(plan) = compiled.plan.clone() {
        match check.workers.workers {
            Some(_) => compiled.diagnostics.extend(control::odd_workers(&plan)),
            None => compiled
                .diagnostics
                .extend(with_two_workers(&source, registry, &plan)),
        }
    }
    let found = match check.json {
        true => format!("{}\n", compiled.json()),
        false => compiled.text(),
    };
    print_result(&found, compiled.errors(), check.json)
}

/// Errors of `run --workers 2`, as warnings: the user has not requested two workers.
fn with_two_workers(source: &Source, registry: &Registry, one: &Plan) -> Vec<Diagnostic> {
    let ports = ports::Directory::new();
    let options = Options {
        devices_must_exist: false,
        previous: Some(one),
        ..Options::new(2, &ports)
    };
    let mut wrong = control::compile(source, registry, &options).diagnostics;
    wrong.retain(Diagnostic::is_error);
    for one in &mut wrong {
        one.severity = Severity::Warning;
        one.message = format!("with --workers 2 this is an error: {}", one.message);
    }
    wrong
}

fn print_result(found: &str, count: usize, json: bool) -> Done {
    print(found)?;
    match json && count > 0 {
        true => Err(String::new()),
        false => errors(count),
    }
}
