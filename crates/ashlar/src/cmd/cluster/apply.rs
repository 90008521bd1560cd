//! `ashlar cluster apply`

use super::{Done, read};
use crate::cli::cluster::agreement::Apply;
use crate::cmd::print;
use control::agreement::{Home, Operator, Outcome};
use std::time::Duration;

pub(crate) fn apply(asked: &Apply) -> Done {
    let home = Home::open(&asked.at.home)?;
    let file = read(&asked.file)?;
    let (cluster, described) = (&home.about.cluster, &file.description.name);
    if described != cluster {
        return Err(format!(
            "{} describes cluster {described}, and this server belongs to {cluster}",
            asked.file
        ));
    }
    if home.kept()?.left {
        return Err(format!(
            "server {} has left cluster {cluster}: apply the file on a member",
            home.about.server
        ));
    }
    let operator = Operator::new(&home)?;
    let mut failed = Ok(());
    let told = |text: &str| {
        let done = print(&format!("{text}\n"));
        if failed.is_ok() {
            failed = done;
        }
    };
    let limit = Duration::from_secs(asked.wait);
    let outcome = operator.apply(&file.source.text, &by(), asked.dry_run, limit, told)?;
    failed?;
    match outcome {
        Outcome::Possible => print("all servers that are there could use it\n")?,
        Outcome::Wanted(version) => print(&format!("version {version} of the description\n"))?,
    }
    let view = operator.view()?;
    let away: Vec<&str> = view.away_members().collect();
    match away.is_empty() {
        true => Ok(()),
        false => print(&format!("away, and not asked: {}\n", away.join(", "))),
    }
}

/// Operator and machine.
fn by() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let user = name("SUDO_USER").or_else(|| name("USER"));
    let user = user.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()));
    let system = rustix::system::uname();
    format!("{user}@{}", system.nodename().to_string_lossy())
}
