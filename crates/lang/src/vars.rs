//! Variables: where they are defined, and putting their values into configuration strings.

use crate::args::{Kind, Pieces, line_comment};
use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::lexer::variable_len;
use crate::source::{SourceMap, Span};
use crate::template::{Define, TemplateId};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// How far definitions may lean on each other.
const DEPTH_MAX: usize = 50;
/// Longest configuration string, in bytes.
const CONFIG_BYTES_MAX: usize = 1 << 20;
/// All configuration strings that hold values of variables, in bytes.
const TOTAL_BYTES_MAX: usize = 64 << 20;

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
    /// Written here, not yet needed.
    Written(Span),
    /// Being worked out: a use of the name inside its own value means the one outside.
    Busy(Span),
    Known(Rc<Config>),
}

/// All frames, and what went wrong.
pub(crate) struct Variables<'a> {
    map: &'a SourceMap,
    frames: Vec<Frame>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    bytes: usize,
    depth: usize,
    /// A text was too long, which is told once.
    full: bool,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(map: &'a SourceMap) -> Variables<'a> {
        Variables {
            map,
            frames: Vec::new(),
            diagnostics: Vec::new(),
            bytes: 0,
            depth: 0,
            full: false,
        }
    }

    /// A frame with the definitions of a template; arguments go before them.
    pub(crate) fn frame(
        &mut self,
        template: TemplateId,
        parent: Option<FrameId>,
        defines: &[Define],
    ) -> FrameId {
        let written = |d: &Define| (d.name.clone(), Value::Written(d.value));
        self.frames.push(Frame {
            template,
            parent,
            values: defines.iter().map(written).collect(),
        });
        self.frames.len() - 1
    }

    pub(crate) fn set(&mut self, frame: FrameId, name: &str, value: Config) {
        let values = &mut self.frames[frame].values;
        values.insert(name.to_owned(), Value::Known(Rc::new(value)));
    }

    pub(crate) fn set_written(&mut self, frame: FrameId, name: &str, value: Span) {
        let values = &mut self.frames[frame].values;
        values.insert(name.to_owned(), Value::Written(value));
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
                Some(Value::Known(value)) => return Some(value),
                Some(Value::Busy(span)) => circular = Some(span),
                Some(Value::Written(span)) => return Some(self.work_out(id, name, span)),
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
        let busy = Value::Busy(span);
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
        let known = Value::Known(value.clone());
        self.frames[frame].values.insert(name.to_owned(), known);
        value
    }

    /// A configuration string with variables replaced and comments made spaces, trimmed.
    pub(crate) fn expand(&mut self, frame: FrameId, raw: Span) -> Config {
        let mut out = Config::empty(raw);
        self.expand_into(frame, raw, &mut out);
        out.trimmed()
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
                at += 1;
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
        let value = self.look_up(frame, variable.name, at);
        let value = match (&variable.rest, value) {
            (Rest::Index(range), Some(value)) => {
                let index = self.nested(frame, inner(range));
                let words = crate::args::words(&value.text);
                let index = index.text.trim().parse::<usize>().ok();
                match index.and_then(|i| words.get(i)) {
                    Some(word) => value.slice(word.clone()),
                    None => return,
                }
            }
            (Rest::Default(range), None) => self.nested(frame, inner(range)),
            (_, Some(value)) => Config::clone(&value),
            (_, None) => {
                let text = self.map.slice(at);
                out.push_undefined(text, at, variable.name);
                return;
            }
        };
        let origin = value.span();
        let text = if quoted {
            escape(&value.text)
        } else {
            value.text
        };
        self.bytes += text.len();
        if self.full {
            return;
        }
        if out.text.len() + text.len() > CONFIG_BYTES_MAX || self.bytes > TOTAL_BYTES_MAX {
            self.full = true;
            self.diagnostics.push(
                Diagnostic::error("too-large", format!("the value of `${}` makes the text too long", variable.name))
                    .at(at)
                    .help(format!("a configuration string may have {CONFIG_BYTES_MAX} bytes, and all together {TOTAL_BYTES_MAX}")),
            );
            return;
        }
        out.push(&text, at, Some(origin));
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

/// As Click does: inside double quotes a value keeps its own quotes as characters.
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

/// A use of a variable at the start of a text.
struct Variable<'a> {
    name: &'a str,
    rest: Rest,
    /// All of it, in bytes.
    len: usize,
}

/// What follows the name in braces.
enum Rest {
    Nothing,
    /// `${name-default}`
    Default(Range<usize>),
    /// `${name[1]}`: a word of the value.
    Index(Range<usize>),
}

impl Variable<'_> {
    /// None if the dollar is just a dollar.
    fn read(text: &str) -> Option<Variable<'_>> {
        let bytes = text.as_bytes();
        if bytes.get(1) != Some(&b'{') {
            let len = variable_len(&bytes[1..]);
            return (len > 0).then(|| Variable {
                name: &text[1..1 + len],
                rest: Rest::Nothing,
                len: len + 1,
            });
        }
        let close = closing_brace(text)?;
        let len = variable_len(&bytes[2..]);
        let (name, start) = (&text[2..2 + len], 2 + len);
        let rest = match bytes[start] {
            _ if len == 0 => return None,
            b'}' => Rest::Nothing,
            b'-' => Rest::Default(start + 1..close),
            b'[' if bytes[close - 1] == b']' => Rest::Index(start + 1..close - 1),
            _ => return None,
        };
        Some(Variable {
            name,
            rest,
            len: close + 1,
        })
    }
}

/// The brace that closes the one behind the dollar. Braces in quotes do not count.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (range, kind) in Pieces::new(text) {
        if kind != Kind::Text {
            continue;
        }
        match text.as_bytes()[range.start] {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(range.start),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}
