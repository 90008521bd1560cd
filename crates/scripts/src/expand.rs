//! Substitution: `$x`, `${x}`, `${x-default}` and `$(HANDLER ARGUMENT)` in a script's text.
//!
//! Nothing is replaced in single quotes. In double quotes a value's own quotes become plain characters. A variable
//! without a value stays as written.

use std::borrow::Cow;
use std::ops::Range;

/// Maximum nesting of `$(...)` and `${...}`.
const DEPTH_MAX: usize = 32;
/// Longest text that substitution may make, in bytes.
pub(crate) const TEXT_MAX: usize = 16 << 20;

/// Source of values.
pub(crate) trait Values {
    /// The value of a variable.
    fn variable(&mut self, name: &str) -> Option<String>;

    /// Value of `$(text)`, whose own references are replaced already. `None`: there is no such handler, and the text
    /// stays.
    fn call(&mut self, text: &str) -> Option<String>;
}

/// Form of substituted values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Unchanged.
    Plain,
    /// In quotes where that is needed, so that unquoting the whole gives each value back.
    Quoted,
}

/// Substitutes values.
pub(crate) fn expand(text: &str, style: Style, values: &mut dyn Values) -> Result<String, String> {
    expand_at(text, style, values, 0)
}

/// Substitutes values, then removes a layer of quotes of the text itself.
pub(crate) fn expand_unquoted(text: &str, values: &mut dyn Values) -> Result<String, String> {
    let text = expand(text, Style::Quoted, values)?;
    Ok(lang::args::unquote(&text).into_owned())
}

fn expand_at(
    text: &str,
    style: Style,
    values: &mut dyn Values,
    depth: usize,
) -> Result<String, String> {
    if !text.contains('$') {
        return Ok(text.to_owned());
    }
    if depth > DEPTH_MAX {
        return Err(format!(
            "more than {DEPTH_MAX} substitutions inside each other"
        ));
    }
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut at, mut run, mut quote) = (0, 0, None);
    while at < bytes.len() {
        match (bytes[at], quote) {
            (b'\'' | b'"', None) => quote = Some(bytes[at]),
            (byte, Some(open)) if byte == open => quote = None,
            (b'\\', Some(b'"')) => at += 1,
            (b'$', None | Some(b'"')) => {
                if let Some(reference) = Reference::read(&text[at..]) {
                    out.push_str(&text[run..at]);
                    let source = &text[at..at + reference.len];
                    let value = reference.value(source, values, depth)?;
                    let shown = match (quote, style) {
                        _ if value.is_none() => Cow::Borrowed(source),
                        (Some(_), _) => escape(value.as_deref().unwrap_or_default()).into(),
                        (None, Style::Quoted) => quoted(value.unwrap_or_default()).into(),
                        (None, Style::Plain) => value.unwrap_or_default().into(),
                    };
                    out.push_str(&shown);
                    if out.len() > TEXT_MAX {
                        return Err(format!("the text is longer than {TEXT_MAX} bytes"));
                    }
                    at += reference.len;
                    run = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(&text[run..]);
    Ok(out)
}

/// A value in double quotes keeps its quotes as characters.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A value that unquotes to itself.
fn quoted(value: String) -> String {
    if value.bytes().any(|b| matches!(b, b'"' | b'\'' | b'\\')) {
        format!("\"{}\"", escape(&value))
    } else {
        value
    }
}

/// Reference after a dollar.
enum ReferenceKind {
    Variable(Range<usize>),
    /// A name, and the default for a variable without a value.
    Default(Range<usize>, Range<usize>),
    Call(Range<usize>),
}

struct Reference {
    what: ReferenceKind,
    /// Length of the reference, in bytes.
    len: usize,
}

impl Reference {
    /// Parses a variable reference; `None` if the dollar is an ordinary character.
    fn read(text: &str) -> Option<Reference> {
        let bytes = text.as_bytes();
        let name = |from: usize| {
            let rest = bytes[from..].iter();
            let word = rest.take_while(|b| b.is_ascii_alphanumeric() || **b == b'_');
            from..from + word.count()
        };
        match bytes.get(1)? {
            b'(' => {
                let close = close(bytes, 1)?;
                Some(Reference {
                    what: ReferenceKind::Call(2..close),
                    len: close + 1,
                })
            }
            b'{' => {
                let close = close(bytes, 1)?;
                let word = match bytes[2] {
                    b'?' | b'#' | b'$' => 2..3,
                    _ => name(2),
                };
                let what = match bytes[word.end] {
                    _ if word.is_empty() => return None,
                    b'}' => ReferenceKind::Variable(word),
                    b'-' => ReferenceKind::Default(word.clone(), word.end + 1..close),
                    b':' if bytes.get(word.end + 1) == Some(&b'-') => {
                        ReferenceKind::Default(word.clone(), word.end + 2..close)
                    }
                    _ => return None,
                };
                Some(Reference {
                    what,
                    len: close + 1,
                })
            }
            b'?' | b'#' | b'$' => Some(Reference {
                what: ReferenceKind::Variable(1..2),
                len: 2,
            }),
            _ => {
                let word = name(1);
                (!word.is_empty()).then_some(Reference {
                    len: word.end,
                    what: ReferenceKind::Variable(word),
                })
            }
        }
    }

    fn value(
        &self,
        source: &str,
        values: &mut dyn Values,
        depth: usize,
    ) -> Result<Option<String>, String> {
        match &self.what {
            ReferenceKind::Variable(name) => Ok(values.variable(&source[name.clone()])),
            ReferenceKind::Default(name, default) => match values.variable(&source[name.clone()]) {
                Some(value) => Ok(Some(value)),
                None => {
                    let default = &source[default.clone()];
                    expand_at(default, Style::Plain, values, depth + 1).map(Some)
                }
            },
            ReferenceKind::Call(inner) => {
                let inner = &source[inner.clone()];
                let text = expand_at(inner, Style::Plain, values, depth + 1)?;
                Ok(values.call(&text))
            }
        }
    }
}

/// Index of the bracket that closes the one at `open`; brackets in quotes do not count.
fn close(bytes: &[u8], open: usize) -> Option<usize> {
    let (up, down) = match bytes[open] {
        b'(' => (b'(', b')'),
        _ => (b'{', b'}'),
    };
    let (mut depth, mut quote, mut at) = (0usize, None, open);
    while at < bytes.len() {
        match (bytes[at], quote) {
            (b'\'' | b'"', None) => quote = Some(bytes[at]),
            (byte, Some(mark)) if byte == mark => quote = None,
            (b'\\', Some(b'"')) => at += 1,
            (byte, None) if byte == up => depth += 1,
            (byte, None) if byte == down && depth == 1 => return Some(at),
            (byte, None) if byte == down => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Values for Fixed {
        fn variable(&mut self, name: &str) -> Option<String> {
            match name {
                "x" => Some("a b".into()),
                "q" => Some("\"0\"".into()),
                "1" => Some("one".into()),
                "12" => Some("twelve".into()),
                "?" => Some("0".into()),
                _ => None,
            }
        }

        fn call(&mut self, text: &str) -> Option<String> {
            (text != "nothing").then(|| format!("[{text}]"))
        }
    }

    fn plain(text: &str) -> String {
        expand(text, Style::Plain, &mut Fixed).expect("it is short")
    }

    #[test]
    fn a_call_of_no_handler_stays_as_it_is_written() {
        assert_eq!(plain("a $(nothing) $(b)"), "a $(nothing) [b]");
    }

    #[test]
    fn variables_are_replaced_outside_single_quotes() {
        assert_eq!(
            plain("$x ${x}c $xc '$x' \"$x\""),
            "a b a bc $xc '$x' \"a b\""
        );
        assert_eq!(plain("$1 $12 $? $, $"), "one twelve 0 $, $");
        assert_eq!(plain("\"\\$x\" \\$x"), "\"\\$x\" \\a b");
        assert_eq!(
            plain("${none-$x} ${none} ${x-y} ${none:-}"),
            "a b ${none} a b "
        );
    }

    #[test]
    fn handlers_may_stand_inside_each_other() {
        assert_eq!(plain("$(add 1 $(c.count $x))"), "[add 1 [c.count a b]]");
        assert_eq!(plain("$(a ')' (b) \"$x\") c"), "[a ')' (b) \"a b\"] c");
        assert_eq!(plain("$(open"), "$(open");
    }

    #[test]
    fn unquoting_takes_the_quotes_of_the_text_and_leaves_those_of_values() {
        let unquoted = |text: &str| expand_unquoted(text, &mut Fixed).expect("it is short");
        assert_eq!(unquoted("$q"), "\"0\"");
        assert_eq!(unquoted("\"$q\""), "\"0\"");
        assert_eq!(unquoted("'$q' \"a\\n\""), "$q a\n");
        assert_eq!(plain("\"$q\""), "\"\\\"0\\\"\"");
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("{}x{}", "$(a ".repeat(100), ")".repeat(100));
        // The text below the deepest level has no reference, so 33 levels would do; 100 are refused.
        assert!(expand(&deep, Style::Plain, &mut Fixed).is_err());
    }
}
