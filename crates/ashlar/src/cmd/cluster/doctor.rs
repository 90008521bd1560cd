//! `ashlar cluster doctor`: everything that is wrong with any server, or between them.

mod checks;

use crate::cli::cluster::members::Doctor;
use crate::cmd::doctor::exit_code;
use crate::cmd::print;
use checks::{Checkup, Found, Picture};
use control::agreement::{Home, Operator, wall_clock};
use control::client::{Client, Servers};
use std::fmt::Write;
use std::process::ExitCode;

pub(crate) fn doctor(asked: &Doctor) -> Result<ExitCode, String> {
    let home = Home::open(&asked.at.home)?;
    let etcd = Operator::etcd_members(&home)?;
    let servers = Servers::find(&home)?;
    let answers = servers.ask(checkup);
    let picture = Picture {
        own: &servers.own,
        folder: &home.folder,
        view: servers.view.as_ref(),
        etcd: &etcd,
        servers: servers.names.iter().zip(answers).collect(),
        now_ms: wall_clock(),
    };
    let found = picture.findings();
    if asked.json {
        let text = serde_json::to_string_pretty(&found).map_err(|e| e.to_string())?;
        print(&format!("{text}\n"))?;
    } else {
        print(&text(&found, servers.names.len()))?;
    }
    let worst = found.iter().map(|found| found.finding.level).max();
    Ok(exit_code(worst))
}

/// Asks a server. Its clock is read at some time between two readings of this machine's.
fn checkup(client: &Client) -> Result<Checkup, String> {
    let asked_ms = wall_clock();
    let member = client.get_json("/v1/member")?;
    let answered_ms = wall_clock();
    Ok(Checkup {
        member,
        asked_ms,
        answered_ms,
        findings: client.get_json("/v1/findings")?,
    })
}

fn text(found: &[Found], servers: usize) -> String {
    if found.is_empty() {
        return format!("nothing is wrong with {}\n", lang::count(servers, "server"));
    }
    let mut text = String::new();
    for Found { server, finding } in found {
        let place = match server {
            Some(server) => format!("server {server}: {}", finding.about),
            None => finding.about.clone(),
        };
        let (level, what, why) = (finding.level.name(), &finding.what, &finding.why);
        let _ = writeln!(text, "{level}: {place}: {what}\n    {why}");
        if let Some(mend) = &finding.mend {
            let _ = writeln!(text, "    mend: {}", mend.command);
        }
    }
    text
}
