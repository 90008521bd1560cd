//! Copies an Ethernet address from packets into an annotation.
//!
//! ```click
//! FromDevice(eth0) -> GetEtherAddress(0, src) -> Discard;
//! ```
//!
//! A packet that is too short to have the address leaves by output 1, or is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `ANNO`: the annotation: the number of the first of its six bytes, 0 to 42.
//! - `OFFSET`: offset of the address in bytes, or `src` or `dst`.

use super::offset::Offset;
use crate::anno::Anno;
use crate::prelude::*;

drops! {
    TOO_SHORT = "too_short",
}
const BAD: u8 = 1;

#[derive(Clone, Copy)]
pub(super) struct GetEtherAddress {
    anno: Anno<6>,
    offset: Offset,
}

impl Element for GetEtherAddress {
    const CONTRACT: Contract = Contract::new("GetEtherAddress", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .drops(DROPS);

    type Config = GetEtherAddress;

    fn configure(args: &mut Args) -> GetEtherAddress {
        GetEtherAddress {
            anno: args.required("ANNO", "the annotation"),
            offset: args.required("OFFSET", "where the address stands"),
        }
    }

    fn new(config: &Arc<GetEtherAddress>, _: &Init) -> GetEtherAddress {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let place = packet.data().get(self.offset.0..);
        let Some(&address) = place.and_then(<[u8]>::first_chunk::<6>) else {
            return Verdict::reject(TOO_SHORT, BAD);
        };
        self.anno.set(packet, address);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_annotation_is_set_and_short_packets_leave() {
        let text = "g :: GetEtherAddress(24, src) -> out :: Collect; g[1] -> bad :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("g", &[&b"ddddddssssss"[..], b"ddddddsssss"]);
        assert_eq!(bench.take_packets("out")[0].cold.user[24..30], *b"ssssss");
        assert_eq!(bench.take("bad"), [b"ddddddsssss"]);
        let text = "s :: SetEtherAddress(2:0:0:0:0:1, 38) -> g :: GetEtherAddress(20, dst) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[b"ddddddssssss"]);
        let user = bench.take_packets("out")[0].cold.user;
        assert_eq!(
            (&user[20..26], &user[38..44]),
            (&b"dddddd"[..], &[2, 0, 0, 0, 0, 1][..])
        );
        let text = "g :: GetEtherAddress(24, 70000) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("g", &[b"ddddddssssss"]);
        assert_eq!(bench.drops("g", "too_short"), 1);
        testkit::errors(
            crate::CLASSES,
            "Idle -> GetEtherAddress(43, src) -> Discard",
        );
    }
}
