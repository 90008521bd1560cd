//! `ashlar router`

use super::{Done, say};
use crate::cli::{Router, RouterCommand, Target};
use control::client::Client;
use control::view::{ReloadReply, ReloadRequest};

pub(crate) fn router(args: &Router) -> Done {
    let target = |router: Option<&str>| Target {
        socket: args.socket.clone(),
        router: router.map(str::to_owned),
    };
    match &args.command {
        RouterCommand::Add { name } => add(&target(None).client()?, name),
        RouterCommand::Remove { name } => {
            let stopped = target(Some(name)).client()?.post("/v1/stop", Vec::new());
            stopped.map(|_| ())
        }
    }
}

fn add(client: &Client, name: &str) -> Done {
    let request = ReloadRequest {
        add: Some(name.to_owned()),
        ..ReloadRequest::default()
    };
    let body = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    let bytes = client.post("/v1/reload", body)?;
    let reply: ReloadReply = serde_json::from_slice(&bytes)
        .map_err(|e| format!("cannot read the router's answer: {e}"))?;
    say(&reply.text);
    match reply.good {
        true => Ok(()),
        false => Err(format!("router {name} has not been added")),
    }
}
