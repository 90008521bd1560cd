//! Scripts in routers.

use std::time::Duration;
use testkit::Bench;

/// Runs a router on both walkers for a time; returns the output, which must be the same.
fn printed(text: &str, time: Duration) -> String {
    let run = |mut bench: Bench| {
        bench.run();
        bench.advance(time);
        assert_eq!(bench.messages(), "", "{text}");
        (bench.printed(), bench.graph().stopped())
    };
    let strict = run(Bench::strict(crate::with_basics(), text));
    assert_eq!(
        strict,
        run(Bench::new(crate::with_basics(), text)),
        "{text}"
    );
    assert!(strict.1, "it ends: {text}");
    strict.0
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn names_are_looked_up_where_the_script_stands() {
    let text = "define($j sub)
        Script(print $(add 1 2),
            set i add,
            print $($i 3 4),
            print $($(s.run).name),
            print $($j 8 5),
            print $($j.run),
            stop)
        s :: Script(TYPE PASSIVE, return i2)
        sub :: Script(TYPE PASSIVE, return Hello)
        i1, i2 :: Idle; i1, i2 -> Discard";
    assert_eq!(printed(text, SECOND), "3\n7\ni2\n3\nHello\n");
    let text = "elementclass E { c :: Idle -> Discard;
            Script(print c.name, print d.name, stop) }
        e :: E; d :: Idle -> Discard";
    assert_eq!(printed(text, SECOND), "e/c\nd\n");
}

#[test]
fn functions_have_the_results_of_click() {
    let text = "Script(print $(add 1 2 3), print $(sub 10 2 2), print $(div 75 2.5 5),
        print $(idiv 60 2 5), print $(htonl $(ntohl 6)), write set foovar foo bar baz,
        print $(shift foovar), print $(shift foovar), print $(get foovar), stop)";
    assert_eq!(printed(text, SECOND), "6\n6\n6\n6\n6\nfoo\nbar\nbaz\n");
}

#[test]
fn time_passes_while_a_script_waits() {
    let text = "Script(set a $(now), wait 0.5s, print $(sub $(now) $a), wait 0, wait 1ns, stop)";
    assert_eq!(printed(text, SECOND), "0.5\n");
}

#[test]
fn a_driver_manager_counts_requests_to_stop() {
    let text = "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;
        InfiniteSource(LIMIT 4, STOP true) -> c;
        Script(wait 0.2s, stop);
        DriverManager(wait_stop 2, print c.count, wait 0.1s, print more, pause, print last)";
    let text = text
        .replace("print more", "print 'more'")
        .replace("print last", "print 'last'");
    assert_eq!(printed(&text, SECOND), "7\nmore\nlast\n");
}

#[test]
fn a_request_to_stop_ends_a_driver_managers_wait() {
    let text = "InfiniteSource(LIMIT 3, STOP true) -> Discard;
        DriverManager(wait 1000s, print 'over')";
    assert_eq!(printed(text, SECOND), "over\n");
}

#[test]
fn without_a_manager_a_script_stops_the_router() {
    assert_eq!(printed("Script(stop, print 'never')", SECOND), "");
    assert_eq!(
        printed("Script(wait 0.1s, write stop); Script(pause)", SECOND),
        ""
    );
}

#[test]
fn scripts_that_loop_are_given_up_and_the_others_go_on() {
    let mut bench = Bench::strict(
        crate::with_basics(),
        "s0 :: Script(label a, goto a); s1 :: Script(wait 1, stop)",
    );
    bench.advance(2 * SECOND);
    assert_eq!(
        bench.messages(),
        "s0 :: Script: too many jumps, giving up\n"
    );
    assert!(bench.graph().stopped());
}

#[test]
fn a_passive_script_is_a_handler() {
    let text = "s :: Script(TYPE PASSIVE, init n 0, set n $(add $n 1), returnq \"$n:$1:$#\")";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    assert_eq!(bench.try_read("s.run", "a b"), Ok("1:a:2".into()));
    bench.write("s.run", "");
    assert_eq!(bench.read("s.run"), "3::0");
    assert_eq!(bench.try_read("s.sprintf", "%03d 7"), Ok("007".into()));
    bench.write("s.set", "n 10");
    assert_eq!(bench.try_read("s.get", "n"), Ok("10".into()));
}

#[test]
fn a_proxy_answers_to_any_name_and_exports_to_theirs() {
    let text = "s :: Script(TYPE PROXY,
            goto nota $(ne $0 a),
            returnq \"you called 'a' $args $write\",
            label nota,
            error bad handler);
        e :: Script(export x 1, exportq y \"a b\", write set x 2)";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    assert_eq!(
        bench.try_read("s.a", "1 2"),
        Ok("you called 'a' 1 2 false".into())
    );
    assert_eq!(bench.try_read("s.b", ""), Err("bad handler".into()));
    assert!(bench.try_write("s.b", "").is_err());
    assert_eq!(bench.read("e.x"), "2");
    assert_eq!(bench.read("e.y"), "a b");
    assert!(bench.try_read("e.z", "").is_err());
    assert!(bench.try_write("e.x", "3").is_err());
}

#[test]
fn packets_leave_where_the_script_says() {
    let text = "p :: Script(TYPE PACKET, set n $(add $n 1), goto exit $(eq $n 3),
            goto end $(eq $n 4), return $(if $(eq $input 0) 1 7), init n 0);
        i :: Null -> p; p[0] -> zero :: Collect; p[1] -> one :: Collect";
    for mut bench in [
        Bench::strict(crate::with_basics(), text),
        Bench::new(crate::with_basics(), text),
    ] {
        bench.run();
        bench.push("i", &[b"1", b"2", b"3", b"4"]);
        assert_eq!(bench.all_drops(), [("p".into(), "dropped".into(), 1)]);
        assert_eq!(bench.take("one"), [b"1", b"2"]);
        assert_eq!(bench.take("zero"), [b"4"]);
        assert_eq!(bench.drops("p", "dropped"), 1);
    }
}

#[test]
fn packets_may_be_pulled_through_a_script() {
    let text = "InfiniteSource(DATA x, LIMIT 4) -> q :: Queue
        -> p :: Script(set n $(add $n 1), goto exit $(eq $n 2), init n 0) -> out :: Collect";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    assert_eq!(bench.take("out").len(), 3);
    assert_eq!(bench.drops("p", "dropped"), 1);
    assert_eq!(bench.try_read("p.get", "n"), Ok("4".into()));
}

#[test]
fn scripts_call_each_other_and_themselves() {
    let text = "a :: Script(TYPE PASSIVE, return $(b.run $1));
        b :: Script(TYPE PASSIVE, goto more $(gt $1 0), return done, label more,
            return $(a.run $(sub $1 1)));
        endless :: Script(TYPE PASSIVE, return $(endless.run))";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    assert_eq!(bench.try_read("a.run", "5"), Ok("done".into()));
    assert_eq!(bench.messages(), "");
    let _ = bench.try_read("endless.run", "");
    assert!(bench.messages().contains("scripts call each other"));
    assert_eq!(bench.try_read("a.run", "5"), Ok("done".into()));
}

#[test]
fn signals_start_scripts_that_have_not_exited() {
    let text = "s :: Script(TYPE SIGNAL USR1 12, print 'got', goto exit $(eq $n 2), set n 2,
        init n 1)";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    assert_eq!(bench.graph().signals(), [10, 12]);
    assert!(!bench.graph().signal(1));
    assert!(bench.graph().signal(12));
    assert!(bench.graph().signal(10));
    assert_eq!(bench.graph().signals(), []);
    assert_eq!(bench.printed(), "got\ngot\n");
}

#[test]
fn a_signal_waits_for_the_end_of_its_script() {
    let text = "s :: Script(TYPE SIGNAL HUP, wait 0.1s, print 'later')";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    assert!(bench.graph().signal(1));
    assert!(!bench.graph().signal(1));
    bench.advance(SECOND);
    assert_eq!(bench.printed(), "later\n");
    assert_eq!(bench.graph().signals(), [1]);
}

#[test]
fn errors_are_said_with_the_scripts_name() {
    let text = "s :: Script(read no.such, write no.such 1, error \"bad luck\", print 'never')";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    let said = bench.messages();
    assert_eq!(
        said.matches("While executing 's :: Script':\n  ").count(),
        1,
        "{said}"
    );
    assert_eq!(said.matches("no element named 'no'").count(), 2, "{said}");
    assert!(said.ends_with("\n  \"bad luck\"\n"), "{said}");
    assert_eq!(bench.printed(), "");
}

#[test]
fn wrong_scripts_are_refused_with_their_places() {
    let errors = testkit::errors(
        crate::with_basics(),
        "Script(foo bar, goto nowhere, TYPE WHATEVER, stop now)",
    );
    for part in [
        "syntax error at 'foo'",
        "no such label 'nowhere'",
        "WHATEVER",
        "'stop' takes",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
}

#[test]
fn an_unchanged_script_continues_after_a_reload_and_a_changed_one_restarts() {
    let text = "s :: Script(print 'began', wait 1s, print 'woke')";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    bench
        .reload(&format!("{text}; Idle -> Discard"))
        .expect("it is right");
    bench.advance(2 * SECOND);
    assert_eq!(bench.printed(), "began\nwoke\n");
    bench
        .reload("s :: Script(print 'other')")
        .expect("it is right");
    bench.run();
    assert_eq!(bench.printed(), "other\n");
}

#[test]
fn handlers_that_reach_the_machine_are_closed_to_outside_clients() {
    use engine::graph::call::{find, find_from_outside};
    use engine::handler::Use;
    let text = "s :: Script(TYPE PASSIVE); DriverManager(stop)";
    let plan = testkit::plan(crate::with_basics(), text, 1, &engine::port::NoPorts, None).unwrap();
    for path in ["s.cat", "s.catq", "s.kill", "DriverManager@2.cat"] {
        assert!(find(&plan, "", path, Use::Read).is_ok(), "{path}");
        assert!(find_from_outside(&plan, path, Use::Read).is_err(), "{path}");
    }
    for path in ["s.add", "s.run", "s.get"] {
        assert!(find_from_outside(&plan, path, Use::Read).is_ok(), "{path}");
    }
}
