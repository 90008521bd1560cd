//! `ashlar reload`

use super::{Done, cluster, print, say};
use crate::cli::{Reload, Workers};
use control::Source;
use control::file;
use control::source::definition;
use control::view::{Changes, ReloadReply, ReloadRequest};
use std::fmt::Write;
use std::path::Path;

pub(crate) fn reload(args: &Reload) -> Done {
    let client = args.target.client()?;
    let request = request(args)?;
    let body = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    let bytes = client.post("/v1/reload", body)?;
    let reply: ReloadReply = serde_json::from_slice(&bytes)
        .map_err(|e| format!("cannot read the router's answer: {e}"))?;
    if args.json {
        print(&format!("{}\n", String::from_utf8_lossy(&bytes)))?;
    } else {
        say(&reply.text);
        if args.dry_run && reply.good {
            print(&changes_of(&reply))?;
        } else if reply.good {
            print(&summary(&reply))?;
        }
    }
    match reply.good {
        true => Ok(()),
        false if args.json => Err(String::new()),
        false => Err("the running configuration is kept".to_owned()),
    }
}

fn request(args: &Reload) -> Result<ReloadRequest, String> {
    let mut request = ReloadRequest {
        dry_run: args.dry_run,
        ..ReloadRequest::default()
    };
    let mut file: Option<&String> = None;
    for word in &args.words {
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
    if let Some(name) = file {
        let mut source = Source::read(name, Vec::new())?;
        if file::is_described(name) {
            let folder = source.path.as_deref().and_then(Path::parent);
            let parsed = file::parse(&source.name, &source.text, folder.unwrap_or(Path::new(".")));
            if parsed.description.is_some() {
                let (which, workers) =
                    ((&**name, args.server.as_deref()), Workers { workers: None });
                source = cluster::one(which, &workers, source, parsed)?.0;
            }
        }
        // Later definitions override: those of the command line.
        request.definitions.splice(0..0, source.definitions);
        request.server = source.server;
        request.numbers = source.numbers;
        request.name = Some(source.name);
        request.path = source.path.map(|p| p.to_string_lossy().into_owned());
        request.text = Some(source.text.to_string());
    }
    Ok(request)
}

/// Summary of a reload, in a line or two.
fn summary(reply: &ReloadReply) -> String {
    let of = |changes: &Changes| {
        format!(
            "{} added, {} removed, {} reconfigured, {} kept",
            changes.added.len(),
            changes.removed.len(),
            changes.reconfigured.len(),
            changes.kept
        )
    };
    let mut text = match &reply.routers[..] {
        [] => format!("{}: {}\n", reply.configuration, of(&reply.changes)),
        routers => {
            let mut text = format!("{}:\n", reply.configuration);
            for router in routers {
                let inside = match router.what.as_str() {
                    "change" => format!(": {}", of(&router.changes)),
                    _ => String::new(),
                };
                let _ = writeln!(text, "{} router {}{inside}", router.what, router.name);
            }
            text
        }
    };
    let inside = reply.routers.iter().map(|router| &router.changes);
    for file in inside
        .chain([&reply.changes])
        .flat_map(|changes| &changes.files)
    {
        let _ = writeln!(text, "{file} has changed, and is read again");
    }
    for setting in &reply.lost {
        let _ = writeln!(text, "thrown away: {setting}");
    }
    if let Some(own) = &reply.until {
        let _ = writeln!(
            text,
            "it runs until the next reload without a file, SIGHUP or restart, which read {own} as it was started"
        );
    }
    text
}

fn changes_of(reply: &ReloadReply) -> String {
    if reply.routers.is_empty() {
        return changes(&reply.changes);
    }
    let mut text = String::new();
    for router in &reply.routers {
        let _ = writeln!(text, "{} router {}", router.what, router.name);
        if router.what == "change" {
            let inside = changes(&router.changes);
            inside
                .lines()
                .for_each(|line| _ = writeln!(text, "  {line}"));
        }
    }
    text
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
        ("read", &changes.files),
    ];
    for (what, list) in lists {
        for name in list {
            let _ = writeln!(text, "{what} {name}");
        }
    }
    let _ = writeln!(text, "keep {} elements", changes.kept);
    text
}
