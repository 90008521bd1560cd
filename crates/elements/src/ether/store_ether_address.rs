//! Writes an Ethernet address into packets.
//!
//! ```click
//! FromDevice(eth0) -> StoreEtherAddress(02:00:00:00:00:01, src) -> Discard;
//! ```
//!
//! A packet that is too short for the address leaves by output 1, or is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `ADDR`: the address.
//! - `OFFSET`: offset at which it is written, in bytes, or `src` or `dst` for the addresses of an Ethernet header.

use super::offset::Offset;
use crate::prelude::*;
use wire::EtherAddr;

drops! {
    TOO_SHORT = "too_short",
}
const BAD: u8 = 1;

#[derive(Clone, Copy)]
pub(super) struct StoreEtherAddress {
    address: EtherAddr,
    offset: Offset,
}

impl Element for StoreEtherAddress {
    const CONTRACT: Contract = Contract::new("StoreEtherAddress", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .drops(DROPS)
        .ignores_annotations();

    type Config = StoreEtherAddress;

    fn configure(args: &mut Args) -> StoreEtherAddress {
        StoreEtherAddress {
            address: args.required("ADDR", "the address"),
            offset: args.required("OFFSET", "where it goes"),
        }
    }

    fn new(config: &Arc<StoreEtherAddress>, _: &Init) -> StoreEtherAddress {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let place = packet.data_mut().get_mut(self.offset.0..);
        match place.and_then(<[u8]>::first_chunk_mut) {
            Some(bytes) => {
                *bytes = self.address.0;
                Verdict::ON
            }
            None => Verdict::reject(TOO_SHORT, BAD),
        }
    }

    const HANDLERS: &'static [Handler<StoreEtherAddress>] = &[
        Handler::text("addr", "see ADDR", |e, _| {
            Ok(e.address.dashed().to_string())
        }),
        Handler::assign("addr", "changes ADDR", |e| &mut e.address),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_address_is_written_where_it_is_told() {
        let text =
            "s :: StoreEtherAddress(2:0:0:0:0:1, src) -> out :: Collect; s[1] -> bad :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[&b"ddddddssssss\x08\0"[..], b"ddddddsssss"]);
        bench.write("s.addr", "2:0:0:0:0:2");
        bench.push("s", &[&b"ddddddssssss"]);
        assert_eq!(
            bench.take("out"),
            [
                &b"dddddd\x02\0\0\0\0\x01\x08\0"[..],
                b"dddddd\x02\0\0\0\0\x02"
            ]
        );
        assert_eq!(bench.take("bad"), [b"ddddddsssss"]);
        testkit::errors(
            crate::CLASSES,
            "Idle -> StoreEtherAddress(2:0:0:0:0:1, sink) -> Discard",
        );
    }
}
