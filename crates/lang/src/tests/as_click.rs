//! Forms and mistakes of the language, with the values that Click itself gave.

use super::{as_click, flat, read};
use crate::{SourceMap, parse_as_click};

#[test]
fn mistakes_of_statements_have_clicks_words() {
    let parameters = "compound element parameters out of order\n\
        t.click:1: (The correct order is '[positional], [keywords], [__REST__]'.)";
    for (text, said) in [
        ("output -> Idle", "undeclared element 'output'"),
        ("a :: Idle[1];", "output ports ignored at end of chain"),
        ("[1]a :: Idle", "input ports ignored at start of chain"),
        ("{ input :: Idle }", "redeclaration of element 'input'"),
        (
            "elementclass a { Idle } a :: Idle",
            "class 'a' used as element name",
        ),
        ("a :: Idle; { a -> Idle }", "undeclared element 'a'"),
        (
            "a :: Idle; a(1) -> Idle",
            "configuration string ignored on element reference",
        ),
        (
            "a :: ;",
            "missing element type in declaration\nt.click:1: unknown element class 'a'",
        ),
        ("Idle ->", "syntax error near ''"),
        ("1 :: Idle", "element name '1' has all-digit component"),
        ("define", "expected '('"),
        ("define(x 1)", "bad 'define' declaration: not a variable"),
        ("require(a b c)", "syntax error at requirement"),
        ("a :: Idle(", "expected ')'"),
        ("{ Idle", "expected '}'"),
        ("#pragma once", "unknown preprocessor directive"),
        (
            "elementclass A { $x, $x | Idle }",
            "parameter '$x' multiply defined",
        ),
        ("elementclass A { K $x, $y | Idle }", parameters),
        ("elementclass A { __REST__ $x, K $y | Idle }", parameters),
        (
            "elementclass B { input -> output; input[2] -> [1]output }",
            "'B' input 1 missing",
        ),
        (
            "Idle => ([1] -> Idle) ",
            "'<anonymous group>' input 0 missing",
        ),
        ("{ Idle } -> Idle", "'@1' has no output 0"),
        (
            "a, b :: Idle; a[0,1,2] => b[0,1]",
            "output ports ignored at end of chain",
        ),
        (
            "b/a :: Idle; b :: { a :: Idle; }",
            "redeclaration of element 'b/a'\nt.click:1: 'b/a' previously declared here",
        ),
    ] {
        assert_eq!(as_click(text), format!("t.click:1: {said}\n"), "of {text}");
    }
}

#[test]
fn ports_are_any_whole_numbers() {
    flat(
        "a :: Idle[0x0, 01] => [010, 9]b :: Idle",
        "
a :: Idle;
b :: Idle;

a -> [8] b;
a [1] -> [9] b;
",
    );
}

#[test]
fn a_double_arrow_joins_one_port_with_many() {
    flat(
        "a, b, c :: Idle; a[1] => b, c; a[] -> c",
        "
a :: Idle;
b :: Idle;
c :: Idle;

a [1] -> b;
a -> c;
a [1] -> c;
",
    );
}

#[test]
fn chains_are_printed_in_the_order_of_inputs() {
    flat(
        "a :: Idle -> b :: Idle -> c :: Idle -> a",
        "
a :: Idle;
b :: Idle;
c :: Idle;

c -> a
    -> b
    -> c;
",
    );
}

#[test]
fn variables_are_read_as_click_reads_them() {
    flat(
        "define($a 5 6); X($(a), \"$(a)\", $(add $a 1), $$a, $$$a, \"$$a\", ${a[-1]}, ${a[x]}, ${a[1]}, ${a[2]}, $(b))",
        "
X@1 :: X(5 6, \"5 6\", $(add 5 6 1), $$a, $$5 6, \"$$a\", 5 6, 5 6, 6, , $(b));

",
    );
}

#[test]
fn mistakes_are_told_as_click_finds_them_with_the_line_that_it_has_read() {
    for (text, said) in [
        (
            "a :: B; { C -> Idle }",
            "1: unknown element class 'B'\n1: undeclared element 'C'",
        ),
        (
            "elementclass E {\n Idle ||\n ...\n}",
            "3: cannot extend unknown element class 'E'",
        ),
        ("elementclass E { Idle || Idle || ... }", ""),
        ("Queue :: Idle", "1: class 'Queue' used as element name"),
        (
            "a,\nb :: Idle; a[0,1]\n->[0,1]b\n;",
            "4: syntax error: many-to-many connections require '=>'",
        ),
        (
            "x ->\n b\n\n -> c",
            "1: undeclared element 'x'\n2: undeclared element 'b'\n4: undeclared element 'c'",
        ),
        (
            "x -> Idle :: a",
            "1: undeclared element 'x'\n1: unknown element class 'a'\n1: class 'Idle' used as element name",
        ),
        (
            "elementclass A {\n\n input[1] -> output\n}",
            "3: 'A' input 0 missing",
        ),
        (
            "elementclass A {\n\n output -> Idle\n}",
            "3: 'A' pseudoelement 'output' may only be used as input",
        ),
        (
            "( Idle -> input\n)",
            "2: '<anonymous group>' pseudoelement 'input' may only be used as output",
        ),
        (
            "require(library lib); x -> Idle",
            "1: unknown element class 'L'\n1: undeclared element 'x'",
        ),
        ("require(package)", "1: syntax error at requirement"),
        (
            "elementclass ;",
            "1: expected element type name\n1: syntax error near ';'",
        ),
        (
            "Idle -> [1];",
            "1: stranded port ignored\n1: syntax error near ';'",
        ),
        ("Idle() ()", "1: syntax error near '('"),
        (
            "e :: Idle; e, c :: Idle -> [",
            "1: syntax error: expected port number",
        ),
        ("Idle(\n...", "2: expected ')'\n2: syntax error near '...'"),
        (
            "a :: Idle; a, e :: Idle(1)",
            "1: redeclaration of element 'a'\n1: element 'a' previously declared here",
        ),
        (
            "a, a :: Idle(1)",
            "1: redeclaration of element 'a'\n1: element 'a' previously declared here",
        ),
        (
            "a :: Idle;\na :: Idle(1)",
            "2: configuration string ignored on element reference\n\
             2: redeclaration of element 'a'\n1: element 'a' previously declared here",
        ),
        (
            "a -> b ] a :: ",
            "1: undeclared element 'a'\n1: undeclared element 'b'\n1: syntax error near ']'",
        ),
        ("Idle -> [define", "1: syntax error: expected port number"),
        ("elementclass A { $x Idle }", "1: expected ',' or '|'"),
        ("elementclass A { $x, Idle | }", "1: expected variable"),
    ] {
        let mut map = SourceMap::new();
        let file = map.add("t.click", text);
        let mut library = |_: &str| Some("l :: L".to_owned());
        let known = |name: &str| matches!(name, "Idle" | "Queue");
        let (_, mistakes) = parse_as_click(&mut map, file, &[], &mut library, &known);
        let mistakes: Vec<_> = mistakes.into_iter().filter(|d| d.is_error()).collect();
        let shown = crate::render_click(&mistakes, &map);
        let shown = shown.replace("t.click:", "").replace("lib:", "");
        assert_eq!(shown.trim_end(), said, "of {text}");
    }
}

#[test]
fn elements_are_numbered_depth_first() {
    let (router, _) = read(
        "elementclass A { input -> x :: { input -> x1 :: Null -> output } -> a1 :: Null -> output }
         elementclass B { input -> b1 :: Null -> output }
         Idle -> a :: A -> b :: B -> Discard",
    );
    let names: Vec<&str> = router.elements.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["Idle@1", "Discard@4", "a/a1", "a/x/x1", "b/b1"]);
}

#[test]
fn connections_of_an_element_to_itself_begin_chains() {
    flat(
        "a :: Idle[0, 1] => a, [1]a",
        "
a :: Idle;

a -> a;
a [1] -> [1] a;
",
    );
}

#[test]
fn ports_of_compound_elements_that_nothing_uses_are_listed() {
    let (router, _) =
        read("elementclass A { input -> output } x :: A; Idle -> y :: A; Idle -> A -> Idle");
    let said: Vec<&str> = router.unused.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "`x` input 0 unused",
            "`x` output 0 unused",
            "`y` output 0 unused"
        ]
    );
}
