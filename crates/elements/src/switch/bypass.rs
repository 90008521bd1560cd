//! Sends packets through a part of the router, or past it.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> b :: Bypass -> Discard;
//! b[1] -> Print(detour) -> [1]b;
//! ```
//!
//! Packets of input 0 leave by output 0. While Bypass is active, they leave by output 1, for the detour, and may come
//! back by input 1, which always leads to output 0. In pull mode, output 0 pulls from input 0, and while Bypass is
//! active from input 1; output 1 always pulls from input 0. Pushed packets keep their path while output 1 is not
//! connected.
//!
//! Arguments:
//!
//! - `ACTIVE`: true if packets take the detour. Default false.
//!
//! Keyword arguments:
//!
//! - `INLINE`: accepted for compatibility with Click.

use crate::prelude::*;
use engine::notify::PullWires;

const DETOUR: usize = 1;

pub(super) struct Bypass {
    active: bool,
}

impl Element for Bypass {
    const CONTRACT: Contract = Contract::new("Bypass", manual!())
        .ports(Ports::coded(&["in", "back?"], &["out", "detour?"], "a/a"))
        .extensions(&[&PullWires(&[(DETOUR, 0)])]);

    type Config = bool;

    fn configure(args: &mut Args) -> bool {
        args.key("INLINE", false, "accepted, and without effect");
        args.optional("ACTIVE", false, "true if packets make the detour")
    }

    fn new(active: &Arc<bool>, _: &Init) -> Bypass {
        Bypass { active: **active }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        if self.active && input == 0 && cx.connected(DETOUR) {
            cx.emit_batch(DETOUR, batch);
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        cx.pull(if self.active { DETOUR } else { 0 }, max, into);
    }

    const HANDLERS: &'static [Handler<Bypass>] = &[
        Handler::show("active", "see ACTIVE", |e| &e.active),
        Handler::assign("active", "see ACTIVE", |e| &mut e.active),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn pushed_packets_make_the_detour_while_it_is_active() {
        let text = "Idle -> b :: Bypass -> out :: Collect; b[1] -> c :: Counter -> [1]b";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("b", &[b"1"]);
        bench.write("b.active", "true");
        bench.push("b", &[b"2", b"3"]);
        bench.write("b.active", "false");
        bench.push("b", &[b"4"]);
        assert_eq!(bench.take("out"), [b"1", b"2", b"3", b"4"]);
        assert_eq!(bench.read("c.count"), "2");
    }

    #[test]
    fn pulled_packets_too() {
        let text =
            "q :: Queue -> b :: Bypass -> Unqueue -> out :: Collect; b[1] -> c :: Counter -> [1]b";
        let mut bench = Bench::new(crate::CLASSES, text);
        let through = |bench: &mut Bench, packet| {
            bench.push("q", &[packet]);
            bench.run();
        };
        through(&mut bench, b"1");
        bench.write("b.active", "true");
        through(&mut bench, b"2");
        through(&mut bench, b"3");
        bench.write("b.active", "false");
        through(&mut bench, b"4");
        assert_eq!(bench.take("out"), [b"1", b"2", b"3", b"4"]);
        assert_eq!(bench.read("c.count"), "2");
    }

    #[test]
    fn without_a_detour_pushed_packets_stay_on_their_way() {
        let mut bench = Bench::new(crate::CLASSES, "b :: Bypass(true) -> out :: Collect");
        bench.push("b", &[b"1"]);
        assert_eq!(bench.take("out"), [b"1"]);
    }
}
