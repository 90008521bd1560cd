//! Sets the destination address annotation from the packet.
//!
//! ```click
//! FromDevice(null:64) -> MarkIPHeader(14) -> GetIPAddress(IP dst) -> Discard;
//! ```
//!
//! Packets that are too short to have the address are dropped.
//!
//! Arguments:
//!
//! - `OFFSET`: offset of the four bytes of the address; 16 is the destination of a packet that begins with its
//!   IP header.
//! - `ANNO`: the annotation to set instead: the number of the first of its four bytes. Default `DST_IP`.
//!
//! Keyword arguments:
//!
//! - `IP`: `src` or `dst`, instead of `OFFSET`: this address of the IP header at the network header annotation.

use crate::anno::Anno;
use crate::prelude::*;

drops! {
    TOO_SHORT = "too_short",
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    Data(usize),
    Header(usize),
}

#[derive(Clone, Copy)]
pub(super) struct GetIPAddress {
    place: Place,
    anno: Anno<4>,
}

impl Element for GetIPAddress {
    const CONTRACT: Contract = Contract::new("GetIPAddress", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::DST4])
        .spoils(Facts::DST6)
        .drops(DROPS);

    type Config = GetIPAddress;

    fn configure(args: &mut Args) -> GetIPAddress {
        let field: Option<String> = args.key_maybe("IP", "`src` or `dst`, in place of OFFSET");
        let offset: Option<usize> = args.maybe("OFFSET", "where the address begins");
        let anno = args.optional("ANNO", Anno::DST_IP, "the annotation");
        let place = match (offset, field.as_deref()) {
            (Some(offset), None) => Place::Data(offset),
            (None, Some("src")) => Place::Header(12),
            (None, Some("dst")) => Place::Header(16),
            _ => {
                args.error_in_whole(
                    "it must be said where the address is",
                    "write GetIPAddress(16), GetIPAddress(IP src) or GetIPAddress(IP dst)",
                );
                Place::Data(0)
            }
        };
        GetIPAddress { place, anno }
    }

    fn new(config: &Arc<GetIPAddress>, _: &Init) -> GetIPAddress {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let found = match self.place {
            Place::Data(offset) => packet.data().get(offset..),
            Place::Header(offset) => packet.network().get(offset..),
        };
        let Some(&address) = found.and_then(|bytes| bytes.first_chunk::<4>()) else {
            return Verdict::drop(TOO_SHORT);
        };
        self.anno.set(packet, address);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use testkit::Bench;

    fn annotation(configuration: &str) -> [u8; 4] {
        let text =
            format!("m :: MarkIPHeader(1) -> GetIPAddress({configuration}) -> out :: Collect");
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push(
            "m",
            &[[b"x", &ip([1, 2, 3, 4], [5, 6, 7, 8], b"")[..]].concat()],
        );
        bench.take_packets("out")[0].anno.dst4()
    }

    #[test]
    fn the_annotation_comes_from_a_place_or_a_field() {
        assert_eq!(annotation("17"), [5, 6, 7, 8]);
        assert_eq!(annotation("IP src"), [1, 2, 3, 4]);
        assert_eq!(annotation("IP dst"), [5, 6, 7, 8]);
    }

    #[test]
    fn another_annotation_may_be_set() {
        let packet = ip([1, 2, 3, 4], [5, 6, 7, 8], b"");
        for (configuration, found) in [
            ("0, 24", &packet[..4]),
            ("IP src, ANNO EXTRA_PACKETS", &[1, 2, 3, 4]),
        ] {
            let text =
                format!("m :: MarkIPHeader -> GetIPAddress({configuration}) -> out :: Collect");
            let mut bench = Bench::new(crate::CLASSES, &text);
            bench.push("m", &[&packet]);
            let out = &bench.take_packets("out")[0];
            assert_eq!(out.anno.dst4(), [0; 4]);
            assert_eq!(out.cold.user[24..28], *found);
        }
    }

    #[test]
    fn packets_that_end_before_it_are_dropped() {
        let mut bench = Bench::new(crate::CLASSES, "g :: GetIPAddress(16) -> out :: Collect");
        bench.push("g", &[[0; 19]]);
        assert_eq!(bench.drops("g", "too_short"), 1);
    }

    #[test]
    fn a_configuration_without_a_place_is_refused() {
        let errors = testkit::errors(crate::CLASSES, "Idle -> GetIPAddress -> Discard");
        assert!(errors.contains("where the address is"), "{errors}");
    }
}
