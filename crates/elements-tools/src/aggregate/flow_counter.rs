//! Counts packets and bytes of each IPv4 flow, by addresses, ports and protocol.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> c :: FlowCounter -> Discard;
//! ```
//!
//! Packets without ports, and fragments, belong to a flow with ports 0. Bytes are counted from the IP header
//! on. Counts are kept until they are cleared.
//!
//! If all packets come through Steers with one table, sorted by BucketByHash with a symmetric key (`FromDevice(...,
//! CLASSIFY hash)`), each worker counts the flows of its buckets, and the counts move with a bucket. Otherwise there
//! is one copy, and packets of other workers cross to it.
//!
//! Keyword arguments:
//!
//! - `CAPACITY`: maximum number of flows on each worker. Packets of further flows are counted together, as
//!   `uncounted`. Default 65536.

use crate::prelude::*;
use std::any::Any;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use steer::{KeepsFlows, KeepsFlowsOfClass, Shards, SortedBy};
use wire::{FlowKey, flow::Flow};

type Key = Flow<Ipv4Addr>;
type Flows = HashMap<Key, Count>;

#[derive(Clone, Copy, Default)]
struct Count {
    packets: u64,
    bytes: u64,
}

pub(super) struct FlowCounter {
    flows: Shards<Flows>,
    /// Maximum number of flows in all shards.
    size: usize,
    capacity: usize,
    uncounted: u64,
    /// True if packets are steered by flow, so that their bucket annotation is valid.
    sorted: bool,
}

/// Number of flows in a bucket that moves.
fn flows_of(state: &(dyn Any + Send)) -> usize {
    state.downcast_ref::<Flows>().map_or(0, HashMap::len)
}

impl FlowCounter {
    fn each(&self) -> impl Iterator<Item = (&Key, &Count)> {
        self.flows.iter().flat_map(|(_, flows)| flows)
    }

    fn show(&self) -> String {
        let mut flows: Vec<_> = self.each().collect();
        flows.sort_unstable_by_key(|(k, _)| (k.src, k.src_port, k.dst, k.dst_port, k.protocol));
        let mut text = String::new();
        for (k, count) in flows {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{} {} {} {} {} {} {}",
                k.src, k.src_port, k.dst, k.dst_port, k.protocol, count.packets, count.bytes
            );
        }
        text
    }
}

impl Element for FlowCounter {
    const CONTRACT: Contract = Contract::new("FlowCounter", manual!())
        .ports(Ports::coded(&["in"], &["out"], "h/h"))
        .needs(&[Facts::IP4])
        .copies(Copies::Owner)
        .extensions(const { &[&KeepsFlowsOfClass::of::<Self>(), &steer::ROUTER] });

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.key(
            "CAPACITY",
            Capacity(65_536),
            "flows that each worker counts",
        )
        .0
    }

    fn new(capacity: &Arc<usize>, init: &Init) -> FlowCounter {
        FlowCounter {
            flows: Shards::default(),
            size: 0,
            capacity: **capacity,
            uncounted: 0,
            sorted: init.attached::<SortedBy>().is_some(),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let datagram = elements::ip4::datagram(packet);
        let Some(key) = FlowKey::of_ip4(datagram) else {
            self.uncounted += 1;
            return Verdict::ON;
        };
        let bytes = datagram.len() as u64;
        let bucket = if self.sorted { packet.bucket() } else { 0 };
        let flows = self.flows.get(bucket);
        if let Some(count) = flows.get_mut(&key) {
            count.packets += 1;
            count.bytes += bytes;
        } else if self.size < self.capacity {
            self.size += 1;
            flows.insert(key, Count { packets: 1, bytes });
        } else {
            self.uncounted += 1;
        }
        Verdict::ON
    }

    fn take(&mut self, old: FlowCounter) {
        (self.flows, self.size) = (old.flows, old.size);
    }

    const HANDLERS: &'static [Handler<FlowCounter>] = &[
        Handler::text(
            "flows",
            "a line for each flow: source address and port, destination address and port, protocol, packets, bytes",
            |e, _| Ok(e.show()),
        ),
        Handler::sum("size", "flows that are counted", |e| e.size as u64),
        Handler::sum("count", "packets of these flows", |e| {
            e.each().map(|(_, count)| count.packets).sum()
        }),
        Handler::sum("byte_count", "bytes of these flows", |e| {
            e.each().map(|(_, count)| count.bytes).sum()
        }),
        counter!("uncounted", "packets of other flows", uncounted),
        Handler::set("clear", "forgets all flows", |e, _, _| {
            e.flows = Shards::default();
            (e.size, e.uncounted) = (0, 0);
            Ok(())
        }),
    ];
}

impl KeepsFlows for FlowCounter {
    fn splits(_: &usize) -> bool {
        true
    }

    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>> {
        let given = self.flows.remove_bucket(bucket).filter(|_| self.sorted)?;
        self.size -= flows_of(&*given);
        Some(given)
    }

    fn take_bucket(&mut self, bucket: u16, state: Box<dyn Any + Send>, _: &mut Cx) {
        let more = flows_of(&*state);
        if self.flows.take(bucket, state) {
            self.size += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};

    fn bench(arguments: &str) -> Bench {
        let text = format!("c :: CheckIPHeader -> f :: FlowCounter{arguments} -> Discard");
        Bench::new(crate::with_basics(), &text)
    }

    #[test]
    fn packets_and_bytes_are_counted_by_flow() {
        let mut bench = bench("");
        let flow = |port| {
            let packet = ip4().src("10.0.0.1").dst("10.0.0.2").udp(port, 53);
            packet.payload("four").bytes()
        };
        let ping = ip4().src("10.0.0.3").dst("10.0.0.2").icmp_echo(7, 1);
        for packet in [flow(9), flow(10), ping.bytes(), flow(9)] {
            bench.push("c", &[&packet]);
        }
        let expected = "10.0.0.1 9 10.0.0.2 53 17 2 64\n10.0.0.1 10 10.0.0.2 53 17 1 32\n";
        let found = bench.read("f.flows");
        assert!(found.starts_with(expected), "{found}");
        assert!(found.contains("10.0.0.3 0 10.0.0.2 0 1 1 "), "{found}");
        assert_eq!(
            (bench.read("f.size"), bench.read("f.count")),
            ("3".into(), "4".into())
        );
        bench.write("f.clear", "");
        assert_eq!(
            (bench.read("f.size"), bench.read("f.flows")),
            ("0".into(), "".into())
        );
    }

    #[test]
    fn no_more_flows_than_the_capacity_are_begun() {
        let mut bench = bench("(CAPACITY 2)");
        for port in [1, 2, 3, 2, 3] {
            let packet = ip4().src("10.0.0.1").dst("10.0.0.2").udp(port, 53);
            bench.push("c", &[&packet.bytes()]);
        }
        assert_eq!(
            (bench.read("f.size"), bench.read("f.count")),
            ("2".into(), "3".into())
        );
        assert_eq!(bench.read("f.uncounted"), "2");
    }
}
