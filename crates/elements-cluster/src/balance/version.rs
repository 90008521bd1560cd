//! Version of a balancer's file: a digest of the parts that must be equal on all balancers of a router.

use super::shared::Backend;
use cluster::balance::key;

/// Version of the function from packets to buckets. All balancers of a router must compute the same function, so each
/// change of the function changes the number.
const BUCKETS: &str = "buckets 2";

/// Parts of a configuration that all balancers have in common.
pub(super) struct Common<'a> {
    pub(super) backends: &'a [Backend],
    /// Words of SPEAKER, OWNS and CLASSES.
    pub(super) words: [&'a str; 3],
    /// Values of ALGORITHM, KEY and SEED.
    pub(super) choices: [&'a str; 3],
}

/// Digest of the common parts. The order of back ends and the balancer's own ports and addresses have no influence.
pub(super) fn of(parts: &Common<'_>) -> u64 {
    let mut lines: Vec<String> = parts
        .backends
        .iter()
        .map(|of| format!("{} {} {:?} {}", of.name, of.ether, of.address, of.weight))
        .collect();
    lines.sort();
    // Back ends and their networks follow each other in the file's order.
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
    lines.push(BUCKETS.to_owned());
    key(&lines.join("\n"))
}
