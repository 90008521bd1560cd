//! The language, from text to graph.

use crate::{Router, SourceMap, parse, print, render_all};

mod as_click;

fn read(text: &str) -> (Router, String) {
    let mut map = SourceMap::new();
    let file = map.add("t.click", text);
    let (router, diagnostics) = parse(&mut map, file, &[]);
    let shown = render_all(&diagnostics, &map);
    (router, shown)
}

#[track_caller]
fn flat(text: &str, expected: &str) {
    let (router, shown) = read(text);
    assert_eq!(shown, "", "of {text}");
    let (printed, expected) = (print(&router), expected.trim_start());
    assert_eq!(printed, expected, "of {text}");
    assert_eq!(print(&read(&printed).0), printed, "again, of {text}");
}

#[test]
fn elements_of_compounds_follow_those_of_the_file_as_click_orders_them() {
    flat(
        "elementclass Foo {
           $a, $b | input -> Print(1) -> output
        || $a, __REST__ $b | input -> Print(2) -> output
        || $a, TWO $b, __REST__ $c | input -> Print(3) -> output
        }
        InfiniteSource(DATA \"\", LIMIT 1, STOP true) -> Foo(A) -> f::Foo(A, TWO B)
        elementclass Foo { $a, $b | input -> Print(4) -> output || ... }
        f -> Foo(A, B) -> Foo(A, B, C) -> Discard",
        "
InfiniteSource@1 :: InfiniteSource(DATA \"\", LIMIT 1, STOP true);
Discard@6 :: Discard;
Foo@2/Print@1 :: Print(2);
f/Print@1 :: Print(1);
Foo@4/Print@1 :: Print(4);
Foo@5/Print@1 :: Print(2);

InfiniteSource@1 -> Foo@2/Print@1
    -> f/Print@1
    -> Foo@4/Print@1
    -> Foo@5/Print@1
    -> Discard@6;
"
        .trim_start(),
    );
}

#[test]
fn a_word_of_a_value_is_taken_by_its_index() {
    flat(
        "elementclass Foo { $a | input -> Print(\"$a\") -> Print(\"${a[0]}\") -> Print(\"${a[3]}\") -> output }
         elementclass Bar { $a, $n | input -> Print(\"${a[$n]}\") -> output }
         elementclass Baz { $a | input -> Bar(${a[1]} ${a[0]}, ${a[2]}) -> output }
         i :: Idle -> a :: Foo(A B C) -> b :: Bar(D E F, 2) -> c :: Baz(G H 1);",
        "
i :: Idle;
a/Print@1 :: Print(\"A B C\");
a/Print@2 :: Print(\"A\");
a/Print@3 :: Print(\"\");
b/Print@1 :: Print(\"F\");
c/Bar@1/Print@1 :: Print(\"G\");

i -> a/Print@1
    -> a/Print@2
    -> a/Print@3
    -> b/Print@1
    -> c/Bar@1/Print@1;
",
    );
}

#[test]
fn parameters_are_lexically_scoped() {
    flat(
        "elementclass Foo { $a |
            elementclass Bar { $b | DriverManager($a); }
            elementclass Baz { $a | Idle; Bar($a); }
            Baz(other); }
         Foo(stop);",
        "
Foo@1/Baz@1/Idle@1 :: Idle;
Foo@1/Baz@1/Bar@2/DriverManager@1 :: DriverManager(stop);

",
    );
}

#[test]
fn commas_join_many_with_one_and_double_arrows_many_with_many() {
    flat(
        "a, b, c :: Idle; p, q :: PullNull; a, a[1] -> b -> p, q; p -> [0]c, [1]c; q -> [2]c;",
        "
a :: Idle;
b :: Idle;
c :: Idle;
p :: PullNull;
q :: PullNull;

a -> b
    -> p
    -> c;
a [1] -> b;
p -> [1] c;
b -> q
    -> [2] c;
",
    );
}

#[test]
fn a_double_arrow_numbers_the_ports_of_an_element_without_a_list() {
    flat(
        "a, b, c :: Idle; a => b, c, [0,1] a;",
        "
a :: Idle;
b :: Idle;
c :: Idle;

a [2] -> a
    -> b;
a [3] -> [1] a;
a [1] -> c;
",
    );
}

#[test]
fn groups_are_detours_without_elements_of_their_own() {
    flat(
        "analyzer, x1, x2 :: Idle; x1 -> analyzer -> x2;
         c :: Idle => [1] analyzer [1], (-> c2 :: Idle => (->), Paint(1) ->) -> p :: Idle;",
        "
analyzer :: Idle;
x1 :: Idle;
x2 :: Idle;
c :: Idle;
c2 :: Idle;
Paint@12 :: Paint(1);
p :: Idle;

x1 -> analyzer
    -> x2;
c -> [1] analyzer;
c [1] -> c2
    -> p;
c2 [1] -> Paint@12
    -> p;
analyzer [1] -> p;
",
    );
}

#[test]
fn an_empty_path_through_braces_joins_the_elements_outside() {
    flat(
        "a, b :: Idle; a -> { -> } -> b; a [1] -> { [0] -> [0] } -> [1] b;",
        "
a :: Idle;
b :: Idle;

a -> b;
a [1] -> [1] b;
",
    );
}

#[test]
fn unconnected_ports_of_a_compound_leave_its_elements_unconnected() {
    flat(
        "b :: Discard; { input -> x :: Counter -> output } -> b;",
        "
b :: Discard;
@2/x :: Counter;

@2/x -> b;
",
    );
}

#[test]
fn synonyms_and_shadowed_classes_end_at_the_original() {
    flat(
        "elementclass MyQueue Queue;
         elementclass Queue { $n | input -> Queue($n) -> Shaper(1) -> output }
         Idle -> MyQueue(5) -> q :: Queue(7) -> Discard;",
        "
Idle@1 :: Idle;
MyQueue@2 :: Queue(5);
Discard@4 :: Discard;
q/Queue@1 :: Queue(7);
q/Shaper@2 :: Shaper(1);

Idle@1 -> MyQueue@2
    -> q/Queue@1
    -> q/Shaper@2
    -> Discard@4;
",
    );
}

#[test]
fn an_extended_class_falls_back_to_the_original() {
    flat(
        "elementclass Queue { $n, $rate | input -> Queue($n) -> Shaper($rate) -> output || ... }
         Idle -> a :: Queue(5) -> b :: Queue(7, 8) -> Discard;",
        "
Idle@1 :: Idle;
a :: Queue(5);
Discard@4 :: Discard;
b/Queue@1 :: Queue(7);
b/Shaper@2 :: Shaper(8);

Idle@1 -> a
    -> b/Queue@1
    -> b/Shaper@2
    -> Discard@4;
",
    );
}

#[test]
fn arguments_go_to_positions_keywords_and_the_rest() {
    flat(
        "elementclass E { $a, COUNT $count, __REST__ $rest | X($a, $count, $rest) }
         e :: E(1, 2, COUNT 3, FOO 4); f :: E(COUNT 3, COUNT 4, 1, COUNT 5); g :: E(1, COUNT);",
        "
e/X@1 :: X(1, 3, 2, FOO 4);
f/X@1 :: X(COUNT 3, 5, 1);
g/X@1 :: X(1, ,);

",
    );
}

#[test]
fn variables_keep_clear_of_single_quotes_and_comments() {
    flat(
        "define($a 1 \"2\", $b $a);
         X($b, '$b', \"$b ${b}x\", ${c-no $a}, $c, $, \"\\$a\" /* $a */, ${a[1]}); // $a",
        "
X@1 :: X(1 \"2\", '$b', \"1 \\\"2\\\" 1 \\\"2\\\"x\", no 1 \"2\", $c, $, \"\\$a\"  , \"2\");

",
    );
}

#[test]
fn the_command_line_goes_before_the_file() {
    let mut map = SourceMap::new();
    let file = map.add(
        "t.click",
        "define($a 1, $b 2); { define($a 3) X($a, $b) } ; X($a)",
    );
    let definitions = [
        ("a".to_owned(), "4".to_owned()),
        ("$b".to_owned(), "5".to_owned()),
    ];
    let (router, diagnostics) = parse(&mut map, file, &definitions);
    assert!(diagnostics.is_empty());
    let configs: Vec<&str> = router
        .elements
        .iter()
        .map(|e| e.config.text.as_str())
        .collect();
    assert_eq!(configs, ["4", "3, 5"]);
}

#[test]
fn every_byte_of_a_configuration_leads_back_to_the_file() {
    let text = "define($dev eth0); FromDevice( $dev /* x */, BURST 32)";
    let mut map = SourceMap::new();
    let file = map.add("t.click", text);
    let (router, _) = parse(&mut map, file, &[]);
    let config = &router.elements[0].config;
    let place = |what: &str| {
        let at = config.text.find(what).expect("it is in the text");
        map.slice(config.span_of(at..at + what.len()))
    };
    assert_eq!(config.text, "eth0  , BURST 32");
    assert_eq!(place("BURST 32"), "BURST 32");
    assert_eq!(place("32"), "32");
    assert_eq!(place("eth0"), "$dev");
    assert_eq!(place("th"), "$dev");
    assert_eq!(
        map.slice(config.origin(0..4).expect("from a variable")),
        "eth0"
    );
    assert_eq!(config.origin(9..11), None);
    let end = config.text.len();
    assert_eq!(config.span_of(end..end).start as usize, text.len() - 1);
    let part = config.slice(8..end);
    assert_eq!(map.slice(part.span_of(6..8)), "32");
}

#[test]
fn names_that_nothing_defines_stay_and_are_listed() {
    let (router, shown) = read("Script(set x $y, ${z})");
    let config = &router.elements[0].config;
    assert_eq!(
        (config.text.as_str(), shown.as_str()),
        ("set x $y, ${z}", "")
    );
    let names: Vec<&str> = config.undefined().iter().map(|(_, n)| n.as_str()).collect();
    assert_eq!(names, ["y", "z"]);
}

#[test]
fn words_of_a_requirement_are_printed_so_that_they_are_read_as_the_same() {
    for (text, kind, name) in [
        ("require('package' \"a b, c\");", "package", "a b, c"),
        ("require(c);", "package", "c"),
    ] {
        let printed = print(&read(text).0);
        for text in [text, &printed] {
            let (router, _) = read(text);
            let read = &router.requirements[0];
            assert_eq!((&*read.kind, &*read.name), (kind, name), "{text}");
        }
        assert_eq!(print(&read(&printed).0), printed);
    }
}

#[test]
fn libraries_are_read_once_where_they_are_required() {
    let mut map = SourceMap::new();
    let text =
        "require(library a.click, package p); require(library a.click) Idle -> Twice -> Discard;";
    let file = map.add("t.click", text);
    let mut asked = 0;
    let mut library = |name: &str| {
        asked += 1;
        (name == "a.click").then(|| "elementclass Twice { -> Counter -> Counter -> }".to_owned())
    };
    let (router, diagnostics) = crate::parse_with_libraries(&mut map, file, &[], &mut library);
    assert_eq!(render_all(&diagnostics, &map), "");
    assert_eq!((router.elements.len(), asked), (4, 1));
    assert_eq!(router.requirements[0].name, "p");
}

#[test]
fn a_library_finds_libraries_beside_it() {
    let mut map = SourceMap::new();
    let text = "require(library in/a.click); require(library in/b.click) Idle -> Twice -> Discard;";
    let file = map.add("t.click", text);
    let mut asked = Vec::new();
    let mut library = |name: &str| {
        asked.push(name.to_owned());
        match name {
            "in/a.click" => Some("require(library b.click, library c.click)".to_owned()),
            "in/b.click" => Some("elementclass Twice { -> Counter -> Counter -> }".to_owned()),
            "c.click" => Some(String::new()),
            _ => None,
        }
    };
    let (router, diagnostics) = crate::parse_with_libraries(&mut map, file, &[], &mut library);
    assert_eq!(render_all(&diagnostics, &map), "");
    assert_eq!(router.elements.len(), 4);
    assert_eq!(asked, ["in/a.click", "in/b.click", "in/c.click", "c.click"]);
}

#[test]
fn a_directive_inside_a_configuration_string_is_no_part_of_it() {
    let mut map = SourceMap::new();
    let file = map.add(
        "A.click",
        "m :: Message(\n# 100 \"foobar.click\"\n\"test\");\nm2 :: Message;",
    );
    let (router, _) = parse(&mut map, file, &[]);
    assert_eq!(router.elements[0].config.text, "\"test\"");
    let place = map.start(router.elements[1].span);
    assert_eq!((&*place.file, place.line), ("foobar.click", 101));
}

#[test]
fn slashes_join_names_and_start_comments() {
    let (router, shown) = read("an/id/with/slashes//too/many\n :: Idle; b/* c */:: Idle;");
    assert_eq!(shown, "");
    assert_eq!(router.elements[0].name, "an/id/with/slashes");
    assert_eq!(router.elements[1].name, "b");
}

#[test]
fn circles_of_compounds_without_elements_end() {
    let (router, shown) = read("a :: { -> }; b :: { -> }; a -> b -> a; Idle -> a;");
    assert_eq!((router.connections.len(), shown.as_str()), (0, ""));
}

#[test]
fn anonymous_names_avoid_those_that_are_declared() {
    let (router, shown) = read("Idle -> Discard; Idle@1 :: Idle;");
    assert_eq!(shown, "");
    assert_eq!(router.elements[0].name, "Idle@2");
}

/// Mistakes as Click words them.
fn as_click(text: &str) -> String {
    let mut map = SourceMap::new();
    let file = map.add("t.click", text);
    let (_, diagnostics) = parse(&mut map, file, &[]);
    crate::render_click(&diagnostics, &map)
}

#[test]
fn where_no_definition_fits_click_lists_the_candidates() {
    let classes = "elementclass F { $a | input -> output\n|| $a, K $b | input => output }\n";
    let candidates = "t.click:1: candidates are:\n\
        t.click:1:   F(<arg>)[1 input, 1 output]\nt.click:2:   F(<arg>, K)[1 input, 1 output]\n";
    for (uses, asked) in [
        (
            "Idle -> F(1, 2) -> Discard",
            "2 arguments, 1 input, 1 output",
        ),
        ("Idle -> F -> Discard", "1 input, 1 output"),
        (
            "f :: F(1); Idle -> f -> Discard; Idle -> [1] f",
            "1 argument, 2 inputs, 1 output",
        ),
    ] {
        assert_eq!(
            as_click(&format!("{classes}{uses}")),
            format!("t.click:3: no match for 'F[{asked}]'\n{candidates}")
        );
    }
    assert_eq!(
        as_click("{ $a, __REST__ $b | Idle }"),
        "t.click:1: no match for '<anonymous>[0 inputs, 0 outputs]'\nt.click:1: candidates are:\n\
         t.click:1:   <anonymous>(<arg>, ...)[0 inputs, 0 outputs]\n"
    );
}

#[test]
fn mistakes_have_clicks_words() {
    for (text, said) in [
        (
            "a :: Idle;\na :: Idle;",
            "t.click:2: redeclaration of element 'a'\nt.click:1: element 'a' previously declared here\n",
        ),
        (
            "Idle -> b;\nb :: Discard",
            "t.click:1: undeclared element 'b'\n",
        ),
        (
            "define($a 1);\ndefine($a 2)",
            "t.click:2: parameter '$a' multiply defined\n",
        ),
        ("Idle)", "t.click:1: syntax error near ')'\n"),
        ("-> Idle", "t.click:1: syntax error near '->'\n"),
        ("=> Idle", "t.click:1: syntax error near '=>'\n"),
        (
            "Idle [x] -> Discard",
            "t.click:1: syntax error: port number should be integer\n",
        ),
        (
            "{ Idle -> input }",
            "t.click:1: '<anonymous>' pseudoelement 'input' may only be used as output\n",
        ),
    ] {
        assert_eq!(as_click(text), said);
    }
}
