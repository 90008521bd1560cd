//! Rules over five fields in ClassBench's format, and larger rule sets generated from a smaller one.
#![allow(dead_code)] // each program and each crate's tests use a part of it

use super::sample::Random;
use std::collections::{HashMap, HashSet};
use tables::classify::{FIELDS, Key, Rule, Test};

/// A rule over addresses, ports and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FiveTuple {
    /// Source prefix: address and length.
    pub(crate) src: (u32, u8),
    /// Destination prefix.
    pub(crate) dst: (u32, u8),
    /// Least and greatest source port.
    pub(crate) src_port: (u16, u16),
    /// Least and greatest destination port.
    pub(crate) dst_port: (u16, u16),
    /// Protocol and mask.
    pub(crate) protocol: (u8, u8),
}

/// Fields of keys: source, destination, ports, protocol.
const SRC: u8 = 0;
const DST: u8 = 1;
const PORTS: u8 = 2;
const PROTOCOL: u8 = 3;

fn prefix_mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

impl FiveTuple {
    /// The rule as tests of a [`key`].
    pub(crate) fn rule(&self) -> Rule {
        let prefix = |field, (address, len): (u32, u8)| Test {
            field,
            mask: prefix_mask(len),
            lo: address & prefix_mask(len),
            hi: address & prefix_mask(len),
        };
        let ports = |(lo, hi): (u16, u16), shift: u32| Test {
            field: PORTS,
            mask: 0xffff << shift,
            lo: u32::from(lo) << shift,
            hi: u32::from(hi) << shift,
        };
        let (value, mask) = (u32::from(self.protocol.0), u32::from(self.protocol.1));
        let tests = [
            prefix(SRC, self.src),
            prefix(DST, self.dst),
            ports(self.src_port, 16),
            ports(self.dst_port, 0),
            Test {
                field: PROTOCOL,
                mask,
                lo: value & mask,
                hi: value & mask,
            },
        ];
        let asks = |t: &Test| t.mask != 0 && (t.lo, t.hi) != (0, t.mask);
        tests.into_iter().filter(asks).collect()
    }
}

/// The key of a packet.
pub(crate) fn key(src: u32, dst: u32, src_port: u16, dst_port: u16, protocol: u8) -> Key {
    let mut key = [0; FIELDS];
    key[..4].copy_from_slice(&[
        src,
        dst,
        u32::from(src_port) << 16 | u32::from(dst_port),
        protocol.into(),
    ]);
    key
}

/// Reads a ClassBench filter set: lines `@src dst lo : hi lo : hi proto/mask ...`.
pub(crate) fn parse_rules(text: &str) -> Option<Vec<FiveTuple>> {
    let prefix = |text: &str| {
        let (address, len) = text.split_once('/')?;
        let address: std::net::Ipv4Addr = address.parse().ok()?;
        Some((u32::from(address), len.parse().ok()?))
    };
    let ports = |text: &str| {
        let (lo, hi) = text.split_once(" : ")?;
        Some((lo.parse().ok()?, hi.parse().ok()?))
    };
    let byte = |text: &str| u8::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let line = |line: &str| {
        let mut columns = line.strip_prefix('@')?.split('\t');
        let mut next = || columns.next().map(str::trim);
        let (src, dst) = (prefix(next()?)?, prefix(next()?)?);
        let (src_port, dst_port) = (ports(next()?)?, ports(next()?)?);
        let (protocol, mask) = next()?.split_once('/')?;
        Some(FiveTuple {
            src,
            dst,
            src_port,
            dst_port,
            protocol: (byte(protocol)?, byte(mask)?),
        })
    };
    text.lines().map(line).collect()
}

/// Reads a ClassBench trace: lines `src dst sport dport proto ...`.
pub(crate) fn parse_trace(text: &str) -> Option<Vec<Key>> {
    let line = |line: &str| {
        let mut columns = line.split_whitespace();
        let mut next = || columns.next()?.parse::<u32>().ok();
        let (src, dst) = (next()?, next()?);
        let (from, to) = (next()?.try_into().ok()?, next()?.try_into().ok()?);
        Some(key(src, dst, from, to, next()?.try_into().ok()?))
    };
    text.lines().map(line).collect()
}

/// Generates `n` rules like those of `seed`. Ports, protocols and prefix lengths are taken together from its rules.
/// Addresses come from random tries that branch at each level as the seed's do, made wide enough for `n` rules. The
/// order is that of the rules they are taken from. Returns fewer rules if distinct ones run out.
pub(crate) fn grow(seed: &[FiveTuple], n: usize, random: &mut Random) -> Vec<FiveTuple> {
    let factor = n as f64 / seed.len().max(1) as f64;
    let mut src = Trie::like(seed.iter().map(|r| r.src), factor);
    let mut dst = Trie::like(seed.iter().map(|r| r.dst), factor);
    let mut seen = HashSet::new();
    let mut grown = Vec::new();
    for _ in 0..n * 20 {
        if grown.len() == n {
            break;
        }
        let from = random.below(seed.len() as u64) as usize;
        let mut rule = seed[from];
        rule.src.0 = src.address(rule.src.1, random);
        rule.dst.0 = dst.address(rule.dst.1, random);
        if seen.insert(rule) {
            grown.push((from, rule));
        }
    }
    grown.sort_by_key(|(from, _)| *from);
    grown.into_iter().map(|(_, rule)| rule).collect()
}

/// A packet that matches a rule; bits that the rule leaves open are random.
pub(crate) fn hit(rule: &FiveTuple, random: &mut Random) -> Key {
    let mut address = |(address, len): (u32, u8)| {
        address & prefix_mask(len) | random.below(1 << 32) as u32 & !prefix_mask(len)
    };
    let (src, dst) = (address(rule.src), address(rule.dst));
    let mut port = |(lo, hi): (u16, u16)| lo + random.below(u64::from(hi - lo) + 1) as u16;
    let (from, to) = (port(rule.src_port), port(rule.dst_port));
    let (protocol, mask) = rule.protocol;
    let protocol = protocol & mask | random.below(256) as u8 & !mask;
    key(src, dst, from, to, protocol)
}

/// The number of the first rule that a key matches, found by linear search.
pub(crate) fn naive(rules: &[Rule], key: &Key) -> Option<u32> {
    let first = rules.iter().position(|r| r.iter().all(|t| t.matches(key)));
    first.map(|n| n as u32)
}

/// Input of a measurement of classifiers: rules, and packets for them.
pub(crate) struct Sample {
    /// The rules, in order.
    pub(crate) rules: Vec<FiveTuple>,
    /// The packets.
    pub(crate) keys: Vec<Key>,
    /// The rule of each packet, as the filter set states it.
    stated: Option<Vec<Option<u32>>>,
}

impl Sample {
    /// Reads a program's arguments `RULES [N [SEED]]`. RULES is the path of a ClassBench filter set; `.trace` and
    /// `.expected` files with the same stem lie beside it. With N, a set of N rules is generated from it, with one
    /// packet per rule.
    ///
    /// # Errors
    /// An argument, file or line is missing or invalid; a sentence.
    pub(crate) fn from_args(mut args: impl Iterator<Item = String>) -> Result<Sample, String> {
        let path = args.next().ok_or("the path of a filter set is missing")?;
        let number = |text: String| text.parse().map_err(|_| format!("`{text}` is no number"));
        let n = args.next().map(number).transpose()?;
        let seed = args.next().map(number).transpose()?.unwrap_or(1);
        let read = |kind: &str| {
            let path = path.replace(".rules", kind);
            std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))
        };
        let foreign = || format!("{path}: some lines are not ClassBench's");
        let given = parse_rules(&read(".rules")?).ok_or_else(foreign)?;
        let Some(n) = n else {
            let stated = read(".expected")?;
            return Ok(Sample {
                rules: given,
                keys: parse_trace(&read(".trace")?).ok_or_else(foreign)?,
                stated: Some(stated.lines().map(|n| n.parse().ok()).collect()),
            });
        };
        let mut random = Random::new(seed);
        let rules = grow(&given, n as usize, &mut random);
        Ok(Sample {
            keys: rules.iter().map(|r| hit(r, &mut random)).collect(),
            rules,
            stated: None,
        })
    }

    /// The rules as tests.
    pub(crate) fn tests(&self) -> Vec<Rule> {
        self.rules.iter().map(FiveTuple::rule).collect()
    }

    /// The number of the first rule that each packet matches: from the `.expected` file, or else by linear search.
    pub(crate) fn expected(&self) -> Vec<Option<u32>> {
        self.stated.clone().unwrap_or_else(|| {
            let tests = self.tests();
            self.keys.iter().map(|key| naive(&tests, key)).collect()
        })
    }
}

/// A random trie whose nodes are generated when they are first visited.
struct Trie {
    /// For each level: the share of nodes with two children, and the weight of the heavier child.
    levels: Vec<(f64, f64)>,
    /// For each level and prefix: true if there are two children, and the heavier or only child.
    nodes: HashMap<(u8, u32), (bool, u32)>,
}

impl Trie {
    fn like(prefixes: impl Iterator<Item = (u32, u8)>, factor: f64) -> Trie {
        let prefixes: Vec<(u32, u8)> = prefixes.collect();
        let mut levels: Vec<(f64, f64)> =
            (0..32).map(|level| branching(&prefixes, level)).collect();
        // Raises the branching of all levels that branch until there are `factor` times as many leaves.
        let leaves = |levels: &[(f64, f64)]| levels.iter().map(|l| (1.0 + l.0).ln()).sum::<f64>();
        let wanted = leaves(&levels) + factor.ln();
        for _ in 0..200 {
            if leaves(&levels) >= wanted {
                break;
            }
            for level in &mut levels[4..] {
                level.0 = (level.0 * 1.03 + 0.002).min(1.0);
            }
        }
        Trie {
            levels,
            nodes: HashMap::new(),
        }
    }

    fn address(&mut self, len: u8, random: &mut Random) -> u32 {
        let unit = |random: &mut Random| random.below(1 << 32) as f64 / 4_294_967_296.0;
        let mut prefix = 0u32;
        for level in 0..len.min(32) {
            let (two, heavy) = self.levels[usize::from(level)];
            let node = self.nodes.entry((level, prefix));
            let (both, only) =
                *node.or_insert_with(|| (unit(random) < two, random.below(2) as u32));
            let bit = match both {
                true if unit(random) < heavy => only,
                true => 1 - only,
                false => only,
            };
            prefix |= bit << (31 - level);
        }
        prefix
    }
}

/// For a level of the prefixes' trie: the share of nodes with two children, and the weight of the heavier child.
fn branching(prefixes: &[(u32, u8)], level: u8) -> (f64, f64) {
    let mut below: HashMap<u32, [usize; 2]> = HashMap::new();
    for &(address, _) in prefixes.iter().filter(|p| p.1 > level) {
        let bit = address >> (31 - level) & 1;
        below.entry(address & prefix_mask(level)).or_default()[bit as usize] += 1;
    }
    let two: Vec<_> = below.values().filter(|n| n[0] > 0 && n[1] > 0).collect();
    let share = |n: &[usize; 2]| n[0].max(n[1]) as f64 / (n[0] + n[1]) as f64;
    let heavy = two.iter().map(|n| share(n)).sum::<f64>() / two.len().max(1) as f64;
    let often = two.len() as f64 / below.len().max(1) as f64;
    (often, if two.is_empty() { 0.6 } else { heavy })
}
