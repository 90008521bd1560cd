//! `ashlar check`

use super::{Done, cluster, compile, described, errors, plan_routers, print};
use crate::cli::Check;
use control::process::{errors_of_all, json_of_all, text_of_all};
use planner::Registry;

pub(crate) fn check(check: &Check, registry: &Registry) -> Done {
    let asked = &check.configuration;
    if let Some((file, mut parsed)) = described(asked, None)? {
        if parsed.description.is_some() && !check.json {
            return cluster::check_as(asked, registry, &check.workers, file.source, parsed);
        }
        let all = plan_routers(asked, registry, &check.workers, &file, &mut parsed);
        let (json, text) = (json_of_all(&parsed, &all), text_of_all(&parsed, &all));
        let found = if check.json {
            format!("{json}\n")
        } else {
            text
        };
        return tell(&found, errors_of_all(&parsed, &all), check.json);
    }
    let ports = ports::Directory::new();
    let (_, compiled) = compile(asked, registry, check.workers.count(), &ports, false)?;
    let found = match check.json {
        true => format!("{}\n", compiled.json()),
        false => compiled.text(),
    };
    tell(&found, compiled.errors(), check.json)
}

fn tell(found: &str, count: usize, json: bool) -> Done {
    print(found)?;
    match json && count > 0 {
        true => Err(String::new()),
        false => errors(count),
    }
}
