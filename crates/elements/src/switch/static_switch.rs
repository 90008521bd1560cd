//! Sends all packets to one output, which cannot be changed.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> s :: StaticSwitch(1) -> Discard;
//! s[1] -> Discard;
//! ```
//!
//! With a negative number packets are dropped (`switched_off`). In Switch the output can be changed.
//!
//! Arguments:
//!
//! - `OUTPUT`: the output.

use super::selected_port::{Selected, argument};
use crate::prelude::*;

pub(super) struct StaticSwitch(Selected);

impl Element for StaticSwitch {
    const CONTRACT: Contract = Contract::new("StaticSwitch", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .drops(&["switched_off"])
        .ignores_annotations();

    type Config = i32;

    fn configure(args: &mut Args) -> i32 {
        argument(args, "OUTPUT", None)
    }

    fn new(output: &Arc<i32>, init: &Init) -> StaticSwitch {
        StaticSwitch(Selected::new(**output, init.outputs))
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, _: &mut Cx) -> Verdict {
        self.0.verdict()
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_go_where_the_configuration_says() {
        let text = "s :: StaticSwitch(1) -> a :: Collect; s[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[b"1"]);
        assert!(bench.take("a").is_empty());
        assert_eq!(bench.take("b"), [b"1"]);
        let mut bench = Bench::new(crate::CLASSES, "s :: StaticSwitch(-1) -> Discard");
        bench.push("s", &[b"1"]);
        assert_eq!(bench.drops("s", "switched_off"), 1);
    }
}
