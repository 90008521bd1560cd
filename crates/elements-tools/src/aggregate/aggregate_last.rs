//! Keeps the last packet of each aggregate, and sends it when the aggregate has ended.
//!
//! ```click
//! FromDump(trace.pcap, STOP true, FORCE_IP true) -> AggregateIPFlows
//!     -> last :: AggregateLast -> ToIPSummaryDump(flows.txt, FIELDS ip_src ip_dst count);
//! DriverManager(pause, write last.clear);
//! ```
//!
//! A packet replaces the kept packet with the same AGGREGATE annotation, which leaves by output 1 or is dropped
//! (`earlier`). Annotations of the packet that leaves by output 0 describe the whole aggregate: EXTRA_PACKETS
//! counts the other packets, EXTRA_LENGTH their bytes, and FIRST_TIMESTAMP is the time of the first one.
//!
//! Keyword arguments:
//!
//! - `NOTIFIER`: an AggregateIPFlows or AggregateIPAddrPair upstream, on the same worker. The packet of an aggregate
//!   leaves when that element reports the end of the aggregate.
//! - `STOP_AFTER_CLEAR`: true if `clear` stops the router. Default false.
//! - `CAPACITY`: maximum number of aggregates, each of which keeps a packet. Default 65536; with `ashlar click`
//!   16777216. A further aggregate ends the one that was idle longest: its packet leaves by output 0, and the handler
//!   `evicted` counts it.

use super::bounded_map::BoundedMap;
use super::end_notices::{self, Listener};
use crate::prelude::*;

drops! {
    EARLIER = "earlier",
}
/// Default maximum number of aggregates, a quarter of all packet buffers.
const USUAL: usize = 1 << 16;

pub(super) struct Config {
    notifier: Option<String>,
    stop: bool,
    capacity: Option<Capacity>,
}

pub(super) struct AggregateLast {
    stop: bool,
    last: BoundedMap<u32, Packet>,
    listener: Listener,
}

/// Number of packets, number of bytes, and time of the first packet.
fn volume(packet: &Packet) -> (u32, u32, u64) {
    let cold = packet.cold();
    let first = match cold.first_timestamp() {
        0 => cold.timestamp,
        first => first,
    };
    let packets = cold.extra_packets().wrapping_add(1);
    let bytes = cold.extra_length().wrapping_add(packet.len() as u32);
    (packets, bytes, first)
}

impl AggregateLast {
    /// Holds a packet, and emits the previous packet of its aggregate.
    fn hold(&mut self, mut packet: Packet, cx: &mut Cx) {
        let aggregate = packet.cold().aggregate();
        let Some(before) = self.last.use_of(&aggregate) else {
            let (_, _, first) = volume(&packet);
            packet.cold_mut().set_first_timestamp(first);
            self.last
                .insert(aggregate, packet, |_, evicted| cx.emit(0, evicted));
            return;
        };
        let (packets, bytes, first) = volume(before);
        let cold = packet.cold_mut();
        cold.set_extra_packets(cold.extra_packets().wrapping_add(packets));
        cold.set_extra_length(cold.extra_length().wrapping_add(bytes));
        cold.set_first_timestamp(first);
        let before = std::mem::replace(before, packet);
        cx.send(before, Verdict::reject(EARLIER, 1));
    }

    /// Emits the packets of aggregates that have ended.
    fn emit_ended(&mut self, cx: &mut Cx) {
        for aggregate in self.listener.take_ended() {
            if let Some(packet) = self.last.remove(&aggregate) {
                cx.emit(0, packet);
            }
        }
    }
}

impl Element for AggregateLast {
    const CONTRACT: Contract = Contract::new("AggregateLast", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "h/h"))
        .drops(DROPS)
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            notifier: end_notices::argument(args),
            stop: args.key(
                "STOP_AFTER_CLEAR",
                false,
                "true if `clear` stops the router",
            ),
            capacity: super::capacity(args),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> AggregateLast {
        AggregateLast {
            stop: config.stop,
            last: BoundedMap::new(match config.capacity {
                None if !init.as_click() => USUAL,
                capacity => super::bound(capacity, init),
            }),
            listener: Listener::new(config.notifier.as_deref(), init),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        self.emit_ended(cx);
        for packet in batch.drain() {
            self.hold(packet, cx);
        }
    }

    fn held(&self) -> usize {
        self.last.len()
    }

    fn take(&mut self, old: AggregateLast) {
        let capacity = self.last.capacity();
        self.last = old.last;
        // Keep all entries even above the new capacity: packets cannot be emitted here.
        self.last
            .set_capacity(capacity.max(self.last.len()), |_, _| ());
    }

    const HANDLERS: &'static [Handler<AggregateLast>] = &[
        Handler::set("clear", "lets all packets go", |e, _, cx| {
            let mut last = e.last.drain();
            last.sort_unstable_by_key(|(aggregate, _)| *aggregate);
            for (_, packet) in last {
                cx.emit(0, packet);
            }
            if e.stop {
                cx.stop();
            }
            Ok(())
        }),
        Handler::set(
            "ended",
            "sends out the packets of aggregates that have ended",
            |e, _, cx| {
                e.emit_ended(cx);
                Ok(())
            },
        ),
        Handler::sum(
            "evicted",
            "aggregates that ended for others, see CAPACITY",
            |e| e.last.evicted(),
        ),
    ];
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use testkit::Bench;

    fn packet(aggregate: u32, time: u64, bytes: &[u8]) -> Packet {
        let mut packet = Packet::from_bytes(bytes).expect("it fits");
        packet.cold_mut().set_aggregate(aggregate);
        packet.cold_mut().timestamp = time;
        packet
    }

    #[test]
    fn the_last_of_each_tells_of_all() {
        let text =
            "a :: AggregateLast(STOP_AFTER_CLEAR true) -> out :: Collect; a[1] -> early :: Collect";
        let mut bench = Bench::strict(crate::with_basics(), text);
        let packets = [
            packet(7, 10, b"one"),
            packet(2, 20, b"x"),
            packet(7, 30, b"three"),
        ];
        bench.push_packets("a", 0, packets.into_iter().collect());
        assert_eq!(bench.take("early"), [b"one"]);
        assert!(bench.take("out").is_empty());
        bench.write("a.clear", "");
        let out = bench.take_packets("out");
        let seen = out.iter().map(|p| {
            let c = &p.cold;
            (
                p.bytes.as_slice(),
                c.extra_packets(),
                c.extra_length(),
                c.first_timestamp(),
            )
        });
        let wanted: [(&[u8], u32, u32, u64); 2] = [(b"x", 0, 0, 20), (b"three", 1, 3, 10)];
        assert!(seen.eq(wanted), "{out:?}");
        assert!(bench.graph().stopped());
    }

    #[test]
    fn an_aggregate_beyond_the_capacity_ends_the_one_that_was_idle_longest() {
        let text = "a :: AggregateLast(CAPACITY 2) -> out :: Collect; a[1] -> early :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let packets = [7, 1, 7, 2, 3].map(|n| packet(n, 10, &[n as u8]));
        bench.push_packets("a", 0, packets.into_iter().collect());
        assert_eq!(bench.take("early"), [[7]]);
        assert_eq!(bench.take("out"), [[1], [7]]);
        assert_eq!(bench.read("a.evicted"), "2");
        bench.write("a.clear", "");
        assert_eq!(bench.take("out"), [[2], [3]]);
    }

    #[test]
    fn packets_leave_when_their_aggregate_has_ended() {
        for (head, clear) in [("AggregateIPAddrPair", true), ("AggregateIPFlows", false)] {
            let timeout = if clear { "TIMEOUT" } else { "TCP_TIMEOUT" };
            let lines = "1 1.0.0.1 1.0.0.2\n2 1.0.0.2 1.0.0.1\n50 1.0.0.1 1.0.0.2\n";
            let text = format!(
                "FromIPSummaryDump(DATA \"!data timestamp src dst\n{lines}\")
                 -> n :: {head}({timeout} 10) -> AggregateLast(NOTIFIER n) -> out :: Collect"
            );
            let mut bench = Bench::strict(crate::with_basics(), &text);
            bench.run();
            let times = |bench: &mut Bench| bench.take_packets("out").len();
            assert_eq!(
                times(&mut bench),
                1,
                "{head}: the flow of 1 and 2 has ended"
            );
            bench.write("n.clear", "");
            bench.run();
            assert_eq!(times(&mut bench), 1, "{head}");
        }
    }

    #[test]
    fn notifier_argument_must_be_a_notifier() {
        let text = "c :: Counter -> AggregateLast(NOTIFIER c) -> Discard";
        let errors = testkit::errors(crate::with_basics(), text);
        assert!(errors.contains("AggregateNotifier"), "{errors}");
    }
}
