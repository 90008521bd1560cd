//! Writes each packet's deadline into a state header, so that the next router need not know its flow.
//!
//! ```click
//! FromDevice(null:64, CORES 0) -> Strip(14) -> CheckIPHeader
//!     -> flows :: FlowTable(LINK 80Mbps) -> DeadlineQueue(1000) -> BandwidthShaper(80Mbps)
//!     -> DPSEncap(LINK 80Mbps) -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Unqueue -> Discard;
//! ```
//!
//! This is the output of a router in a core-stateless network, in which the edge knows flows and the core knows none
//! (dynamic packet state: I. Stoica, H. Zhang, "Providing Guaranteed Services Without Per Flow Management", 1999). A
//! packet with a deadline, which FlowTable or DPSDecap has set, gets 16 bytes in front. They have the increase of its
//! flow's virtual time at each hop, and the packet's lead over its virtual time at the next router. At every hop the
//! virtual time increases by at least the time that this router may take beyond the deadline: a packet of `MTU` bytes
//! on `LINK`, and `BIN`. Packets without a deadline get 16 bytes that say so.
//!
//! The state is `version 1, 0, Ethertype of the packet (2 bytes), hop (4), lead (8)`, in network order; both times
//! are in nanoseconds. After it comes IPv4, IPv6 or MPLS, distinguished as in MPLSEtherEncap. Other packets are
//! dropped (`not_ip`), and so is one whose lead would exceed a minute (`too_early`), or that has no room before its
//! data (`no_headroom`).
//!
//! Put it downstream of the element that paces the link, because it measures from the time when a packet is pulled. A
//! packet that arrives later here than the router may take is counted (`late`): then more is reserved than the link
//! has, or something downstream delays packets.
//!
//! Keyword arguments:
//!
//! - `LINK`: bandwidth of the link downstream.
//! - `MTU`: maximum packet length of any flow. Default 1500.
//! - `BIN`: the `WIDTH` of the DeadlineQueue upstream, 0 if that is exact. Default 1ms.
//! - `OVERHEAD`: bytes that the link, and this element, add to each packet. Default 0; 54 on Ethernet.

use crate::prelude::*;
use arguments::units::Bandwidth;
use std::time::Duration;
use tables::guarantee::Link;
use wire::{dps, ether};

drops! {
    NOT_IP = "not_ip",
    NO_HEADROOM = "no_headroom",
    TOO_EARLY = "too_early",
}

/// The link downstream, and the number of deadlines missed on it.
pub(super) struct Downstream {
    config: Config,
    /// Tolerated time beyond a deadline, in nanoseconds.
    error: u64,
    /// Number of packets that left later than tolerated.
    pub(super) late: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Config {
    link: Link,
    overhead: u64,
}

impl Config {
    /// Reads the arguments of DPSEncap and DPSFrameEncap.
    pub(super) fn of(args: &mut Args, mtu: u64) -> Config {
        let rate: Option<Bandwidth> = args.key_maybe("LINK", "bandwidth of the link downstream");
        let mtu: u64 = args.key_in("MTU", mtu, 64..=65_535, "maximum packet length of any flow");
        let bin = args.key(
            "BIN",
            Duration::from_millis(1),
            "the WIDTH of the DeadlineQueue upstream",
        );
        let overhead: u16 = args.key("OVERHEAD", 0, "bytes that the link adds to each packet");
        let rate = rate.map_or(0, |rate| rate.0);
        if rate == 0 {
            args.error_in_whole("the link must be known", "write LINK, such as LINK 100Mbps");
        }
        Config {
            link: Link {
                rate: rate.max(1),
                mtu: mtu + u64::from(overhead),
                bin: u64::try_from(bin.as_nanos()).unwrap_or(u64::MAX),
            },
            overhead: overhead.into(),
        }
    }
}

impl Downstream {
    pub(super) fn new(config: &Config) -> Downstream {
        Downstream {
            config: *config,
            error: config.link.error(),
            late: 0,
        }
    }

    /// Time of a hop, and lead at the next router, of a packet that leaves at `now`, both in nanoseconds; 0 without a
    /// deadline. `None` if the packet is too early to be encoded.
    #[inline]
    pub(super) fn state(&mut self, packet: &Packet, now: u64) -> Option<(u32, u64)> {
        let cold = packet.cold();
        let (deadline, hop) = (cold.deadline(), cold.hop_delay());
        if deadline == 0 || hop == 0 {
            return Some((0, 0));
        }
        let bytes = packet.len() as u64 + self.config.overhead;
        let there = now.saturating_add(self.config.link.time(bytes));
        let due = deadline.saturating_add(self.error);
        self.late += u64::from(due < there);
        let lead = due.saturating_sub(there);
        (lead <= dps::LEAD_MAX).then_some((hop, lead))
    }
}

pub(super) struct DpsEncap {
    departure: Downstream,
}

impl Element for DpsEncap {
    const CONTRACT: Contract = Contract::new("DPSEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .spoils(Facts::AT_NETWORK.and(Facts::ETHER))
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::of(args, 1500)
    }

    fn new(config: &Arc<Config>, _: &Init) -> DpsEncap {
        DpsEncap {
            departure: Downstream::new(config),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let version = packet.data().first().map(|first| first >> 4);
        let payload = match (packet.network_offset(), version) {
            (1.., _) => ether::MPLS,
            (0, Some(4)) => ether::IPV4,
            (0, Some(6)) => ether::IPV6,
            _ => return Verdict::drop(NOT_IP),
        };
        let Some((hop, lead)) = self.departure.state(packet, cx.now().0) else {
            return Verdict::drop(TOO_EARLY);
        };
        let Some(room) = packet
            .push(dps::LEN)
            .and_then(|room| room.first_chunk_mut())
        else {
            return Verdict::drop(NO_HEADROOM);
        };
        dps::State { payload, hop, lead }.write(room);
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<DpsEncap>] = &[counter!(
        "late",
        "packets that came later than the router may take",
        departure.late
    )];
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use std::time::Duration;
    use testkit::{Bench, ip4, ip6};
    use wire::dps::State;

    /// The state of a packet with some deadline (ms) and delay of a hop.
    fn state(deadline: u64, hop: u32) -> (Option<State>, u64) {
        // 1 MB/s: 1.5 ms for the MTU, and 1 ms for a bin.
        let mut bench = Bench::new(
            crate::CLASSES,
            "e :: DPSEncap(LINK 8Mbps) -> out :: Collect",
        );
        bench.advance(Duration::from_millis(100));
        let start = bench.graph().now().0;
        let mut packet = Packet::from_bytes(&ip4().payload([0; 80]).bytes()).unwrap();
        packet.set_network_offset(0);
        packet.cold_mut().set_deadline(if deadline == 0 {
            0
        } else {
            start - 100_000_000 + deadline * 1_000_000
        });
        packet.cold_mut().set_hop_delay(hop);
        bench.push_packets("e", 0, [packet].into_iter().collect());
        let late = bench.read("e.late").parse().unwrap();
        let out = bench.take("out");
        (out.first().and_then(|bytes| State::read(bytes)), late)
    }

    #[test]
    fn a_packet_says_how_much_earlier_it_comes_than_it_might() {
        let made = |hop, lead| {
            Some(State {
                payload: 0x0800,
                hop,
                lead,
            })
        };
        // 10 ms, and the extra time allowed to the hop, less 0.1 ms for this packet.
        assert_eq!(state(110, 7000), (made(7000, 12_400_000), 0));
        assert_eq!(state(97, 7000), (made(7000, 0), 1));
        assert_eq!(state(0, 7000), (made(0, 0), 0));
        assert_eq!(state(110, 0), (made(0, 0), 0));
        assert_eq!(state(90_000, 7000), (None, 0));
    }

    #[test]
    fn the_state_says_what_follows() {
        let text = "e :: DPSEncap(LINK 8Mbps) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let (four, six) = (ip4().bytes(), ip6().bytes());
        let labelled = testkit::mpls_below(&[16], 64, &four);
        let mut packet = Packet::from_bytes(&labelled).expect("it fits");
        packet.set_network_offset(4); // behind the label
        bench.push_packets("e", 0, [packet].into_iter().collect());
        bench.push("e", &[&four, &six, &b"?".to_vec(), &Vec::new()]);
        let kinds: Vec<u16> = bench
            .take("out")
            .iter()
            .map(|p| State::read(p).unwrap().payload)
            .collect();
        assert_eq!(kinds, [0x8847, 0x0800, 0x86dd]);
        assert_eq!(bench.drops("e", "not_ip"), 2);
        let errors = testkit::errors(crate::CLASSES, "Idle -> DPSEncap -> Discard");
        assert!(errors.contains("the link must be known"));
    }
}
