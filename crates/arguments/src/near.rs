//! Suggestions for misspelt names.

/// The candidate most similar to `word`, if any is similar enough.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase();
    let len = word.chars().count();
    let most = 1 + len / 4;
    // Each surplus letter is one edit, so candidates whose length differs by more than `most` are skipped.
    let alike = candidates
        .into_iter()
        .filter(|c| c.chars().count().abs_diff(len) <= most);
    let scored = alike.map(|c| (strsim::osa_distance(&lower, &c.to_lowercase()), c));
    let (distance, best) = scored.min_by_key(|&(d, c)| (d, c.len()))?;
    (distance <= most).then_some(best)
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
