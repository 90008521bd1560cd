//! Sets the destination address annotation to a fixed address.
//!
//! ```click
//! FromDevice(null:64) -> SetIPAddress(192.0.2.1) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `ADDR`: the address.

use crate::prelude::*;
use std::net::Ipv4Addr;

pub(super) struct SetIPAddress {
    address: Ipv4Addr,
}

impl Element for SetIPAddress {
    const CLASS: &'static str = "SetIPAddress";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const GIVES: &'static [Facts] = &[Facts::DST4];
    const SPOILS: Facts = Facts::DST6;

    type Config = Ipv4Addr;

    fn configure(args: &mut Args) -> Ipv4Addr {
        args.required("ADDR", "the address")
    }

    fn new(address: &Arc<Ipv4Addr>, _: &Init) -> SetIPAddress {
        SetIPAddress { address: **address }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        packet.anno_mut().set_dst4(self.address.octets());
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<SetIPAddress>] = &[
        Handler::text("addr", "the address", |e, _| Ok(e.address.to_string())),
        Handler::set("addr", "changes the address", |e, value, _| {
            e.address = engine::units::parse(value)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_annotation_is_set_and_can_be_changed() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: SetIPAddress(1.2.3.4) -> out :: Collect",
        );
        bench.push("s", &[b"x"]);
        assert_eq!(bench.take_packets("out")[0].anno.dst4(), [1, 2, 3, 4]);
        bench.write("s.addr", "5.6.7.8");
        assert_eq!(bench.read("s.addr"), "5.6.7.8");
        bench.push("s", &[b"x"]);
        assert_eq!(bench.take_packets("out")[0].anno.dst4(), [5, 6, 7, 8]);
    }
}
