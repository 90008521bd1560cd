//! Finds what somebody probably meant.

/// The candidate most like `word`, if one is like it at all.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase();
    let scored = candidates
        .into_iter()
        .map(|c| (strsim::osa_distance(&lower, &c.to_lowercase()), c));
    let (distance, best) = scored.min_by_key(|&(d, c)| (d, c.len()))?;
    (distance <= 1 + word.chars().count() / 4).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_finds_its_word_and_a_stranger_does_not() {
        let classes = ["DecIPTTL", "Discard", "CheckIPHeader"];
        assert_eq!(nearest("DecIpTTl", classes), Some("DecIPTTL"));
        assert_eq!(nearest("CheckIPHaeder", classes), Some("CheckIPHeader"));
        assert_eq!(nearest("Teapot", classes), None);
    }
}
