//! Processes departing IPv4 packets as most routers do, in one element.
//!
//! ```click
//! FromDevice(null:64) -> IPInputCombo(1)
//!     -> o :: IPOutputCombo(2, 10.0.0.1, 1500) -> Discard;
//! o[1] -> Discard; o[2] -> Discard; o[3] -> Discard; o[4] -> Discard;
//! ```
//!
//! Does what DropBroadcasts, PaintTee, IPGWOptions, FixIPSrc, DecIPTTL and CheckLength do, one after the
//! other. Packets that came as link-layer broadcasts are dropped (`broadcast`). Output 1 gets copies of packets
//! with paint `COLOR`, output 2 packets with bad options, output 3 packets whose TTL has expired, output 4
//! packets that are too long.
//!
//! Arguments:
//!
//! - `COLOR`: the paint of packets to copy to output 1.
//! - `IPADDR`: address of the interface by which packets leave.
//! - `MTU`: maximum length of packets in bytes.

use super::dec_ip_ttl::DecIPTTL;
use super::fix_ip_src::fix;
use super::ip_gw_options::IPGWOptions;
use crate::prelude::*;
use crate::switch::hub::no_buffer;
use engine::element::AnyConfig;
use engine::packet::anno::PacketType;
use planner::LimitsLength;
use std::net::Ipv4Addr;

drops! {
    BROADCAST = "broadcast",
    BAD_OPTION = "bad_option",
    EXPIRED = "expired",
    TOO_LONG = "too_long",
}

#[derive(Clone, Copy)]
pub(super) struct Config {
    color: u8,
    address: Ipv4Addr,
    mtu: usize,
}

pub(super) struct IPOutputCombo {
    config: Config,
    options: IPGWOptions,
    ttl: DecIPTTL,
    no_buffer: u64,
}

fn longest(config: &AnyConfig) -> Option<usize> {
    Some(config_of::<IPOutputCombo>(config).mtu)
}

impl Element for IPOutputCombo {
    const CONTRACT: Contract = Contract::new("IPOutputCombo", manual!())
        .ports(Ports::coded(
            &["in"],
            &["out", "copies?", "bad_option?", "expired?", "too_long?"],
            "h/h",
        ))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .extensions(&[&LimitsLength(longest)]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            color: args.required("COLOR", "paint of the packets that are copied"),
            address: args.required("IPADDR", "address of the interface"),
            mtu: args
                .required::<Mtu>("MTU", "bytes of the longest packet")
                .bytes,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> IPOutputCombo {
        IPOutputCombo {
            config: **config,
            options: IPGWOptions::of(config.address),
            ttl: DecIPTTL::ALL,
            no_buffer: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let anno = packet.anno();
        if matches!(
            anno.packet_type,
            PacketType::Broadcast | PacketType::Multicast
        ) {
            return Verdict::drop(BROADCAST);
        }
        if anno.paint == self.config.color && cx.connected(1) {
            match packet.copy() {
                Some(twin) => cx.emit(1, twin),
                None => self.no_buffer += 1,
            }
        }
        if self.options.step(packet, cx) != Verdict::ON {
            return Verdict::reject(BAD_OPTION, 2);
        }
        fix(packet, self.config.address);
        if self.ttl.step(packet, cx) != Verdict::ON {
            return Verdict::reject(EXPIRED, 3);
        }
        if packet.len() > self.config.mtu {
            return Verdict::reject(TOO_LONG, 4);
        }
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<IPOutputCombo>] = &[no_buffer(|e| e.no_buffer)];
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, ip, with_options};
    use testkit::Bench;

    #[test]
    fn packets_leave_by_what_happens_to_them_first() {
        let text = "c :: CheckIPHeader -> Paint(1) -> o :: IPOutputCombo(1, 9.0.0.1, 40) -> out :: Collect;
            o[1] -> copies :: Collect; o[2] -> bad :: Collect; o[3] -> late :: Collect; o[4] -> long :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let (src, dst) = ([1, 1, 1, 1], [2, 2, 2, 2]);
        let good = ip(src, dst, b"data");
        let late = edited(good.clone(), |ip| ip.set_ttl(1));
        let bad = with_options(&[7, 3, 2, 0], b"");
        let long = ip(src, dst, &[0; 21]);
        bench.push("c", &[&good, &late, &bad, &long]);
        assert_eq!(bench.take("out"), [edited(good, |ip| ip.set_ttl(63))]);
        assert_eq!(bench.take("late"), [late]);
        assert_eq!(bench.take("bad"), [bad]);
        assert_eq!(bench.take("long").len(), 1);
        assert_eq!(bench.take("copies").len(), 4);
    }
}
