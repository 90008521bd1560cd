//! Masking of keys in configurations, for readers who may see the configuration but not its keys.
//!
//! A key is recognised by its context and by its form: people write `keys =` for `key =`, put a comment before the
//! key, assign it to a variable, or copy it in groups. In doubt, too much is masked.

use std::borrow::Cow;
use std::ops::RangeInclusive;

/// Lengths of a word after `KEY` that is taken for a key, possibly a mistyped one.
const KEY_LENGTHS: RangeInclusive<usize> = 16..=64;
/// Number of hexadecimal digits, grouped or not, that are taken for a key on a line that mentions a key.
const DIGITS_NEAR: usize = 16;
/// Number of hexadecimal digits in one word that are taken for a key anywhere.
const DIGITS_ALONE: usize = 24;

/// Keywords whose value is always taken for a key, of any length.
const ALWAYS: [&str; 2] = ["ENC_KEY", "AUTH_KEY"];

/// A text of the same length in which keys are replaced by stars.
pub fn masked(text: &str) -> Cow<'_, str> {
    let mut reader = Reader {
        text,
        at: 0,
        line_end: None,
        speaks_of_key: false,
        expects_key: false,
        always: false,
        comment_end: 0,
        data_end: 0,
    };
    let mut bytes: Option<Vec<u8>> = None;
    while let Some((from, to)) = reader.next_key() {
        let bytes = bytes.get_or_insert_with(|| text.as_bytes().to_vec());
        bytes[from..to].fill(b'*');
    }
    // Only ASCII characters were replaced, so the bytes are still valid text.
    let masked = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    masked.map_or(Cow::Borrowed(text), Cow::Owned)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// End of the line of `at`, if known, and true if the line mentions a key.
    line_end: Option<usize>,
    speaks_of_key: bool,
    /// True if the next word is the value of a key, or one of a list.
    expects_key: bool,
    /// True if the next word is a key, whatever its form.
    always: bool,
    /// End of the last comment, and of the last string of hexadecimal bytes (`\<6b 79>`), that began before `at`.
    comment_end: usize,
    data_end: usize,
}

impl Reader<'_> {
    /// The first and the last byte of the next key.
    fn next_key(&mut self) -> Option<(usize, usize)> {
        while self.at < self.text.len() {
            if self.line_end.is_none_or(|end| self.at > end) {
                self.begin_line();
            }
            let rest = &self.text[self.at..];
            let word = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
            if word == 0 {
                self.pass_over(rest);
                continue;
            }
            let from = self.at;
            if let Some(length) = self.key_at(&rest[..word]) {
                self.at += length;
                return Some((from, self.at));
            }
            self.at += word;
        }
        None
    }

    fn begin_line(&mut self) {
        let rest = &self.text[self.at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        self.line_end = Some(self.at + length);
        self.speaks_of_key = has_word_key(&rest[..length]);
    }

    /// Skips a character that is not part of a word.
    fn pass_over(&mut self, rest: &str) {
        let end = |expects_key: &str| {
            rest.find(expects_key)
                .map_or(rest.len(), |at| at + expects_key.len())
        };
        if self.at >= self.comment_end {
            if rest.starts_with("//") || rest.starts_with('#') {
                self.comment_end = self.at + end("\n");
            } else if rest.starts_with("/*") {
                self.comment_end = self.at + end("*/");
            }
        }
        if rest.starts_with("\\<") {
            self.data_end = self.at + end(">");
        }
        let next = rest.chars().next().map_or(1, char::len_utf8);
        let stays = self.at < self.comment_end || "\"'`=:[({, \t\r\n".contains(&rest[..next]);
        self.expects_key &= stays;
        self.always &= stays;
        self.at += next;
    }

    /// Length of the key that begins with this word; `None` if it is no key.
    fn key_at(&mut self, word: &str) -> Option<usize> {
        let in_comment = self.at < self.comment_end;
        if has_word_key(word) {
            self.expects_key |= !in_comment;
            let always = ALWAYS.iter().any(|name| word.eq_ignore_ascii_case(name));
            self.always = always && !in_comment;
            return None;
        }
        if self.expects_key || self.speaks_of_key {
            let (digits, length) = digits_in_groups(&self.text[self.at..]);
            if digits >= DIGITS_NEAR {
                self.always = false;
                return Some(length);
            }
        }
        if self.expects_key && !in_comment {
            if std::mem::take(&mut self.always) {
                return Some(word.len());
            }
            if KEY_LENGTHS.contains(&word.len()) {
                return Some(word.len());
            }
            self.expects_key = false;
        }
        // Patterns and data may have as many digits.
        let before = self.text[..self.at].chars().next_back();
        let is_pattern = self.at < self.data_end || matches!(before, Some('/' | '%'));
        let is_long = word.len() >= DIGITS_ALONE && word.bytes().all(|b| b.is_ascii_hexdigit());
        (is_long && !is_pattern).then_some(word.len())
    }
}

/// Number of hexadecimal digits at the start of a text, and their end. Digits may be in groups: of at least four, or of
/// two with colons or hyphens between. `0x` may precede them.
fn digits_in_groups(text: &str) -> (usize, usize) {
    let prefix = if text.starts_with("0x") { 2 } else { 0 };
    let bytes = text.as_bytes();
    let (mut digits, mut end, mut at) = (0, 0, prefix);
    loop {
        let rest = &bytes[at..];
        let group = rest.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let separator = rest.get(group).copied();
        let goes_on = separator.is_some_and(|b| b.is_ascii_alphanumeric());
        let least = match at.checked_sub(1).map(|before| bytes[before]) {
            Some(b':' | b'-') => 2,
            _ if matches!(separator, Some(b':' | b'-')) => 2,
            _ => 4,
        };
        if group < least || goes_on {
            return (digits, end);
        }
        digits += group;
        end = at + group;
        if !matches!(separator, Some(b' ' | b':' | b'-' | b'_')) {
            return (digits, end);
        }
        at = end + 1;
    }
}

/// True if a text mentions a key; Click's keywords do not count.
fn has_word_key(text: &str) -> bool {
    let is_keyword = |rest: &[u8]| {
        rest.get(..7)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"keyword"))
    };
    let bytes = text.as_bytes();
    let mut places = bytes.windows(3).enumerate();
    places.any(|(at, part)| part.eq_ignore_ascii_case(b"key") && !is_keyword(&bytes[at..]))
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn keys_become_stars_and_nothing_else() {
        let two = "A".repeat(32);
        let stars = "*".repeat(32);
        for (text, shown) in [
            (
                format!("NODE a, KEY {ONE}, NAME name_of_some_length"),
                format!("NODE a, KEY {stars}, NAME name_of_some_length"),
            ),
            (
                format!("KEY {ONE} {two}, DELTA 0"),
                format!("KEY {stars}*{stars}, DELTA 0"),
            ),
            (
                format!("key = [\n  \"{ONE}\",\n  \"{two}\"\n]\nname = \"n\""),
                format!("key = [\n  \"{stars}\",\n  \"{stars}\"\n]\nname = \"n\""),
            ),
            (format!("KEY={}", &ONE[1..]), format!("KEY={}", &stars[1..])),
            // Mistakes.
            (format!("keys = \"{ONE}\""), format!("keys = \"{stars}\"")),
            (format!("key: {ONE}"), format!("key: {stars}")),
            (
                format!("cluster-key {{ {ONE} }}"),
                format!("cluster-key {{ {stars} }}"),
            ),
            (
                "KEY none_but_meant_to_be_on".to_owned(),
                "KEY ***********************".to_owned(),
            ),
            // The text before the key may be long, and may be a comment.
            (
                format!(
                    "key = # the new one, see the \"book\"\n [ # old\n \"{}\"",
                    &ONE[..20]
                ),
                format!(
                    "key = # the new one, see the \"book\"\n [ # old\n \"{}\"",
                    &stars[..20]
                ),
            ),
            (
                format!("KEY /* of\nMay */ {}, N 1", &ONE[..20]),
                format!("KEY /* of\nMay */ {}, N 1", &stars[..20]),
            ),
            (format!("# old key: {ONE}"), format!("# old key: {stars}")),
            // In groups.
            (
                "key = \"01234567 89abcdef 01234567 89abcdef\"".to_owned(),
                format!("key = \"{stars}***\""),
            ),
            (
                "keys 0123-4567-89ab-cdef x".to_owned(),
                format!("keys {} x", "*".repeat(19)),
            ),
            (
                "KEY 01:23:45:67:89:ab:cd:ef, N 1".to_owned(),
                format!("KEY {}, N 1", "*".repeat(23)),
            ),
            (
                "KEY 0x0123456789abcdef".to_owned(),
                format!("KEY {}", "*".repeat(18)),
            ),
            // Recognised by its form alone.
            (
                format!("define($K {ONE}); v :: VLBNode(KEY $K); Node({two})"),
                format!("define($K {stars}); v :: VLBNode(KEY $K); Node({stars})"),
            ),
            (
                format!("define($K\n  {ONE})"),
                format!("define($K\n  {stars})"),
            ),
            (
                format!("sa in ENC_KEY 0x1234 AUTH_KEY {ONE}{ONE}{ONE} esn"),
                format!("sa in ENC_KEY ****** AUTH_KEY {stars}{stars}{stars} esn"),
            ),
        ] {
            assert_eq!(masked(&text), shown);
        }
        for open in [
            "FromDevice(eth0, CLASSIFY flow KEY symmetric)".to_owned(),
            "KEY $KEY, NAME x, MTU 1530, RATE 10Gbps".to_owned(),
            "KEY symmetric, ETHER 02:00:00:00:00:01, 10.0.0.1 20 30 40 50 60 70 80 90".to_owned(),
            format!("Classifier(12/{ONE}%{ONE}, 30/{ONE}?)"),
            format!("InfiniteSource(\\<{ONE} {ONE}>)"),
            "a name of words, of which none is one".to_owned(),
            "unknown keyword `ENTRY_PACKET_CAPACTY`".to_owned(),
            "bad keyword(s) ENTRY_PACKET_CAPACTY, SOURCE_ADDRESS_MASK".to_owned(),
        ] {
            assert_eq!(masked(&open), open);
        }
    }

    #[test]
    fn any_text_keeps_its_length_and_its_lines() {
        let parts = [
            "KEY", " ", "é", ONE, "\n", "/*", "*/", "//", "#", "\\<", ">", "0x", ":", "ab", "$",
        ];
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(parts[(seed >> 33) as usize % parts.len()]);
            }
            let shown = masked(&text);
            assert_eq!(shown.len(), text.len());
            for (a, b) in text.chars().zip(shown.chars()) {
                assert!(a == b || b == '*', "{text:?} {shown:?}");
            }
        }
    }
}
