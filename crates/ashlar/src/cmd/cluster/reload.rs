//! `ashlar cluster reload`

use super::{Done, File, answered, read, routers, server};
use crate::cli::cluster::servers::Reload;
use crate::cmd::{print, say};
use control::client::Client;
use control::view::{Info, ReloadReply, ReloadRequest};

pub(crate) fn reload(asked: &Reload) -> Done {
    let file = read(&asked.running.of.file)?;
    let (mut there, mut silent) = (Vec::new(), Vec::new());
    for (number, client) in routers(&file.description, &asked.running.servers)? {
        let name = &*file.description.servers[number].name;
        match client.get_json::<Info>("/v1/info") {
            Ok(_) => there.push((name, client)),
            Err(why) => {
                say(&format!("server {name}: {why}\n"));
                silent.push(name);
            }
        }
    }
    let steps: &[bool] = if asked.dry_run {
        &[true]
    } else {
        &[true, false]
    };
    for &dry_run in steps {
        for (at, (name, client)) in there.iter().enumerate() {
            let changed = &there[..if dry_run { 0 } else { at }];
            reload_server(&file, name, client, dry_run)
                .map_err(|why| format!("server {name} refuses it: {why}{}", already(changed)))?;
            if dry_run == asked.dry_run {
                let done = if dry_run { "would use it" } else { "uses it" };
                print(&format!("server {name} {done}\n"))?;
            }
        }
    }
    answered(&silent)
}

/// Servers already changed, for the message about one that refuses.
fn already(changed: &[(&str, Client)]) -> String {
    let names: Vec<&str> = changed.iter().map(|(name, _)| *name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("; already changed: {}", names.join(", ")),
    }
}

fn reload_server(file: &File, name: &str, client: &Client, dry_run: bool) -> Done {
    let source = server(file, name)?;
    let request = ReloadRequest::of(source, dry_run);
    let body = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    let bytes = client.post("/v1/reload", body)?;
    let reply: ReloadReply = serde_json::from_slice(&bytes)
        .map_err(|e| format!("cannot read the router's answer: {e}"))?;
    say(&reply.text);
    match reply.good {
        true => Ok(()),
        false => Err("its running configuration is kept".to_owned()),
    }
}
