//! Sets the destination annotation to one address, such as that of a gateway.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> SetIP6Address(fe80::1) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `IP6`: the address.

use crate::prelude::*;
use std::net::Ipv6Addr;

pub(super) struct SetIP6Address {
    address: [u8; 16],
}

impl Element for SetIP6Address {
    const CONTRACT: Contract = Contract::new("SetIP6Address", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::DST6])
        .spoils(Facts::DST4);

    type Config = Ipv6Addr;

    fn configure(args: &mut Args) -> Ipv6Addr {
        args.required("IP6", "the address")
    }

    fn new(address: &Arc<Ipv6Addr>, _: &Init) -> SetIP6Address {
        SetIP6Address {
            address: address.octets(),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        packet.anno_mut().set_dst6(self.address);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both};

    #[test]
    fn every_packet_goes_to_the_address() {
        both("s :: SetIP6Address(fe80::9) -> out :: Collect", |bench| {
            bench.push("s", &[b"x"]);
            let out = bench.take_packets("out");
            assert_eq!(out[0].anno.dst6(), a("fe80::9").octets());
        });
    }
}
