//! Click's pattern language: `12/0806 20/0001`, `!12/0800`, `30/c0a8%ffff`, `33/?1`, `-`.

use super::program::{Pattern, Test};

/// Parses a pattern. The error is a sentence, and what to do.
pub(super) fn parse(words: &[String]) -> Result<Pattern, (String, &'static str)> {
    let mut pattern = Pattern::default();
    if let [all] = words
        && all == "-"
    {
        return Ok(pattern);
    }
    if words.is_empty() {
        return Err(("the pattern is empty".to_owned(), "write `-` to match all"));
    }
    let mut not = false;
    for word in words {
        let clause = match word.strip_prefix('!') {
            Some(rest) => {
                not = !not;
                rest
            }
            None => word,
        };
        if clause.is_empty() {
            continue;
        }
        let tests = parse_clause(clause)?;
        if not {
            pattern.never.push(tests);
        } else {
            tests.into_iter().for_each(|test| pattern.require(test));
        }
        not = false;
    }
    if not {
        return Err((
            "`!` stands before nothing".to_owned(),
            "write the clause that must not match behind it",
        ));
    }
    Ok(pattern)
}

const FORM: &str = "a clause is OFFSET/VALUE or OFFSET/VALUE%MASK, as in 12/0800: \
                    the offset decimal, the others an even number of hex digits or `?`";

/// The tests, word by word, of one clause.
fn parse_clause(clause: &str) -> Result<Vec<Test>, (String, &'static str)> {
    let wrong = |what: &str| (format!("in `{clause}` {what}"), FORM);
    let (offset, value) = clause
        .split_once('/')
        .ok_or_else(|| wrong("there is no `/`"))?;
    let offset: usize = offset
        .parse()
        .ok()
        .filter(|&o| o < 65_536)
        .ok_or_else(|| wrong("the offset is no number below 65536"))?;
    let (value, mask) = match value.split_once('%') {
        Some((value, mask)) => (value, Some(mask)),
        None => (value, None),
    };
    if value.is_empty() || !value.len().is_multiple_of(2) {
        return Err(wrong("the value has no even number of digits"));
    }
    if mask.is_some_and(|m| m.len() != value.len()) {
        return Err(wrong("the mask is not as long as the value"));
    }
    let nibble = |c: u8| match c {
        b'?' => Some((0, 0)),
        _ => char::from(c).to_digit(16).map(|d| (d as u8, 0xf)),
    };
    let mut tests: Vec<Test> = Vec::new();
    for (i, digit) in value.bytes().enumerate() {
        let (value, known) = nibble(digit).ok_or_else(|| wrong("the value is not in hex"))?;
        let masked = match mask {
            Some(mask) => {
                let digit = nibble(mask.as_bytes()[i]).filter(|(_, known)| *known != 0);
                digit.ok_or_else(|| wrong("the mask is not in hex"))?.0
            }
            None => 0xf,
        };
        let at = offset + i / 2;
        let word = at & !3;
        let shift = 8 * (3 - (at & 3)) + if i % 2 == 0 { 4 } else { 0 };
        let mask = u32::from(known & masked) << shift;
        let value = u32::from(value) << shift & mask;
        match tests.last_mut().filter(|t| t.offset == word) {
            Some(test) => {
                test.mask |= mask;
                test.value |= value;
            }
            None => tests.push(Test {
                offset: word,
                mask,
                value,
            }),
        }
    }
    tests.retain(|t| t.mask != 0);
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Pattern, (String, &'static str)> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        super::parse(&words)
    }

    #[test]
    fn clauses_become_tests_of_aligned_words() {
        let test = |offset, mask, value| Test {
            offset,
            mask,
            value,
        };
        let pattern = parse("12/0806 20/0001").unwrap();
        assert_eq!(
            pattern.all,
            [
                test(12, 0xffff_0000, 0x0806_0000),
                test(20, 0xffff_0000, 0x0001_0000)
            ]
        );
        let pattern = parse("3/aabbcc 1/?1%f1").unwrap();
        assert_eq!(
            pattern.all,
            [
                test(0, 0x0001_00ff, 0x0001_00aa),
                test(4, 0xffff_0000, 0xbbcc_0000)
            ]
        );
        let pattern = parse("!3/aabb ! 0/??").unwrap();
        assert!(pattern.all.is_empty());
        assert_eq!(pattern.never[0].len(), 2);
        assert_eq!(parse("-").unwrap(), Pattern::default());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("12", "there is no `/`"),
            ("x/08", "the offset is no number"),
            ("-1/08", "the offset is no number"),
            ("12/080", "no even number of digits"),
            ("12/", "no even number of digits"),
            ("12/08g0", "the value is not in hex"),
            ("12/0800%ff", "the mask is not as long"),
            ("12/0800%fff?", "the mask is not in hex"),
            ("12/0800 !", "`!` stands before nothing"),
            ("", "the pattern is empty"),
        ] {
            let (message, _) = parse(text).unwrap_err();
            assert!(message.contains(wrong), "{text}: {message}");
        }
    }
}
