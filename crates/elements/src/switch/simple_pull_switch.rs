//! Pulls packets from one input, which can be changed, without notifying tasks of a change.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> s :: SimplePullSwitch -> Discard;
//! Idle -> [1]s;
//! ```
//!
//! With a negative number there are no packets. A task that pulls from it is woken by packets at any input, but
//! not when another input is chosen; PullSwitch does that.
//!
//! Arguments:
//!
//! - `INPUT`: the input. Default 0.

use super::selected_port::{Selected, argument};
use crate::prelude::*;

pub(super) struct SimplePullSwitch(Selected);

impl Element for SimplePullSwitch {
    const CONTRACT: Contract =
        Contract::new("SimplePullSwitch", manual!()).ports(Ports::coded(&["in+"], &["out"], "l/l"));

    type Config = i32;

    fn configure(args: &mut Args) -> i32 {
        argument(args, "INPUT", Some(0))
    }

    fn new(input: &Arc<i32>, init: &Init) -> SimplePullSwitch {
        SimplePullSwitch(Selected::new(**input, init.inputs))
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        if let Some(input) = self.0.port() {
            cx.pull(input, max, into);
        }
    }

    const HANDLERS: &'static [Handler<SimplePullSwitch>] = &[
        Handler::text("switch", "the input", |e, _| e.0.show()),
        Handler::set("switch", "changes the input", |e, value, _| e.0.set(value)),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_chosen_input_is_asked_at_the_next_pull() {
        let text = "p :: Queue -> s :: SimplePullSwitch(-1) -> Unqueue -> out :: Collect; q :: Queue -> [1]s";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("p", &[b"a"]);
        bench.run();
        bench.write("s.switch", "0");
        assert!(bench.take("out").is_empty());
        bench.push("q", &[b"b"]);
        bench.run();
        assert_eq!(bench.take("out"), [b"a"]);
        assert_eq!(bench.read("q.length"), "1");
    }
}
