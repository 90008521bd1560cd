//! `ashlar set` and `ashlar stop`

use super::{Done, print, print_json};
use crate::cli::{Set, Stop};
use control::client::encode;
use serde_json::json;
use std::io::Read;

pub(crate) fn set(set: &Set) -> Done {
    let client = set.target.client()?;
    let value = value(&set.value)?;
    let answer = client.put(&format!("/v1/handlers/{}", encode(&set.handler)), value)?;
    let text = String::from_utf8_lossy(&answer);
    if set.json {
        return print_json(&json!({"handler": set.handler, "value": text}));
    }
    print(&with_end(&text))
}

/// Value for a handler: the words joined, or standard input for `-`.
pub(super) fn value(words: &[String]) -> Result<Vec<u8>, String> {
    if words != ["-"] {
        return Ok(words.join(" ").into_bytes());
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot read standard input: {e}"))?;
    Ok(bytes)
}

/// Appends a line feed unless the text ends with one.
pub(super) fn with_end(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{text}{end}")
}

pub(crate) fn stop(args: &Stop) -> Done {
    args.target.client()?.stop()?;
    match args.json {
        true => print_json(&json!({"stopped": true})),
        false => Ok(()),
    }
}
