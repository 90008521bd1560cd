//! `ashlar reload`

use super::{Done, client, print, say};
use crate::cli::Reload;
use control::Source;
use control::source::definition;
use control::view::{Changes, ReloadReply, ReloadRequest};
use std::fmt::Write;

pub(crate) fn reload(asked: &Reload) -> Done {
    let client = client(&asked.target)?;
    let request = request(asked)?;
    let body = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    let bytes = client.post("/v1/reload", body)?;
    let reply: ReloadReply = serde_json::from_slice(&bytes)
        .map_err(|e| format!("cannot read the router's answer: {e}"))?;
    if asked.json {
        print(&format!("{}\n", String::from_utf8_lossy(&bytes)))?;
    } else {
        say(&reply.text);
        if asked.dry_run && reply.good {
            print(&changes(&reply.changes))?;
        }
    }
    match reply.good {
        true => Ok(()),
        false if asked.json => Err(String::new()),
        false => Err("the running configuration is kept".to_owned()),
    }
}

fn request(asked: &Reload) -> Result<ReloadRequest, String> {
    let mut request = ReloadRequest {
        dry_run: asked.dry_run,
        ..ReloadRequest::default()
    };
    let mut file = None;
    for word in &asked.words {
        match definition(word) {
            Some(pair) => request.definitions.push(pair),
            None if file.is_none() => file = Some(word),
            None => {
                return Err(format!(
                    "only one file can be given, and `{word}` is not a definition NAME=value"
                ));
            }
        }
    }
    if let Some(file) = file {
        let source = Source::read(file, Vec::new())?;
        request.name = Some(source.name);
        request.path = source.path.map(|p| p.to_string_lossy().into_owned());
        request.text = Some(source.text);
    }
    Ok(request)
}

fn changes(changes: &Changes) -> String {
    let mut text = String::new();
    let lists = [
        ("add", &changes.added),
        ("remove", &changes.removed),
        ("reconfigure", &changes.reconfigured),
        ("connect", &changes.connected),
        ("disconnect", &changes.disconnected),
        ("open", &changes.opened),
        ("close", &changes.closed),
    ];
    for (what, list) in lists {
        for name in list {
            let _ = writeln!(text, "{what} {name}");
        }
    }
    let _ = writeln!(text, "keep {} elements", changes.kept);
    text
}
