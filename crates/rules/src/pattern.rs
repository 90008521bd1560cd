//! Classifier's pattern language: `12/0806 20/0001`, `!12/0800`, `30/c0a8%ffff`, `33/?1`, `-`.

use super::expr::{Base, Expr, RangeTest, bytes_are};

/// Parses a pattern. The error is a sentence and a remedy.
pub fn parse(words: &[String]) -> Result<Expr<RangeTest>, (String, &'static str)> {
    if let [all] = words
        && all == "-"
    {
        return Ok(Expr::TRUE);
    }
    if words.is_empty() {
        return Err(("the pattern is empty".to_owned(), "write `-` to match all"));
    }
    let mut clauses = Vec::new();
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
        let clause = parse_clause(clause)?;
        clauses.push(if not { clause.negate() } else { clause });
        not = false;
    }
    if not {
        return Err((
            "`!` stands before nothing".to_owned(),
            "write the clause that must not match behind it",
        ));
    }
    Ok(Expr::all(clauses))
}

const FORM: &str = "a clause is OFFSET/VALUE or OFFSET/VALUE%MASK, as in 12/0800: \
                    the offset decimal, the others an even number of hex digits or `?`";

/// Parses the bytes that one clause compares.
fn parse_clause(clause: &str) -> Result<Expr<RangeTest>, (String, &'static str)> {
    let wrong = |what: &str| (format!("in `{clause}` {what}"), FORM);
    let (offset, value) = clause
        .split_once('/')
        .ok_or_else(|| wrong("there is no `/`"))?;
    let offset: u16 = offset
        .parse()
        .ok()
        .filter(|&o| o < 65_000)
        .ok_or_else(|| wrong("the offset is no number below 65000"))?;
    let (value, mask) = match value.split_once('%') {
        Some((value, mask)) => (value, Some(mask)),
        None => (value, None),
    };
    if value.is_empty() || !value.len().is_multiple_of(2) {
        return Err(wrong("the value has no even number of digits"));
    }
    if value.len() > 1024 {
        return Err(wrong("the value is longer than 512 bytes"));
    }
    if mask.is_some_and(|m| m.len() != value.len()) {
        return Err(wrong("the mask is not as long as the value"));
    }
    let nibble = |c: u8| match c {
        b'?' => Some((0, 0)),
        _ => char::from(c).to_digit(16).map(|d| (d as u8, 0xf)),
    };
    let mut bytes = vec![(0, 0); value.len() / 2];
    for (i, digit) in value.bytes().enumerate() {
        let (value, known) = nibble(digit).ok_or_else(|| wrong("the value is not in hex"))?;
        let masked = match mask {
            Some(mask) => {
                let digit = nibble(mask.as_bytes()[i]).filter(|(_, known)| *known != 0);
                digit.ok_or_else(|| wrong("the mask is not in hex"))?.0
            }
            None => 0xf,
        };
        let byte = &mut bytes[i / 2];
        *byte = (byte.0 << 4 | value, byte.1 << 4 | known & masked);
    }
    let (value, mask): (Vec<u8>, Vec<u8>) = bytes.into_iter().unzip();
    Ok(bytes_are(Base::Start, offset, &value, &mask))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{View, Word};

    fn parse(text: &str) -> Result<Expr<RangeTest>, (String, &'static str)> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        super::parse(&words)
    }

    #[test]
    fn clauses_become_tests_of_aligned_words() {
        let test = |offset, mask, value| {
            Expr::Leaf(RangeTest {
                word: Word {
                    base: Base::Start,
                    offset,
                },
                mask,
                lo: value,
                hi: value,
                outside: false,
            })
        };
        assert_eq!(
            parse("12/0806 20/0001").unwrap(),
            Expr::And(vec![
                test(12, 0xffff_0000, 0x0806_0000),
                test(20, 0xffff_0000, 0x0001_0000)
            ])
        );
        assert_eq!(
            parse("3/aabbcc").unwrap(),
            Expr::And(vec![
                test(0, 0x0000_00ff, 0x0000_00aa),
                test(4, 0xffff_0000, 0xbbcc_0000)
            ])
        );
        assert_eq!(parse("1/?1%f1").unwrap(), test(0, 0x0001_0000, 0x0001_0000));
        assert_eq!(parse("-").unwrap(), Expr::TRUE);
        let holds = |text: &str, data: &[u8]| parse(text).unwrap().matches(&View::of_data(data));
        assert!(holds("!0/aabb", &[0xaa]) && holds("!0/aabb", &[0xaa, 0xbc]));
        assert!(!holds("! 0/aabb", &[0xaa, 0xbb]) && !holds("!0/??", &[0xaa]));
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
