//! Version of a balancer's file: a digest of the parts that all balancers of a router have in common.

use super::shared::Backend;
use cluster::balance::key;

/// Parts of a file that all balancers have in common.
pub(super) struct Common<'a> {
    pub(super) backends: &'a [Backend],
    /// SPEAKER, OWNS and CLASSES.
    pub(super) words: [&'a str; 3],
    /// ALGORITHM, KEY and SEED.
    pub(super) choices: [&'a str; 3],
}

/// Computes the version. Neither the order of back ends nor the balancer's own ports and addresses count.
pub(super) fn of(parts: &Common<'_>) -> u64 {
    let mut lines: Vec<String> = parts
        .backends
        .iter()
        .map(|of| format!("{} {} {:?} {}", of.name, of.ether, of.address, of.weight))
        .collect();
    lines.sort();
    // Back ends and their networks stand in the file's order.
    let mut owner = "";
    let mut owned = Vec::new();
    for word in parts.words[1].split_whitespace() {
        match word.contains(['.', ':']) {
            true => owned.push(format!("{owner} {word}")),
            false => owner = word,
        }
    }
    owned.sort();
    lines.extend(owned);
    lines.extend([parts.words[0], parts.words[2]].map(str::to_owned));
    lines.extend(parts.choices.map(str::to_owned));
    key(&lines.join("\n"))
}
