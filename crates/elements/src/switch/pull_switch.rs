//! Pulls packets from one input, which can be changed.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> s :: PullSwitch -> Discard;
//! Idle -> [1]s;
//! ```
//!
//! With a negative number there are no packets. A task that pulls from PullSwitch sleeps while the chosen input
//! has none, and wakes when another input is chosen.
//!
//! Arguments:
//!
//! - `INPUT`: the input. Default 0.

use super::selected_port::{Selected, argument};
use crate::prelude::*;
use engine::notify::Notifies;

pub(super) struct PullSwitch(Selected);

impl Element for PullSwitch {
    const CONTRACT: Contract = Contract::new("PullSwitch", manual!())
        .ports(Ports::coded(&["in+"], &["out"], "l/l"))
        .extensions(&[&Notifies::PACKETS]);

    type Config = i32;

    fn configure(args: &mut Args) -> i32 {
        argument(args, "INPUT", Some(0))
    }

    fn new(input: &Arc<i32>, init: &Init) -> PullSwitch {
        PullSwitch(Selected::new(**input, init.inputs))
    }

    fn start(&mut self, cx: &mut Cx) {
        if self.0.port().is_some() {
            cx.wake_pullers();
        } else {
            // Sources above it that have begun before have made it active.
            cx.note_empty();
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let input = self.0.port();
        let came = input.map_or(0, |input| cx.pull(input, max, into));
        if came == 0 && !input.is_some_and(|input| cx.input_active(input)) {
            cx.note_empty();
        }
    }

    const HANDLERS: &'static [Handler<PullSwitch>] = &[
        Handler::text("switch", "the input", |e, _| e.0.show()),
        Handler::set("switch", "changes the input", |e, value, cx| {
            e.0.set(value)?;
            if e.0.port().is_some_and(|input| cx.input_active(input)) {
                cx.wake_pullers();
            } else {
                cx.note_empty();
            }
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn sleeping_pullers_wake_when_the_switch_changes() {
        let text =
            "p :: Queue -> s :: PullSwitch(-1) -> Unqueue -> out :: Collect; q :: Queue -> [1]s";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("p", &[b"a"]);
        bench.push("q", &[b"b"]);
        bench.run();
        assert!(bench.take("out").is_empty());
        bench.write("s.switch", "1");
        bench.run();
        assert_eq!(bench.take("out"), [b"b"]);
        bench.write("s.switch", "0");
        bench.push("p", &[b"c"]);
        bench.run();
        assert_eq!(bench.take("out"), [b"a", b"c"]);
        assert!(bench.try_write("s.switch", "2").is_err());
        assert_eq!(bench.read("s.switch"), "0");
    }
}
