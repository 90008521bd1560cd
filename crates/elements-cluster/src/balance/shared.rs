//! State that the elements of a balancer share.

use super::key::{Key, Sorter};
use super::ranges::{Ranges, Ranges4, network4, network6};
use super::version;
use crate::prelude::*;
use arguments::Arg;
use cluster::balance::{
    Class, HealthSettings, Intent, Member, NOBODY, Pool, Settings, State, WEIGHT_MAX,
};
use std::collections::VecDeque;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use sync::Lock;
use wire::{EtherAddr, Prefix4, Prefix6};

/// Pseudo-owner of the router's own addresses: the speaker, a back end that answers for the router.
pub(super) const SPEAKER: u16 = NOBODY - 1;
/// Pseudo-owner of addresses in the internal network, which are unreachable from outside.
pub(super) const INSIDE: u16 = NOBODY - 2;

/// Number of lines kept in the journal.
const KEPT: usize = 256;
/// Maximum number of back ends.
const BACKENDS_MAX: usize = 256;
/// Maximum number of traffic classes; each has a table of 512 KiB.
const CLASSES_MAX: usize = 8;

/// A back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) ether: EtherAddr,
    /// Address of the back end in the internal network.
    pub(super) address: Option<Ipv4Addr>,
    pub(super) weight: u16,
}

pub(crate) struct Shared {
    pub(super) pool: Pool,
    pub(super) backends: Vec<Backend>,
    /// Ethernet addresses of the back ends.
    pub(super) ethers: [EtherAddr; BACKENDS_MAX],
    /// True if packets are distributed round robin instead of by flow.
    pub(super) in_turn: bool,
    /// True if buckets move according to load.
    pub(super) by_load: bool,
    pub(super) sorter: Sorter,
    pub(super) owners4: Ranges4,
    pub(super) owners6: Ranges<u128>,
    /// Traffic class of each DSCP.
    pub(super) class_of: [u8; 64],
    /// Digest of the configuration that all balancers have in common.
    pub(super) version: u64,
    journal: Lock<VecDeque<String>>,
    /// Time of the last sweep: in nanoseconds since 1970, and in nanoseconds on the router's clock.
    wall: AtomicU64,
    now: AtomicU64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared::new(Vec::new(), SETTINGS, Vec::new(), Vec::new())
    }
}

const SETTINGS: Settings = Settings {
    idle: 100_000_000,
    deadline: 30_000_000_000,
    settle: 5_000_000_000,
};

/// Health settings for a back end with one probe per `interval` nanoseconds.
pub(super) fn watched(interval: u64, misses: u32, answers: u32) -> HealthSettings {
    HealthSettings {
        interval,
        misses,
        losses: 12.max(misses),
        answers,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Shared {
    fn new(
        backends: Vec<Backend>,
        settings: Settings,
        classes: Vec<Class>,
        speakers: Vec<u16>,
    ) -> Shared {
        let members = backends.iter().map(|of| Member {
            name: of.name.clone(),
            weight: of.weight,
        });
        Shared {
            pool: Pool::new(settings, members.collect(), classes, speakers),
            ethers: std::array::from_fn(|at| {
                backends.get(at).map_or(EtherAddr::ZERO, |of| of.ether)
            }),
            backends,
            in_turn: false,
            by_load: false,
            sorter: Sorter::new(Key::default(), 0),
            owners4: Ranges4::default(),
            owners6: Ranges::default(),
            class_of: [0; 64],
            version: 0,
            journal: Lock::default(),
            wall: AtomicU64::new(0),
            now: AtomicU64::new(0),
        }
    }

    /// Parses the arguments of a BalancePool. Errors are recorded in `args`.
    pub(super) fn parse(args: &mut Args) -> Shared {
        let algorithm: String =
            args.key("ALGORITHM", "flows".to_owned(), "method to spread packets");
        let key: String = args.key(
            "KEY",
            "symmetric".to_owned(),
            "fields that packets of one back end have in common",
        );
        let seed = args.key("SEED", 0u32, "another number, other buckets");
        let own: Option<String> = args.key_maybe("OWN", "addresses of the router");
        let speakers: Option<String> =
            args.key_maybe("SPEAKER", "back ends that speak for the router");
        let owns: Option<String> =
            args.key_maybe("OWNS", "back ends and the addresses that belong to each");
        let inside: Option<String> = args.key_maybe("INSIDE", "networks behind the balancer");
        let classes: Option<String> = args.key_maybe("CLASSES", "DSCPs and the back ends of each");
        let time = |nanoseconds| Duration::from_nanos(nanoseconds);
        let settings = Settings {
            idle: nanoseconds(args.key(
                "IDLE",
                time(SETTINGS.idle),
                "silence after which a bucket may move",
            )),
            deadline: nanoseconds(args.key(
                "DEADLINE",
                time(SETTINGS.deadline),
                "when buckets move though not silent",
            )),
            settle: nanoseconds(args.key(
                "SETTLE",
                time(SETTINGS.settle),
                "time after the start without planned moves",
            )),
        };
        let mut backends = Vec::new();
        for arg in args.rest("BACKEND", "NAME ETHER [IP] [WEIGHT n]", "a back end") {
            if let Some(backend) = Shared::backend(args, &arg) {
                backends.push(backend);
            }
        }
        if backends.len() > BACKENDS_MAX {
            args.error_in_whole(
                format!("there are more than {BACKENDS_MAX} back ends"),
                "let several balancers have some of them each",
            );
            backends.truncate(BACKENDS_MAX);
        }
        for (at, of) in backends.iter().enumerate() {
            let twice = |what: &str| format!("two back ends have the same {what}: `{}`", of.name);
            if backends[..at].iter().any(|other| other.name == of.name) {
                args.error_in_whole(twice("name"), "give each a name of its own");
            } else if backends[..at].iter().any(|other| other.ether == of.ether) {
                args.error_in_whole(
                    twice("Ethernet address"),
                    "write the address of each back end's own port",
                );
            }
        }
        let names: Vec<String> = backends.iter().map(|of| of.name.clone()).collect();
        let number = |args: &mut Args, name: &str| {
            let at = names.iter().position(|known| known == name);
            if at.is_none() && !names.is_empty() {
                args.error_in_whole(
                    format!("there is no back end `{name}`"),
                    format!("there are {}", names.join(", ")),
                );
            }
            at.map(|at| at as u16)
        };
        let mut speaking = Vec::new();
        for name in words(&speakers) {
            speaking.extend(number(args, name));
        }
        if speaking.is_empty() && !backends.is_empty() {
            speaking.push(0);
        }
        let mut ranges = Vec::new();
        for word in words(&own) {
            ranges.push((word.to_owned(), SPEAKER));
        }
        for word in words(&inside) {
            ranges.push((word.to_owned(), INSIDE));
        }
        let mut owner = None;
        for word in words(&owns) {
            if word.contains(['.', ':']) {
                ranges.push((word.to_owned(), owner.unwrap_or(NOBODY)));
            } else {
                owner = number(args, word);
            }
        }
        let mut class_of = [0; 64];
        let mut sets = Vec::new();
        for word in words(&classes) {
            let Some((dscps, members)) = word.split_once('=') else {
                args.error_in_whole(
                    format!("`{word}` is no class"),
                    "write DSCPs=BACKENDS, such as 46+34=r1+r2",
                );
                continue;
            };
            let mut class = Class {
                members: Vec::new(),
            };
            for name in members.split('+') {
                class.members.extend(number(args, name));
            }
            sets.push(class);
            for dscp in dscps.split('+') {
                // Frame priorities (`pcpN`) are skipped: only elements upstream of BalanceIn can read them.
                let priority = dscp.strip_prefix("pcp").and_then(|pcp| pcp.parse().ok());
                if matches!(priority, Some(0..=7u8)) {
                    continue;
                }
                let number = dscp.parse::<usize>().ok();
                match number.and_then(|dscp| class_of.get_mut(dscp)) {
                    Some(of) => *of = sets.len() as u8,
                    None => args.error_in_whole(
                        format!("`{dscp}` is no DSCP and no VLAN priority"),
                        "write 0 to 63, or pcp0 to pcp7",
                    ),
                }
            }
        }
        if sets.len() > CLASSES_MAX {
            args.error_in_whole(
                format!("there are more than {CLASSES_MAX} classes"),
                "put DSCPs with the same back ends into one",
            );
            sets.clear();
            class_of = [0; 64];
        }
        let version = version::of(&version::Common {
            backends: &backends,
            words: [&speakers, &owns, &classes].map(|text| text.as_deref().unwrap_or_default()),
            choices: [&algorithm, &key, &seed.to_string()],
        });
        let mut shared = Shared::new(backends, settings, sets, speaking);
        shared.version = version;
        shared.class_of = class_of;
        let key = match &*key {
            "flow" => Key::Flow,
            "symmetric" => Key::Symmetric,
            "outside" => Key::Outside,
            other => {
                args.error_in_whole(
                    format!("there is no KEY `{other}`"),
                    "write flow, symmetric or outside",
                );
                Key::default()
            }
        };
        shared.sorter = Sorter::new(key, seed);
        shared.in_turn = match &*algorithm {
            "flows" => false,
            "round-robin" => true,
            "least-loaded" => {
                shared.pool.level_load();
                shared.by_load = true;
                false
            }
            other => {
                args.error_in_whole(
                    format!("there is no ALGORITHM `{other}`"),
                    "write flows, least-loaded or round-robin",
                );
                false
            }
        };
        shared.set_ranges(args, &ranges);
        shared
    }

    fn backend(args: &mut Args, arg: &Arg) -> Option<Backend> {
        let words = arg.words();
        let [name, ether, rest @ ..] = &words[..] else {
            args.error_with_help(
                arg,
                format!("`{}` is no back end", arg.raw),
                "write its name and its Ethernet address",
            );
            return None;
        };
        let mut backend = Backend {
            name: name.clone(),
            ether: args.value("the back end's address", ether, arg)?,
            address: None,
            weight: 1,
        };
        if !backend.ether.is_unicast() {
            args.error_with_help(
                arg,
                format!("`{ether}` is the address of no station"),
                "write the back end's own address",
            );
        }
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            if word == "WEIGHT" {
                let weight = rest.next().map_or("", String::as_str);
                let weight: u16 = args.value("WEIGHT", weight, arg)?;
                backend.weight = checked_weight(weight.into()).unwrap_or_else(|wrong| {
                    args.error(arg, wrong);
                    1
                });
            } else {
                backend.address = Some(args.value("the back end's IP address", word, arg)?);
            }
        }
        Some(backend)
    }

    /// Sets addresses and networks with their owners. Errors are recorded in `args`.
    fn set_ranges(&mut self, args: &mut Args, ranges: &[(String, u16)]) {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        let (mut texts4, mut texts6) = (Vec::new(), Vec::new());
        for (word, owner) in ranges {
            let host = |bits: u8| match word.contains('/') {
                true => word.clone(),
                false => format!("{word}/{bits}"),
            };
            // An entry of the router's own is a single address, whatever its prefix length.
            if let Ok((address, length)) = Prefix4::parse_host(&host(32)) {
                let (first, last) = network4(address, if *owner == SPEAKER { 32 } else { length });
                four.push((first, last, *owner));
                texts4.push(word);
            } else if let Ok((address, length)) = Prefix6::parse_host(&host(128)) {
                let (first, last) = network6(address, if *owner == SPEAKER { 128 } else { length });
                six.push((first, last, *owner));
                texts6.push(word);
            } else {
                args.error_in_whole(
                    format!("`{word}` is no address or network"),
                    "write 10.0.0.1, 10.0.0.0/8 or fd00::/8",
                );
            }
        }
        let overlap = |texts: &[&String], (a, b): (usize, usize)| {
            (
                format!("{} and {} overlap", texts[a], texts[b]),
                "an address belongs to one back end, to the router or to the inside",
            )
        };
        let mut wrong = Vec::new();
        match Ranges4::new(&four) {
            Ok(ranges) => self.owners4 = ranges,
            Err(pair) => wrong.push(overlap(&texts4, pair)),
        }
        match Ranges::new(&six) {
            Ok(ranges) => self.owners6 = ranges,
            Err(pair) => wrong.push(overlap(&texts6, pair)),
        }
        for (wrong, help) in wrong {
            args.error_in_whole(wrong, help);
        }
    }

    /// Takes over the state of the replaced configuration.
    pub(super) fn follow(&mut self, old: &Shared) {
        self.pool.follow(&old.pool);
        let lines = old.journal.lock();
        self.journal = Lock::new(lines.clone());
        self.wall = AtomicU64::new(old.wall.load(Relaxed));
        self.now = AtomicU64::new(old.now.load(Relaxed));
    }

    /// Index of the back end with an Ethernet address.
    pub(super) fn at(&self, ether: EtherAddr) -> Option<u16> {
        let at = self.backends.iter().position(|of| of.ether == ether);
        at.map(|at| at as u16)
    }

    /// Moves the buckets that are due at `now`, in nanoseconds on the router's clock; `wall` is the time of day.
    pub(super) fn sweep(&self, now: u64, wall: u64) {
        self.wall.store(wall, Relaxed);
        self.now.store(now, Relaxed);
        match self.pool.sweep(now) {
            Some(cluster::balance::Ended::Forced(buckets)) => {
                self.note(
                    wall,
                    &format!("deadline: {buckets} buckets moved though they were not idle"),
                );
            }
            Some(cluster::balance::Ended::Idle) => {
                self.note(wall, "all buckets are where they shall be")
            }
            None => {}
        }
    }

    /// Adds a line to the journal, with the time `wall` in nanoseconds since 1970.
    pub(super) fn note(&self, wall: u64, line: &str) {
        let mut journal = self.journal.lock();
        if journal.len() == KEPT {
            journal.pop_front();
        }
        let (seconds, rest) = (wall / 1_000_000_000, wall % 1_000_000_000);
        journal.push_back(format!("{seconds}.{rest:09} {line}\n"));
    }

    pub(super) fn journal(&self) -> String {
        let journal = self.journal.lock();
        journal.iter().map(String::as_str).collect()
    }

    /// Text form of the back ends, one per line.
    pub(super) fn show(&self) -> String {
        let mut text = String::new();
        let now = self.now.load(Relaxed);
        for (at, (of, state)) in (0..).zip(self.backends.iter().zip(self.pool.states())) {
            let speaks = if self.pool.speaker() == at {
                " speaker"
            } else {
                ""
            };
            let age = now.saturating_sub(state.since) as f64 / 1e9;
            let (buckets, leaving) = state.buckets;
            let _ = writeln!(
                text,
                "{} {} {} weight {} buckets {buckets} leaving {leaving} for {age:.3}s{speaks}",
                of.name,
                of.ether,
                word(&state),
                state.member.weight,
            );
        }
        text
    }

    /// Metrics of each back end in Prometheus text format.
    pub(super) fn metrics(&self) -> String {
        let mut text = String::new();
        for (at, (of, state)) in (0..).zip(self.backends.iter().zip(self.pool.states())) {
            let (buckets, leaving) = state.buckets;
            for (name, value) in [
                ("up", usize::from(state.up)),
                ("used", usize::from(state.intent == Intent::Used)),
                ("speaks", usize::from(self.pool.speaker() == at)),
                ("weight", usize::from(state.member.weight)),
                ("buckets", buckets),
                ("leaving_buckets", leaving),
            ] {
                let _ = writeln!(text, "balancer_backend_{name} {value} backend={}", of.name);
            }
        }
        text
    }

    /// Owners of all buckets, 64 per line.
    pub(super) fn show_owners(&self) -> String {
        let name = |of: &u16| {
            self.backends
                .get(usize::from(*of))
                .map_or("-", |of| &of.name)
        };
        let owners = self.pool.owners(0);
        let lines = owners.chunks(64);
        lines
            .map(|line| line.iter().map(name).collect::<Vec<_>>().join(" ") + "\n")
            .collect()
    }

    fn named(&self, name: &str) -> Result<u16, String> {
        self.pool.number(name).ok_or_else(|| {
            let names: Vec<&str> = self.backends.iter().map(|of| &*of.name).collect();
            format!(
                "there is no back end `{name}`: there are {}",
                names.join(", ")
            )
        })
    }

    /// Parses `NAME [TIME]`: a back end, and the time by which its buckets must have moved.
    fn named_with_time(&self, value: &str) -> Result<(u16, Option<u64>), String> {
        let mut words = value.split_whitespace();
        let of = self.named(words.next().unwrap_or_default())?;
        let time = words
            .next()
            .map(arguments::units::parse::<Duration>)
            .transpose()?;
        match words.next() {
            Some(word) => Err(format!("`{word}` is too much: write NAME or NAME TIME")),
            None => Ok((of, time.map(nanoseconds))),
        }
    }

    pub(super) fn drain(&self, value: &str) -> Result<String, String> {
        let (of, deadline) = self.named_with_time(value)?;
        self.pool.intend(of, Intent::Drained, deadline);
        self.note(
            self.wall.load(Relaxed),
            &format!("{} drained by hand", self.backends[usize::from(of)].name),
        );
        Ok(String::new())
    }

    pub(super) fn use_again(&self, value: &str) -> Result<String, String> {
        let (of, deadline) = self.named_with_time(value)?;
        self.pool.intend(of, Intent::Used, deadline);
        self.note(
            self.wall.load(Relaxed),
            &format!("{} used by hand", self.backends[usize::from(of)].name),
        );
        Ok(String::new())
    }

    pub(super) fn set_weight(&self, value: &str) -> Result<String, String> {
        let (name, rest) = value
            .trim()
            .split_once(' ')
            .ok_or("write NAME WEIGHT, such as r1 2")?;
        let (weight, time) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
        let of = self.named(name)?;
        let weight: u32 = arguments::units::parse(weight)?;
        let weight = checked_weight(weight)?;
        let time = match time.trim() {
            "" => None,
            time => Some(nanoseconds(arguments::units::parse(time)?)),
        };
        self.pool.set_weight(of, weight, time);
        self.note(
            self.wall.load(Relaxed),
            &format!("{name} has weight {weight} by hand"),
        );
        Ok(String::new())
    }
}

fn checked_weight(weight: u32) -> Result<u16, String> {
    match u16::try_from(weight) {
        Ok(weight @ 1..=WEIGHT_MAX) => Ok(weight),
        _ => Err(format!("a weight is 1 to {WEIGHT_MAX}")),
    }
}

fn words(text: &Option<String>) -> impl Iterator<Item = &str> {
    text.iter().flat_map(|text| text.split_whitespace())
}

/// Text form of a back end's state, in one word.
pub(super) fn word(state: &State) -> &'static str {
    match (state.up, state.intent) {
        (false, _) => "down",
        (true, Intent::Used) => "up",
        (true, Intent::Drained) if state.buckets.0 == 0 => "drained",
        (true, Intent::Drained) => "draining",
    }
}
