//! Keys in a configuration are not for everybody who may see the configuration.

use std::borrow::Cow;

/// Lengths of a word behind `KEY` that may be a key, or one that was mistyped.
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 16..=64;

/// A text of the same length with stars for the keys that stand behind `KEY`, `key =` or the like: one, or a list.
pub fn masked(text: &str) -> Cow<'_, str> {
    let mut bytes: Option<Vec<u8>> = None;
    let (mut at, mut behind) = (0, false);
    while at < text.len() {
        let rest = &text[at..];
        let word = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
        if word == 0 {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            behind &= "\"'=[, \t\r\n".contains(&rest[..next]);
            at += next;
            continue;
        }
        let secret = behind && KEY_LENGTHS.contains(&word);
        if secret {
            let bytes = bytes.get_or_insert_with(|| text.as_bytes().to_vec());
            bytes[at..at + word].fill(b'*');
        }
        behind = secret || rest[..word].eq_ignore_ascii_case("key");
        at += word;
    }
    // Words of ASCII have become stars, so it is text still.
    let masked = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    masked.map_or(Cow::Borrowed(text), Cow::Owned)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_stars_and_nothing_else() {
        let (one, two) = ("0123456789abcdef0123456789abcdef", "A".repeat(32));
        let stars = "*".repeat(32);
        for (text, shown) in [
            (
                format!("NODE a, KEY {one}, NAME {two}"),
                format!("NODE a, KEY {stars}, NAME {two}"),
            ),
            (
                format!("KEY {one} {two}, DELTA 0"),
                format!("KEY {stars} {stars}, DELTA 0"),
            ),
            (
                format!("key = [\n  \"{one}\",\n  \"{two}\"\n]\nname = \"{two}\""),
                format!("key = [\n  \"{stars}\",\n  \"{stars}\"\n]\nname = \"{two}\""),
            ),
            (format!("KEY={}", &one[1..]), format!("KEY={}", &stars[1..])),
        ] {
            assert_eq!(masked(&text), shown);
        }
        for open in [
            "FromDevice(eth0, CLASSIFY flow KEY symmetric)".to_owned(),
            "KEY $KEY, NAME x".to_owned(),
            format!("Classifier(12/{one})"),
            format!("KEYS {one}, MONKEY {one}"),
            format!("KEY é{one}"),
            format!("KEY {}", "6d5a".repeat(20)),
        ] {
            assert_eq!(masked(&open), open);
        }
    }
}
