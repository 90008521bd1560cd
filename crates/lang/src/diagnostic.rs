//! Diagnostics: mistakes as values, for people and for programs.
//!
//! A [`Diagnostic`] says where, what, and what to do. This crate makes them for mistakes of the language; the engine
//! and the elements make them for all other mistakes of a configuration. So all mistakes are collected and shown in
//! one form.

use crate::secret::masked;
use crate::source::{SourceMap, Span};
use std::fmt::Write;

mod click;

pub use click::{click_quotes, render_click};

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information; nothing is wrong.
    Note,
    /// The configuration runs, but probably not as meant.
    Warning,
    /// The configuration cannot run.
    Error,
}

/// The element that a mistake concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Name and class: `ttl :: DecIPTTL`.
    pub title: String,
    /// Place of the declaration.
    pub declared_at: Span,
    /// Phase in which the mistake was found (`configuring`, `initializing`); `None` if the message names the element
    /// itself.
    pub phase: Option<&'static str>,
}

/// A mistake or note in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Kind in kebab-case, for programs: `syntax`, `unknown-class`.
    pub code: &'static str,
    /// Description of the mistake, in one line.
    pub message: String,
    /// The element concerned, if the diagnostic is about one.
    pub subject: Option<Subject>,
    /// Place, if known.
    pub span: Option<Span>,
    /// A few words behind the underline.
    pub label: Option<String>,
    /// Further notes, each with its place if known.
    pub notes: Vec<(Option<Span>, String)>,
    /// Advice.
    pub help: Option<String>,
    /// Click's wording where it differs from the message, each line with its position if that differs. Empty if Click
    /// does not report the mistake.
    pub click: Option<Vec<(Option<Span>, String)>>,
    /// End of the text that Click has read when it finds the mistake: Click tells mistakes in this order, and names the
    /// line. `None` if Click finds the mistake after it has read everything.
    pub read_to: Option<Span>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            subject: None,
            span: None,
            label: None,
            notes: Vec::new(),
            help: None,
            click: None,
            read_to: None,
        }
    }

    /// A warning without a place.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, message)
        }
    }

    /// Sets the diagnostic's position.
    pub fn at(mut self, span: Span) -> Diagnostic {
        self.span = Some(span);
        self
    }

    /// Names the element that is concerned; `phase` as in [`Subject::phase`].
    pub fn about(
        mut self,
        title: impl Into<String>,
        declared_at: Span,
        phase: Option<&'static str>,
    ) -> Diagnostic {
        self.subject = Some(Subject {
            title: title.into(),
            declared_at,
            phase,
        });
        self
    }

    /// The message, prefixed with the element unless it names the element itself.
    pub fn text(&self) -> String {
        let text = match &self.subject {
            Some(about) if about.phase.is_some() => {
                format!("in `{}`: {}", about.title, self.message)
            }
            _ => self.message.clone(),
        };
        // A message about a key may contain the key.
        masked(&text).into_owned()
    }

    /// Puts words behind the underline.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = Some(label.into());
        self
    }

    /// Adds a note without a place.
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push((None, text.into()));
        self
    }

    /// Adds a note about another place.
    pub fn note_at(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.notes.push((Some(span), text.into()));
        self
    }

    /// Sets the remedy.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// Adds a line with Click's wording of the mistake.
    pub fn click(mut self, text: impl Into<String>) -> Diagnostic {
        self.click.get_or_insert_default().push((None, text.into()));
        self
    }

    /// Adds a line with Click's wording, at another position.
    pub fn click_at(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        let line = (Some(span), text.into());
        self.click.get_or_insert_default().push(line);
        self
    }

    /// Sets [`Diagnostic::read_to`] to the end of `span`, unless it is set.
    pub fn read_to(mut self, span: Span) -> Diagnostic {
        self.read_to.get_or_insert(span.after());
        self
    }

    /// Hides the mistake in Click's output: Click has reported it with another one.
    pub fn click_silent(mut self) -> Diagnostic {
        self.click.get_or_insert_default();
        self
    }

    /// True for errors, false for warnings.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Maximum width of a shown line, in columns.
const EXCERPT_COLUMNS_MAX: usize = 160;
const TAB_COLUMNS: usize = 4;
/// Number of bytes on each side of a place that are considered for the excerpt.
const EXCERPT_BYTES_MAX: usize = 4 * EXCERPT_COLUMNS_MAX;

/// Text for people: `file:line:column: error: message`, the line with the place underlined, notes, and the remedy
/// after `=`. Ends with a line feed.
pub fn render(diagnostic: &Diagnostic, map: &SourceMap) -> String {
    let mut out = String::new();
    let kind = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let label = diagnostic.label.as_deref().unwrap_or("");
    paragraph(
        &mut out,
        kind,
        &diagnostic.text(),
        diagnostic.span,
        label,
        map,
    );
    for (span, text) in &diagnostic.notes {
        if span.is_some() {
            paragraph(&mut out, "note", &masked(text), *span, "", map);
        } else {
            let _ = writeln!(out, "    = note: {}", masked(text));
        }
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "    = {}", masked(help));
    }
    out
}

/// Renders all diagnostics, in the order of [`sort`].
pub fn render_all(diagnostics: &[Diagnostic], map: &SourceMap) -> String {
    diagnostics.iter().map(|d| render(d, map)).collect()
}

/// `1 input`, `2 inputs`.
pub fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// Like [`count`], with `no inputs` for zero.
pub(crate) fn count_in_words(n: usize, thing: &str) -> String {
    match n {
        0 => format!("no {thing}s"),
        n => count(n, thing),
    }
}

/// Sorts by position, those without one last. Keeps the order of those at the same position and removes duplicates.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|d| match d.span {
        Some(span) => (0, Some((span.file, span.start))),
        None => (1, None),
    });
    let mut seen = std::collections::HashSet::new();
    diagnostics.retain(|d| seen.insert((d.span, d.code, d.text())));
}

/// Sorts by [`Diagnostic::read_to`], those without it last. Keeps the order of equal ones.
pub fn sort_as_read(diagnostics: &mut [Diagnostic], map: &SourceMap) {
    diagnostics.sort_by_cached_key(|d| match d.read_to {
        Some(read_to) => (0, map.reading_order(read_to)),
        None => (1, Vec::new()),
    });
}

fn paragraph(
    out: &mut String,
    kind: &str,
    message: &str,
    span: Option<Span>,
    label: &str,
    map: &SourceMap,
) {
    let Some(span) = span else {
        let _ = writeln!(out, "{kind}: {message}");
        return;
    };
    let place = map.start(span);
    let _ = writeln!(
        out,
        "{}:{}:{}: {kind}: {message}",
        place.file, place.line, place.column
    );
    let (line, line_span) = map.line_of(span);
    let start = (span.start - line_span.start) as usize;
    let end = (span.end.min(line_span.end).max(span.start) - line_span.start) as usize;
    let near = line.floor_char_boundary(start.saturating_sub(EXCERPT_BYTES_MAX));
    let far = line.ceil_char_boundary(start.saturating_add(EXCERPT_BYTES_MAX).min(line.len()));
    let begin = line_span.range().start;
    let part = &map.masked(line_span.file)[begin + near..begin + far];
    if part.trim().is_empty() {
        return;
    }
    let (mut shown, mut from, width) = excerpt(part, start - near, end.min(far) - near);
    if near > 0 && !shown.starts_with('…') {
        shown.insert(0, '…');
        from += 1;
    }
    let number = place.line.to_string();
    let gutter = " ".repeat(number.len());
    let _ = writeln!(out, " {number} | {shown}");
    let pad = " ".repeat(from);
    let underline = "^".repeat(width.max(1));
    let _ = writeln!(
        out,
        "{}",
        format!(" {gutter} | {pad}{underline} {label}").trim_end()
    );
}

/// A line made printable, with the start and width of the underline in columns.
fn excerpt(line: &str, start: usize, end: usize) -> (String, usize, usize) {
    let (mut shown, mut column) = (String::new(), 0);
    let (mut from, mut to) = (None, None);
    for (at, c) in line.char_indices() {
        if at >= start && from.is_none() {
            from = Some(column);
        }
        if at >= end && to.is_none() {
            to = Some(column);
        }
        if c == '\t' {
            let spaces = TAB_COLUMNS - column % TAB_COLUMNS;
            shown.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            shown.push(if c.is_control() { '\u{fffd}' } else { c });
            column += columns(c);
        }
    }
    let from = from.unwrap_or(column);
    let to = to.unwrap_or(column).max(from);
    clip_line(shown, from, to)
}

/// Cuts a very long line around the underline.
fn clip_line(shown: String, from: usize, to: usize) -> (String, usize, usize) {
    let count = shown.chars().count();
    if count <= EXCERPT_COLUMNS_MAX {
        return (shown, from, to - from);
    }
    // Columns and characters differ only in wide scripts; there the excerpt is slightly off centre.
    let first = from.saturating_sub(EXCERPT_COLUMNS_MAX / 4).min(count);
    let mut cut: String = shown
        .chars()
        .skip(first)
        .take(EXCERPT_COLUMNS_MAX)
        .collect();
    if first + EXCERPT_COLUMNS_MAX < count {
        cut.push('…');
    }
    let room = EXCERPT_COLUMNS_MAX - (from - first).min(EXCERPT_COLUMNS_MAX);
    let (lead, shift) = if first > 0 { ("…", 1) } else { ("", 0) };
    (
        format!("{lead}{cut}"),
        from - first + shift,
        (to - from).min(room),
    )
}

/// Width of a character on a terminal in columns: 2 for East Asian wide characters, 0 for combining marks.
fn columns(c: char) -> usize {
    match c as u32 {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// All diagnostics as a JSON array of objects with the keys file, line, column, end_line, end_column, severity, code,
/// message, label, help and notes (objects with file, line, column, message). Places count from 1 in characters, the
/// end is exclusive; unknown values are null.
pub fn to_json(diagnostics: &[Diagnostic], map: &SourceMap) -> String {
    let mut out = String::from("[");
    for (i, diagnostic) in diagnostics.iter().enumerate() {
        out.push_str(if i == 0 { "\n  {" } else { ",\n  {" });
        json_place(&mut out, diagnostic.span, map);
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        json_pair(&mut out, "severity", Some(severity));
        json_pair(&mut out, "code", Some(diagnostic.code));
        json_pair(&mut out, "message", Some(&diagnostic.text()));
        json_pair(&mut out, "label", diagnostic.label.as_deref());
        json_pair(&mut out, "help", diagnostic.help.as_deref());
        out.push_str("\"notes\": [");
        for (j, (span, text)) in diagnostic.notes.iter().enumerate() {
            out.push_str(if j == 0 { "{" } else { ", {" });
            json_place(&mut out, *span, map);
            out.push_str("\"message\": ");
            json_string(&mut out, text);
            out.push('}');
        }
        out.push_str("]}");
    }
    out.push_str(if diagnostics.is_empty() { "]" } else { "\n]" });
    out
}

fn json_place(out: &mut String, span: Option<Span>, map: &SourceMap) {
    let Some(span) = span else {
        out.push_str("\"file\": null, \"line\": null, \"column\": null, ");
        out.push_str("\"end_line\": null, \"end_column\": null, ");
        return;
    };
    let (start, end) = (map.start(span), map.end(span));
    json_pair(out, "file", Some(&start.file));
    let _ = write!(
        out,
        "\"line\": {}, \"column\": {}, \"end_line\": {}, \"end_column\": {}, ",
        start.line, start.column, end.line, end.column
    );
}

fn json_pair(out: &mut String, key: &str, value: Option<&str>) {
    let _ = write!(out, "\"{key}\": ");
    match value {
        Some(value) => json_string(out, value),
        None => out.push_str("null"),
    }
    out.push_str(", ");
}

/// Writes a JSON string (RFC 8259, 7).
fn json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(map: &mut SourceMap, text: &str, what: &str) -> Span {
        let file = map.add("router.click", text);
        let at = text.find(what).expect("the text holds it");
        Span::new(file, at..at + what.len())
    }

    #[test]
    fn a_place_is_underlined_behind_tabs_and_wide_characters() {
        let mut map = SourceMap::new();
        let span = place(&mut map, "x;\n\ta\t/*é漢*/ b;", "b;");
        let shown = render(&Diagnostic::error("syntax", "no").at(span), &map);
        assert_eq!(
            shown,
            "router.click:2:11: error: no\n 2 |     a   /*é漢*/ b;\n   |                 ^^\n"
        );
    }

    #[test]
    fn notes_and_help_follow_the_place() {
        let mut map = SourceMap::new();
        let span = place(&mut map, "a :: X;", "a");
        let shown = render(
            &Diagnostic::warning("syntax", "hm")
                .at(span)
                .label("this")
                .note("more")
                .help("do it"),
            &map,
        );
        assert_eq!(
            shown,
            "router.click:1:1: warning: hm\n 1 | a :: X;\n   | ^ this\n    = note: more\n    = do it\n"
        );
    }

    #[test]
    fn a_very_long_line_is_cut_around_the_place() {
        let mut map = SourceMap::new();
        let text = format!("{}here{}", "x ".repeat(500), " y".repeat(500));
        let span = place(&mut map, &text, "here");
        let shown = render(&Diagnostic::error("syntax", "no").at(span), &map);
        assert!(shown.lines().all(|line| line.chars().count() < 180));
        let lines: Vec<&str> = shown.lines().collect();
        let byte = lines[2].find('^').expect("an underline");
        let under: String = lines[1].chars().skip(byte).take(4).collect();
        assert_eq!(under, "here");
    }

    #[test]
    fn json_escapes_all_required_characters() {
        let mut map = SourceMap::new();
        let span = place(&mut map, "a\nb", "b");
        let json = to_json(
            &[Diagnostic::error("syntax", "a \"quote\"\u{1}").at(span)],
            &map,
        );
        assert!(json.contains(r#""line": 2, "column": 1, "end_line": 2, "end_column": 2"#));
        assert!(json.contains(r#""message": "a \"quote\"\u0001""#));
        assert_eq!(to_json(&[], &map), "[]");
    }
}
