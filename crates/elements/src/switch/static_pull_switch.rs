//! Pulls packets from one input, which cannot be changed.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> Queue -> [1]s :: StaticPullSwitch(1) -> Discard;
//! Idle -> [0]s;
//! ```
//!
//! With a negative number there are no packets. In PullSwitch the input can be changed.
//!
//! Arguments:
//!
//! - `INPUT`: the input.

use super::selected_port::{Selected, argument};
use crate::prelude::*;

pub(super) struct StaticPullSwitch(Selected);

impl Element for StaticPullSwitch {
    const CONTRACT: Contract =
        Contract::new("StaticPullSwitch", manual!()).ports(Ports::coded(&["in+"], &["out"], "l/l"));

    type Config = i32;

    fn configure(args: &mut Args) -> i32 {
        argument(args, "INPUT", None)
    }

    fn new(input: &Arc<i32>, init: &Init) -> StaticPullSwitch {
        StaticPullSwitch(Selected::new(**input, init.inputs))
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        if let Some(input) = self.0.port() {
            cx.pull(input, max, into);
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn one_input_is_asked_and_no_other() {
        let text = "p :: Queue -> s :: StaticPullSwitch(1) -> Unqueue -> out :: Collect; q :: Queue -> [1]s";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("p", &[b"a"]);
        bench.push("q", &[b"b", b"c"]);
        bench.run();
        assert_eq!(bench.take("out"), [b"b", b"c"]);
        assert_eq!(bench.read("p.length"), "1");
    }
}
