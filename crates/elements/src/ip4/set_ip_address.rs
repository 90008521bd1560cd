//! Sets the destination address annotation to a fixed address.
//!
//! ```click
//! FromDevice(null:64) -> SetIPAddress(192.0.2.1) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `ADDR`: the address.
//!
//! Keyword arguments:
//!
//! - `ANNO`: the annotation to set instead: the number of the first of its four bytes. Default `DST_IP`.

use crate::anno::Anno;
use crate::prelude::*;
use std::net::Ipv4Addr;

#[derive(Clone, Copy)]
pub(super) struct SetIPAddress {
    address: Ipv4Addr,
    anno: Anno<4>,
}

impl Element for SetIPAddress {
    const CONTRACT: Contract = Contract::new("SetIPAddress", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::DST4])
        .spoils(Facts::DST6);

    type Config = SetIPAddress;

    fn configure(args: &mut Args) -> SetIPAddress {
        SetIPAddress {
            address: args.required("ADDR", "the address"),
            anno: args.key("ANNO", Anno::DST_IP, "the annotation"),
        }
    }

    fn new(config: &Arc<SetIPAddress>, _: &Init) -> SetIPAddress {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        self.anno.set(packet, self.address.octets());
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<SetIPAddress>] = &[
        Handler::show("addr", "the address", |e| &e.address),
        Handler::assign("addr", "changes the address", |e| &mut e.address),
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

    #[test]
    fn another_annotation_may_be_set() {
        let text = "s :: SetIPAddress(1.2.3.4, ANNO 20) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[b"x"]);
        let out = &bench.take_packets("out")[0];
        assert_eq!(out.anno.dst4(), [0; 4]);
        assert_eq!(out.cold.user[20..24], [1, 2, 3, 4]);
        let text = "Idle -> SetIPAddress(1.2.3.4, ANNO 45) -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("ANNO"), "{errors}");
        let text = "Idle -> SetIPAddress(1.2.3.4, 20) -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("too many arguments"), "{errors}");
    }
}
