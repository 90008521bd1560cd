//! Sets the timestamp of packets to a time, or to the time at which they pass.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> SetTimestamp -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `TIMESTAMP`: the time in seconds; without it, the time now.
//!
//! Keyword arguments:
//!
//! - `FIRST`: true if the FIRST_TIMESTAMP annotation is set instead. Default false.

use crate::prelude::*;
use captures::time_window::Moment;

#[derive(Clone, Copy)]
pub(super) struct SetTimestamp {
    time: Option<Moment>,
    first: bool,
}

impl Element for SetTimestamp {
    const CONTRACT: Contract =
        Contract::new("SetTimestamp", manual!()).ports(Ports::new(&["in"], &["out"]));

    type Config = SetTimestamp;

    fn configure(args: &mut Args) -> SetTimestamp {
        SetTimestamp {
            time: args.maybe("TIMESTAMP", "the time; without it, the time now"),
            first: args.key("FIRST", false, "true if FIRST_TIMESTAMP is set instead"),
        }
    }

    fn new(config: &Arc<SetTimestamp>, _: &Init) -> SetTimestamp {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let nanos = self.time.map_or(cx.timestamp() as i64, |t| t.0);
        super::set(packet, self.first, nanos);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::stamp::testing::through;

    #[test]
    fn packets_get_the_time_that_is_given_or_the_time_now() {
        let fields = "\"timestamp first_timestamp\"";
        assert_eq!(
            through("SetTimestamp(5.25)", fields, &[1]),
            ["5.250000 0.000000"]
        );
        assert_eq!(
            through("SetTimestamp(5, FIRST true)", fields, &[1_000_000]),
            ["0.001000 5.000000"]
        );
        // A bench's clock starts at one second.
        assert_eq!(through("SetTimestamp", fields, &[0]), ["1.000000 0.000000"]);
    }
}
