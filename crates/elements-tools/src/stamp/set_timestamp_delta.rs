//! Replaces the timestamps of packets by time differences.
//!
//! ```click
//! FromDump(trace.pcap) -> SetTimestampDelta -> ToIPSummaryDump(-, FIELDS timestamp);
//! ```
//!
//! A packet whose timestamp is zero is not changed.
//!
//! Keyword arguments:
//!
//! - `TYPE`: `RANGE`, since the first timestamp that was not zero; `NOW`, from the packet's timestamp to the
//!   time now; `FIRST`, since the packet's FIRST_TIMESTAMP annotation. Default RANGE.

use crate::prelude::*;
use captures::time_window;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Range,
    Now,
    First,
}

#[derive(Clone, Copy)]
pub(super) struct SetTimestampDelta {
    kind: Kind,
    /// The first timestamp; 0 before it.
    first: i64,
}

impl Element for SetTimestampDelta {
    const CONTRACT: Contract = Contract::new("SetTimestampDelta", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .copies(Copies::One);

    type Config = SetTimestampDelta;

    fn configure(args: &mut Args) -> SetTimestampDelta {
        let name = args.key("TYPE", "RANGE".to_owned(), "RANGE, NOW or FIRST");
        let kind = match name.to_ascii_uppercase().as_str() {
            "RANGE" => Kind::Range,
            "NOW" => Kind::Now,
            "FIRST" => Kind::First,
            _ => {
                args.error_in_whole("bad TYPE", "it is RANGE, NOW or FIRST");
                Kind::Range
            }
        };
        SetTimestampDelta { kind, first: 0 }
    }

    fn new(config: &Arc<SetTimestampDelta>, _: &Init) -> SetTimestampDelta {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let stamp = super::get(packet, false);
        if stamp == 0 {
            return Verdict::ON;
        }
        if self.first == 0 {
            self.first = stamp;
        }
        let delta = match self.kind {
            Kind::Range => stamp.wrapping_sub(self.first),
            Kind::Now => (cx.timestamp() as i64).wrapping_sub(stamp),
            Kind::First => stamp.wrapping_sub(super::get(packet, true)),
        };
        super::set(packet, false, delta);
        Verdict::ON
    }

    fn take(&mut self, old: SetTimestampDelta) {
        self.first = old.first;
    }

    const HANDLERS: &'static [Handler<SetTimestampDelta>] = &[
        Handler::text("first", "the first timestamp that was not zero", |e, _| {
            Ok(time_window::show(e.first))
        }),
        Handler::set(
            "reset",
            "the next timestamp is the first again",
            |e, _, _| {
                e.first = 0;
                Ok(())
            },
        ),
    ];
}

#[cfg(test)]
mod tests {
    use crate::stamp::testing::through;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn differences_are_to_the_first_or_to_now() {
        let stamps = [0, 2 * SECOND, 5 * SECOND, SECOND];
        assert_eq!(
            through("SetTimestampDelta", "timestamp", &stamps),
            ["0.000000", "0.000000", "3.000000", "-1.000000"]
        );
        // A bench's clock starts at one second.
        assert_eq!(
            through("SetTimestampDelta(TYPE NOW)", "timestamp", &[SECOND / 4]),
            ["0.750000"]
        );
        assert_eq!(
            through(
                "SetTimestamp(1, FIRST true) -> SetTimestampDelta(TYPE first)",
                "timestamp",
                &[3 * SECOND]
            ),
            ["2.000000"]
        );
    }
}
