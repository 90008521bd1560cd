//! Passes packets of one input, which can be changed.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> s :: InputSwitch(1) -> Discard;
//! InfiniteSource(LIMIT 3) -> [1]s;
//! ```
//!
//! Packets of other inputs are dropped (`switched_off`); with a negative number the packets of all inputs are
//! dropped.
//!
//! Arguments:
//!
//! - `INPUT`: the input. Default 0.

use super::selected_port::{Selected, argument};
use crate::prelude::*;

drops! {
    SWITCHED_OFF = "switched_off",
}

pub(super) struct InputSwitch(Selected);

impl Element for InputSwitch {
    const CONTRACT: Contract = Contract::new("InputSwitch", manual!())
        .ports(Ports::coded(&["in+"], &["out"], "h/h"))
        .drops(DROPS);

    type Config = i32;

    fn configure(args: &mut Args) -> i32 {
        argument(args, "INPUT", Some(0))
    }

    fn new(input: &Arc<i32>, init: &Init) -> InputSwitch {
        InputSwitch(Selected::new(**input, init.inputs))
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        if self.0.port() != Some(input) {
            cx.drop_batch(batch, SWITCHED_OFF);
        }
    }

    const HANDLERS: &'static [Handler<InputSwitch>] = &[
        Handler::text("switch", "the input", |e, _| e.0.show()),
        Handler::set("switch", "changes the input", |e, value, _| e.0.set(value)),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn only_the_chosen_input_is_heard() {
        let text = "s :: InputSwitch -> out :: Collect; Idle -> s; Idle -> [1]s";
        let mut bench = Bench::new(crate::CLASSES, text);
        let both = |bench: &mut Bench| {
            bench.push_at("s", 0, &[b"a"]);
            bench.push_at("s", 1, &[b"b"]);
            bench.take("out")
        };
        assert_eq!(both(&mut bench), [b"a"]);
        bench.write("s.switch", "1");
        assert_eq!(both(&mut bench), [b"b"]);
        bench.write("s.switch", "-1");
        assert!(both(&mut bench).is_empty());
        assert!(bench.try_write("s.switch", "2").is_err());
        assert_eq!(bench.drops("s", "switched_off"), 4);
    }
}
