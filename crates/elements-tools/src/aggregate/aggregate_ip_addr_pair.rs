//! Numbers pairs of IPv4 addresses: sets the AGGREGATE annotation to the number, and paint to the direction.
//!
//! ```click
//! FromDump(trace.pcap, STOP true, FORCE_IP true) -> AggregateIPAddrPair
//!     -> ac :: AggregateCounter -> Discard;
//! DriverManager(pause, write ac.write_text_file -);
//! ```
//!
//! Pairs get numbers from 1 on, in the order in which they are first seen. Packets from the side that was seen
//! first get paint 0, those of the other side paint 1. Packets without an IPv4 header leave by output 1, or are
//! dropped (`not_ip`).
//!
//! Keyword arguments:
//!
//! - `TIMEOUT`: time without packets, by their timestamps, after which a pair is removed; it then gets a new number.
//!   Default: never.
//! - `REAP`: time between two removals of expired pairs. Default 20 minutes.
//! - `CAPACITY`: maximum number of pairs. Default 1048576; with `ashlar click` 16777216. A further pair replaces the
//!   one that was idle longest; the handler `evicted` counts those.

use super::bounded_map::BoundedMap;
use super::end_notices::Notifier;
use crate::prelude::*;
use captures::time_window::Span;

drops! {
    NOT_IP = "not_ip",
}

#[derive(Clone, Copy)]
pub(super) struct Config {
    /// Idle timeout of a pair, in nanoseconds; `None` for no timeout.
    timeout: Option<i64>,
    reap: i64,
    capacity: Option<Capacity>,
}

struct Pair {
    aggregate: u32,
    /// True if the lower address was the source of the first packet.
    low_first: bool,
    last: i64,
}

pub(super) struct AggregateIpAddrPair {
    config: Config,
    /// Pairs by address, the lower one first.
    pairs: BoundedMap<[u32; 2], Pair>,
    next: u32,
    reap_at: Option<i64>,
    notifier: Notifier,
}

fn is_over(timeout: Option<i64>, pair: &Pair, now: i64) -> bool {
    timeout.is_some_and(|timeout| now.saturating_sub(pair.last) > timeout)
}

impl AggregateIpAddrPair {
    /// Periodically removes pairs that have been idle for longer than the timeout.
    fn remove_idle(&mut self, now: i64) {
        let next = now.saturating_add(self.config.reap);
        if self.config.timeout.is_none() || now < *self.reap_at.get_or_insert(next) {
            return;
        }
        self.reap_at = Some(next);
        let timeout = self.config.timeout;
        for (_, pair) in self.pairs.remove_if(|_, pair| is_over(timeout, pair, now)) {
            self.notifier.ended(pair.aggregate);
        }
    }

    /// Adds a pair with a new number.
    fn add_pair(&mut self, key: [u32; 2], low_first: bool, now: i64) {
        // Numbers wrap around after 32 bits; 0 means no pair.
        self.next = self.next.wrapping_add(1).max(1);
        let pair = Pair {
            aggregate: self.next,
            low_first,
            last: now,
        };
        let notifier = &self.notifier;
        self.pairs
            .insert(key, pair, |_, pair| notifier.ended(pair.aggregate));
    }
}

impl Element for AggregateIpAddrPair {
    const CONTRACT: Contract = Contract::new("AggregateIPAddrPair", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "a/ah"))
        .drops(DROPS)
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let timeout: Option<Span> = args.key_maybe("TIMEOUT", "when a pair is forgotten");
        let reap = Span(1200 * 1_000_000_000);
        Config {
            timeout: timeout.map(|t| t.0).filter(|t| *t > 0),
            reap: args
                .key("REAP", reap, "time between two removals of forgotten pairs")
                .0,
            capacity: super::capacity(args),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> AggregateIpAddrPair {
        AggregateIpAddrPair {
            config: **config,
            pairs: BoundedMap::new(super::bound(config.capacity, init)),
            next: 0,
            reap_at: None,
            notifier: Notifier::new(init),
        }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(ip) = super::header(packet) else {
            return Verdict::reject(NOT_IP, 1);
        };
        let (src, dst) = (ip.src().to_bits(), ip.dst().to_bits());
        let now = packet.cold().timestamp as i64;
        self.remove_idle(now);
        let key = [src.min(dst), src.max(dst)];
        let timeout = self.config.timeout;
        if self
            .pairs
            .get(&key)
            .is_some_and(|p| is_over(timeout, p, now))
            && let Some(pair) = self.pairs.remove(&key)
        {
            self.notifier.ended(pair.aggregate);
        }
        if !self.pairs.has(&key) {
            self.add_pair(key, src == key[0], now);
        }
        let Some(pair) = self.pairs.use_of(&key) else {
            return Verdict::reject(NOT_IP, 1);
        };
        pair.last = now;
        // Packets from an address to itself have a single direction.
        let forth = src == dst || pair.low_first == (src == key[0]);
        let aggregate = pair.aggregate;
        packet.anno_mut().paint = u8::from(!forth);
        packet.cold_mut().set_aggregate(aggregate);
        Verdict::ON
    }

    fn take(&mut self, old: AggregateIpAddrPair) {
        let capacity = self.pairs.capacity();
        (self.pairs, self.next) = (old.pairs, old.next);
        self.reap_at = old.reap_at;
        let notifier = &self.notifier;
        self.pairs
            .set_capacity(capacity, |_, pair| notifier.ended(pair.aggregate));
    }

    const HANDLERS: &'static [Handler<AggregateIpAddrPair>] = &[
        Handler::set("clear", "forgets all pairs", |e, _, cx| {
            let pairs = e.pairs.drain().into_iter();
            let mut ended: Vec<u32> = pairs.map(|(_, pair)| pair.aggregate).collect();
            ended.sort_unstable();
            ended.into_iter().for_each(|n| e.notifier.ended(n));
            e.notifier.handle_now(cx);
            Ok(())
        }),
        Handler::sum(
            "evicted",
            "pairs that were forgotten for others, see CAPACITY",
            |e| e.pairs.evicted(),
        ),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    /// `aggregate` and `paint` of the output.
    fn pairs(options: &str, lines: &str) -> Vec<(u32, u8)> {
        let text = format!(
            "FromIPSummaryDump(DATA \"!data timestamp src dst\n{lines}\")
                -> n :: AggregateIPAddrPair({options}) -> out :: Collect"
        );
        let mut bench = Bench::strict(crate::with_basics(), &text);
        bench.run();
        let out = bench.take_packets("out");
        out.iter()
            .map(|p| (p.cold.aggregate(), p.anno.paint))
            .collect()
    }

    #[test]
    fn pairs_are_numbered_and_directions_painted() {
        let lines = "1 1.0.0.2 1.0.0.1\n2 1.0.0.1 1.0.0.2\n3 1.0.0.1 1.0.0.3\n4 9.0.0.1 9.0.0.1\n\
                     99 1.0.0.2 1.0.0.1\n";
        let seen = pairs("", lines);
        assert_eq!(seen, [(1, 0), (1, 1), (2, 0), (3, 0), (1, 0)]);
        let seen = pairs("TIMEOUT 10", lines);
        assert_eq!(seen, [(1, 0), (1, 1), (2, 0), (3, 0), (4, 0)]);
    }

    #[test]
    fn a_pair_beyond_the_capacity_pushes_out_the_one_that_was_idle_longest() {
        let text = "c :: CheckIPHeader -> n :: AggregateIPAddrPair(CAPACITY 2) -> out :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let from = |host: u8| testkit::ip4().src(format!("10.0.0.{host}")).bytes();
        for host in 2..50 {
            bench.push("c", &[from(1), from(host)]);
        }
        let out = bench.take_packets("out");
        let numbers: Vec<_> = out.iter().map(|p| p.cold.aggregate()).collect();
        let wanted: Vec<_> = (2..50).flat_map(|n| [1, n]).collect();
        assert_eq!(numbers, wanted);
        assert_eq!(bench.read("n.evicted"), "47");
    }

    #[test]
    fn packets_that_are_not_ipv4_have_no_pair() {
        let text = "n :: AggregateIPAddrPair -> out :: Collect; n[1] -> other :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.push("n", &[b"abc"]);
        assert_eq!(bench.take("other").len(), 1);
    }
}
