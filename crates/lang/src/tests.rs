//! The language, from text to graph.

use crate::{Router, SourceMap, parse, print, render_all};

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
a [1] -> b
    -> q
    -> [2] c;
p -> [1] c;
",
    );
}
