//! Colour on terminals: errors and warnings.

use std::borrow::Cow;

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const PLAIN: &str = "\x1b[0m";

/// Text for a terminal: with colours unless the user has disabled them (`NO_COLOR`, `TERM=dumb`).
pub(crate) fn for_terminal(text: &str) -> Cow<'_, str> {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    match unwanted {
        true => Cow::Borrowed(text),
        false => Cow::Owned(coloured(text)),
    }
}

/// Colours the severity of a diagnostic: `FILE:1:7: error: ...`.
fn coloured(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let found = [("error: ", RED), ("warning: ", YELLOW)]
            .into_iter()
            .filter_map(|(word, colour)| Some((line.find(word)?, word.len() - 2, colour)))
            .filter(|(at, ..)| *at == 0 || line[..*at].ends_with(": ") && !line.starts_with(' '))
            .min();
        match found {
            Some((at, len, colour)) => {
                let (before, word, after) = (&line[..at], &line[at..at + len], &line[at + len..]);
                all.extend([before, colour, word, PLAIN, after]);
            }
            None => all.push_str(line),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn severities_are_coloured() {
        assert_eq!(
            super::coloured("a.click:1:7: error: no\n  error: y\nwarning: well\n 1 | error: 3\n"),
            "a.click:1:7: \x1b[1;31merror\x1b[0m: no\n  error: y\n\x1b[1;33mwarning\x1b[0m: well\n 1 | error: 3\n"
        );
    }
}
