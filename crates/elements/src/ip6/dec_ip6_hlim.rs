//! Decrements the hop limit of IPv6 packets, and rejects packets whose hop limit has expired.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> d :: DecIP6HLIM -> Discard;
//! d[1] -> ICMP6Error(2001:db8::1, timeexceeded) -> Discard;
//! ```
//!
//! A packet with a hop limit of 0 or 1 leaves unchanged by output 1 (RFC 8200, 3), or is dropped (`expired`) if
//! output 1 is not connected.
//!
//! Keyword arguments:
//!
//! - `ACTIVE`: if false, packets pass unchanged. Default true.

use crate::prelude::*;

/// Element of the class DecIP6HLIM.
pub struct DecIP6HLIM {
    active: bool,
    expired: u64,
}

impl Element for DecIP6HLIM {
    const CONTRACT: Contract = Contract::new("DecIP6HLIM", manual!())
        .ports(Ports::new(&["in"], &["out", "expired?"]))
        .needs(&[Facts::IP6])
        .drops(&["expired"])
        .carries_super_frames()
        .ignores_annotations();

    type Config = bool;

    fn configure(args: &mut Args) -> bool {
        args.key("ACTIVE", true, "if false, packets pass unchanged")
    }

    fn new(active: &Arc<bool>, _: &Init) -> DecIP6HLIM {
        DecIP6HLIM {
            active: **active,
            expired: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<DecIP6HLIM>] = &[
        counter!("drops", "packets whose hop limit had expired", expired),
        Handler::show("active", "see ACTIVE", |e| &e.active),
        Handler::assign("set_active", "changes ACTIVE", |e| &mut e.active),
    ];
}

impl Fuse for DecIP6HLIM {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let active = self.active;
        #[inline(always)]
        move |packet| {
            let [.., hops] = packet.network_head_mut::<8>()?;
            if !active || *hops <= 1 {
                return None;
            }
            *hops -= 1;
            Some(Verdict::ON)
        }
    }

    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if !self.active {
            return Verdict::ON;
        }
        match packet.network_mut().get_mut(7) {
            Some(hops) if *hops > 1 => {
                *hops -= 1;
                Verdict::ON
            }
            _ => {
                self.expired += 1;
                Verdict::reject(0, 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both, ip6};

    #[test]
    fn every_hop_limit_above_one_is_decremented_and_nothing_else_changes() {
        let text = "d :: DecIP6HLIM -> out :: Collect; d[1] -> late :: Collect";
        both(text, |bench| {
            for hops in 0..=255 {
                let packet = ip6("2001:db8::1", "2001:db8::2", 59, hops, b"data");
                bench.push("d", &[&packet]);
                if hops > 1 {
                    let after = ip6("2001:db8::1", "2001:db8::2", 59, hops - 1, b"data");
                    assert_eq!(bench.take("out"), [after]);
                } else {
                    assert_eq!(bench.take("late"), [packet]);
                }
            }
            assert_eq!(bench.read("d.drops"), "2");
        });
    }

    #[test]
    fn without_an_output_1_late_packets_are_dropped_by_name() {
        both("d :: DecIP6HLIM -> out :: Collect", |bench| {
            bench.push("d", &[ip6("2001:db8::1", "2001:db8::2", 59, 1, b"")]);
            assert_eq!(bench.drops("d", "expired"), 1);
        });
    }
}
