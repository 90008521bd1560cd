//! Messages to the operator on standard error.

use std::io::{self, Write};

/// Writes a line to standard error.
pub fn complain(text: &str) {
    // The reader may have closed its end; work continues nevertheless.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
