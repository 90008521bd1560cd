//! `ashlar ports prepare`: disables the kernel's own processing on interfaces before the router starts.

use super::doctor::interfaces;
use super::{Done, complain, print};
use crate::cli::{Cli, Command, Run};
use clap::Parser;
use control::needs::is_interface;
use planner::Registry;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Settings below /proc/sys/net for an interface: no answers to ARP, no forwarding, no IPv6 of the kernel's own.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("ipv4/conf", "arp_ignore", "8"),
    ("ipv4/conf", "forwarding", "0"),
    ("ipv6/conf", "disable_ipv6", "1"),
];
/// Polling interval while an interface does not exist.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn prepare(words: &[String], wait: u16, registry: &Registry) -> Done {
    let all = ["ashlar", "run"].into_iter().map(str::to_owned);
    let run = match Cli::try_parse_from(all.chain(words.iter().cloned())) {
        Ok(Cli {
            command: Command::Run(run),
        }) => run,
        Ok(_) => return Err("this is not the command line of `ashlar run`".to_owned()),
        Err(wrong) => return Err(wrong.to_string()),
    };
    let Run { configuration, .. } = run;
    let names = interfaces(&configuration.file, &configuration.definitions, registry)?;
    let until = Instant::now() + Duration::from_secs(wait.into());
    for (name, keeps_its_own) in names {
        while !is_interface(&name) {
            if Instant::now() >= until {
                return Err(format!(
                    "there is no interface {name} after {wait} s: `ashlar ports` lists those that there are"
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        if keeps_its_own {
            ip(&["link", "set", "dev", &name, "up"])?;
            print(&format!("{name}: up; the kernel keeps its addresses\n"))?;
            continue;
        }
        ip(&["address", "flush", "dev", &name])?;
        for (family, key, value) in SETTINGS {
            let file: PathBuf = ["/proc/sys/net", family, &name, key].iter().collect();
            // A kernel without IPv6 lacks these files, and needs no change.
            if file.exists()
                && let Err(wrong) = std::fs::write(&file, value)
            {
                complain(&format!("cannot write {}: {wrong}", file.display()));
            }
        }
        ip(&["link", "set", "dev", &name, "up"])?;
        print(&format!(
            "{name}: up, without addresses, and left alone by the kernel\n"
        ))?;
    }
    Ok(())
}

fn ip(words: &[&str]) -> Done {
    let ended = machine::program("ip").args(words).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("`ip {}` has failed", words.join(" "))),
        Err(wrong) => Err(format!("cannot run `ip`: {wrong}")),
    }
}
