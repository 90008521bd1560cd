//! Drops packets early, with a probability that grows with queue length: Random Early Detection.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> RED(5, 50, 0.02) -> Queue(200) -> Discard;
//! ```
//!
//! RED keeps a moving average of the number of packets in the nearest queues: downstream if packets are pushed,
//! upstream if they are pulled. Up to `MIN_THRESH` no packet is marked. From there to `MAX_THRESH` the
//! probability of a mark grows to `MAX_P`. Above that, with `GENTLE`, it grows to 1 at twice `MAX_THRESH`;
//! otherwise it is 1 at once. Marked packets leave by output 1 if that is connected; otherwise they are dropped
//! (`early`). S. Floyd, V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993.
//!
//! Arguments:
//!
//! - `MIN_THRESH`: lower threshold, in packets.
//! - `MAX_THRESH`: upper threshold, in packets.
//! - `MAX_P`: probability at `MAX_THRESH`.
//!
//! Keyword arguments:
//!
//! - `QUEUES`: names of queues to measure, instead of the nearest ones.
//! - `STABILITY`: weight of each packet's queue length in the average is 2^-STABILITY; 0 = no average. Default
//!   4.
//! - `GENTLE`: see above. Default true.

use super::queues::Queues;
use crate::prelude::*;
use arguments::units;
use std::marker::PhantomData;
use std::time::Duration;

/// Least queue length at which AdaptiveRED aims, in packets, as in Click: below five packets, bursts would be lost.
const TARGET_MIN: u32 = 10;

/// A class of early detection.
pub(crate) trait Kind: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// True if the class sets its thresholds around a target, and adapts `MAX_P` to the traffic.
    const ADAPTS: bool;
}

/// Fixed arguments of the class.
pub(crate) struct Fixed;

impl Kind for Fixed {
    const CLASS: &'static str = "RED";
    const MANUAL: &'static str = manual!();
    const ADAPTS: bool = false;
}

/// Time between two adaptions of MAX_P.
const ADAPT_EVERY: Duration = Duration::from_millis(500);
const EARLY: Verdict = Verdict::reject(0, 1);
/// Packets a second by which the average sinks while the queues are empty.
const IDLE_PACKETS: u64 = 1000;

#[derive(Clone)]
struct Settings {
    min_thresh: f64,
    max_thresh: f64,
    max_p: f64,
}

pub(crate) struct Config {
    settings: Settings,
    queues: Vec<String>,
    weight: f64,
    gentle: bool,
}

pub(crate) struct Red<K = Fixed> {
    kind: PhantomData<K>,
    config: Arc<Config>,
    settings: Settings,
    queues: Queues,
    average: f64,
    /// Time since which the queues have been empty.
    empty_since: Option<Time>,
    /// Packets since the last one that was marked.
    passed: f64,
    marked: u64,
}

impl Settings {
    /// Changes both thresholds.
    ///
    /// # Errors
    /// The lower one is above the upper one; nothing changes.
    fn set_thresholds(&mut self, min: f64, max: f64) -> Result<(), String> {
        if max < min {
            return Err("MAX_THRESH must be >= MIN_THRESH".to_owned());
        }
        (self.min_thresh, self.max_thresh) = (min, max);
        Ok(())
    }

    /// Probability with which a packet is marked at an average queue length.
    fn probability(&self, average: f64, gentle: bool) -> f64 {
        let (min, max) = (self.min_thresh, self.max_thresh);
        if average <= min {
            0.0
        } else if average <= max {
            self.max_p * (average - min) / (max - min).max(f64::MIN_POSITIVE)
        } else if gentle && average < 2.0 * max {
            self.max_p + (1.0 - self.max_p) * (average - max) / max
        } else {
            1.0
        }
    }

    /// Moves `max_p` so that the average stays in the middle of the thresholds: S. Floyd, R. Gummadi,
    /// S. Shenker, "Adaptive RED", 2001, section 3.
    fn adapt(&mut self, average: f64) {
        let span = self.max_thresh - self.min_thresh;
        if average > self.min_thresh + 0.6 * span && self.max_p <= 0.5 {
            self.max_p += (self.max_p / 4.0).min(0.01);
        } else if average < self.min_thresh + 0.4 * span && self.max_p >= 0.01 {
            self.max_p *= 0.9;
        }
    }
}

impl<K: Kind> Red<K> {
    fn update(&mut self, cx: &Cx) {
        let weight = self.config.weight;
        let length = self.queues.length(cx) as f64;
        if length > 0.0 {
            if let Some(since) = self.empty_since.take() {
                let ms = cx.now().since(since).as_millis() as u64 * IDLE_PACKETS / 1000;
                let n = i32::try_from(ms).unwrap_or(i32::MAX);
                self.average *= (1.0 - weight).powi(n);
            }
        } else if self.empty_since.is_none() {
            self.empty_since = Some(cx.now());
        }
        self.average += (length - self.average) * weight;
    }

    /// True to mark this packet. Marks are spread evenly, as the paper's section 4 asks.
    fn marks(&mut self, cx: &mut Cx) -> bool {
        self.update(cx);
        let p = self.settings.probability(self.average, self.config.gentle);
        if p <= 0.0 {
            self.passed = 0.0;
            return false;
        }
        self.passed += 1.0;
        let spread = p / (1.0 - (self.passed - 1.0) * p).max(p);
        let mark = f64::from(cx.random()) < spread * 4_294_967_296.0;
        if mark {
            self.passed = 0.0;
            self.marked += 1;
        }
        mark
    }
}

impl<K: Kind> Element for Red<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out", "early?"], "a/ah"))
        .drops(&["early"])
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (min, max): (u32, u32) = if K::ADAPTS {
            let target: u32 = args.required("TARGET", "queue length that is aimed at");
            let target = target.max(TARGET_MIN);
            (target / 2, target.saturating_add(target / 2))
        } else {
            (
                args.required("MIN_THRESH", "queue length up to which no packet is marked"),
                args.required(
                    "MAX_THRESH",
                    "queue length at which packets are marked with probability MAX_P",
                ),
            )
        };
        let max_p = args.required_in("MAX_P", 0.0..=1.0, "probability at MAX_THRESH");
        let queues: String = args.key("QUEUES", String::new(), "queues to measure");
        let stability: i32 = args.key_in("STABILITY", 4, 0..=16, "-log2 of a packet's weight");
        if max < min {
            args.error_in_whole("MAX_THRESH must be >= MIN_THRESH", "raise MAX_THRESH");
        }
        Config {
            settings: Settings {
                min_thresh: min.into(),
                max_thresh: max.into(),
                max_p,
            },
            queues: queues.split_whitespace().map(str::to_owned).collect(),
            weight: 0.5f64.powi(stability),
            gentle: args.key(
                "GENTLE",
                true,
                "true if the probability grows gradually above MAX_THRESH",
            ),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> Red<K> {
        Red {
            kind: PhantomData,
            settings: config.settings.clone(),
            config: Arc::clone(config),
            queues: Queues::default(),
            average: 0.0,
            empty_since: None,
            passed: 0.0,
            marked: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.queues = Queues::find(&self.config.queues, cx);
        if K::ADAPTS {
            cx.set_timer(cx.now() + ADAPT_EVERY);
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.settings.adapt(self.average);
        cx.set_timer(cx.now() + ADAPT_EVERY);
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, cx: &mut Cx) -> Verdict {
        if self.marks(cx) { EARLY } else { Verdict::ON }
    }

    fn take(&mut self, old: Red<K>) {
        self.average = old.average;
    }

    const HANDLERS: &'static [Handler<Red<K>>] = &[
        Handler::show("min_thresh", "see MIN_THRESH", |e| &e.settings.min_thresh),
        Handler::set("min_thresh", "see MIN_THRESH", |e, value, _| {
            let min = units::parse::<u32>(value)?.into();
            e.settings.set_thresholds(min, e.settings.max_thresh)
        }),
        Handler::show("max_thresh", "see MAX_THRESH", |e| &e.settings.max_thresh),
        Handler::set("max_thresh", "see MAX_THRESH", |e, value, _| {
            let max = units::parse::<u32>(value)?.into();
            e.settings.set_thresholds(e.settings.min_thresh, max)
        }),
        Handler::show("max_p", "see MAX_P", |e| &e.settings.max_p),
        Handler::set("max_p", "see MAX_P", |e, value, _| {
            e.settings.max_p = units::parse_in(value, 0.0..=1.0)?;
            Ok(())
        }),
        counter!("drops", "packets marked", marked),
        Handler::text("queues", "queues that are measured, one a line", |e, _| {
            Ok(e.queues.names())
        }),
        Handler::text(
            "avg_queue_size",
            "average of the queues' packets",
            |e, _| Ok(format!("{:.3}", e.average)),
        ),
        Handler::text("stats", "all of this as text", |e, _| {
            Ok(format!(
                "{:.3} average queue size\n{} drops\n",
                e.average, e.marked
            ))
        }),
    ];
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use testkit::Bench;

    #[test]
    fn the_probability_grows_in_two_slopes() {
        let s = Settings {
            min_thresh: 5.0,
            max_thresh: 15.0,
            max_p: 0.2,
        };
        for (average, gentle, p) in [
            (5.0, true, 0.0),
            (10.0, true, 0.1),
            (15.0, true, 0.2),
            (22.5, true, 0.6),
            (30.0, true, 1.0),
            (15.1, false, 1.0),
        ] {
            assert!(
                (s.probability(average, gentle) - p).abs() < 1e-9,
                "{average}"
            );
        }
    }

    #[test]
    fn short_queues_lose_nothing_and_long_ones_some() {
        let text =
            "r :: RED(5, 50, 0.1, STABILITY 0) -> q :: Queue(1000) -> u :: Unqueue(ACTIVE false)
            -> out :: Collect; r[1] -> early :: Collect";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            assert_eq!(bench.read("r.min_thresh"), "5");
            for _ in 0..5 {
                bench.push("r", &[b"a"]);
            }
            assert_eq!(bench.read("r.queues").trim(), "q");
            assert_eq!(bench.read("r.drops"), "0");
            for _ in 0..1000 {
                bench.push("r", &[b"a"]);
            }
            let early = bench.take("early").len();
            assert!(early > 800, "the queue cannot pass twice 50: {early}");
            let length: usize = bench.read("q.length").parse().unwrap();
            assert!((50..=101).contains(&length), "{length}");
            assert_eq!(early + length, 1005);
            assert_eq!(bench.read("r.drops"), early.to_string());
        }
    }
}
