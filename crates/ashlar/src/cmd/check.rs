//! `ashlar check`

use super::{Done, compile, print};
use crate::cli::Check;
use engine::plan::Registry;

pub(crate) fn check(check: &Check, registry: &Registry) -> Done {
    let ports = ports::Directory::new();
    let (_, compiled) = compile(
        &check.configuration,
        registry,
        check.workers.count(),
        &ports,
        false,
    )?;
    if check.json {
        print(&format!("{}\n", compiled.json()))?;
    } else {
        print(&compiled.text())?;
    }
    match compiled.errors() {
        0 => Ok(()),
        _ if check.json => Err(String::new()),
        1 => Err("1 error".to_owned()),
        n => Err(format!("{n} errors")),
    }
}
