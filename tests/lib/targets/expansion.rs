//! Nested compound elements, variables, groups and lists of ports, which a few bytes multiply: the result is bounded,
//! or refused with a place.

use super::{Choices, config};
use lang::SourceMap;
use std::fmt::Write;

/// The bounds of `lang`.
const ELEMENTS_MAX: usize = 1 << 17;
const CONNECTIONS_MAX: usize = 1 << 19;
/// Number of elements up to which a configuration is planned, too.
const PLANNED_MAX: usize = 300;

/// Makes a configuration from bytes, and reads it.
pub fn run(data: &[u8]) {
    let text = text(Choices(&data[..data.len().min(512)]));
    let mut map = SourceMap::new();
    let file = map.add("fuzz.click", text.as_str());
    let (router, mistakes) = lang::parse(&mut map, file, &[]);
    assert!(router.elements.len() <= ELEMENTS_MAX);
    assert!(router.connections.len() <= CONNECTIONS_MAX);
    let bytes: usize = router.elements.iter().map(|e| e.config.text.len()).sum();
    assert!(bytes <= (16 << 20) + 4 * text.len(), "{bytes}");
    for mistake in &mistakes {
        let place = mistake
            .span
            .map(|span| map.text(span.file).get(span.range()));
        assert!(
            place.flatten().is_some(),
            "{} has no place",
            mistake.message
        );
    }
    if router.elements.len() <= PLANNED_MAX {
        config::plan(&text);
    }
}

/// Classes, each made of uses of the previous ones.
fn text(mut choices: Choices) -> String {
    let mut text = "elementclass A0 { $x | input -> Strip($x) -> output }\n".to_owned();
    let levels = choices.byte() % 32;
    for level in 1..=levels {
        let _ = write!(text, "elementclass A{level} {{ $x |");
        for _ in 0..=choices.byte() % 3 {
            statement(&mut text, level, &mut choices);
        }
        text.push_str(" }\n");
    }
    let rest = String::from_utf8_lossy(choices.0);
    let _ = write!(text, "Idle -> A{levels}(1) -> Discard; {rest}");
    text
}

fn statement(text: &mut String, level: u8, choices: &mut Choices) {
    let kind = choices.byte();
    let inner = level - 1 - choices.byte() % level;
    let _ = match kind % 8 {
        0 => write!(text, " input -> A{inner}($x) -> output;"),
        1 => write!(text, " A{inner}($x); Idle -> A{inner}($x$x) -> Discard;"),
        2 => {
            let last = u16::from(kind) << 4;
            write!(
                text,
                " input => [0-{last}]A{inner}($x)[0-{last}] => output;"
            )
        }
        3 => write!(
            text,
            " define($y{level} $x, $z \"$x$y{level}\"); Idle -> A{inner}($z) -> Discard;"
        ),
        4 => write!(text, " input -> ( -> A{inner}(1) -> ) -> output;"),
        5 => write!(
            text,
            " input -> t :: Tee; t[0-3] => A{inner}(1), A{inner}(2), A{inner}(3), output;"
        ),
        6 => write!(text, " Script(${{x-{inner}}} ${{x[0]}});"),
        _ => write!(text, " {};", choices.line()),
    };
}
