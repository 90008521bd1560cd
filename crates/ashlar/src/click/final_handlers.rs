//! Handlers read at the end of a run: `--handler`, and `--exit-handler`.

use super::complain;
use engine::graph::Graph;
use engine::graph::call::not_found;
use engine::handler::Use;
use engine::plan::Plan;

/// Reads the handlers. Returns the text that Click would print, and true if there was no error; errors are printed to
/// standard error.
pub(super) fn handlers(graph: &mut Graph, wanted: &[String]) -> (String, bool) {
    let plan = std::sync::Arc::clone(graph.plan());
    let mut text = String::new();
    let mut fine = true;
    for path in wanted {
        let titled = wanted.len() > 1;
        match expand(&plan, path) {
            HandlerPath::One => fine &= answer(graph, path, titled, &mut text),
            HandlerPath::Several(paths) => {
                for path in paths {
                    // Elements without the handler are omitted.
                    if graph.job(|cx| cx.find(&path, Use::Read).is_ok()) {
                        fine &= answer(graph, &path, true, &mut text);
                    }
                }
            }
            HandlerPath::Nothing => {
                let (element, _) = path.split_once('.').unwrap_or((path, ""));
                let pattern = element.contains(['*', '?', '[']);
                let matching = if pattern { " matching" } else { "" };
                complain(&format!("no element{matching} '{element}'\n"));
                fine = false;
            }
        }
    }
    (text, fine)
}

/// Adds the answer of a handler to `text`; returns false, after a message, if there is no answer.
fn answer(graph: &mut Graph, path: &str, titled: bool, text: &mut String) -> bool {
    let answer = match read(graph, path) {
        Ok(answer) => answer,
        Err(wrong) => {
            complain(&format!("{wrong}\n"));
            return false;
        }
    };
    if titled {
        *text += &format!("{path}:\n");
    }
    *text += &answer;
    if !(answer.is_empty() || answer.ends_with('\n')) {
        text.push('\n');
    }
    if titled {
        text.push('\n');
    }
    true
}

fn read(graph: &mut Graph, path: &str) -> Result<String, String> {
    graph.job(|cx| match cx.find(path, Use::Read) {
        Ok(_) => cx.read(path, "").map_err(|e| e.to_string()),
        Err(_) if cx.find(path, Use::Write).is_ok() => Err(format!("'{path}' is a write handler")),
        Err(_) => Err(format!("no '{path}' handler")),
    })
}

/// Handlers that a path denotes.
enum HandlerPath {
    /// The path itself.
    One,
    /// Handlers of all elements of a class, or of elements whose names match a pattern.
    Several(Vec<String>),
    /// No element matches.
    Nothing,
}

fn expand(plan: &Plan, path: &str) -> HandlerPath {
    let Some((element, handler)) = path.split_once('.') else {
        return HandlerPath::One;
    };
    if plan.find(element).is_some() {
        return HandlerPath::One;
    }
    let fits = |e: &&engine::plan::PlanElement| {
        e.class.name == element || matches(element.as_bytes(), e.name.as_bytes())
    };
    let found = plan.elements.iter().filter(fits);
    let paths: Vec<String> = found.map(|e| format!("{}.{handler}", e.name)).collect();
    match paths.is_empty() {
        true => HandlerPath::Nothing,
        false => HandlerPath::Several(paths),
    }
}

/// True if a text matches a shell pattern: `*`, `?`, `[a-z]`, `[^a-z]`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        Some((b'?', rest)) => !text.is_empty() && matches(rest, &text[1..]),
        Some((b'[', rest)) => match (set(rest), text.split_first()) {
            (Some((is_in, rest)), Some((first, more))) => is_in(*first) && matches(rest, more),
            _ => false,
        },
        Some((b'\\', [quoted, rest @ ..])) => {
            text.first() == Some(quoted) && matches(rest, &text[1..])
        }
        Some((letter, rest)) => text.first() == Some(letter) && matches(rest, &text[1..]),
    }
}

/// Parses the set of characters before `]`. Returns the set and the rest of the text.
fn set(pattern: &[u8]) -> Option<(impl Fn(u8) -> bool, &[u8])> {
    let (denied, pattern) = match pattern {
        [b'^' | b'!', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let end = pattern.iter().skip(1).position(|&b| b == b']')? + 1;
    let letters = &pattern[..end];
    let is_in = move |letter: u8| {
        let single = letters.contains(&letter);
        let mut ranges = letters.windows(3).filter(|w| w[1] == b'-');
        denied != (single || ranges.any(|w| (w[0]..=w[2]).contains(&letter)))
    };
    Some((is_in, &pattern[end + 1..]))
}

/// Exit status if the exit handler gives no answer, or a text that is no status.
const NO_STATUS: u8 = 255;

/// Exit status by a handler's answer: a number itself, `true` for success, `false` for failure. Other answers are
/// reported on standard error.
pub(super) fn exit_status(graph: &mut Graph, path: &str) -> u8 {
    let answer = graph.job(|cx| match cx.find(path, Use::Read) {
        Ok(_) => cx.read(path, "").map_err(|e| e.to_string()),
        Err(wrong) => Err(not_found(cx.plan(), "", path, Use::Read, wrong)),
    });
    let wrong = match answer {
        Ok(answer) => {
            let answer = answer.trim();
            if let Ok(number) = arguments::units::parse::<i64>(answer) {
                return (number & 0xff) as u8;
            }
            match arguments::units::parse::<bool>(answer) {
                Ok(true) => return 0,
                Ok(false) => return 1,
                Err(_) => "exit handler value should be integer".to_owned(),
            }
        }
        Err(wrong) => wrong,
    };
    complain(&format!("{wrong}\n"));
    NO_STATUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_the_shell() {
        for (pattern, text, fits) in [
            ("c*", "counter", true),
            ("*r", "counter", true),
            ("c?", "c", false),
            ("c[0-3]", "c2", true),
            ("c[^0-3]", "c2", false),
            ("c[ab", "ca", false),
            ("a*b*c", "axxbyyc", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                fits,
                "{pattern} {text}"
            );
        }
    }
}
