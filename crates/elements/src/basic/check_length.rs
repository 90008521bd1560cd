//! Stops packets that are too long.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> CheckLength(1500) -> Discard;
//! ```
//!
//! Such packets leave by output 1, or are dropped (`too_long`). The length of a super-frame (see FromDevice) is that
//! of its longest segment.
//!
//! Arguments:
//!
//! - `LENGTH`: maximum length of packets in bytes. `eth0:mtu` is the MTU of the port eth0, from the network header
//!   on, also after a change.

use crate::prelude::*;
use engine::element::AnyConfig;
use planner::LimitsLength;

drops! {
    TOO_LONG = "too_long",
}
const LONGER: u8 = 1;

pub(super) struct CheckLength {
    length: usize,
    /// True if GSO super-frames may arrive.
    whole: bool,
}

fn longest(config: &AnyConfig) -> Option<usize> {
    Some(*config_of::<CheckLength>(config))
}

impl Element for CheckLength {
    const CONTRACT: Contract = Contract::new("CheckLength", manual!())
        .ports(Ports::new(&["in"], &["out", "longer?"]))
        .drops(DROPS)
        .extensions(&[&LimitsLength(longest)])
        .carries_super_frames()
        .ignores_annotations();

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        let doc = "bytes of the longest packet that passes";
        args.required::<Mtu>("LENGTH", doc).bytes
    }

    fn new(length: &Arc<usize>, init: &Init) -> CheckLength {
        CheckLength {
            length: **length,
            whole: init.super_frames,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        if packet.len() <= self.length || (self.whole && packet.segment_len() <= self.length) {
            Verdict::ON
        } else {
            Verdict::reject(TOO_LONG, LONGER)
        }
    }

    const HANDLERS: &'static [Handler<CheckLength>] = &[
        Handler::show("length", "bytes of the longest packet that passes", |e| {
            &e.length
        }),
        Handler::assign("length", "changes the length", |e| &mut e.length),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_longest_that_passes_is_as_long_as_said() {
        let mut bench = Bench::new(crate::CLASSES, "c :: CheckLength(3) -> out :: Collect");
        bench.push("c", &[&b"abc"[..], b"abcd", b""]);
        assert_eq!(bench.take("out"), [&b"abc"[..], b""]);
        assert_eq!(bench.drops("c", "too_long"), 1);
    }

    #[test]
    fn longer_ones_have_an_output() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "c :: CheckLength(3) -> Discard; c[1] -> out :: Collect",
        );
        bench.push("c", &[b"abcd"]);
        bench.write("c.length", "4");
        bench.push("c", &[b"efgh"]);
        assert_eq!(bench.take("out"), [b"abcd"]);
    }
}
