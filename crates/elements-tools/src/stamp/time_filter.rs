//! Passes packets whose timestamps are in a time window.
//!
//! ```click
//! FromDump(trace.pcap) -> TimeFilter(START_AFTER 2s, INTERVAL 1min, STOP true) -> ToDump(cut.pcap);
//! ```
//!
//! The window includes its start but not its end. Other packets leave by output 1, or are dropped
//! (`out_of_range`).
//!
//! Arguments:
//!
//! - `START`, `END`: times in seconds since the epoch. Without one of them the window is open on that side.
//!
//! Keyword arguments:
//!
//! - `START_AFTER`, `END_AFTER`: the same, counted from the first packet's timestamp.
//! - `START_DELAY`, `END_DELAY`: the same, counted from the start of the router.
//! - `INTERVAL`: length of the window, instead of an end.
//! - `STOP`: true if the first packet after the window stops the router. Default false.
//! - `END_CALL`: a handler that this packet writes, instead of `STOP`; `$t` in the value is the packet's
//!   timestamp. If the call extends the window, the packet passes.

use crate::prelude::*;
use arguments::units;
use captures::time_window::{self, Moment, Span, Window, WindowPosition};
use elements::source::end_action::End;
use engine::graph::call::HandlerCall;
use std::cell::RefCell;
use std::rc::Rc;

pub(super) struct Config {
    window: Window,
    end: End,
}

/// The window, and true if its end was announced.
struct State {
    window: Window,
    told: bool,
}

pub(super) struct TimeFilter {
    config: Arc<Config>,
    /// State shared with the job that makes the call: the job reads it again afterwards.
    state: Rc<RefCell<State>>,
}

drops! {
    OUT_OF_RANGE = "out_of_range",
}
const OTHER: u8 = 1;

/// A call with the timestamp in its place.
fn at_time(call: &HandlerCall, stamp: i64) -> HandlerCall {
    HandlerCall {
        path: call.path.clone(),
        value: call.value.replace("$t", &time_window::show(stamp)),
    }
}

impl TimeFilter {
    /// Writes the handler, and then decides about the packet once more.
    fn call(&self, call: &HandlerCall, packet: Packet, stamp: i64, cx: &mut Cx) {
        let state = Rc::clone(&self.state);
        let call = at_time(call, stamp);
        let other = cx.connected(usize::from(OTHER));
        cx.defer(move |cx| {
            if let Err(wrong) = call.write(cx) {
                cx.say(&wrong.to_string());
            }
            let place = state.borrow_mut().window.position(stamp);
            match place {
                WindowPosition::Inside => cx.emit(0, packet),
                _ if other => cx.emit(usize::from(OTHER), packet),
                _ => cx.drop(packet, OUT_OF_RANGE),
            }
        });
    }

    /// True if a packet of this time passes; and, for the first packet after the window, the handler to write. Also
    /// asks the router to stop, if that is configured.
    fn check(&self, stamp: i64, cx: &mut Cx) -> (bool, Option<&HandlerCall>) {
        let mut state = self.state.borrow_mut();
        let place = state.window.position(stamp);
        let first_behind =
            place == WindowPosition::Behind && !std::mem::replace(&mut state.told, true);
        let end = &self.config.end;
        if first_behind && end.stop {
            cx.stop();
        }
        let call = end.call.as_ref().filter(|_| first_behind);
        (place == WindowPosition::Inside, call)
    }

    fn filter(&self, packet: Packet, cx: &mut Cx) {
        let stamp = super::get(&packet, false);
        match self.check(stamp, cx) {
            (true, _) => cx.emit(0, packet),
            (false, Some(call)) => self.call(call, packet, stamp, cx),
            (false, None) => cx.send(packet, Verdict::reject(OUT_OF_RANGE, OTHER)),
        }
    }

    /// Changes the window, whose end is then reported again.
    fn change(&mut self, change: impl FnOnce(&mut Window)) {
        let mut state = self.state.borrow_mut();
        change(&mut state.window);
        state.told = false;
    }
}

impl Element for TimeFilter {
    const CONTRACT: Contract = Contract::new("TimeFilter", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "a/ah"))
        .drops(DROPS)
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let window = Window::configure(args, true);
        let end = End::parse(args);
        Config { window, end }
    }

    fn new(config: &Arc<Config>, _: &Init) -> TimeFilter {
        let state = State {
            window: config.window,
            told: false,
        };
        TimeFilter {
            state: Rc::new(RefCell::new(state)),
            config: Arc::clone(config),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        let now = cx.timestamp() as i64;
        self.state.borrow_mut().window.fix_bounds(now);
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            self.filter(packet, cx);
        }
    }

    /// Pulls packets within the window. Packets that an END_CALL still lets pass leave with it only if packets are
    /// pushed; here it comes too late, and they are dropped.
    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let mut batch = cx.spare();
        cx.pull(0, max, &mut batch);
        for packet in batch.drain() {
            let stamp = super::get(&packet, false);
            let (passes, call) = self.check(stamp, cx);
            if passes {
                into.push(packet);
                continue;
            }
            if let Some(call) = call {
                cx.defer_write(&at_time(call, stamp));
            }
            cx.send(packet, Verdict::reject(OUT_OF_RANGE, OTHER));
        }
        cx.keep_spare(batch);
    }

    fn take(&mut self, old: TimeFilter) {
        if Arc::ptr_eq(&self.config, &old.config) {
            self.state = old.state;
        }
    }

    const HANDLERS: &'static [Handler<TimeFilter>] = &[
        Handler::text("start", "the window's start", |e, _| {
            Ok(time_window::show(e.state.borrow().window.start()))
        }),
        Handler::set("start", "see START", |e, value, _| {
            let start = units::parse::<Moment>(value)?;
            e.change(|window| window.set_start(start.0));
            Ok(())
        }),
        Handler::text("end", "the window's end", |e, _| {
            Ok(time_window::show(e.state.borrow().window.end()))
        }),
        Handler::set("end", "see END", |e, value, _| {
            let end = units::parse::<Moment>(value)?;
            e.change(|window| window.set_end(end.0));
            Ok(())
        }),
        Handler::text("interval", "the window's length", |e, _| {
            let window = e.state.borrow().window;
            Ok(time_window::show(window.end().wrapping_sub(window.start())))
        }),
        Handler::set("interval", "see INTERVAL", |e, value, _| {
            let length = units::parse::<Span>(value)?;
            e.change(|window| window.set_end(window.start().saturating_add(length.0)));
            Ok(())
        }),
        Handler::set(
            "extend_interval",
            "moves the end by a time",
            |e, value, _| {
                let by = units::parse::<Span>(value)?;
                if by.0 < 0 {
                    return Err("the time must not be negative".to_owned());
                }
                e.change(|window| window.extend(by.0));
                Ok(())
            },
        ),
    ];
}

#[cfg(test)]
mod tests {
    use crate::stamp::testing::{packets, through};
    use testkit::Bench;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn packets_in_the_window_pass() {
        let stamps: Vec<i64> = (1..=5).map(|n| n * SECOND).collect();
        let filter = |args: &str| {
            let passed = through(&format!("TimeFilter({args})"), "ts_sec", &stamps);
            passed.join("")
        };
        assert_eq!(filter(""), "12345");
        assert_eq!(filter("2, 4"), "23");
        assert_eq!(filter("START_AFTER 1, END_AFTER 3"), "23");
        assert_eq!(filter("START 2, INTERVAL 2"), "23");
        // A bench's clock starts at one second.
        assert_eq!(filter("START_DELAY 2, END_DELAY 4"), "34");
    }

    #[test]
    fn the_end_calls_a_handler_that_may_extend_the_window() {
        let mut bench = Bench::strict(
            crate::with_basics(),
            "t :: TimeFilter(0, 2, END_CALL t.extend_interval 1) -> out :: Collect; t[1] -> o :: Collect",
        );
        bench.push_packets(
            "t",
            0,
            packets(&[SECOND, 2 * SECOND, 5 * SECOND, 6 * SECOND]),
        );
        assert_eq!(bench.take("out"), [[0], [1]]);
        assert_eq!(bench.take("o"), [[2], [3]]);
        assert_eq!(bench.read("t.end"), "5.000000");
        bench.write("t.interval", "10");
        bench.push_packets("t", 0, packets(&[9 * SECOND]));
        assert_eq!(bench.take("out").len(), 1);
    }

    #[test]
    fn the_end_may_stop_the_router() {
        let mut bench = Bench::strict(
            crate::with_basics(),
            "t :: TimeFilter(END 2, STOP true) -> Discard",
        );
        bench.push_packets("t", 0, packets(&[SECOND, 2 * SECOND]));
        bench.run();
        assert!(bench.graph().stopped());
        assert_eq!(bench.drops("t", "out_of_range"), 1);
    }
}
