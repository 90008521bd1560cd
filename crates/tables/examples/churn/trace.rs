//! Sequence of changes, and the expected answers for each address after each change.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::sample::{Random, parse_routes, routes4};
use tables::fib::{Prefix, Rib4, Route, Structure};

/// A prefix with its new next hop; `None` removes its route.
pub(crate) type Change = (Prefix<4>, Option<NonZeroU16>);

/// Changes that end where they began, so that they can be repeated.
pub(crate) struct Trace {
    /// The table before the first change.
    pub(crate) rib: Rib4,
    pub(crate) changes: Vec<Change>,
    pub(crate) watches: Vec<Watch>,
}

/// An address and its valid answers.
pub(crate) struct Watch {
    pub(crate) address: u32,
    /// Pairs (number of changes in the cycle, answer from then on). Before the first pair, the answer is that of the
    /// last.
    answers: Vec<(u32, u16)>,
}

impl Watch {
    /// True if `id` is the valid answer at some moment between `from` and `to` changes in all.
    pub(crate) fn has(&self, id: u16, from: u64, to: u64, cycle: u64) -> bool {
        if let [(_, only)] = self.answers[..] {
            return id == only;
        }
        if to - from >= cycle {
            return self.answers.iter().any(|(_, answer)| *answer == id);
        }
        let (from, to) = ((from % cycle) as u32, (to % cycle) as u32);
        let after = self.answers.partition_point(|(since, _)| *since <= from);
        let end = self.answers.partition_point(|(since, _)| *since <= to);
        let first = after.checked_sub(1).unwrap_or(self.answers.len() - 1);
        let is = |at: &(u32, u16)| at.1 == id;
        is(&self.answers[first])
            || match from <= to {
                true => self.answers[after..end].iter().any(is),
                false => self.answers[after..]
                    .iter()
                    .chain(&self.answers[..end])
                    .any(is),
            }
    }
}

fn shared(name: &str) -> Option<String> {
    let shared = std::env::var("ASHLAR_SHARED").unwrap_or_else(|_| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
        root.to_owned()
    });
    let path = PathBuf::from(shared).join("data/rib").join(name);
    path.exists().then(|| path.to_string_lossy().into_owned())
}

fn text(path: &str) -> String {
    let mut file = std::fs::File::open(path).expect("a readable file");
    let mut text = String::new();
    match path.ends_with(".zst") {
        true => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(file);
            let mut decoder = decoder.expect("a file packed by zstd");
            decoder.read_to_string(&mut text).expect("text");
        }
        false => {
            file.read_to_string(&mut text).expect("text");
        }
    }
    text
}

fn prefix(word: &str) -> Option<Prefix<4>> {
    Some(word.parse::<wire::Prefix4>().ok()?.into())
}

/// The routes of a file.
pub(crate) fn routes(path: Option<String>) -> Vec<Route<4>> {
    let Some(path) = path.or_else(|| shared("ipv4-20240128-bart.txt.zst")) else {
        println!("there is no ../shared/data/rib: routes are made");
        return routes4(1, 901_899, 255);
    };
    parse_routes::<wire::Prefix4, 4>(&text(&path))
}

/// The IPv4 updates of a file; a next hop is an id from 256 on.
pub(crate) fn updates(path: Option<String>) -> Option<Vec<Change>> {
    let path = path.or_else(|| shared("updates-20160811-rrc21.txt.zst"))?;
    let mut ids: HashMap<String, u16> = HashMap::new();
    let mut update = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (kind, prefix) = (words.next()?, prefix(words.next()?)?);
        let id = match kind {
            "A" => {
                let next = 256 + ids.len() as u16;
                NonZeroU16::new(*ids.entry(words.next()?.to_owned()).or_insert(next))
            }
            _ => None,
        };
        Some((prefix, id))
    };
    Some(text(&path).lines().filter_map(&mut update).collect())
}

fn table(routes: &[Route<4>]) -> Rib4 {
    let mut rib = Rib4::new();
    for (prefix, id) in routes {
        rib.stage_insert(*prefix, *id);
    }
    rib.publish().expect("room");
    let limbo = rib.take_limbo();
    rib.release(limbo);
    rib
}

/// Makes a change; returns true if the route differed before.
fn apply(rib: &mut Rib4, (prefix, id): &Change) -> bool {
    let before = rib.get(prefix);
    match id {
        Some(id) => rib.insert(*prefix, *id).expect("room"),
        None => rib.remove(*prefix).expect("room"),
    };
    let limbo = rib.take_limbo();
    rib.release(limbo);
    before != *id
}

/// 65,536 routes, each removed and put back.
pub(crate) fn random(routes: &[Route<4>], random: &mut Random) -> Trace {
    let some = (0..1 << 16).map(|_| routes[random.below(routes.len() as u64) as usize]);
    let changes = some.flat_map(|(prefix, id)| [(prefix, None), (prefix, Some(id))]);
    watched(table(routes), changes.collect(), random)
}

/// The updates that remain changes when all are repeated. They are made once here.
pub(crate) fn replayed(routes: &[Route<4>], updates: &[Change]) -> Trace {
    let mut rib = table(routes);
    updates.iter().for_each(|change| {
        apply(&mut rib, change);
    });
    let changes = updates.iter().filter(|change| apply(&mut rib, change));
    let changes = changes.copied().collect();
    watched(rib, changes, &mut Random::new(6))
}

/// Records the answers of one address in each changed prefix while all changes are made once.
fn watched(mut rib: Rib4, changes: Vec<Change>, random: &mut Random) -> Trace {
    let address = |(p, _): &Change| u32::from_be_bytes(random.address_in(p));
    let addresses: Vec<u32> = changes.iter().map(address).collect();
    let mut answers: BTreeMap<u32, Vec<(u32, u16)>> = BTreeMap::new();
    for address in addresses {
        answers.insert(address, vec![(0, rib.fib().lookup(address))]);
    }
    for (i, change) in changes.iter().enumerate() {
        apply(&mut rib, change);
        let first = u32::from_be_bytes(change.0.address());
        let last = first
            | u32::MAX
                .checked_shr(u32::from(change.0.length()))
                .unwrap_or(0);
        for (address, answers) in answers.range_mut(first..=last) {
            let now = rib.fib().lookup(*address);
            if answers.last().is_some_and(|(_, before)| *before != now) {
                answers.push((i as u32 + 1, now));
            }
        }
    }
    let watch = |(address, answers)| Watch { address, answers };
    let mut watches: Vec<Watch> = answers.into_iter().map(watch).collect();
    // Shuffles the addresses.
    for i in (1..watches.len()).rev() {
        watches.swap(i, random.below(i as u64 + 1) as usize);
    }
    Trace {
        rib,
        changes,
        watches,
    }
}

/// Times the change of the prefix of 8 bits with the most routes below it.
pub(crate) fn widest(routes: &[Route<4>]) {
    let mut rib = table(routes);
    let mut counts = [0usize; 256];
    for (prefix, _) in routes.iter().filter(|(p, _)| p.length() > 8) {
        counts[usize::from(prefix.address()[0])] += 1;
    }
    let first = (0..=255).max_by_key(|first| counts[usize::from(*first)]);
    let prefix = Prefix::new([first.unwrap_or(0), 0, 0, 0], 8);
    let mut least = Duration::MAX;
    for id in 1..20 {
        let start = Instant::now();
        rib.insert(prefix, NonZeroU16::new(id).unwrap_or(NonZeroU16::MIN))
            .expect("room");
        least = least.min(start.elapsed());
        let limbo = rib.take_limbo();
        rib.release(limbo);
    }
    println!(
        "a route of 8 bits with {} routes below it changed: {:.3} ms",
        counts[usize::from(prefix.address()[0])],
        least.as_secs_f64() * 1e3
    );
}
