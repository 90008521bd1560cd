//! Sorts packets into buckets by exact match on chosen header bytes, as network cards do (Flow Director).
//!
//! ```click
//! FromDevice(null:64)
//!     -> b :: BucketByFlow(udp/10.0.0.1/1000/10.0.0.2/53=3, FIELDS tuple, RULES 9000)
//!     -> Steer(BUCKETS 256) -> Discard;
//! ```
//!
//! A rule gives values for the chosen bytes, and the bucket of packets that have these values. A packet that
//! matches no rule goes into the bucket of its hash, as with BucketByHash. Rules can be added, changed and
//! removed while packets pass, one at a time or thousands at once; a change of one rule never affects packets
//! of another. Memory for `RULES` rules is allocated at the start. A flow that gets a rule may change worker;
//! new packets may then overtake those that are still on their way to the old worker. `FromDevice(..., CLASSIFY
//! flow ...)` inserts this element.
//!
//! The default fields are the five-tuple, for a tunnel that of the inner headers; rules are then `PROTOCOL SRC
//! SRCPORT DST DSTPORT`. Other fields are bytes of the frame; rules then have a value for each field, in
//! hexadecimal digits or as an address: `0800 10.0.0.1` for `FIELDS 12/2 30/4`. Frames that are too short match
//! no rule. The values of a rule are separated by white space or `/`.
//!
//! Arguments:
//!
//! - `RULE`: `VALUES=BUCKET`.
//!
//! Keyword arguments:
//!
//! - `FIELDS`: `tuple`, or fields such as `12/2 26/4%ffffff00`: offset, length and a mask of the bits to
//!   compare; at most 48 bytes. Default tuple.
//! - `RULES`: maximum number of rules, up to a million. Default 16384.
//! - `KEY`, `BUCKETS`, `INNER`: as in BucketByHash; rules may name buckets below `BUCKETS`.
//! - `PORT`: the port from which packets come. If its driver supports rules, it gets those for five-tuples.

use super::bucket_rule;
use super::flow_fields::{self, Fields, of_tuple};
use super::hashing::Hashing;
use super::port_rules::{PortRules, Source};
use crate::prelude::*;
use crate::secret;
use engine::port::Match;
use engine::publish::{Epoch, domain};
use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use sync::Lock;
use tables::exact::{Exact, ExactWriter, Full, Key};
use wire::plain_frame::Plain;

/// Maximum number of rules; each takes 64 bytes.
const RULES_MAX: usize = 1 << 20;

/// Maximum time that a change waits for workers, and its polling interval.
const WORKER_TIMEOUT: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_micros(50);

/// Writer's half of the rules, for the control thread.
struct Writer {
    rules: ExactWriter,
    /// Removed entries that workers may still read, by epoch.
    limbo: VecDeque<(Epoch, Vec<u32>)>,
}

impl Writer {
    fn settle(&mut self) {
        while let Some((epoch, _)) = self.limbo.front()
            && domain().has_passed(*epoch)
            && let Some((_, entries)) = self.limbo.pop_front()
        {
            self.rules.release(entries);
        }
    }

    /// Retires removed rules until all workers have passed the current epoch.
    fn retire(&mut self) {
        let gone = self.rules.take_limbo();
        if !gone.is_empty() {
            self.limbo.push_back((domain().advance(), gone));
        }
    }

    /// Waits on the control thread until workers release enough removed rules, at most `WORKER_TIMEOUT`. A preempted
    /// worker may delay this.
    fn wait_for_room(&mut self, entries: usize) {
        let begun = Instant::now();
        while self.rules.free_entries() < entries
            && !self.limbo.is_empty()
            && begun.elapsed() < WORKER_TIMEOUT
        {
            self.settle();
            if self.rules.free_entries() < entries {
                std::thread::sleep(TURN);
            }
        }
    }

    /// Adds all rules or none.
    fn add(&mut self, rules: &[(Key, u16)]) -> Result<(), String> {
        let new = rules.iter().filter(|(key, _)| !self.rules.has(key)).count();
        if self.rules.len() + new <= self.rules.capacity() {
            self.wait_for_room(new);
        }
        if new > self.rules.free_entries() {
            let capacity = self.rules.capacity();
            return Err(match self.rules.len() + new > capacity {
                true => format!("there may be {capacity} rules; RULES makes room for more"),
                false => "rules that were removed have not left all workers yet; try again".into(),
            });
        }
        for (key, bucket) in rules {
            let added = self.rules.insert(key, u32::from(*bucket));
            added.map_err(|Full| "the table is full".to_owned())?;
        }
        Ok(())
    }
}

pub(super) struct Config {
    fields: Fields,
    hashing: Hashing,
    rules: Arc<Exact>,
    writer: Lock<Writer>,
    port: Option<Arc<PortRules>>,
}

impl Source for Config {
    fn rules(&self) -> Vec<(Match, u16)> {
        let writer = self.lock();
        let rules = writer.rules.iter();
        let rules = rules.map(|(key, bucket)| (self.fields.flow(&key), bucket));
        rules
            .filter_map(|(flow, bucket)| Some((Match::Flow(flow?), bucket as u16)))
            .collect()
    }

    fn bucket(&self, rule: &Match) -> Option<u16> {
        match rule {
            Match::Flow(flow) => Some(self.rules.find(&of_tuple(flow))? as u16),
            _ => None,
        }
    }
}

impl Config {
    fn lock(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        writer.settle();
        writer
    }

    fn parse(&self, value: &str) -> Result<Vec<(Key, u16)>, String> {
        bucket_rule::lines(value, self.hashing.buckets, |rule| self.fields.rule(rule))
    }

    fn add(&self, value: &str) -> Result<String, String> {
        let rules = self.parse(value)?;
        self.lock().add(&rules)?;
        Ok(self.changed(rules.iter().map(|rule| &rule.0)))
    }

    /// Passes changed rules to the port.
    fn changed<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> String {
        if let Some(port) = &self.port {
            let flows = keys.filter_map(|key| self.fields.flow(key));
            port.changed(flows.map(Match::Flow));
        }
        String::new()
    }

    fn remove(&self, value: &str) -> Result<String, String> {
        let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys = lines.map(|line| self.fields.rule(line));
        let keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
        let mut writer = self.lock();
        for key in &keys {
            writer.rules.remove(key);
        }
        writer.retire();
        drop(writer);
        Ok(self.changed(keys.iter()))
    }

    /// Replaces all rules. Rules in both sets stay in effect throughout.
    fn replace(&self, value: &str) -> Result<String, String> {
        let rules = self.parse(value)?;
        let kept: std::collections::HashSet<Key> = rules.iter().map(|rule| rule.0).collect();
        let mut writer = self.lock();
        let old = writer.rules.iter().map(|rule| rule.0);
        let gone: Vec<Key> = old.filter(|key| !kept.contains(key)).collect();
        if kept.len() > writer.rules.capacity() {
            return Err(format!("there may be {} rules", writer.rules.capacity()));
        }
        for key in &gone {
            writer.rules.remove(key);
        }
        writer.retire();
        let done = writer.add(&rules);
        drop(writer);
        // The old rules are removed even if the new ones do not fit.
        let changed = self.changed(gone.iter().chain(rules.iter().map(|rule| &rule.0)));
        done.map(|()| changed)
    }

    fn show(&self) -> String {
        let writer = self.lock();
        let rules = writer.rules.iter();
        let mut lines: Vec<String> = rules
            .map(|(key, bucket)| format!("{} {bucket}\n", self.fields.show(&key)))
            .collect();
        lines.sort_unstable();
        lines.concat()
    }
}

pub(super) struct BucketByFlow {
    config: Arc<Config>,
    matched: u64,
}

impl Element for BucketByFlow {
    const CONTRACT: Contract = Contract::new("BucketByFlow", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let fields = args.key("FIELDS", "tuple".to_owned(), "the bytes that are compared");
        let capacity = args.key_in("RULES", 16384, 1..=RULES_MAX, "most rules at a time");
        let hashing = Hashing::configure(args);
        let port = PortRules::configure(args);
        let given = args.rest("RULE", "VALUES=BUCKET", "a rule");
        let fields = Fields::parse(&fields).unwrap_or_else(|wrong| {
            args.error_in_whole(wrong, "FIELDS is `tuple` or places such as `12/2 26/4`");
            Fields::Tuple
        });
        let mut rules = Vec::new();
        for arg in &given {
            match bucket_rule::lines(&arg.unquoted(), hashing.buckets, |rule| fields.rule(rule)) {
                Ok(more) => rules.extend(more),
                Err(wrong) => args.error_with_help(arg, wrong, "a rule is VALUES=BUCKET"),
            }
        }
        let table = ExactWriter::new(capacity, fields.words(), secret(cfg!(test)));
        let mut writer = Writer {
            rules: table,
            limbo: VecDeque::new(),
        };
        if let Err(wrong) = writer.add(&rules) {
            args.error_in_whole(wrong, "leave some of the rules out, or give more RULES");
        }
        Config {
            fields,
            hashing,
            rules: Arc::clone(writer.rules.table()),
            writer: Lock::new(writer),
            port,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> BucketByFlow {
        if let Some(port) = &config.port {
            port.come_from(config);
        }
        BucketByFlow {
            config: Arc::clone(config),
            matched: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let config = &*self.config;
        let table = config.hashing.key.table.read(cx.reader());
        for packet in batch.iter_mut() {
            let frame = packet.data();
            let plain = Plain::of_ether(frame);
            let key = match (&config.fields, &plain) {
                (Fields::Tuple, Some(plain)) => Some(flow_fields::of_plain(plain)),
                (fields, _) => fields.key(frame, config.hashing.inner),
            };
            let rule = key.and_then(|key| config.rules.find(&key));
            self.matched += u64::from(rule.is_some());
            let bucket = match (rule, &plain) {
                (Some(bucket), _) => bucket as u16,
                (None, Some(plain)) => config.hashing.bucket(table.hash_of_plain(plain)),
                (None, None) => {
                    let hash = config.hashing.hash(table, frame);
                    config.hashing.bucket(hash.unwrap_or(0))
                }
            };
            packet.set_bucket(bucket);
        }
    }

    const HANDLERS: &'static [Handler<BucketByFlow>] = &[
        Handler::shared("rules", "rules with their buckets", |c: &Config, _| {
            Ok(c.show())
        }),
        Handler::shared("length", "number of rules", |c: &Config, _| {
            Ok(c.lock().rules.len().to_string())
        }),
        counter!("matched", "packets that matched a rule", matched),
        Handler::shared("buckets", "number of buckets", |c: &Config, _| {
            Ok(c.hashing.buckets.to_string())
        }),
        Handler::action(
            "add",
            "adds or changes rules, one `VALUES BUCKET` a line; all of them or none",
            |c: &Config, value| c.add(value),
        ),
        Handler::action(
            "remove",
            "removes rules, one `VALUES` a line",
            |c: &Config, value| c.remove(value),
        ),
        Handler::action(
            "replace",
            "replaces all rules, one `VALUES BUCKET` a line",
            |c: &Config, value| c.replace(value),
        ),
        Handler::shared("key", "the key of the hash", |c: &Config, _| {
            Ok(c.hashing.show_key())
        }),
        Handler::action(
            "key",
            "changes the key of all elements that share it, like the handler of BucketByHash",
            |c: &Config, value| c.hashing.set_key(value),
        ),
    ];
}

impl Resources for BucketByFlow {
    fn memory(config: &Config) -> usize {
        config.rules.memory_bytes()
    }
}

#[cfg(test)]
#[path = "bucket_by_flow_tests.rs"]
mod tests;
