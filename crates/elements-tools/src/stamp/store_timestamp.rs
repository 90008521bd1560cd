//! Stores the timestamp of packets in their data.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> StoreTimestamp(TAIL true) -> Print -> Discard;
//! ```
//!
//! The timestamp takes eight bytes, as in Click: nanoseconds since 1970 in the byte order of the machine. A packet that
//! cannot be lengthened for it is dropped (`too_long`).
//!
//! Keyword arguments, of which one is given:
//!
//! - `OFFSET`: offset at which the timestamp is stored; a packet that is too short is lengthened.
//! - `TAIL`: true if the timestamp is appended to the packet. Default false.

use crate::prelude::*;

drops! {
    TOO_LONG = "too_long",
}

/// Offset of the timestamp; `None` = behind the packet.
#[derive(Clone, Copy)]
pub(super) struct StoreTimestamp(Option<usize>);

impl StoreTimestamp {
    fn store(self, packet: &mut Packet) -> Option<()> {
        let stamp = packet.cold().timestamp;
        let at = self.0.unwrap_or(packet.len());
        let missing = (at + 8).saturating_sub(packet.len());
        packet.put(missing)?.fill(0);
        packet.data_mut()[at..at + 8].copy_from_slice(&stamp.to_ne_bytes());
        Some(())
    }
}

impl Element for StoreTimestamp {
    const CONTRACT: Contract = Contract::new("StoreTimestamp", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .drops(DROPS);

    type Config = StoreTimestamp;

    fn configure(args: &mut Args) -> StoreTimestamp {
        let offset: Option<u16> = args.key_maybe("OFFSET", "where the timestamp is stored");
        let tail = args.key("TAIL", false, "true to append the timestamp");
        if offset.is_some() == tail {
            args.error_in_whole("supply exactly one of OFFSET and TAIL", "give one of them");
        }
        StoreTimestamp(offset.map(usize::from))
    }

    fn new(config: &Arc<StoreTimestamp>, _: &Init) -> StoreTimestamp {
        **config
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        on_if(self.store(packet).is_some(), TOO_LONG)
    }
}

#[cfg(test)]
mod tests {
    use crate::stamp::testing::packets;
    use testkit::Bench;

    #[test]
    fn the_time_is_in_the_data_where_it_should_be() {
        let store = |args: &str| {
            let text = format!("s :: StoreTimestamp({args}) -> out :: Collect");
            let mut bench = Bench::new(crate::with_basics(), &text);
            bench.push_packets("s", 0, packets(&[7_000_000_009]));
            bench.take("out")
        };
        let time = 7_000_000_009_u64.to_ne_bytes();
        assert_eq!(store("OFFSET 0"), [time.to_vec()]);
        assert_eq!(store("OFFSET 2"), [[&[0, 0][..], &time].concat()]);
        assert_eq!(store("TAIL true"), [[&[0][..], &time].concat()]);
        assert_eq!(store("OFFSET 60000").len(), 0);
        let errors = testkit::errors(crate::with_basics(), "Idle -> StoreTimestamp -> Discard");
        assert!(
            errors.contains("exactly one of OFFSET and TAIL"),
            "{errors}"
        );
    }
}
