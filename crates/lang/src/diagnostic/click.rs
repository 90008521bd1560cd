//! Output of diagnostics in Click's format.

use super::{Diagnostic, Severity};
use crate::source::{SourceMap, Span};
use std::fmt::Write;

/// Replaces this program's quotes by Click's, which are those of `cc`.
pub fn click_quotes(text: &str) -> String {
    text.replace('`', "'")
}

/// All diagnostics in Click's format, in the given order: `file:line: message`. Those found while an element was
/// configured or initialized follow a line that says so, indented.
pub fn render_click(diagnostics: &[Diagnostic], map: &SourceMap) -> String {
    let mut out = String::new();
    let mut head = String::new();
    let landmark = |span: Option<Span>| {
        span.map_or_else(String::new, |span| {
            let at = map.start(span);
            format!("{}:{}: ", at.file, at.line)
        })
    };
    for diagnostic in diagnostics {
        let about = diagnostic.subject.as_ref();
        let place = about.map(|a| a.declared_at).or(diagnostic.span);
        let kind = match diagnostic.severity {
            Severity::Warning => "warning: ",
            Severity::Error | Severity::Note => "",
        };
        let own = [(None, diagnostic.message.clone())];
        for (at, words) in diagnostic.click.as_deref().unwrap_or(&own) {
            let place = landmark(at.or(diagnostic.read_to).or(place));
            let message = click_quotes(words);
            let Some((about, doing)) = about.and_then(|a| Some((a, a.phase?))) else {
                head.clear();
                let _ = writeln!(out, "{place}{kind}{message}");
                continue;
            };
            let now = format!("{place}While {doing} '{}':\n", about.title);
            if now != head {
                out += &now;
                head = now;
            }
            for line in format!("{kind}{message}").lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_one_element_share_their_first_line() {
        let mut map = SourceMap::new();
        let file = map.add("a.click", "\nx :: X;");
        let at = Span::new(file, 1..7);
        let wrong =
            |text| Diagnostic::error("arguments", text).about("x :: X", at, Some("configuring"));
        let loose = Diagnostic::warning("ports", "`x :: X` hm").at(at);
        assert_eq!(
            render_click(&[wrong("one"), wrong("two"), loose], &map),
            "a.click:2: While configuring 'x :: X':\n  one\n  two\na.click:2: warning: 'x :: X' hm\n"
        );
    }

    #[test]
    fn messages_use_clicks_words_where_they_differ() {
        let mut map = SourceMap::new();
        let file = map.add("a.click", "x :: X;\nx :: X;");
        let at = Span::new(file, 8..9);
        let twice = Diagnostic::error("redeclared", "twice").at(at);
        let twice = twice
            .click("again")
            .click_at(Span::new(file, 0..1), "first");
        let silent = Diagnostic::error("more", "more").at(at).click_silent();
        assert_eq!(
            render_click(&[twice, silent], &map),
            "a.click:2: again\na.click:1: first\n"
        );
    }
}
