//! Scripts with a fake host.

use super::host::{Host, Sink, Use};
use super::machine::{Call, Ended, Machine};
use super::program::Program;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A fake host that records its calls.
#[derive(Default)]
struct World {
    out: String,
    said: String,
    files: HashMap<String, String>,
    handlers: HashMap<String, String>,
    written: Vec<String>,
    scripts: Vec<(&'static str, Rc<Machine>)>,
    alarm: Option<Duration>,
    killed: Vec<(i32, i32)>,
    stops: usize,
    ends: Vec<bool>,
}

impl World {
    fn script(&self, path: &str) -> Option<(Rc<Machine>, String)> {
        let (element, handler) = path.split_once('.')?;
        let found = self.scripts.iter().find(|s| s.0 == element)?;
        Some((Rc::clone(&found.1), handler.to_owned()))
    }
}

impl Host for World {
    fn read(&mut self, handler: &str, argument: &str) -> Result<String, String> {
        if let Some((script, name)) = self.script(handler) {
            let value = script.own_read(&name, argument, self);
            return value.unwrap_or_else(|| Err("none".to_owned()));
        }
        let value = self.handlers.get(handler).cloned();
        value.ok_or_else(|| format!("no '{handler}' handler"))
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        if let Some((script, name)) = self.script(handler) {
            let done = script.own_write(&name, value, self);
            return done.unwrap_or_else(|| Err("none".to_owned()));
        }
        if handler == "stop" {
            self.stop();
            return Ok(());
        }
        let old = self.handlers.get_mut(handler);
        let old = old.ok_or_else(|| format!("no '{handler}' handler"))?;
        value.clone_into(old);
        self.written.push(format!("{handler} {value}"));
        Ok(())
    }

    fn has_handler(&mut self, handler: &str, how: Use) -> bool {
        self.handlers.contains_key(handler) && (how == Use::Read || handler != "only.read")
    }

    fn now(&mut self) -> Duration {
        Duration::from_millis(1500)
    }

    fn random(&mut self) -> u32 {
        7
    }

    fn print(&mut self, to: &Sink, text: &str) -> Result<(), String> {
        match to {
            Sink::Out => self.out.push_str(text),
            Sink::File(name) => {
                self.files.insert(name.clone(), text.to_owned());
            }
            Sink::Append(name) => self.files.entry(name.clone()).or_default().push_str(text),
        }
        Ok(())
    }

    fn chatter(&mut self, text: &str) {
        self.said.push_str(text);
        self.said.push('\n');
    }

    fn load(&mut self, file: &str) -> Result<String, String> {
        let text = self.files.get(file).cloned();
        text.ok_or_else(|| format!("{file}: No such file or directory"))
    }

    fn kill(&mut self, signal: i32, process: i32) -> Result<(), String> {
        self.killed.push((signal, process));
        Ok(())
    }

    fn process(&mut self) -> u32 {
        4711
    }

    fn alarm(&mut self, after: Option<Duration>) {
        self.alarm = after;
    }

    fn stop(&mut self) {
        self.stops += 1;
    }

    fn ended(&mut self, again: bool) {
        self.ends.push(again);
    }
}

fn machine(instructions: &[&str]) -> Machine {
    let (program, wrong) = Program::parse(instructions);
    assert_eq!(wrong, []);
    Machine::new("s :: Script".to_owned(), Arc::new(program))
}

fn world() -> World {
    let mut world = World::default();
    for (name, value) in [("c.count", "0"), ("t.table", "a\nb\n"), ("only.read", "")] {
        world.handlers.insert(name.to_owned(), value.to_owned());
    }
    world
}

/// Runs a script until it stops; returns its output.
fn printed(instructions: &[&str]) -> String {
    let (mut world, script) = (world(), machine(instructions));
    script.init(&mut world);
    script.run(Call::default(), &mut world).expect("no error");
    assert_eq!(world.said, "");
    world.out
}

#[test]
fn set_and_print_treat_quotes_as_the_manual_says() {
    let text = printed(&[
        "set x $(c.count)",
        "print $x",
        "set x \"$(c.count)\"",
        "print $x",
        "setq x \"$(c.count)\"",
        "print $x",
        "print c.count",
        "print \"c.count\"",
        "print '\"c.count\"'",
        "set x c.count",
        "print $x",
        "print $($x)",
    ]);
    assert_eq!(text, "0\n\"0\"\n0\n0\nc.count\n\"c.count\"\nc.count\n0\n");
}

#[test]
fn print_ends_a_line_once() {
    let text = printed(&[
        "print t.table",
        "printn 'a'",
        "print 'b'",
        "print",
        "print \"c\\n\"",
    ]);
    assert_eq!(text, "a\nb\nab\n\nc\n");
}

#[test]
fn the_loops_of_the_manual_count_to_four() {
    let text = printed(&[
        "set x 0",
        "label begin_loop",
        "print $x",
        "set x $(add $x 1)",
        "goto begin_loop $(lt $x 5)",
        "stop",
    ]);
    assert_eq!(text, "0\n1\n2\n3\n4\n");
}

#[test]
fn files_are_written_and_appended_to() {
    let mut world = world();
    let script = machine(&[
        "print >A 'one'",
        "print >>A 'two'",
        "set n 2",
        "printn > A$n c.count",
        "save t.table B",
        "append t.table B",
        "print >- 'out'",
        "print $(cat A)",
        "print $(length $(catq B))",
        "save c.count -",
    ]);
    script.run(Call::default(), &mut world).expect("no error");
    assert_eq!(world.files["A"], "one\ntwo\n");
    assert_eq!(world.files["A2"], "0");
    assert_eq!(world.files["B"], "a\nb\na\nb\n");
    assert_eq!(world.out, "out\none\ntwo\n14\n0\n");
}

#[test]
fn read_names_the_handler_and_write_leaves_its_status() {
    let mut world = world();
    let script = machine(&[
        "read c.count",
        "write c.count $(add 2 3)",
        "print $?",
        "writeq c.count \"a b\"",
        "write c.count \"a b\"",
        "write nothing.there 1",
        "print $?",
        "readq c.count 'x'",
    ]);
    script.run(Call::default(), &mut world).expect("no error");
    assert_eq!(world.out, "0\n-22\n");
    assert_eq!(
        world.written,
        ["c.count 5", "c.count a b", "c.count \"a b\""]
    );
    assert_eq!(
        world.said,
        "c.count:\n0\nWhile executing 's :: Script':\n  no 'nothing.there' handler\nc.count:\n\"a b\"\n"
    );
}

#[test]
fn init_happens_once_and_export_gives_a_handler() {
    let mut world = world();
    let script = machine(&[
        "set x $(add $x 1)",
        "return $x",
        "init x 5",
        "exportq y 'z z'",
    ]);
    script.init(&mut world);
    assert_eq!(script.own_read("run", "", &mut world), Some(Ok("6".into())));
    assert_eq!(script.own_read("run", "", &mut world), Some(Ok("7".into())));
    assert_eq!(script.own_read("y", "", &mut world), Some(Ok("z z".into())));
    assert_eq!(script.own_read("x", "", &mut world), None);
}

#[test]
fn a_pause_takes_its_count_of_steps() {
    let mut world = world();
    let script = machine(&[
        "pause 2", "print 1", "wait 1s", "print 2", "pause", "print 3",
    ]);
    assert_eq!(script.run(Call::default(), &mut world), Ok(Ended::No));
    assert_eq!(script.step(1, &mut world), Ok(Ended::No));
    assert_eq!((world.out.as_str(), world.alarm), ("", None));
    assert_eq!(script.step(1, &mut world), Ok(Ended::No));
    assert_eq!(world.out, "1\n");
    assert_eq!(world.alarm, Some(Duration::from_secs(1)));
    // A step ends the wait as well, and a number of steps ends as many.
    assert_eq!(script.own_write("step", "2", &mut world), Some(Ok(())));
    assert_eq!((world.out.as_str(), world.alarm), ("1\n2\n3\n", None));
    assert!(!script.is_waiting());
    assert_eq!(
        script
            .own_write("step", "x", &mut world)
            .map(|r| r.is_err()),
        Some(true)
    );
}

#[test]
fn a_step_begins_a_script_that_has_not_run_and_no_other() {
    for (steps, out) in [(0, "1\n"), (1, "1\n2\n"), (2, "1\n2\n3\n")] {
        let mut world = world();
        let script = machine(&["print 1", "pause", "print 2", "wait 1s", "print 3"]);
        assert!(script.step(steps, &mut world).is_ok());
        assert_eq!(world.out, out);
        assert!(script.step(9, &mut world).is_ok());
        assert_eq!(world.out, "1\n2\n3\n");
        assert_eq!(script.step(1, &mut world), Ok(Ended::No));
        assert_eq!(world.out, "1\n2\n3\n", "it has ended");
    }
}

#[test]
fn an_alarm_ends_a_wait_and_nothing_else() {
    let mut world = world();
    let script = machine(&["set t 20ms", "wait $t", "print 1", "pause", "print 2"]);
    assert_eq!(script.run(Call::default(), &mut world), Ok(Ended::No));
    assert_eq!(world.alarm, Some(Duration::from_millis(20)));
    assert_eq!(script.alarm(&mut world), Ok(Ended::No));
    assert_eq!(script.alarm(&mut world), Ok(Ended::No));
    assert_eq!(world.out, "1\n");
    assert_eq!(script.step(1, &mut world), Ok(Ended::End));
    assert_eq!(world.out, "1\n2\n");
}

#[test]
fn goto_leads_to_labels_and_to_the_words_with_a_meaning() {
    let ended = |instructions: &[&str]| machine(instructions).run(Call::default(), &mut world());
    assert_eq!(ended(&["goto end"]), Ok(Ended::End));
    assert_eq!(ended(&["goto exit true"]), Ok(Ended::Exit));
    assert_eq!(ended(&["goto stop 1"]), Ok(Ended::Stop));
    assert_eq!(ended(&["goto error"]), Err(String::new()));
    assert_eq!(
        ended(&["goto exit false", "return 1"]),
        Ok(Ended::Return("1".into()))
    );
    assert_eq!(
        ended(&["set l x", "goto $l", "exit", "label x"]),
        Ok(Ended::End)
    );
    assert_eq!(
        ended(&["set l y", "goto $l"]),
        Err("no such label '$l'".into())
    );
    assert_eq!(ended(&["goto loop $(eq $n 1)", "end"]), Ok(Ended::End));
    assert_eq!(ended(&["error \"a b\""]), Err("\"a b\"".into()));
    assert_eq!(ended(&["errorq \"a b\""]), Err("a b".into()));
    assert_eq!(ended(&["exit"]), Ok(Ended::Exit));
    assert_eq!(ended(&["end"]), Ok(Ended::End));
    assert_eq!(ended(&["returnq 'a b'"]), Ok(Ended::Return("a b".into())));
}

#[test]
fn errors_are_quoted_with_plain_quotes() {
    let mut world = world();
    machine(&["end"]).complain("`x` is no number\nnor `y`", &mut world);
    assert_eq!(
        world.said,
        "While executing 's :: Script':\n  'x' is no number\n  nor 'y'\n"
    );
}

#[test]
fn a_condition_that_is_none_is_said_and_does_not_hold() {
    let mut world = world();
    let script = machine(&["goto exit maybe"]);
    assert_eq!(script.run(Call::default(), &mut world), Ok(Ended::End));
    assert_eq!(
        world.said,
        "While executing 's :: Script':\n  bad condition 'maybe'\n"
    );
}

#[test]
fn a_script_that_only_jumps_is_given_up() {
    let mut world = world();
    for script in [machine(&["label a", "goto a"]), machine(&["loop"])] {
        world.said.clear();
        assert_eq!(script.run(Call::default(), &mut world), Err(String::new()));
        assert_eq!(world.said, "s :: Script: too many jumps, giving up\n");
        assert!(!script.is_waiting());
    }
}

#[test]
fn stop_asks_the_driver() {
    let mut world = world();
    let script = machine(&["stop", "print 'never'"]);
    assert_eq!(script.own_write("run", "", &mut world), Some(Ok(())));
    assert_eq!((world.stops, world.out.as_str()), (1, ""));
}

#[test]
fn a_script_that_ends_by_an_error_keeps_no_arguments() {
    for (last, kept) in [
        ("print 'x'", "5 6"),
        ("exit", "5 6"),
        ("error no", ""),
        ("stop", ""),
    ] {
        let mut world = world();
        let script = machine(&[last]);
        let _ = script.run_handler("run", "5 6", true, &mut world);
        assert_eq!(script.get("args").as_deref(), Some(kept), "{last}");
    }
}

#[test]
fn a_call_brings_its_name_and_arguments() {
    let mut world = world();
    let script = machine(&["returnq \"$0|$#|$1|$2|$9|$args|$write|$(shift)|$args|$input\""]);
    let value = script.run_handler("any", "a 'b c'  d", true, &mut world);
    assert_eq!(
        value.as_deref(),
        Ok("any|3|a|b c||a 'b c'  d|true|a|'b c'  d|$input")
    );
    let call = Call {
        input: Some(3),
        ..Call::default()
    };
    let ended = machine(&["return $input$#"]).run(call, &mut world);
    assert_eq!(ended, Ok(Ended::Return("30".into())));
}

#[test]
fn variables_are_shifted_and_read_as_the_tests_of_click_do() {
    let text = printed(&[
        "write set foovar foo bar baz",
        "print $(shift foovar)",
        "print $(shift foovar)",
        "print $(get foovar)",
        "print $(if $(eq $(htonl $(ntohl 6)) 6) yes no)",
        "print $(random 1) $(now) $$",
        "print $(readable c.count add) $(readable c.count x.y) $(writable only.read) $(writable step)",
    ]);
    assert_eq!(
        text,
        "foo\nbar\nbaz\nyes\n0 1.500000 4711\ntrue false false true\n"
    );
}

#[test]
fn a_variable_that_is_set_hides_an_argument() {
    let (mut world, script) = (
        world(),
        machine(&["print [$1 $#]", "set 1 5", "print [$1 $#]"]),
    );
    script.init(&mut world);
    let call = Call {
        args: "a b".to_owned(),
        ..Call::default()
    };
    script.run(call, &mut world).expect("no error");
    assert_eq!(world.out, "[ 2]\n[5 2]\n", "as in Click");
}

#[test]
fn get_reads_variables_only() {
    let call = Call {
        args: "a b".to_owned(),
        ..Call::default()
    };
    for (name, said) in [
        ("1", "undefined variable '1'"),
        ("#", "undefined variable '#'"),
        ("", "no variable"),
        ("x y", "too many arguments"),
    ] {
        let (mut world, script) = (world(), machine(&[&format!("print $(get {name})")]));
        script.run(call.clone(), &mut world).expect("no error");
        assert!(world.said.contains(said), "{name}: {}", world.said);
    }
    let (mut world, script) = (
        world(),
        machine(&["print $(get args)", "print $(length a )"]),
    );
    script.run(call, &mut world).expect("no error");
    assert_eq!(
        world.out, "a b\n2\n",
        "white space at an argument's end stays, as in Click"
    );
}

#[test]
fn a_handler_that_fails_is_said_and_one_that_is_not_there_stays_as_written() {
    let mut world = world();
    let script = machine(&[
        "print <$(no.such)>",
        "set y $(kill USR1 $$)",
        "print $(kill 0)",
    ]);
    script.run(Call::default(), &mut world).expect("no error");
    // A text with a mistake gets no line end, as in Click.
    assert_eq!(world.out, "<$(no.such)>");
    assert_eq!(world.killed, [(10, 4711)]);
    assert_eq!(
        world.said,
        "While executing 's :: Script':\n  no 'no.such' handler\n\
         While executing 's :: Script':\n  expected signal and processes\n"
    );
}

/// A fake host in which a script is the element `s`.
fn world_with(instructions: &[&str]) -> (World, Rc<Machine>) {
    let (mut world, script) = (world(), Rc::new(machine(instructions)));
    world.scripts.push(("s", Rc::clone(&script)));
    (world, script)
}

#[test]
fn a_script_may_run_itself() {
    let (mut world, script) = world_with(&[
        "goto more $(gt $1 1)",
        "return 1",
        "label more",
        "return $(mul $1 $(s.run $(sub $1 1)))",
    ]);
    let value = script.run_handler("run", "5", false, &mut world);
    assert_eq!(value.as_deref(), Ok("120"));
}

#[test]
fn scripts_that_call_each_other_without_end_are_stopped() {
    let endless: [&[&str]; 4] = [
        &["return $(run)"],
        &["return $(s.run $(if true $(add 1 $(sub 2 1)) $(s.get args)))"],
        &["label a", "write goto a"],
        &["write s.run"],
    ];
    for instructions in endless {
        let (mut world, script) = world_with(instructions);
        let _ = script.run(Call::default(), &mut world);
        assert!(
            world.said.contains("scripts call each other"),
            "{}",
            world.said
        );
        // After the error the script can be used again.
        assert_eq!(
            script.own_read("add", "1 2", &mut world),
            Some(Ok("3".into()))
        );
    }
}

#[test]
fn a_script_that_runs_itself_more_than_once_comes_to_an_end() {
    let (mut world, script) = world_with(&["set x $(run)", "set y $(run)", "set z $(s.run)"]);
    let _ = script.run(Call::default(), &mut world);
    assert!(world.said.contains("scripts call each other"));
}

#[test]
fn a_script_inside_itself_cannot_wait() {
    let (mut world, script) = world_with(&[
        "goto in $(eq $1 in)",
        "set x $(s.run in)",
        "print 'out'",
        "end",
        "label in",
        "wait 1s",
    ]);
    assert_eq!(script.run(Call::default(), &mut world), Ok(Ended::End));
    assert_eq!((world.out.as_str(), world.alarm), ("out\n", None));
    assert!(
        world.said.contains("cannot wait inside itself"),
        "{}",
        world.said
    );
}

#[test]
fn the_goto_handler_moves_a_script_that_waits() {
    let mut world = world();
    let script = machine(&[
        "wait 1s", "print 1", "pause", "label b", "print 2", "pause", "stop",
    ]);
    assert_eq!(script.run(Call::default(), &mut world), Ok(Ended::No));
    assert_eq!(script.own_write("goto", "b", &mut world), Some(Ok(())));
    assert_eq!((world.out.as_str(), world.alarm), ("2\n", None));
    assert_eq!(script.own_write("goto", "stop", &mut world), Some(Ok(())));
    assert_eq!(world.stops, 1);
    assert!(!script.is_waiting());
    assert_eq!(
        script.own_write("goto", "c", &mut world),
        Some(Err("no such label 'c'".into()))
    );
}

#[test]
fn texts_do_not_grow_without_end() {
    let mut world = world();
    let script = machine(&["set x 0123456789", "label a", "set x $x$x", "goto a"]);
    let ended = script.run(Call::default(), &mut world);
    assert!(ended.is_err_and(|e| e.contains("longer than")));
    assert!(
        script
            .get("x")
            .is_some_and(|x| x.len() <= super::expand::TEXT_MAX)
    );
}

#[test]
fn the_end_of_a_script_says_whether_a_signal_may_start_it_again() {
    for (instructions, ends) in [
        (&["print 1"][..], &[true][..]),
        (&["return 1"], &[true]),
        (&["stop"], &[true]),
        (&["exit"], &[false]),
        (&["error no"], &[false]),
        (&["pause"], &[]),
        (&["goto end $(eq $1 in)", "set x $(run in)"], &[true]),
    ] {
        let mut world = world();
        let _ = machine(instructions).run_handler("run", "", true, &mut world);
        assert_eq!(world.ends, ends, "{instructions:?}");
    }
}
