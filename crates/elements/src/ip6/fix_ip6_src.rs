//! Gives packets that the router made the source address of the interface by which they leave.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!   -> ICMP6Error(2001:db8::1, unreachable) -> FixIP6Src(2001:db8:1::1 fe80::1) -> Discard;
//! ```
//!
//! Changes only packets with the FIX_IP_SRC annotation, which ICMP6Error sets. So the source of an error is
//! the interface by which the error leaves towards the host, as traceroute expects. The address is the first
//! one of `IP6` with the destination's scope. The ICMPv6 checksum is updated.
//!
//! Arguments:
//!
//! - `IP6`: addresses of the interface, as one argument.

use super::addresses::Addresses6;
use super::header_chain;
use crate::prelude::*;
use std::net::Ipv6Addr;
use wire::{Icmp6, Ipv6, checksum, ipv6, proto};

pub(super) struct FixIP6Src {
    addresses: Arc<Vec<Ipv6Addr>>,
}

impl FixIP6Src {
    #[cold]
    fn fix(&self, packet: &mut Packet) -> Option<()> {
        packet.anno_mut().set_fix_ip_src(false);
        let ip = header_chain::header(packet)?;
        let (old, dst, next) = (ip.src(), ip.dst(), ip.next_header());
        let new = header_chain::source_for(&self.addresses, dst)?;
        let (header, message) = packet.network_mut().split_at_mut_checked(ipv6::LEN)?;
        Ipv6::new_unchecked(header).set_src(new);
        if next == proto::ICMP6
            && let Ok(mut icmp) = Icmp6::new_checked(message)
        {
            let check = checksum::update(icmp.checksum(), &old.octets(), &new.octets());
            icmp.set_checksum(check);
        }
        Some(())
    }
}

impl Element for FixIP6Src {
    const CONTRACT: Contract = Contract::new("FixIP6Src", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP6])
        .carries_super_frames();

    type Config = Vec<Ipv6Addr>;

    fn configure(args: &mut Args) -> Vec<Ipv6Addr> {
        let addresses: Addresses6 = args.required("IP6", "addresses of the interface");
        addresses.plain()
    }

    fn new(addresses: &Arc<Vec<Ipv6Addr>>, _: &Init) -> FixIP6Src {
        FixIP6Src {
            addresses: Arc::clone(addresses),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if packet.anno().fix_ip_src() {
            let _ = self.fix(packet);
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, checksum_holds, ip6};
    use wire::Ipv6;

    #[test]
    fn errors_leave_with_the_address_of_their_interface_and_a_right_checksum() {
        let text = "e :: ICMP6Error(2001:db8::ff, unreachable)
            -> FixIP6Src(2001:db8:1::1 fe80::1) -> out :: Collect";
        both(text, |bench| {
            for (host, expected) in [("2001:db8::1", "2001:db8:1::1"), ("fe80::9", "fe80::1")] {
                bench.push("e", &[ip6(host, "2001:db8:9::9", 17, 64, b"odd")]);
                let out = bench.take("out").remove(0);
                assert_eq!(Ipv6::new_checked(&out).unwrap().src(), a(expected));
                assert!(checksum_holds(&out));
            }
            bench.push("e", &[ip6("2001:db8::1", "2001:db8::ff", 17, 64, b"")]);
            let out = bench.take("out").remove(0);
            assert_eq!(Ipv6::new_checked(&out).unwrap().src(), a("2001:db8::ff"));
        });
    }

    #[test]
    fn other_packets_keep_their_source() {
        both("f :: FixIP6Src(fe80::1) -> out :: Collect", |bench| {
            let packet = ip6("2001:db8::1", "2001:db8::2", 17, 64, b"");
            bench.push("f", &[&packet]);
            assert_eq!(bench.take("out"), [packet]);
        });
    }
}
