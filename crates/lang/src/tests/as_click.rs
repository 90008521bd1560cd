//! Forms and mistakes of the language, with the values that Click itself gave.

use super::{as_click, flat, read};

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
fn classes_that_the_text_does_not_define_are_listed_with_their_first_use() {
    let (router, _) =
        read("a :: B; { C -> B }; elementclass D { Idle || ... }; elementclass E F; E");
    let uses: Vec<_> = router
        .classes
        .iter()
        .map(|(name, _, kind)| (name.as_str(), *kind))
        .collect();
    let (class, element) = (crate::ClassUse::Class, crate::ClassUse::Element);
    let extension = crate::ClassUse::Extension;
    let found = [
        ("B", class),
        ("C", element),
        ("D", extension),
        ("Idle", element),
        ("F", class),
    ];
    assert_eq!(uses, found);
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
