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

/// Value of the words, or standard input for `-`.
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

/// An answer whose last line ends with a line feed.
pub(super) fn with_end(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{text}{end}")
}

pub(crate) fn stop(asked: &Stop) -> Done {
    asked.target.client()?.stop()?;
    match asked.json {
        true => print_json(&json!({"stopped": true})),
        false => Ok(()),
    }
}
