//! Handler calls between elements: names, calls that come back, requests to stop.

use engine::driver::{self, Driver};
use engine::dynamic::{self, DynamicHandlers};
use engine::element::Class;
use engine::prelude::*;
use std::cell::Cell;
use std::rc::Rc;
use testkit::Bench;

/// Calls a write handler for each packet, before the packet moves on, and counts the answers.
struct Caller {
    call: HandlerCall,
    heard: Rc<Cell<u64>>,
}

impl Element for Caller {
    const CONTRACT: Contract = Contract::new("Caller", "")
        .ports(Ports::new(&["in"], &["out"]))
        .extensions(&[&dynamic::of::<Self>()]);

    type Config = HandlerCall;

    fn configure(args: &mut Args) -> HandlerCall {
        args.required("CALL", "what is called")
    }

    fn new(call: &Arc<HandlerCall>, _: &Init) -> Caller {
        Caller {
            call: HandlerCall::clone(call),
            heard: Rc::default(),
        }
    }

    fn step(&mut self, _: &mut Packet, cx: &mut Cx) -> Verdict {
        cx.defer_write(&self.call);
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<Caller>] = &[
        Handler::sum("heard", "calls that came", |e| e.heard.get()),
        Handler::set("heard", "one more", |e, _, _| {
            e.heard.set(e.heard.get() + 1);
            Ok(())
        }),
        Handler::run("call", "makes the call", |e, _| {
            let call = e.call.clone();
            Box::new(move |outside| call.write(outside).map_err(|e| e.to_string()))
        }),
    ];
}

impl DynamicHandlers for Caller {
    fn has_handler(_: &HandlerCall, name: &str, wanted: Use) -> bool {
        name == "more" && wanted == Use::Read
    }

    fn handler_job(&self, _: &str, value: &str, _: Use) -> Job {
        let value = value.to_owned();
        Box::new(move |outside| Ok(format!("{}:{value}", outside.name())))
    }
}

/// Ends the router only at the third request.
struct Patient(u32);

impl Element for Patient {
    const CONTRACT: Contract = Contract::new("Patient", "").extensions(&[&driver::of::<Self>()]);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> Patient {
        Patient(0)
    }
}

impl Driver for Patient {
    fn drives(_: &()) -> bool {
        true
    }

    fn stop_asked(&mut self, cx: &mut Cx) {
        self.0 += 1;
        if self.0 == 3 {
            cx.end();
        }
    }
}

static CLASSES: &[Class] = &[Class::of::<Caller>(), Class::of::<Patient>()];

fn lists() -> Vec<&'static [Class]> {
    classes::all().iter().copied().chain([CLASSES]).collect()
}

fn bench(text: &str) -> Bench {
    Bench::new(&lists(), text)
}

#[test]
fn a_call_runs_when_the_element_has_returned_and_may_come_back_to_it() {
    let mut bench = bench("a :: Caller(a.heard) -> c :: Counter -> Discard");
    bench.push("a", &[b"x", b"y"]);
    assert_eq!(
        (bench.read("a.heard"), bench.read("c.count")),
        ("2".into(), "2".into())
    );
}

#[test]
fn a_call_runs_before_its_packet_moves_on_one_at_a_time() {
    let text = "a :: Caller(c.reset) -> c :: Counter -> Discard";
    let mut bench = Bench::strict(&lists(), text);
    bench.push("a", &[b"x", b"y", b"z"]);
    assert_eq!(bench.read("c.count"), "1");
}

#[test]
fn names_are_looked_up_from_inside_out() {
    let text = "c :: Counter; Idle -> c -> Discard;
        x :: { input -> in :: { input -> a :: Caller(c.reset) -> output } -> c :: Counter -> output };
        y :: Idle -> x -> Discard; Idle -> o :: Caller(c.reset) -> Discard";
    let mut bench = bench(text);
    bench.push("x/in/a", &[b"x"]);
    bench.push("x/c", &[b"x"]);
    bench.push("c", &[b"x"]);
    bench.write("x/in/a.call", "");
    assert_eq!(
        (bench.read("x/c.count"), bench.read("c.count")),
        ("0".into(), "1".into())
    );
    bench.write("o.call", "");
    assert_eq!(bench.read("c.count"), "0");
}

#[test]
fn a_call_without_end_is_refused() {
    let mut bench =
        bench("Idle -> a :: Caller(b.call) -> Discard; Idle -> b :: Caller(a.call) -> Discard");
    let wrong = bench.try_write("a.call", "").expect_err("it never ends");
    assert!(wrong.contains("without end"), "{wrong}");
}

#[test]
fn handlers_that_only_the_configuration_names_are_found() {
    let mut bench = bench("Idle -> a :: Caller(a.heard) -> Discard");
    assert_eq!(bench.try_read("a.more", "5"), Ok("a:5".into()));
    assert!(bench.try_write("a.more", "5").is_err());
    assert!(bench.try_read("a.less", "").is_err());
}

#[test]
fn every_element_has_the_standard_handlers() {
    let mut bench = bench("s :: InfiniteSource(LIMIT 0) -> q :: Queue -> d :: Discard");
    assert_eq!(bench.read("q.class"), "Queue");
    assert_eq!(bench.read("s.config"), "LIMIT 0");
    assert_eq!(
        bench.read("q.ports"),
        "1 input\npush\t-\ts [0]\n1 output\npull\t0\t[0] d\n"
    );
    bench.write("d.tickets", "512");
    assert_eq!(
        (bench.read("d.tickets"), bench.read("d.home_thread")),
        ("512".into(), "0".into())
    );
    assert!(bench.read("d.handlers").contains("tickets\trw\n"));
    assert!(
        bench.try_read("q.tickets", "").is_err(),
        "a queue has no task"
    );
}

#[test]
fn an_element_may_decide_when_the_router_ends() {
    let mut bench = bench("p :: Patient; Idle -> c :: Counter -> Discard");
    for ends in [false, false, true] {
        assert_eq!(bench.try_write("stop", ""), Ok(String::new()));
        assert_eq!(bench.graph().stopped(), ends);
    }
}

#[test]
fn calls_reach_copies_on_other_workers_in_both_directions() {
    // Each source runs on its own worker; each caller reads and writes elements of the other worker.
    let text = "a :: InfiniteSource(LIMIT 1000) -> ca :: Caller(cb.heard) -> Discard;
        b :: InfiniteSource(LIMIT 1000) -> cb :: Caller(ca.heard) -> Discard;
        StaticThreadSched(a 0, b 1)";
    let plan = testkit::plan(&lists(), text, 2, &engine::port::NoPorts, None);
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let make = || {
        let waiter: Box<dyn engine::waiter::Waiter> = Box::new(engine::waiter::PlainWaiter);
        let wake: engine::wake::WakeFn = Box::new(|| ());
        Ok((waiter, wake))
    };
    let ports = Arc::new(engine::port::NoPorts);
    let router = router::Router::start(&plan, ports, &make, 1).expect("it starts");
    let heard = |path| router.read(path, "").expect("a number").parse::<u64>();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while (heard("ca.heard"), heard("cb.heard")) != (Ok(1000), Ok(1000)) {
        assert!(std::time::Instant::now() < until, "calls were lost");
        std::thread::yield_now();
    }
}
