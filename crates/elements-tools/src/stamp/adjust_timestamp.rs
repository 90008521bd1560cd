//! Adds a time, which may be negative, to the timestamp of packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> AdjustTimestamp(-0.5) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `TIME`: the time to add, in seconds or with a unit.
//!
//! Keyword arguments:
//!
//! - `FIRST`: true if the FIRST_TIMESTAMP annotation is changed instead. Default false.
//! - `ALL`: true if timestamps that are not set (zero) are changed too. Default false.

use crate::prelude::*;
use arguments::units;
use captures::time_window::Span;

#[derive(Clone, Copy)]
pub(super) struct AdjustTimestamp {
    by: Span,
    first: bool,
    all: bool,
}

impl Element for AdjustTimestamp {
    const CONTRACT: Contract =
        Contract::new("AdjustTimestamp", manual!()).ports(Ports::new(&["in"], &["out"]));

    type Config = AdjustTimestamp;

    fn configure(args: &mut Args) -> AdjustTimestamp {
        AdjustTimestamp {
            by: args.required("TIME", "time that is added"),
            first: args.key("FIRST", false, "true if FIRST_TIMESTAMP is changed instead"),
            all: args.key("ALL", false, "true if zero is changed too"),
        }
    }

    fn new(config: &Arc<AdjustTimestamp>, _: &Init) -> AdjustTimestamp {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let stamp = super::get(packet, self.first);
        if stamp != 0 || self.all {
            super::set(packet, self.first, stamp.wrapping_add(self.by.0));
        }
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<AdjustTimestamp>] = &[
        Handler::text("time", "time that is added", |e, _| Ok(e.by.as_interval())),
        Handler::set("time", "see TIME", |e, value, _| {
            e.by = units::parse(value)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use crate::stamp::testing::through;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn time_is_added_to_what_is_set() {
        let stamps = [SECOND, 0];
        let adjust =
            |args: &str| through(&format!("AdjustTimestamp({args})"), "timestamp", &stamps);
        assert_eq!(adjust("0.5"), ["1.500000", "0.000000"]);
        assert_eq!(adjust("-2"), ["-1.000000", "0.000000"]);
        assert_eq!(adjust("20ms, ALL true"), ["1.020000", "0.020000"]);
        assert_eq!(adjust("1, FIRST true"), ["1.000000", "0.000000"]);
    }
}
