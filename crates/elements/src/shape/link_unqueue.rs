//! Emulates a serial link, with a bandwidth and a latency.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> LinkUnqueue(10ms, 384kbps) -> Discard;
//! ```
//!
//! A packet starts to enter the link when the previous packet has entered. This takes the time of its bytes (with the
//! EXTRA_LENGTH annotation) at `BANDWIDTH`, in whole microseconds if it is at least one. The packet leaves `LATENCY`
//! after it has entered, with that time as its timestamp. LinkUnqueue holds the packets on the link. It pulls a
//! packet only when the link is free, so put a Queue before it. It sleeps while no packets wait there.
//!
//! Arguments:
//!
//! - `LATENCY`: time from end to end.
//! - `BANDWIDTH`: bandwidth, at least 100 bytes a second.

use crate::prelude::*;
use arguments::show;
use arguments::units::Bandwidth;
use std::collections::VecDeque;
use std::time::Duration;

drops! {
    RESET = "reset",
}
/// Minimum bandwidth, in bytes per second.
const LEAST: u64 = 100;

pub(crate) struct Config {
    latency: Duration,
    bandwidth: Bandwidth,
}

pub(crate) struct LinkUnqueue {
    config: Arc<Config>,
    /// Packets on the link, each with the time at which it leaves.
    link: VecDeque<(Time, Packet)>,
    /// Time at which the last packet has been transmitted completely.
    free: Time,
    /// True if no packet was available when the link was last free.
    idle: bool,
}

impl LinkUnqueue {
    /// Transmission time of a packet.
    fn entry(&self, packet: &Packet) -> Duration {
        let bytes = packet.len() as u128 + u128::from(packet.cold().extra_length());
        let ns = bytes * 1_000_000_000 / u128::from(self.config.bandwidth.0.max(1));
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        // Whole microseconds, as in Click; but a packet always takes some time.
        Duration::from_nanos(if ns < 1000 { ns } else { ns - ns % 1000 })
    }

    /// Takes packets onto the link as long as it is free; returns the next action when there are no more.
    fn fill(&mut self, cx: &mut Cx) -> Did {
        while self.free <= cx.now() {
            let mut batch = cx.spare();
            cx.pull(0, 1, &mut batch);
            let packet = batch.drain().next();
            cx.keep_spare(batch);
            let Some(packet) = packet else {
                self.idle = true;
                return cx.idle_result(0);
            };
            // A packet that waited is transmitted directly after its predecessor, even if the task runs late.
            let begins = if self.idle { cx.now() } else { self.free };
            self.idle = false;
            self.free = begins + self.entry(&packet);
            self.link
                .push_back((self.free + self.config.latency, packet));
        }
        Did::Sleep
    }
}

impl Element for LinkUnqueue {
    const CONTRACT: Contract = Contract::new("LinkUnqueue", manual!())
        .ports(Ports::coded(&["in"], &["out"], "l/h"))
        .drops(DROPS)
        .copies(Copies::One)
        .runs(Runs::AsTask);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let latency = args.required("LATENCY", "time from end to end");
        let bandwidth: Bandwidth = args.required("BANDWIDTH", "bandwidth");
        if bandwidth.0 < LEAST {
            args.error_in_whole(
                format!("bandwidth too small, minimum {LEAST}Bps"),
                "a packet would take minutes to enter the link",
            );
        }
        Config { latency, bandwidth }
    }

    fn new(config: &Arc<Config>, _: &Init) -> LinkUnqueue {
        LinkUnqueue {
            config: Arc::clone(config),
            link: VecDeque::new(),
            free: Time(0),
            idle: true,
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        let mut did = self.fill(cx);
        let now = cx.now();
        while self.link.front().is_some_and(|(at, _)| *at <= now)
            && let Some((at, mut packet)) = self.link.pop_front()
        {
            let late = now.since(at).as_nanos() as u64;
            packet.cold_mut().timestamp = cx.timestamp().saturating_sub(late);
            cx.emit(0, packet);
            did = Did::Work;
        }
        if let Some(&(at, _)) = self.link.front() {
            cx.set_timer(at);
        }
        if self.free > now {
            cx.set_timer(self.free);
        }
        did
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_self();
    }

    fn held(&self) -> usize {
        self.link.len()
    }

    fn take(&mut self, old: LinkUnqueue) {
        (self.link, self.free, self.idle) = (old.link, old.free, old.idle);
    }

    const HANDLERS: &'static [Handler<LinkUnqueue>] = &[
        Handler::text("latency", "see LATENCY", |e, _| {
            Ok(show::interval(e.config.latency))
        }),
        Handler::text("bandwidth", "see BANDWIDTH", |e, _| {
            Ok(e.config.bandwidth.0.to_string())
        }),
        Handler::sum("size", "packets on the link", |e| e.link.len() as u64),
        Handler::set("reset", "frees the packets on the link", |e, _, cx| {
            let mut lost: Batch = e.link.drain(..).map(|(_, p)| p).collect();
            cx.drop_batch(&mut lost, RESET);
            (e.free, e.idle) = (Time(0), true);
            cx.wake_self();
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn a_packet_enters_at_the_bandwidth_and_leaves_after_the_latency() {
        for make in [Bench::new, Bench::strict] {
            // 1000 bytes a second: 100 bytes enter in 100 ms.
            let text = "q :: Queue -> l :: LinkUnqueue(250ms, 8kbps) -> out :: Collect";
            let mut bench = make(crate::CLASSES, text);
            bench.push("q", &[[0u8; 100]; 4]);
            bench.run();
            assert_eq!(bench.read("l.size"), "1");
            bench.advance(Duration::from_millis(349));
            assert_eq!(bench.take("out").len(), 0);
            assert_eq!(bench.read("l.size"), "4");
            bench.advance(Duration::from_millis(1));
            assert_eq!(bench.take("out").len(), 1);
            bench.advance(Duration::from_millis(100));
            assert_eq!(bench.take("out").len(), 1);
            bench.write("l.reset", "");
            assert_eq!(bench.read("l.size"), "0");
            assert_eq!(bench.drops("l", "reset"), 2);
            assert_eq!(bench.read("l.bandwidth"), "1000");
            assert_eq!(bench.read("l.latency"), "250ms");
        }
    }

    #[test]
    fn a_task_that_runs_late_does_not_make_the_link_slower() {
        let text = "q :: Queue -> l :: LinkUnqueue(0, 8kbps) -> out :: Collect";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        bench.push("q", &[[0u8; 100]; 3]);
        bench.run();
        let begun = 1_000_000_000;
        for (late, leaves) in [(130, 100), (75, 200)] {
            bench.oversleep(Duration::from_millis(late));
            let stamps: Vec<u64> = bench
                .take_packets("out")
                .iter()
                .map(|packet| packet.cold.timestamp - begun)
                .collect();
            assert_eq!(stamps, [leaves * 1_000_000]);
        }
    }

    #[test]
    fn a_link_of_no_bandwidth_is_refused() {
        let text = "Idle -> LinkUnqueue(1s, 99Bps) -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("bandwidth too small"), "{errors}");
    }
}
