//! Variables: their definitions, and substitution of their values in configuration strings.

use crate::args::{Kind, Pieces, line_comment};
use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::lexer::variable_len;
use crate::source::{FileId, SourceMap, Span};
use crate::template::{Define, Program, TemplateId};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// Names of the variables that texts mention as `$NAME` or `${NAME...}`, also in comments, without the parameters of
/// compound elements.
pub(crate) fn variables(map: &SourceMap, program: &Program) -> BTreeSet<String> {
    let each = map.texts().flat_map(|text| {
        text.match_indices('$').map(|(at, _)| {
            let rest = &text[at + 1..];
            let rest = rest.strip_prefix('{').unwrap_or(rest);
            &rest[..variable_len(rest.as_bytes())]
        })
    });
    let formals = program.templates.iter().flat_map(|t| &t.formals);
    let formals: BTreeSet<&str> = formals.map(|formal| &*formal.variable).collect();
    let each = each.filter(|name| !name.is_empty() && !formals.contains(name));
    each.map(str::to_owned).collect()
}

/// Maximum depth of definitions that refer to each other.
const DEPTH_MAX: usize = 50;
/// Maximum length in bytes of a configuration string after substitution.
const CONFIG_BYTES_MAX: usize = 1 << 20;
/// Allowance in bytes for all configuration strings together, and for the work on them, in addition to the length of
/// the text.
const EXTRA_BYTES_MAX: usize = 16 << 20;

/// Index of a frame.
pub(crate) type FrameId = usize;

/// The variables of one use of a template.
pub(crate) struct Frame {
    pub(crate) template: TemplateId,
    pub(crate) parent: Option<FrameId>,
    values: HashMap<String, Value>,
}

#[derive(Clone)]
enum Value {
    /// Defined here, not evaluated yet.
    Unevaluated(Span),
    /// Being evaluated: a use of the name inside its own value means the outer variable.
    Evaluating(Span),
    Evaluated(Rc<Config>),
}

/// Frames of variables, and mistakes.
pub(crate) struct Variables<'a> {
    map: &'a SourceMap,
    frames: Vec<Frame>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    bytes: usize,
    bytes_max: usize,
    depth: usize,
    /// True if a text was too long, which is reported once.
    pub(crate) full: bool,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(map: &'a SourceMap) -> Variables<'a> {
        Variables {
            map,
            frames: Vec::new(),
            diagnostics: Vec::new(),
            bytes: 0,
            bytes_max: 2 * map.bytes() + EXTRA_BYTES_MAX,
            depth: 0,
            full: false,
        }
    }

    /// The end of a file.
    pub(crate) fn end_of(&self, file: FileId) -> Span {
        let end = self.map.text(file).len();
        Span::new(file, end..end)
    }

    /// Makes a frame with the definitions of a template; arguments take precedence.
    pub(crate) fn frame(
        &mut self,
        template: TemplateId,
        parent: Option<FrameId>,
        defines: &[Define],
    ) -> FrameId {
        let written = |d: &Define| (d.name.clone(), Value::Unevaluated(d.value));
        self.frames.push(Frame {
            template,
            parent,
            values: defines.iter().map(written).collect(),
        });
        self.frames.len() - 1
    }

    pub(crate) fn set(&mut self, frame: FrameId, name: &str, value: Config) {
        let values = &mut self.frames[frame].values;
        values.insert(name.to_owned(), Value::Evaluated(Rc::new(value)));
    }

    pub(crate) fn set_written(&mut self, frame: FrameId, name: &str, value: Span) {
        let values = &mut self.frames[frame].values;
        values.insert(name.to_owned(), Value::Unevaluated(value));
    }

    /// The frame of `template` around `frame`.
    pub(crate) fn frame_of(&self, frame: FrameId, template: TemplateId) -> Option<FrameId> {
        let mut at = Some(frame);
        while let Some(id) = at {
            if self.frames[id].template == template {
                return at;
            }
            at = self.frames[id].parent;
        }
        None
    }

    fn look_up(&mut self, frame: FrameId, name: &str, at: Span) -> Option<Rc<Config>> {
        let (mut next, mut circular) = (Some(frame), None);
        while let Some(id) = next {
            next = self.frames[id].parent;
            match self.frames[id].values.get(name).cloned() {
                None => {}
                Some(Value::Evaluated(value)) => return Some(value),
                Some(Value::Evaluating(span)) => circular = Some(span),
                Some(Value::Unevaluated(span)) => return Some(self.work_out(id, name, span)),
            }
        }
        if let Some(span) = circular {
            self.diagnostics.push(
                Diagnostic::error(
                    "circular-definition",
                    format!("`${name}` is defined by itself"),
                )
                .at(at)
                .note_at(span, "this value needs the value of this variable")
                .help("give one of the variables a value without the others"),
            );
        }
        None
    }

    fn work_out(&mut self, frame: FrameId, name: &str, span: Span) -> Rc<Config> {
        let busy = Value::Evaluating(span);
        self.frames[frame].values.insert(name.to_owned(), busy);
        self.depth += 1;
        let value = if self.depth > DEPTH_MAX {
            self.diagnostics.push(
                Diagnostic::error(
                    "too-deep",
                    format!("more than {DEPTH_MAX} variables define each other"),
                )
                .at(span)
                .help("write the value itself"),
            );
            Config::empty(span)
        } else {
            self.expand(frame, span)
        };
        self.depth -= 1;
        let value = Rc::new(value);
        let known = Value::Evaluated(value.clone());
        self.frames[frame].values.insert(name.to_owned(), known);
        value
    }

    /// A configuration string with variables replaced and comments made spaces, trimmed.
    pub(crate) fn expand(&mut self, frame: FrameId, raw: Span) -> Config {
        let mut out = Config::empty(raw);
        // Each use of a compound element evaluates its strings again.
        if self.charge(raw, raw.range().len(), 0, "this text") {
            self.expand_into(frame, raw, &mut out);
        }
        out.trimmed()
    }

    /// True if there is room for `bytes` more bytes of work, with `written` bytes in the string so far.
    fn charge(&mut self, at: Span, bytes: usize, written: usize, what: &str) -> bool {
        self.bytes += bytes;
        let fits = written <= CONFIG_BYTES_MAX && self.bytes <= self.bytes_max;
        if !fits && !self.full {
            self.diagnostics.push(
                Diagnostic::error(
                    "too-large",
                    format!("{what} makes the configuration too long"),
                )
                .at(at)
                .help(format!(
                    "a configuration string may have {CONFIG_BYTES_MAX} bytes, and all together {}",
                    self.bytes_max
                )),
            );
        }
        self.full |= !fits;
        !self.full
    }

    fn expand_into(&mut self, frame: FrameId, raw: Span, out: &mut Config) {
        let map = self.map;
        let text = map.slice(raw);
        let base = raw.start as usize;
        let place = |range: Range<usize>| Span::new(raw.file, base + range.start..base + range.end);
        let mut run = 0;
        let mut pieces = Pieces::new(text);
        while let Some((range, kind)) = pieces.next() {
            let skip_to = match kind {
                Kind::Comment => {
                    out.push(&text[run..range.start], place(run..range.start), None);
                    out.push(" ", place(range.clone()), Some(place(range.clone())));
                    range.end
                }
                Kind::Double => {
                    self.expand_quoted(frame, raw, range.clone(), run, out);
                    range.end
                }
                Kind::Text if text[range.clone()] == *"$" => {
                    let Some(variable) = Variable::read(&text[range.start..]) else {
                        if text[range.start..].starts_with("$$") {
                            // The second dollar begins no variable.
                            pieces.seek(range.start + 2);
                        }
                        continue;
                    };
                    let end = range.start + variable.len;
                    out.push(&text[run..range.start], place(run..range.start), None);
                    self.substitute(frame, place(range.start..end), &variable, false, out);
                    end
                }
                Kind::Text if text[range.clone()] == *"#" && starts_line(text, range.start) => {
                    out.push(&text[run..range.start], place(run..range.start), None);
                    line_comment(text.as_bytes(), range.start)
                }
                _ => continue,
            };
            run = skip_to;
            pieces.seek(skip_to);
        }
        out.push(&text[run..], place(run..text.len()), None);
    }

    /// Copies `text[run..range.start]` and the string in double quotes at `range`.
    fn expand_quoted(
        &mut self,
        frame: FrameId,
        raw: Span,
        range: Range<usize>,
        mut run: usize,
        out: &mut Config,
    ) {
        let text = self.map.slice(raw);
        let base = raw.start as usize;
        let place = |range: Range<usize>| Span::new(raw.file, base + range.start..base + range.end);
        let bytes = text.as_bytes();
        let mut at = range.start;
        while at < range.end {
            if bytes[at] == b'\\' {
                at += 2;
                continue;
            }
            let variable = (bytes[at] == b'$').then(|| Variable::read(&text[at..range.end]));
            let Some(Some(variable)) = variable else {
                at += if bytes[at..].starts_with(b"$$") { 2 } else { 1 };
                continue;
            };
            out.push(&text[run..at], place(run..at), None);
            let end = at + variable.len;
            self.substitute(frame, place(at..end), &variable, true, out);
            (run, at) = (end, end);
        }
        out.push(&text[run..range.end], place(run..range.end), None);
    }

    fn substitute(
        &mut self,
        frame: FrameId,
        at: Span,
        variable: &Variable<'_>,
        quoted: bool,
        out: &mut Config,
    ) {
        let inner = |range: &Range<usize>| {
            let start = at.start as usize;
            Span::new(at.file, start + range.start..start + range.end)
        };
        if self.full {
            return;
        }
        let value = self.look_up(frame, variable.name, at);
        let known = value.as_ref().map_or(0, |value| value.text.len());
        let what = format!("the value of `${}`", variable.name);
        let index = matches!(variable.suffix, NameSuffix::Index(_));
        let written = if index { 0 } else { out.text.len() + known };
        if !self.charge(at, known, written, &what) {
            return;
        }
        let value = match (&variable.suffix, value) {
            (NameSuffix::Index(range), Some(value)) => {
                let index = self.nested(frame, inner(range));
                let words = crate::args::words(&value.text);
                match index.text.parse::<usize>() {
                    Ok(index) => match words.get(index) {
                        Some(word) => value.slice(word.clone()),
                        None => return,
                    },
                    // An index that is no number chooses no word, as in Click.
                    Err(_) => Config::clone(&value),
                }
            }
            (NameSuffix::Default(range), None) => self.nested(frame, inner(range)),
            (_, Some(value)) => Config::clone(&value),
            (_, None) => {
                let text = self.map.slice(at);
                if text.starts_with("$(") {
                    // A script's call.
                    out.push(text, at, None);
                } else {
                    out.push_undefined(text, at, variable.name);
                }
                return;
            }
        };
        let origin = value.span();
        let text = if quoted {
            escape(&value.text)
        } else {
            value.text
        };
        // Escapes may have made it longer; a default value is charged only here.
        if self.charge(at, text.len(), out.text.len() + text.len(), &what) {
            out.push(&text, at, Some(origin));
        }
    }

    fn nested(&mut self, frame: FrameId, span: Span) -> Config {
        self.depth += 1;
        let mut out = Config::empty(span);
        if self.depth <= DEPTH_MAX {
            self.expand_into(frame, span, &mut out);
        }
        self.depth -= 1;
        out
    }
}

fn starts_line(text: &str, at: usize) -> bool {
    at > 0 && matches!(text.as_bytes()[at - 1], b'\n' | b'\r')
}

/// Escapes a value as Click does inside double quotes: its own quotes become ordinary characters.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A use of a variable, at the start of a text.
struct Variable<'a> {
    name: &'a str,
    suffix: NameSuffix,
    /// Length of the whole, in bytes.
    len: usize,
}

/// Text after the name in braces.
enum NameSuffix {
    Nothing,
    /// `${name-default}`
    Default(Range<usize>),
    /// `${name[1]}`: a word of the value.
    Index(Range<usize>),
}

impl Variable<'_> {
    /// Parses a use of a variable; `None` if the dollar stands for itself.
    fn read(text: &str) -> Option<Variable<'_>> {
        let bytes = text.as_bytes();
        if bytes.get(1) == Some(&b'(') {
            // `$(name)` is a variable only if one has that name; otherwise it is a script's call.
            let len = variable_len(&bytes[2..]);
            let closed = len > 0 && bytes.get(2 + len) == Some(&b')');
            return closed.then(|| Variable {
                name: &text[2..2 + len],
                suffix: NameSuffix::Nothing,
                len: len + 3,
            });
        }
        if bytes.get(1) != Some(&b'{') {
            let len = variable_len(&bytes[1..]);
            return (len > 0).then(|| Variable {
                name: &text[1..1 + len],
                suffix: NameSuffix::Nothing,
                len: len + 1,
            });
        }
        let len = variable_len(&bytes[2..]);
        let (name, start) = (&text[2..2 + len], 2 + len);
        if len == 0 || !matches!(bytes.get(start), Some(b'}' | b'-' | b'[')) {
            return None;
        }
        let close = closing_brace(text)?;
        let rest = match bytes[start] {
            b'}' => NameSuffix::Nothing,
            b'-' => NameSuffix::Default(start + 1..close),
            b'[' if bytes[close - 1] == b']' => NameSuffix::Index(start + 1..close - 1),
            _ => return None,
        };
        Some(Variable {
            name,
            suffix: rest,
            len: close + 1,
        })
    }
}

/// Index of the brace that closes the one after the dollar. Braces in quotes do not count. Deeper nesting than values
/// may have is not searched, because each level would be searched again.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (range, kind) in Pieces::new(text) {
        if kind != Kind::Text {
            continue;
        }
        match text.as_bytes()[range.start] {
            b'{' if depth > DEPTH_MAX => return None,
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(range.start),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}
