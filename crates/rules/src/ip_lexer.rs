//! Words and signs of IP patterns.

/// Splits a pattern: signs of one or two characters stand for themselves, everything else is words.
/// A colon is a sign only between spaces, since it is also part of addresses and of `[6:2]`.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let pair = ["&&", "||", "==", "!=", "<=", ">="];
        let len = match pair.iter().find(|p| rest.starts_with(**p)) {
            Some(pair) => pair.len(),
            None if is_sign(first) => 1,
            None => rest
                .find(|c: char| c.is_whitespace() || is_sign(c))
                .unwrap_or(rest.len()),
        };
        let (token, left) = rest.split_at(len);
        tokens.push(token);
        rest = left.trim_start();
    }
    tokens
}

fn is_sign(c: char) -> bool {
    "()[]!&|=<>?".contains(c)
}

#[cfg(test)]
mod tests {
    #[test]
    fn signs_need_no_spaces_and_colons_do() {
        let split = super::split;
        assert_eq!(
            split(" ip[19:2]&0x80!=0&&!(a||b) "),
            [
                "ip", "[", "19:2", "]", "&", "0x80", "!=", "0", "&&", "!", "(", "a", "||", "b", ")"
            ]
        );
        assert_eq!(
            split("tcp?1:2:3:4:5:6 : ftp-data"),
            ["tcp", "?", "1:2:3:4:5:6", ":", "ftp-data"]
        );
        assert!(split("  ").is_empty());
    }
}
