//! `ashlar set` and `ashlar stop`

use super::{Done, client, print, print_json};
use crate::cli::{Set, Stop};
use control::client::encode;
use serde_json::json;
use std::io::Read;

pub(crate) fn set(set: &Set) -> Done {
    let client = client(&set.target)?;
    let value = if set.value == ["-"] {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|e| format!("cannot read standard input: {e}"))?;
        bytes
    } else {
        set.value.join(" ").into_bytes()
    };
    let answer = client.put(&format!("/v1/handlers/{}", encode(&set.handler)), value)?;
    let text = String::from_utf8_lossy(&answer);
    if set.json {
        return print_json(&json!({"handler": set.handler, "value": text}));
    }
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    print(&format!("{text}{end}"))
}

pub(crate) fn stop(asked: &Stop) -> Done {
    client(&asked.target)?.post("/v1/stop", Vec::new())?;
    match asked.json {
        true => print_json(&json!({"stopped": true})),
        false => Ok(()),
    }
}
