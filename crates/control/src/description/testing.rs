//! Helper of tests of files.

use super::file::Parsed;
use lang::Diagnostic;

/// Line and message of each mistake; all have a remedy.
pub(super) fn mistakes(parsed: &Parsed) -> Vec<String> {
    let line = |d: &Diagnostic| d.span.map_or(0, |span| parsed.map.start(span).line);
    let all = parsed.diagnostics.iter();
    all.map(|d| {
        assert!(d.help.is_some(), "what is to be done about {}?", d.message);
        format!("{}: {}", line(d), d.message)
    })
    .collect()
}
