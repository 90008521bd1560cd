//! Sorts packets into buckets by the longest prefix of their address: a part of the routing table for each core.
//!
//! ```click
//! FromDevice(null:64)
//!     -> b :: BucketByPrefix(10.0.0.0/8, 192.168.0.0/16, 2001:db8::/32=0, DEFAULT 1)
//!     -> Steer(BUCKETS 2) -> Discard;
//! ```
//!
//! A worker that sees only a part of the destinations needs only a part of the routes in its caches. Packets
//! are Ethernet frames with up to two VLAN tags. Packets that match no prefix, and those that are not IP, go
//! into the bucket `DEFAULT`. A flow and its replies have different destinations, so elements that look at both
//! need BucketByHash. Changes take effect at once, while packets pass. `FromDevice(..., CLASSIFY prefix ...)`
//! inserts this element.
//!
//! Arguments:
//!
//! - `PREFIX`: an IPv4 or IPv6 prefix. Its bucket is its position in the list, from 0, or the number after `=`.
//!
//! Keyword arguments:
//!
//! - `DEFAULT`: the bucket of packets that match no prefix. Default 0.
//! - `SOURCE`: true to use source addresses instead of destinations. Default false.
//! - `PORT`: the port from which packets come. If its driver supports rules, it gets these.

use super::bucket_rule;
use super::port_rules::{PortRules, Source};
use crate::prelude::*;
use engine::packet::BUCKETS_MAX;
use engine::port::Match;
use engine::publish::{Epoch, domain};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::MutexGuard;
use sync::Lock;
use tables::fib::{Fib4, Fib6, Full, Limbo, Prefix, Rib, Rib4, Rib6, Structure};
use wire::{Prefix4, Prefix6, ether, tunnel};

/// IPv4 or IPv6 prefix.
#[derive(Clone, Copy)]
enum Either {
    V4(Prefix4),
    V6(Prefix6),
}

impl Either {
    fn parse(text: &str) -> Result<Either, String> {
        let wrong = || format!("`{text}` is no prefix such as 10.0.0.0/8 or 2001:db8::/32");
        match text.contains(':') {
            true => arguments::units::parse(text).map(Either::V6),
            false => arguments::units::parse(text).map(Either::V4),
        }
        .map_err(|_| wrong())
    }

    /// Rule in a port's form.
    fn to_match(self, is_source: bool) -> Match {
        let (address, len) = match self {
            Either::V4(prefix) => (prefix.addr().into(), prefix.len()),
            Either::V6(prefix) => (prefix.addr().into(), prefix.len()),
        };
        Match::Prefix {
            address,
            len,
            is_source,
        }
    }

    /// Prefix of a rule made by [`to_match`](Self::to_match).
    fn of_match(rule: &Match) -> Option<Either> {
        match *rule {
            Match::Prefix { address, len, .. } => Some(match address {
                IpAddr::V4(addr) => Either::V4(Prefix4::new(addr, len)),
                IpAddr::V6(addr) => Either::V6(Prefix6::new(addr, len)),
            }),
            _ => None,
        }
    }
}

/// Writer's half of the rules, for the control thread.
struct Writer {
    rib4: Rib4,
    rib6: Rib6,
    /// Retired table memory that workers may still read, by epoch.
    limbo: VecDeque<(Epoch, Limbo, Limbo)>,
}

impl Writer {
    fn settle(&mut self) {
        while let Some((epoch, ..)) = self.limbo.front()
            && domain().has_passed(*epoch)
            && let Some((_, four, six)) = self.limbo.pop_front()
        {
            self.rib4.release(four);
            self.rib6.release(six);
        }
    }

    /// Stages a change of one prefix; `None` removes the prefix.
    fn stage(&mut self, prefix: Either, bucket: Option<u16>) {
        fn stage_one<const N: usize>(rib: &mut Rib<N>, prefix: Prefix<N>, id: Option<NonZeroU16>) {
            match id {
                Some(id) => rib.stage_insert(prefix, id),
                None => rib.stage_remove(prefix),
            };
        }
        let id = bucket.and_then(|bucket| NonZeroU16::new(bucket + 1));
        match prefix {
            Either::V4(prefix) => stage_one(&mut self.rib4, prefix.into(), id),
            Either::V6(prefix) => stage_one(&mut self.rib6, prefix.into(), id),
        }
    }

    fn publish(&mut self) -> Result<(), Full> {
        self.rib4.publish().and(self.rib6.publish())?;
        let (four, six) = (self.rib4.take_limbo(), self.rib6.take_limbo());
        self.limbo.push_back((domain().advance(), four, six));
        Ok(())
    }
}

/// Lookup structures for workers, and their writer.
struct Table {
    fib4: Arc<Fib4>,
    fib6: Arc<Fib6>,
    writer: Lock<Writer>,
}

impl Table {
    fn new() -> Option<Table> {
        let (rib4, rib6) = (Rib4::try_new().ok()?, Rib6::try_new().ok()?);
        Some(Table {
            fib4: Arc::clone(rib4.fib()),
            fib6: Arc::clone(rib6.fib()),
            writer: Lock::new(Writer {
                rib4,
                rib6,
                limbo: VecDeque::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        writer.settle();
        writer
    }

    fn change(&self, prefixes: &[(Either, Option<u16>)]) -> Result<String, String> {
        let mut writer = self.lock();
        for (prefix, bucket) in prefixes {
            writer.stage(*prefix, *bucket);
        }
        let done = writer.publish().map(|()| String::new());
        done.map_err(|Full| "the table is full".to_owned())
    }

    fn rules(&self) -> Vec<(Either, u16)> {
        let writer = self.lock();
        let bucket = |id: NonZeroU16| id.get() - 1;
        let four = writer.rib4.iter();
        let four = four.map(|(p, id)| (Either::V4(p.into()), bucket(id)));
        let six = writer.rib6.iter();
        let six = six.map(|(p, id)| (Either::V6(p.into()), bucket(id)));
        four.chain(six).collect()
    }

    fn show(&self) -> String {
        let line = |(prefix, bucket): (Either, u16)| match prefix {
            Either::V4(prefix) => format!("{prefix} {bucket}\n"),
            Either::V6(prefix) => format!("{prefix} {bucket}\n"),
        };
        self.rules().into_iter().map(line).collect()
    }
}

/// Number of buckets of these prefixes and of unmatched packets.
pub(crate) fn buckets(prefixes: &[String], default: Option<&str>) -> usize {
    let default: usize = default.and_then(|n| n.parse().ok()).unwrap_or(0);
    bucket_rule::buckets(prefixes.iter().map(String::as_str)).max(default + 1)
}

pub(super) struct Config {
    /// Lookup table; `None` if memory for it ran out, in which case the configuration is refused.
    table: Option<Table>,
    default: u16,
    is_source: bool,
    buckets: usize,
    port: Option<Arc<PortRules>>,
}

impl Source for Config {
    fn rules(&self) -> Vec<(Match, u16)> {
        let all = self.table.as_ref().map_or_else(Vec::new, Table::rules);
        let each = all.into_iter();
        each.map(|(prefix, b)| (prefix.to_match(self.is_source), b))
            .collect()
    }

    fn bucket(&self, rule: &Match) -> Option<u16> {
        let writer = self.table.as_ref()?.lock();
        let id = match Either::of_match(rule)? {
            Either::V4(prefix) => writer.rib4.get(&prefix.into()),
            Either::V6(prefix) => writer.rib6.get(&prefix.into()),
        };
        Some(id?.get() - 1)
    }
}

impl Config {
    fn change(&self, prefixes: &[(Either, Option<u16>)]) -> Result<String, String> {
        let done = self.table()?.change(prefixes);
        if let Some(port) = &self.port {
            let each = prefixes.iter();
            port.changed(each.map(|rule| rule.0.to_match(self.is_source)));
        }
        done
    }

    fn table(&self) -> Result<&Table, String> {
        self.table
            .as_ref()
            .ok_or_else(|| "there is no memory".into())
    }
}

pub(super) struct BucketByPrefix {
    config: Arc<Config>,
    keys: Vec<u32>,
    ids: Vec<u16>,
    /// Index and bucket of each packet in a batch that is not IPv4.
    others: Vec<(usize, u16)>,
}

/// Address of a packet that is looked up.
enum Key {
    V4(u32),
    V6([u8; 16]),
    None,
}

impl BucketByPrefix {
    #[inline]
    fn key(frame: &[u8], is_source: bool) -> Key {
        // Most packets are untagged IPv4, for which this check suffices.
        if let Some(head) = frame.first_chunk::<34>()
            && head[12..14] == ether::IPV4.to_be_bytes()
            && head[14] >> 4 == 4
        {
            let at = if is_source { 26 } else { 30 };
            return Key::V4(u32::from_be_bytes([
                head[at],
                head[at + 1],
                head[at + 2],
                head[at + 3],
            ]));
        }
        BucketByPrefix::key_of_any(frame, is_source)
    }

    #[inline(never)]
    fn key_of_any(frame: &[u8], is_source: bool) -> Key {
        let Some(packet) = tunnel::ip_of_ether(frame) else {
            return Key::None;
        };
        let version = packet.first().map_or(0, |byte| byte >> 4);
        let (four, six) = if is_source { (12, 8) } else { (16, 24) };
        match version {
            4 => packet.get(four..four + 4).and_then(|b| b.first_chunk()),
            _ => None,
        }
        .map(|bytes| Key::V4(u32::from_be_bytes(*bytes)))
        .or_else(|| {
            let bytes = packet.get(six..six + 16).filter(|_| version == 6)?;
            bytes.first_chunk().copied().map(Key::V6)
        })
        .unwrap_or(Key::None)
    }
}

impl Element for BucketByPrefix {
    const CONTRACT: Contract = Contract::new("BucketByPrefix", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let default: u16 = args.key("DEFAULT", 0, "the bucket of packets that match no prefix");
        let is_source = args.key("SOURCE", false, "true to use source addresses");
        let port = PortRules::configure(args);
        let given = args.rest("PREFIX", "a prefix, and =BUCKET", "a part of the addresses");
        let mut rules = Vec::new();
        for (at, arg) in given.iter().enumerate() {
            let word = arg.unquoted();
            let parsed = bucket_rule::split(&word, at)
                .and_then(|(rule, b)| Ok((Either::parse(rule)?, Some(b))));
            match parsed {
                Ok(rule) => rules.push(rule),
                Err(wrong) => args.error_with_help(
                    arg,
                    format!("in `{word}`: {wrong}"),
                    "write 10.0.0.0/8, or 10.0.0.0/8=3 for bucket 3",
                ),
            }
        }
        let most = rules.iter().filter_map(|rule| rule.1).max().unwrap_or(0);
        let buckets = usize::from(most.max(default)) + 1;
        if buckets > BUCKETS_MAX {
            args.error_in_whole("there are too many buckets", "number them from 0 on");
        }
        let table = Table::new();
        let filled = table.as_ref().map(|table| table.change(&rules));
        if !matches!(filled, Some(Ok(_))) {
            let help = "let the process have more (`ulimit -v`), or do with fewer prefixes";
            args.error_in_whole("there is no memory for the prefixes", help);
        }
        Config {
            table,
            default,
            is_source,
            buckets: buckets.min(BUCKETS_MAX),
            port,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> BucketByPrefix {
        if let Some(port) = &config.port {
            port.come_from(config);
        }
        BucketByPrefix {
            config: Arc::clone(config),
            keys: Vec::new(),
            ids: Vec::new(),
            others: Vec::new(),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, _: &mut Cx) {
        let (config, keys) = (&*self.config, &mut self.keys);
        let Some(table) = &config.table else { return };
        let default = config.default;
        keys.clear();
        self.ids.clear();
        self.others.clear();
        // IPv4 addresses are looked up in bulk. Other packets get a placeholder among them.
        for (place, packet) in batch.iter().enumerate() {
            let bucket = match BucketByPrefix::key(packet.data(), config.is_source) {
                Key::V4(key) => {
                    keys.push(key);
                    continue;
                }
                Key::V6(key) => table.fib6.lookup(key).checked_sub(1),
                Key::None => None,
            };
            keys.push(0);
            self.others.push((place, bucket.unwrap_or(default)));
        }
        self.ids.resize(keys.len(), 0);
        table.fib4.lookup_bulk(keys, &mut self.ids);
        let packets = batch.iter_mut().into_slice();
        for (packet, id) in packets.iter_mut().zip(&self.ids) {
            packet.set_bucket(id.checked_sub(1).unwrap_or(default));
        }
        for &(place, bucket) in &self.others {
            packets[place].set_bucket(bucket);
        }
    }

    const HANDLERS: &'static [Handler<BucketByPrefix>] = &[
        Handler::shared("rules", "prefixes with their buckets", |c: &Config, _| {
            Ok(c.table()?.show())
        }),
        Handler::shared("buckets", "number of buckets", |c: &Config, _| {
            Ok(c.buckets.to_string())
        }),
        Handler::action(
            "add",
            "adds or changes prefixes, one `PREFIX BUCKET` a line; all of them or none",
            |c: &Config, value| {
                let rules = bucket_rule::lines(value, c.buckets, Either::parse)?;
                let rules: Vec<_> = rules.into_iter().map(|(p, b)| (p, Some(b))).collect();
                c.change(&rules)
            },
        ),
        Handler::action(
            "remove",
            "removes prefixes, one a line",
            |c: &Config, value| {
                let words = value.split_whitespace();
                let rules = words.map(|word| Ok((Either::parse(word)?, None)));
                let rules: Vec<_> = rules.collect::<Result<_, String>>()?;
                c.change(&rules)
            },
        ),
    ];
}

impl Resources for BucketByPrefix {
    fn memory(config: &Config) -> usize {
        let table = config.table.as_ref().map(Table::lock);
        table.map_or(0, |w| w.rib4.memory_bytes() + w.rib6.memory_bytes())
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6};

    const ENDS: (&str, &str) = ("02:00:00:00:00:01", "02:00:00:00:00:02");

    fn sorted(bench: &mut Bench, destinations: &[&str]) -> Vec<u16> {
        let frames = destinations.iter().map(|dst| match dst.contains(':') {
            true => ip6().src("2001:db8::9").dst(dst).udp(1, 2),
            false => ip4().src("10.9.9.9").dst(dst).udp(1, 2),
        });
        let frames: Vec<_> = frames.map(|f| f.ether(ENDS.0, ENDS.1).bytes()).collect();
        bench.push("b", &frames);
        bench.take_packets("out").iter().map(|p| p.bucket).collect()
    }

    #[test]
    fn the_longest_prefix_counts_and_the_rest_has_a_bucket_of_its_own() {
        let text = "b :: BucketByPrefix(10.0.0.0/8, 10.1.0.0/16, 2001:db8::/32=0, DEFAULT 2) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let got = sorted(
            &mut bench,
            &[
                "10.2.0.1",
                "10.1.0.1",
                "11.0.0.1",
                "2001:db8::1",
                "2001:db9::1",
            ],
        );
        assert_eq!(got, [0, 1, 2, 0, 2]);
        bench.push("b", &[vec![], vec![9; 14], vec![9; 60]]);
        assert!(bench.take_packets("out").iter().all(|p| p.bucket == 2));
        assert_eq!(bench.read("b.buckets"), "3");
        bench.write("b.add", "11.0.0.0/8 1\n2001:db8:1::/48 1");
        bench.write("b.remove", "10.1.0.0/16");
        let got = sorted(&mut bench, &["10.1.0.1", "11.0.0.1", "2001:db8:1::1"]);
        assert_eq!(got, [0, 1, 1]);
        let rules = "10.0.0.0/8 0\n11.0.0.0/8 1\n2001:db8::/32 0\n2001:db8:1::/48 1";
        assert_eq!(bench.read("b.rules").trim(), rules);
        for wrong in ["11.0.0.0/8 3", "11.0.0.0/33 1", "x 1", "11.0.0.0/8"] {
            assert!(bench.try_write("b.add", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn source_addresses_can_count_instead() {
        let text =
            "b :: BucketByPrefix(10.9.0.0/16=5, 2001:db8::/64=4, SOURCE true) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        assert_eq!(sorted(&mut bench, &["1.1.1.1", "::1"]), [5, 4]);
    }

    #[test]
    fn mistakes_are_told() {
        for (rules, wrong) in [
            ("10.0.0.0/33", "no prefix"),
            ("10.0.0.0/8=x", "a bucket from 0"),
        ] {
            let text = format!("FromDevice(null:64) -> BucketByPrefix({rules}) -> Discard");
            let errors = testkit::errors(crate::CLASSES, &text);
            assert!(errors.contains(wrong), "{errors}");
        }
    }
}
