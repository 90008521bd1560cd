//! Sends all packets to one output, which can be changed.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> s :: Switch(1) -> Discard;
//! s[1] -> Discard;
//! ```
//!
//! With a negative number packets are dropped (`switched_off`).
//!
//! Arguments:
//!
//! - `OUTPUT`: the output. Default 0.

use super::selected_port::{Selected, argument};
use crate::prelude::*;

pub(super) struct Switch(Selected);

impl Element for Switch {
    const CONTRACT: Contract = Contract::new("Switch", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .drops(&["switched_off"])
        .ignores_annotations();

    type Config = i32;

    fn configure(args: &mut Args) -> i32 {
        argument(args, "OUTPUT", Some(0))
    }

    fn new(output: &Arc<i32>, init: &Init) -> Switch {
        Switch(Selected::new(**output, init.outputs))
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, _: &mut Cx) -> Verdict {
        self.0.verdict()
    }

    const HANDLERS: &'static [Handler<Switch>] = &[
        Handler::text("switch", "the output", |e, _| e.0.show()),
        Handler::set("switch", "changes the output", |e, value, _| e.0.set(value)),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_follow_the_switch() {
        let text = "s :: Switch -> a :: Collect; s[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[b"1"]);
        bench.write("s.switch", "1");
        bench.push("s", &[b"2"]);
        bench.write("s.switch", "-7");
        bench.push("s", &[b"3"]);
        assert_eq!(bench.read("s.switch"), "-1");
        assert_eq!(
            (bench.take("a"), bench.take("b")),
            (vec![b"1".to_vec()], vec![b"2".to_vec()])
        );
        assert_eq!(bench.drops("s", "switched_off"), 1);
    }

    #[test]
    fn an_output_that_there_is_not_is_refused() {
        let mut bench = Bench::new(crate::CLASSES, "s :: Switch(-1) -> Discard");
        assert!(bench.try_write("s.switch", "1").is_err());
        assert!(bench.try_write("s.switch", "left").is_err());
        assert_eq!(bench.read("s.switch"), "-1");
        testkit::errors(crate::CLASSES, "Idle -> Switch(1) -> Discard");
    }
}
