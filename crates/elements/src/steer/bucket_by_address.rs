//! Sorts frames into buckets by destination address or VLAN, as network cards do for virtual machines (VMDq).
//!
//! ```click
//! FromDevice(null:64)
//!     -> b :: BucketByAddress(02:00:00:00:00:01, 02:00:00:00:00:02@7, 100=0)
//!     -> Steer(BUCKETS 4) -> Discard;
//! ```
//!
//! The most specific rule that a frame matches decides: address and VLAN before address, address before VLAN. Two
//! more buckets follow the last one that the arguments name (2 and 3 above): one for frames to broadcast and
//! multicast addresses that no rule names, and one for all other frames. A frame's VLAN is that of its outermost tag.
//! `FromDevice(..., CLASSIFY address ...)` inserts this element.
//!
//! Arguments:
//!
//! - `RULE`: `ADDRESS`, `VLAN` or `ADDRESS@VLAN`. Its bucket is its position in the list, from 0, or the number after
//!   `=`.
//!
//! Keyword arguments:
//!
//! - `PORT`: the port from which packets come. If its driver supports rules, it gets these.

use super::bucket_rule;
use super::port_rules::{PortRules, Source};
use crate::prelude::*;
use engine::packet::BUCKETS_MAX;
use engine::port::Match;
use engine::publish::{Published, domain};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use wire::{EtherAddr, ether, vlan};

/// Key of rules and frames: Ethernet address and VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key(u64);

/// Flag in a key: the VLAN is significant.
const TAGGED: u64 = 1 << 12;
/// Flag in a key: the address is ignored.
const ANY: u64 = 1 << 13;

impl Key {
    fn new(address: Option<EtherAddr>, id: Option<u16>) -> Key {
        let [a, b, c, d, e, f] = address.unwrap_or(EtherAddr::ZERO).0;
        let address_bits = u64::from_be_bytes([a, b, c, d, e, f, 0, 0]);
        let tag = id.map_or(0, |id| TAGGED | u64::from(id));
        Key(address_bits | tag | if address.is_none() { ANY } else { 0 })
    }

    fn parse(text: &str) -> Result<Key, String> {
        let id = |text: &str| {
            let id = text
                .parse()
                .ok()
                .filter(|id| (1..=vlan::MAX_ID).contains(id));
            id.ok_or_else(|| format!("`{text}` is no VLAN from 1 to {}", vlan::MAX_ID))
        };
        if !text.contains([':', '-']) {
            return Ok(Key::new(None, Some(id(text)?)));
        }
        let (address, tag) = match text.split_once('@') {
            Some((address, tag)) => (address, Some(id(tag)?)),
            None => (text, None),
        };
        let parsed = address.parse::<EtherAddr>();
        let parsed = parsed.map_err(|_| format!("`{address}` is no Ethernet address"))?;
        Ok(Key::new(Some(parsed), tag))
    }

    /// Rule in a port's form.
    fn to_match(self) -> Match {
        let [a, b, c, d, e, f, ..] = self.0.to_be_bytes();
        Match::Station {
            address: (self.0 & ANY == 0).then_some([a, b, c, d, e, f]),
            vlan: (self.0 & TAGGED != 0).then_some((self.0 & 0xfff) as u16),
        }
    }

    fn show(self) -> String {
        let [a, b, c, d, e, f, ..] = self.0.to_be_bytes();
        let address = EtherAddr([a, b, c, d, e, f]);
        let id = self.0 & 0xfff;
        match (self.0 & ANY != 0, self.0 & TAGGED != 0) {
            (true, _) => id.to_string(),
            (false, true) => format!("{address}@{id}"),
            (false, false) => address.to_string(),
        }
    }
}

/// Multiplicative hasher. It need not resist chosen keys: the sender of such frames could flood one bucket anyway.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let x = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = x ^ x >> 32;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Rules by kind. The look-up proceeds from exact to general kinds and skips kinds without rules.
#[derive(Clone, Default)]
struct Rules {
    by_key: HashMap<Key, u16, BuildHasherDefault<Mix>>,
    has_pairs: bool,
    has_ids: bool,
}

impl Rules {
    fn note_kinds(&mut self) {
        let of = |key: &Key| (key.0 & TAGGED != 0, key.0 & ANY != 0);
        self.has_pairs = self.by_key.keys().any(|key| of(key) == (true, false));
        self.has_ids = self.by_key.keys().any(|key| of(key).1);
    }

    /// Bucket of a frame; `None` if no rule matches.
    #[inline]
    fn find(&self, frame: &[u8]) -> Option<u16> {
        let head = frame.first_chunk::<{ ether::LEN + vlan::LEN }>();
        let (address, id) = match head {
            Some(head) => (
                u64::from_be_bytes(*head.first_chunk()?) & !0xffff,
                tag_of(head),
            ),
            // The frame is too short for a VLAN tag.
            None => (u64::from_be_bytes(*frame.first_chunk()?) & !0xffff, None),
        };
        let get = |key: u64| self.by_key.get(&Key(key)).copied();
        let id = id.map(|id| TAGGED | u64::from(id));
        let pair = id
            .filter(|_| self.has_pairs)
            .and_then(|id| get(address | id));
        pair.or_else(|| get(address))
            .or_else(|| get(ANY | id.filter(|_| self.has_ids)?))
    }
}

/// VLAN identifier in a frame's outermost tag; `None` for a priority tag.
#[inline]
fn tag_of(head: &[u8; ether::LEN + vlan::LEN]) -> Option<u16> {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let tagged = matches!(word(12), ether::VLAN | ether::QINQ);
    Some(word(14) & 0xfff).filter(|&id| tagged && id != 0)
}

/// Number of buckets of these rules, including those of broadcasts and unmatched frames.
pub(crate) fn buckets(rules: &[String]) -> usize {
    bucket_rule::buckets(rules.iter().map(String::as_str)) + 2
}

pub(super) struct Config {
    rules: Published<Rules>,
    /// Bucket of broadcasts; the next bucket is for unmatched frames.
    group: u16,
    port: Option<Arc<PortRules>>,
}

impl Source for Config {
    fn rules(&self) -> Vec<(Match, u16)> {
        let rules = self.rules.snapshot();
        let each = rules.by_key.iter();
        each.map(|(key, b)| (key.to_match(), *b)).collect()
    }

    fn bucket(&self, rule: &Match) -> Option<u16> {
        match rule {
            Match::Station { address, vlan } => {
                let key = Key::new(address.map(EtherAddr), *vlan);
                self.rules.snapshot().by_key.get(&key).copied()
            }
            _ => None,
        }
    }
}

impl Config {
    fn buckets(&self) -> usize {
        usize::from(self.group) + 2
    }

    fn change(&self, keys: &[Key], how: impl FnOnce(&mut Rules)) {
        self.rules.update(|old| {
            let mut new = Rules::clone(old);
            how(&mut new);
            new.note_kinds();
            Arc::new(new)
        });
        if let Some(port) = &self.port {
            port.changed(keys.iter().map(|key| key.to_match()));
        }
    }

    fn show(&self) -> String {
        let rules = self.rules.snapshot();
        let mut all: Vec<(Key, u16)> = rules.by_key.iter().map(|(k, b)| (*k, *b)).collect();
        all.sort_unstable();
        let lines = all.iter().map(|(key, b)| format!("{} {b}\n", key.show()));
        lines.collect()
    }
}

pub(super) struct BucketByAddress(Arc<Config>);

impl Element for BucketByAddress {
    const CONTRACT: Contract = Contract::new("BucketByAddress", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let port = PortRules::configure(args);
        let given = args.rest(
            "RULE",
            "ADDRESS, VLAN or ADDRESS@VLAN",
            "a rule, and =BUCKET",
        );
        let mut rules = Rules::default();
        for (at, arg) in given.iter().enumerate() {
            let word = arg.unquoted();
            let parsed =
                bucket_rule::split(&word, at).and_then(|(rule, b)| Ok((Key::parse(rule)?, b)));
            match parsed {
                Ok((key, bucket)) => {
                    if rules.by_key.insert(key, bucket).is_some() {
                        args.error(arg, format!("there are two rules for `{}`", key.show()));
                    }
                }
                Err(wrong) => args.error_with_help(
                    arg,
                    format!("in `{word}`: {wrong}"),
                    "a rule is 02:00:00:00:00:01, 7 or 02:00:00:00:00:01@7, and =BUCKET behind it",
                ),
            }
        }
        rules.note_kinds();
        let group = rules.by_key.values().max().map_or(0, |&most| most + 1);
        if usize::from(group) + 2 > BUCKETS_MAX {
            args.error_in_whole("there are too many buckets", "number them from 0 on");
        }
        Config {
            rules: Published::new(domain(), rules),
            group,
            port,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> BucketByAddress {
        if let Some(port) = &config.port {
            port.come_from(config);
        }
        BucketByAddress(Arc::clone(config))
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let rules = self.0.rules.read(cx.reader());
        for packet in batch.iter_mut() {
            let frame = packet.data();
            let bucket = rules.find(frame).unwrap_or_else(|| {
                let is_group = frame.first().is_some_and(|first| first & 1 != 0);
                self.0.group + u16::from(!is_group)
            });
            packet.set_bucket(bucket);
        }
    }

    const HANDLERS: &'static [Handler<BucketByAddress>] = &[
        Handler::shared("rules", "rules with their buckets", |c: &Config, _| {
            Ok(c.show())
        }),
        Handler::shared("buckets", "number of buckets", |c: &Config, _| {
            Ok(c.buckets().to_string())
        }),
        Handler::action(
            "add",
            "adds or changes rules, one `RULE BUCKET` a line; all of them or none",
            |c: &Config, value| {
                let rules = bucket_rule::lines(value, c.buckets(), Key::parse)?;
                let keys: Vec<Key> = rules.iter().map(|rule| rule.0).collect();
                c.change(&keys, |all| all.by_key.extend(rules));
                Ok(String::new())
            },
        ),
        Handler::action(
            "remove",
            "removes rules, one a line",
            |c: &Config, value| {
                let words = value.split_whitespace();
                let keys: Vec<Key> = words.map(Key::parse).collect::<Result<_, _>>()?;
                c.change(&keys, |all| {
                    keys.iter().for_each(|key| _ = all.by_key.remove(key))
                });
                Ok(String::new())
            },
        ),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    fn frame(last: u8, tag: Option<u16>) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, last, 2, 0, 0, 0, 0, 99];
        if let Some(tag) = tag {
            frame.extend([0x81, 0]);
            frame.extend((0xe000 | tag).to_be_bytes());
        }
        frame.extend([8, 0]);
        frame.resize(60, 0);
        frame
    }

    fn sorted(bench: &mut Bench, frames: &[Vec<u8>]) -> Vec<u16> {
        bench.push("b", frames);
        bench.take_packets("out").iter().map(|p| p.bucket).collect()
    }

    const TEXT: &str =
        "b :: BucketByAddress(02:00:00:00:00:01, 02:00:00:00:00:01@7, 02:00:00:00:00:02=0, 100)
        -> out :: Collect";

    #[test]
    fn the_most_exact_rule_counts_and_the_rest_is_broadcast_or_unknown() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        let mut broadcast = frame(0, None);
        broadcast[..6].fill(0xff);
        let mut tagged = frame(0, Some(100));
        tagged[..6].fill(0xff);
        let frames = [
            frame(1, None),
            frame(1, Some(7)),
            frame(1, Some(8)),
            frame(2, Some(7)),
            frame(3, Some(100)),
            tagged,
            broadcast,
            frame(3, Some(0)),
            vec![],
            vec![1, 2],
        ];
        let got = sorted(&mut bench, &frames);
        assert_eq!(got, [0, 1, 0, 0, 3, 3, 4, 5, 5, 4]);
        assert_eq!(bench.read("b.buckets"), "6");
    }

    #[test]
    fn rules_change_while_packets_pass() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        bench.write("b.add", "02:00:00:00:00:09 2\n02:00:00:00:00:01 3");
        let frames = [frame(9, None), frame(1, None)];
        assert_eq!(sorted(&mut bench, &frames), [2, 3]);
        assert!(
            bench
                .try_write("b.add", "02:00:00:00:00:09 2\n02:00:00:00:00:08 6")
                .is_err()
        );
        assert!(bench.try_write("b.add", "9999 1").is_err());
        bench.write("b.remove", "02:00:00:00:00:09");
        assert_eq!(sorted(&mut bench, &frames), [5, 3]);
        let rules = "100 3\n02:00:00:00:00:01 3\n02:00:00:00:00:01@7 1\n02:00:00:00:00:02 0\n";
        assert_eq!(bench.read("b.rules").trim(), rules.trim());
    }

    #[test]
    fn mistakes_are_told() {
        for (rules, wrong) in [
            ("02:00", "no Ethernet address"),
            ("5000", "no VLAN"),
            ("7, 7", "two rules for `7`"),
            ("7=4096", "a bucket from 0 to 4095"),
        ] {
            let text = format!("FromDevice(null:64) -> BucketByAddress({rules}) -> Discard");
            let errors = testkit::errors(crate::CLASSES, &text);
            assert!(errors.contains(wrong), "{errors}");
        }
    }
}
