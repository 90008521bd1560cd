//! Sets the AGGREGATE annotation to the length of packets, including bytes that were not captured.
//!
//! ```click
//! FromDump(trace.pcap) -> AggregateLength -> ac :: AggregateCounter -> Discard;
//! ```
//!
//! Keyword arguments:
//!
//! - `IP`: true if the length is that from the network header on. Packets without a network header then leave
//!   by output 1, or are dropped (`not_ip`). Default false.

use crate::prelude::*;

drops! {
    NOT_IP = "not_ip",
}

#[derive(Clone, Copy)]
pub(super) struct AggregateLength {
    ip: bool,
}

impl Element for AggregateLength {
    const CONTRACT: Contract = Contract::new("AggregateLength", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "a/ah"))
        .drops(DROPS);

    type Config = AggregateLength;

    fn configure(args: &mut Args) -> AggregateLength {
        AggregateLength {
            ip: args.key("IP", false, "true if the link header does not count"),
        }
    }

    fn new(config: &Arc<AggregateLength>, _: &Init) -> AggregateLength {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if self.ip && packet.anno().network == 0 {
            return Verdict::reject(NOT_IP, 1);
        }
        let len = if self.ip {
            packet.network().len()
        } else {
            packet.len()
        };
        let cold = packet.cold_mut();
        cold.set_aggregate((len as u32).wrapping_add(cold.extra_length()));
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_length_counts_from_the_start_or_from_the_network_header() {
        let count = |head: &str| {
            let text = format!("p :: {head} -> a :: AggregateCounter -> Discard");
            let mut bench = Bench::new(crate::with_basics(), &text);
            bench.push("p", &[&b"1234"[..], b"1234", b"123"]);
            (bench.read("a.nagg"), bench.drops("p", "not_ip"))
        };
        assert_eq!(count("AggregateLength"), ("2".into(), 0));
        assert_eq!(count("AggregateLength(IP true)"), ("0".into(), 3));
    }
}
