//! Shares a link among groups, subscribers and their classes of traffic, each with a rate and a ceiling.
//!
//! ```click
//! FromDevice(null:64, CORES 0) -> Strip(14) -> CheckIPHeader
//!     -> q :: ShareQueue(LINK 10Gbps,
//!         class voice DSCP 46 SHARE 2 CEIL 2Mbps, class video DSCP 34 SHARE 3, class best SHARE 5,
//!         group north RATE 4Gbps, group south RATE 6Gbps CEIL 8Gbps,
//!         subscribers north 10.0.0.0/18 2001:db8::/42/56 RATE 200kbps CEIL 100Mbps,
//!         subscribers north 10.0.5.5 RATE 2Mbps CEIL 1Gbps,
//!         subscribers south 10.64.0.0/22 RATE 1Mbps, subscribers south - RATE 1Mbps)
//!     -> Unqueue -> Discard;
//! ```
//!
//! The link's rate is divided on three levels: among groups, in a group among its subscribers, and in a subscriber
//! among its classes. On each level those with packets share the available rate in proportion to their `RATE`, or
//! `SHARE`, and none gets more than its `CEIL`; siblings share what one does not use. The rates of a group's
//! subscribers may add up to no more than that of the group, and those of the groups to no more than `LINK`. Then
//! each gets its rate whatever the others send; otherwise each gets its part. A class that sends little is served
//! before those that send much. Rates count the bytes of packets as they arrive, and `OVERHEAD` for each.
//!
//! Statements are arguments, or lines of the file `TREE`, in which `#` starts a comment:
//!
//! - `class NAME [DSCP n...] [SHARE n] [CEIL bandwidth]`: packets with these code points, of each subscriber. One class
//!   has no `DSCP` and takes all others. `SHARE` is 1 by default. Without statements there is one class, `all`.
//! - `group NAME RATE bandwidth [CEIL bandwidth]`
//! - `subscribers GROUP PATTERN... RATE bandwidth [CEIL bandwidth]`: `ADDR` is one subscriber, `ADDR/LENGTH` one per
//!   address, and `ADDR/LENGTH/SIZE` one per block of `SIZE` bits. If there are several patterns, their nth
//!   subscribers are the same one, so IPv4 and IPv6 share. With `BY anno` and `BY vlan` patterns are `N` or `N-N`.
//!   The longest prefix wins; the pattern `-` is one subscriber for all other packets, which are dropped without it
//!   (`no_subscriber`).
//!
//! The greatest rate of siblings may be 1000 times the least. At most `CAPACITY` packets wait, and at most `LIMIT` in
//! one queue (further ones are dropped as `full`). A queue also holds no more packets than there is room left for all
//! others (`memory`), so that floods leave room for the rest. In each queue CoDel (RFC 8289) drops packets if they
//! have waited for longer than `TARGET` for an `INTERVAL` (`delay`). Costs do not grow with the number of
//! subscribers.
//!
//! Without `LINK`, the pulling element decides how fast packets leave. All workers share one tree: one of them has it
//! and the task that pulls from it. Packets of other workers cross over to it, through queues that `ashlar plan`
//! shows.
//!
//! Keyword arguments:
//!
//! - `LINK`: bandwidth of the link. Default: as fast as packets are pulled.
//! - `TREE`: file of statements.
//! - `BY`: field that identifies a subscriber: `dst` or `src`, an address of the packet; `anno`, the annotation
//!   AGGREGATE; `vlan`, the VLAN identifier of the annotation. Default dst.
//! - `CAPACITY`: packets of all queues. Default 65536.
//! - `LIMIT`: packets of a queue. Default 1000.
//! - `TARGET`: maximum acceptable waiting time of packets; 0 turns CoDel off. Default 5ms. It should exceed the time
//!   of a packet at the rate of a queue.
//! - `INTERVAL`: time for which they may wait longer than TARGET. Default 100ms.
//! - `BURST`: what a node did not send in this time it may send above its ceiling; at least what it sends in a turn,
//!   which is a packet for the one with the least rate. Default 2ms.
//! - `MTU`: maximum length of packets. Default 1500.
//! - `OVERHEAD`: bytes that the link adds to each packet. Default 0; 38 for an IP packet on Ethernet.

use super::queue::IDLE_POLLS_MAX;
use super::share_tree::{SubscriberKey, Tree};
use crate::prelude::*;
use arguments::text_file::lines;
use arguments::units::{Bandwidth, FromArg, parse};
use engine::clock::Time;
use engine::notify::Notifies;
use std::collections::BTreeMap;
use std::time::Duration;
use tables::codel::CodelParameters;
use tables::shares::{
    CEILINGS_MAX, Counts, Full, QUEUES_MAX, RATIO_MAX, Settings, SettingsError, Share, Shares,
};

drops! {
    FULL = "full",
    MEMORY = "memory",
    DELAY = "delay",
    NO_SUBSCRIBER = "no_subscriber",
    RESET = "reset",
}

pub(crate) struct Config {
    tree: Tree,
    settings: Settings,
    overhead: u32,
}

impl Config {
    fn with_tree<R>(
        &self,
        make: impl FnOnce(Settings, &[Share], &[Share], &[(usize, Share)]) -> R,
    ) -> R {
        let classes: Vec<Share> = self.tree.classes.iter().map(|class| class.share).collect();
        let groups: Vec<Share> = self.tree.groups.iter().map(|(_, share)| *share).collect();
        make(self.settings, &classes, &groups, &self.tree.subscribers)
    }

    fn error_text(&self, uneven: SettingsError) -> String {
        let of = match uneven {
            SettingsError::Groups => "groups".to_owned(),
            SettingsError::Classes => "classes".to_owned(),
            SettingsError::Subscribers(group) => {
                let name = self.tree.groups.get(group).map_or("", |(name, _)| name);
                format!("subscribers of group `{name}`")
            }
            SettingsError::Queues => {
                return format!("subscribers and classes make more than {QUEUES_MAX} queues");
            }
            SettingsError::Ceilings => {
                return format!("there are more than {CEILINGS_MAX} pairs of a rate and a ceiling");
            }
        };
        format!("the rates of {of} differ by more than {RATIO_MAX} times")
    }
}

pub(crate) struct ShareQueue {
    config: Arc<Config>,
    /// Shares of subscribers; `None` if the configuration was refused.
    shares: Option<Shares<Packet>>,
    /// Changed shares by subscriber, with the subscriber's name as given.
    set: BTreeMap<usize, (String, Share)>,
    /// Subscriber and class of each packet in a batch.
    places: Vec<Option<(usize, usize)>>,
    idle_polls: u32,
}

impl ShareQueue {
    fn len(&self) -> usize {
        self.shares.as_ref().map_or(0, Shares::len)
    }

    /// Counters for `PLACE`: the root (empty), a group, or a subscriber with an optional class.
    fn node(&self, text: &str) -> Result<String, String> {
        let (Some(shares), tree) = (&self.shares, &self.config.tree) else {
            return Ok(String::new());
        };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let counts = match words[..] {
            [] => shares.counts(0..tree.subscribers.len()),
            [name] => match tree.groups.iter().position(|(group, _)| group == name) {
                Some(group) => return Ok(format!("bytes {}\n", shares.group_bytes(group))),
                None => {
                    let subscriber = tree.find(name)?;
                    shares.counts(subscriber..subscriber + 1)
                }
            },
            [name, class] => {
                let known = tree.classes.iter().position(|known| known.name == class);
                let class = known.ok_or_else(|| format!("there is no class `{class}`"))?;
                shares.queue_counts(shares.queue_index(tree.find(name)?, class))
            }
            _ => return Err("write nothing, GROUP, SUBSCRIBER or SUBSCRIBER CLASS".to_owned()),
        };
        let Counts {
            packets,
            bytes,
            held,
            full,
            delay,
        } = counts;
        Ok(format!(
            "packets {packets}\nbytes {bytes}\nheld {held}\nfull {full}\ndelay {delay}\n"
        ))
    }

    /// Sets a share: `SUBSCRIBER RATE bandwidth [CEIL bandwidth]`.
    fn set(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (name, rate, ceiling) = match words[..] {
            [name, "RATE", rate] => (name, rate, None),
            [name, "RATE", rate, "CEIL", ceiling] => (name, rate, Some(ceiling)),
            _ => return Err("write SUBSCRIBER RATE bandwidth [CEIL bandwidth]".to_owned()),
        };
        let subscriber = self.config.tree.find(name)?;
        let name = name.to_owned();
        let share = Share {
            rate: parse::<Bandwidth>(rate)?.0,
            ceiling: ceiling.map(parse::<Bandwidth>).transpose()?.map(|b| b.0),
        };
        if share.ceiling == Some(0) {
            return Err("CEIL must not be 0".to_owned());
        }
        let Some(shares) = &mut self.shares else {
            return Ok(());
        };
        shares.set(subscriber, share).map_err(|uneven| match uneven {
            SettingsError::Subscribers(group) => format!(
                "the rate must be between {}, the least of the group when it was configured, and {RATIO_MAX} times \
                    that",
                Bandwidth::of(shares.lowest_rate(group)).unparse()
            ),
            uneven => self.config.error_text(uneven),
        })?;
        match self.config.tree.subscribers[subscriber].1 == share {
            true => self.set.remove(&subscriber),
            false => self.set.insert(subscriber, (name, share)),
        };
        Ok(())
    }

    /// Lines of `ctrl` that turn the configured shares into the current ones.
    fn changes(&self) -> String {
        let each = self.set.values();
        each.map(|(name, share)| format!("set {name} {}\n", words_of(share)))
            .collect()
    }

    /// Current share of a subscriber.
    fn share(&self, name: &str) -> Result<String, String> {
        let tree = &self.config.tree;
        let subscriber = tree.find(name.trim())?;
        let set = self.set.get(&subscriber).map(|(_, share)| share);
        let (_, configured) = &tree.subscribers[subscriber];
        Ok(words_of(set.unwrap_or(configured)))
    }

    /// Executes lines `set SUBSCRIBER ...`, all or none.
    fn ctrl(&mut self, text: &str) -> Result<(), String> {
        let before = self.set.clone();
        for (number, line) in lines(text) {
            let done = match line.split_once(char::is_whitespace) {
                Some(("set", rest)) => self.set(rest),
                _ => Err(format!("`{line}` is no `set SUBSCRIBER RATE bandwidth`")),
            };
            if let Err(wrong) = done {
                self.undo(&before);
                return Err(format!("line {number}: {wrong}"));
            }
        }
        Ok(())
    }

    /// Restores earlier shares.
    fn undo(&mut self, before: &BTreeMap<usize, (String, Share)>) {
        let changed: Vec<usize> = self.set.keys().chain(before.keys()).copied().collect();
        for subscriber in changed {
            let was = before.get(&subscriber).map(|(_, share)| *share);
            let was = was.unwrap_or(self.config.tree.subscribers[subscriber].1);
            if let Some(shares) = &mut self.shares {
                // The share fitted before, so it fits again.
                let _ = shares.set(subscriber, was);
            }
        }
        self.set.clone_from(before);
    }
}

impl Element for ShareQueue {
    const CONTRACT: Contract = Contract::new("ShareQueue", manual!())
        .ports(Ports::coded(&["in"], &["out"], "h/l"))
        .drops(DROPS)
        .copies(Copies::Owner)
        .extensions(&[&resources::of::<Self>(), &Notifies::PACKETS]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let link: Option<Bandwidth> = args.key_maybe("LINK", "bandwidth of the link");
        let file: Option<String> = args.key_maybe("TREE", "file of statements");
        let by = args.key(
            "BY",
            SubscriberKey::Dst,
            "field that identifies a subscriber",
        );
        let Capacity(capacity) = args.key("CAPACITY", Capacity(1 << 16), "packets of all queues");
        let limit: u32 = args.key("LIMIT", 1000, "packets of a queue");
        let target = args.key(
            "TARGET",
            Duration::from_millis(5),
            "longest time that packets wait",
        );
        let interval = args.key(
            "INTERVAL",
            Duration::from_millis(100),
            "time for which they may wait longer than TARGET",
        );
        let burst = args.key(
            "BURST",
            Duration::from_millis(2),
            "time whose unused bandwidth may be sent later, above the ceiling",
        );
        let mtu: u32 = args.key_in("MTU", 1500, 64..=65_535, "longest packet");
        let overhead: u16 = args.key("OVERHEAD", 0, "bytes that the link adds to each packet");
        let given = args.rest("STATEMENT", "class, group or subscribers", "see above");
        if link == Some(Bandwidth::of(0)) {
            args.error_in_whole("LINK must not be 0", "give its bandwidth, or leave it out");
        }
        let mut tree = Tree::new(by);
        if let Some(file) = file {
            match args.read_file(&file) {
                Err(wrong) => args.error_in_whole(
                    format!("cannot read `{file}`: {wrong}"),
                    "TREE names a text file, from where the router was started",
                ),
                Ok(text) => read(&mut tree, &file, &text, args),
            }
        }
        for arg in &given {
            let words = arg.words();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Err(wrong) = tree.add(&words) {
                args.error(arg, format!("in `{}`: {wrong}", arg.raw));
            }
        }
        let link = link.map(|link| link.0.max(1));
        for (wrong, help) in tree.finish(link) {
            args.error_in_whole(wrong, help);
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let config = Config {
            tree,
            settings: Settings {
                link,
                mtu: mtu + u32::from(overhead),
                burst: nanoseconds(burst),
                capacity,
                limit: limit as usize,
                codel: (!target.is_zero()).then(|| CodelParameters {
                    target: nanoseconds(target),
                    interval: nanoseconds(interval),
                }),
            },
            overhead: overhead.into(),
        };
        if let Err(uneven) = config.with_tree(Shares::<Packet>::check) {
            let help = match uneven {
                SettingsError::Queues => "fewer classes or subscribers take fewer",
                _ => "raise the least ones: a ceiling needs no low rate",
            };
            args.error_in_whole(config.error_text(uneven), help);
        }
        config
    }

    fn new(config: &Arc<Config>, _: &Init) -> ShareQueue {
        ShareQueue {
            shares: config.with_tree(Shares::new).ok(),
            set: BTreeMap::new(),
            config: Arc::clone(config),
            places: Vec::new(),
            idle_polls: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if self.len() > 0 {
            cx.wake_pullers();
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let Some(shares) = &mut self.shares else {
            return;
        };
        let now = cx.now().0;
        // All queues are prefetched before the first one is used.
        self.places.clear();
        for packet in batch.iter() {
            let place = self.config.tree.of_packet(packet);
            if let Some((subscriber, class)) = place {
                shares.prefetch(subscriber, class);
            }
            self.places.push(place);
        }
        for (packet, place) in batch.drain().zip(&self.places) {
            let Some((subscriber, class)) = *place else {
                cx.drop(packet, NO_SUBSCRIBER);
                continue;
            };
            let bytes = packet.len() as u32 + self.config.overhead;
            let place = shares.queue_index(subscriber, class);
            if let Err((full, packet)) = shares.push(place, now, bytes, packet) {
                cx.note_overflow(1);
                cx.drop(packet, if full == Full::Queue { FULL } else { MEMORY });
            }
        }
        self.idle_polls = 0;
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let Some(shares) = &mut self.shares else {
            return;
        };
        let (now, had) = (cx.now().0, into.len());
        let mut dropped = Batch::new();
        while into.len() - had < max
            && let Some(packet) = shares.pop(now, |packet| dropped.push(packet))
        {
            into.push(packet);
        }
        if !dropped.is_empty() {
            cx.drop_batch(&mut dropped, DELAY);
        }
        if into.len() > had {
            self.idle_polls = 0;
            return;
        }
        self.idle_polls += 1;
        match shares.next_pop_at() {
            // All packets are above a ceiling.
            Some(at) => {
                cx.note_empty();
                cx.set_timer(Time(at));
            }
            None if self.idle_polls >= IDLE_POLLS_MAX => cx.note_empty(),
            None => {}
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn held(&self) -> usize {
        self.len()
    }

    fn take(&mut self, mut old: ShareQueue) {
        let (Some(old), Some(shares)) = (&mut old.shares, &mut self.shares) else {
            return;
        };
        // Packets without a subscriber in the new tree go to the first queue, so that each stays accounted for.
        for (_, came, bytes, packet) in old.drain() {
            let place = self.config.tree.of_packet(&packet);
            let place = place.map_or(0, |(subscriber, class)| {
                shares.queue_index(subscriber, class)
            });
            shares.put_back(place, came, bytes, packet);
        }
    }

    const HANDLERS: &'static [Handler<ShareQueue>] = &[
        Handler::sum("length", "packets held now", |e| e.len() as u64),
        Handler::text("capacity", "packets that may be held", |e, _| {
            Ok(e.config.settings.capacity.to_string())
        }),
        Handler::text(
            "counts",
            "`[GROUP | SUBSCRIBER [CLASS]]`: packets and bytes sent, packets held and dropped there; without a word, \
                of all; of a group, bytes",
            |e, text| e.node(text),
        ),
        Handler::set(
            "set",
            "`SUBSCRIBER RATE bandwidth [CEIL bandwidth]`: another share for a subscriber",
            |e, text, _| e.set(text),
        ),
        Handler::text(
            "share",
            "`SUBSCRIBER`: its rate and ceiling now",
            |e, text| e.share(text),
        ),
        Handler::text(
            "changes",
            "lines of `ctrl` that make of the configured shares those that there are: `ashlar save` keeps them",
            |e, _| Ok(e.changes()),
        ),
        Handler::set(
            "ctrl",
            "lines `set ...`: all are carried out, or none",
            |e, text, _| e.ctrl(text),
        ),
        Handler::set("reset", "frees the packets held", |e, _, cx| {
            let drained = e.shares.as_mut().map(Shares::drain).unwrap_or_default();
            let mut held: Batch = drained.into_iter().map(|(.., packet)| packet).collect();
            cx.drop_batch(&mut held, RESET);
            Ok(())
        }),
    ];
}

/// A share in the syntax of `set`.
fn words_of(share: &Share) -> String {
    let ceiling = share
        .ceiling
        .map(|bytes| format!(" CEIL {}", Bandwidth::of(bytes).unparse()));
    format!(
        "RATE {}{}",
        Bandwidth::of(share.rate).unparse(),
        ceiling.unwrap_or_default()
    )
}

/// Parses the lines of a file. All errors are recorded.
fn read(tree: &mut Tree, file: &str, text: &str, args: &mut Args) {
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or(line);
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if !words.is_empty()
            && let Err(wrong) = tree.add(&words)
        {
            let message = format!("in `{file}`, line {}: {wrong}", number + 1);
            args.error_in_whole(message, "each line is a statement");
        }
    }
}

impl Resources for ShareQueue {
    fn memory(config: &Config) -> usize {
        let held = super::cross_worker::held_at_most(config.settings.capacity);
        Shares::<Packet>::memory_bytes(
            config.tree.subscribers.len(),
            config.tree.classes.len(),
            held,
        )
    }
}

#[cfg(test)]
#[path = "share_queue_tests.rs"]
mod tests;
