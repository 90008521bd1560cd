//! Rules with a bucket: `RULE=BUCKET`, or `RULE`, whose bucket is its place in the list.

use engine::packet::BUCKETS_MAX;

/// Splits `RULE=BUCKET`; without a bucket, `place` is the bucket.
///
/// # Errors
///
/// The end of a sentence that begins with the rule.
pub(super) fn split(word: &str, place: usize) -> Result<(&str, u16), String> {
    let (rule, bucket) = match word.rsplit_once('=') {
        Some((rule, bucket)) => (rule.trim(), bucket.trim().parse().ok()),
        None => (word, Some(place)),
    };
    match bucket.filter(|&bucket| bucket < BUCKETS_MAX) {
        Some(bucket) => Ok((rule, bucket as u16)),
        None => Err(format!(
            "wants a bucket from 0 to {} behind `=`",
            BUCKETS_MAX - 1
        )),
    }
}

/// Number of buckets that these rules need; words that are not rules are ignored.
pub(super) fn buckets<'a>(words: impl Iterator<Item = &'a str>) -> usize {
    let each = words.enumerate();
    let each = each.filter_map(|(place, word)| Some(usize::from(split(word, place).ok()?.1) + 1));
    each.max().unwrap_or(0)
}

/// Parses a handler's value: one rule per line, `RULE BUCKET` or `RULE=BUCKET`. An error in one line rejects all.
pub(super) fn lines<T>(
    value: &str,
    buckets: usize,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<(T, u16)>, String> {
    let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
    let parsed = lines.map(|line| {
        let wrong = || format!("`{line}` should be a rule and a bucket below {buckets}");
        let (rule, bucket) = line.rsplit_once(['=', ' ', '\t']).ok_or_else(wrong)?;
        let bucket = bucket.parse().ok().filter(|&b| usize::from(b) < buckets);
        Ok((parse(rule.trim())?, bucket.ok_or_else(wrong)?))
    });
    parsed.collect()
}
