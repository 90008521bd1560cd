//! Properties of any input: parsing does not panic, positions lie inside the text, and a printed graph parses to the
//! same graph.

use lang::{Diagnostic, Router, SourceMap, Span, parse, print, render_all, to_json};

/// A small generator of numbers (Marsaglia's xorshift, 64 bits).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

fn check_span(map: &SourceMap, span: Span) {
    let text = map.text(span.file);
    assert!(span.start <= span.end, "{span:?}");
    assert!(text.get(span.range()).is_some(), "{span:?} in {text:?}");
}

fn read(text: &str) -> (Router, Vec<Diagnostic>) {
    let mut map = SourceMap::new();
    let file = map.add("t.click", text);
    let definitions = [("x".to_owned(), "1, \"é\" b".to_owned())];
    let (router, diagnostics) = parse(&mut map, file, &definitions);
    for diagnostic in &diagnostics {
        let spans = diagnostic.notes.iter().filter_map(|(span, _)| *span);
        for span in spans.chain(diagnostic.span) {
            check_span(&map, span);
        }
    }
    for element in &router.elements {
        check_span(&map, element.span);
        check_span(&map, element.class_span);
        let config = &element.config;
        check_span(&map, config.span());
        for (at, _) in config.text.char_indices() {
            check_span(&map, config.span_of(at..config.text.len()));
        }
        for argument in lang::args::split(&config.text) {
            let part = config.slice(argument.clone());
            check_span(&map, part.span());
            assert_eq!(part.text, config.text[argument]);
        }
    }
    for connection in &router.connections {
        check_span(&map, connection.span);
        assert!(connection.from.element < router.elements.len());
        assert!(connection.to.element < router.elements.len());
    }
    let _ = render_all(&diagnostics, &map);
    let _ = to_json(&diagnostics, &map);
    (router, diagnostics)
}

const WORDS: &[&str] = &[
    "a",
    "b",
    "q1",
    "Idle",
    "Queue",
    "input",
    "output",
    "X",
    "Y",
    "elementclass",
    "define",
    "require",
    "->",
    "->",
    "->",
    "=>",
    "::",
    "::",
    ";",
    ";",
    "\n",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    "||",
    "...",
    "$a",
    "$x",
    "${x-2}",
    "${x[0]}",
    "0",
    "1",
    "0-2",
    "(1, $x)",
    "($a b)",
    "\"",
    "'",
    "\\",
    "#",
    "\n#5 \"f\"\n",
    "/*",
    "*/",
    "//",
    "é",
    "-",
    "__REST__",
    "KEY",
    "\t",
    "elementclass X { $a | input -> Queue($a) -> output }",
    "a :: X(3)",
    "{ -> }",
    "( -> )",
];

#[test]
fn any_words_in_any_order_are_read_with_places_in_the_text() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..4_000 {
        let mut text = String::new();
        for _ in 0..random.below(40) {
            text.push_str(random.pick(WORDS));
            if random.below(3) > 0 {
                text.push(' ');
            }
        }
        read(&text);
    }
}

#[test]
fn any_bytes_are_read_and_unquoted() {
    let mut random = Random(88_172_645_463_325_252);
    for _ in 0..4_000 {
        let len = random.below(60);
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        read(&text);
        read(&format!("a :: X({text}) -> b"));
        let quoted = lang::args::quote(&text);
        assert_eq!(lang::args::unquote(&quoted), text, "{quoted}");
        let _ = lang::args::unquote_bytes(&text);
        let _ = lang::args::keyword(&text);
    }
}

#[test]
fn every_beginning_of_a_good_text_is_read() {
    let text = "require(package p); define($a 1, $b \"x\\\"\");\nelementclass F { $a, K $k, __REST__ $r | \
        input -> X($a, ${k-2}, '$r') => ( [0] -> [0]; [1] -> Y(\"${a[0]}\") -> ) -> output || ... }\n\
        s, t :: Idle; s[0,1-2] => a :: F(é, K 2, 3), [1]t, { -> } -> u :: Discard; /* c */ // d\n";
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        read(&text[..end]);
        read(&text[end..]);
    }
}

/// A random text without mistakes.
fn good_text(random: &mut Random) -> String {
    let mut text = String::from(
        "define($v 5);
         elementclass One { input -> Counter -> output }
         elementclass Two { $n | input[0] -> Queue($n) -> [0]output; input[1] -> o :: One -> [1]output }
         elementclass Pair { input => Print(\"$v\"), (->) => output }
         elementclass Over { $n | input -> Queue($n) -> output || input -> One -> output }
         elementclass Same Counter;\n",
    );
    let classes = [
        "One",
        "Pair",
        "Two(3)",
        "Two($v)",
        "Same",
        "Tee(9, $v)",
        "Print('$v', \"a b\")",
    ];
    let mut names = Vec::new();
    for i in 0..2 + random.below(6) {
        text.push_str(&format!("e{i} :: {};\n", random.pick(&classes)));
        names.push(format!("e{i}"));
    }
    for _ in 0..random.below(12) {
        let mut chain = names[random.below(names.len())].clone();
        for _ in 0..1 + random.below(4) {
            let middle = match random.below(6) {
                0 => " -> ( -> One -> )".to_owned(),
                1 => " -> { -> Counter -> }".to_owned(),
                2 => " -> Tee, One -> Null".to_owned(),
                3 => format!(
                    " -> {}",
                    random.pick(&["One", "Same", "Null(1)", "Over -> Null", "Over(3) -> Null"])
                ),
                _ => format!(" -> {}", names[random.below(names.len())]),
            };
            chain.push_str(&middle);
        }
        text.push_str(&chain);
        text.push_str(";\n");
    }
    text
}

#[test]
fn a_printed_graph_is_read_again_as_it_is() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..500 {
        let text = good_text(&mut random);
        let (router, diagnostics) = read(&text);
        assert!(diagnostics.is_empty(), "{diagnostics:?} in {text}");
        let printed = print(&router);
        let (again, diagnostics) = read(&printed);
        assert!(diagnostics.is_empty(), "{diagnostics:?} in {printed}");
        assert_eq!(print(&again), printed, "of {text}");
        let edges = |r: &Router| {
            let mut edges: Vec<_> = r.connections.iter().map(|c| (c.from, c.to)).collect();
            edges.sort_unstable();
            edges
        };
        assert_eq!(edges(&again), edges(&router), "of {text}");
    }
}

#[test]
fn a_required_name_is_printed_so_that_it_is_read_again() {
    let (router, _) = read("require(package'a, b', \"c\\\"\", package \"\", \\<22>)");
    let (again, diagnostics) = read(&print(&router));
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let names =
        |r: &Router| -> Vec<String> { r.requirements.iter().map(|r| r.name.clone()).collect() };
    assert_eq!(names(&again), names(&router));
}
