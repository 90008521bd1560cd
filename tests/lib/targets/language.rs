//! The Click language: any text is read, mistakes have places in the text, and a graph without
//! mistakes is printed as a text that gives the same graph again.

use lang::{Diagnostic, Router, SourceMap, Span};

/// Longer texts are only slower.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Reads bytes as a configuration.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(&data[..data.len().min(TEXT_BYTES_MAX)]);
    let (router, mistakes) = read(&text);
    if mistakes.iter().any(Diagnostic::is_error) {
        return;
    }
    let printed = lang::print(&router);
    let (again, mistakes) = read(&printed);
    let wrong: Vec<&str> = mistakes
        .iter()
        .filter(|d| d.is_error())
        .map(|d| d.message.as_str())
        .collect();
    assert!(wrong.is_empty(), "{wrong:?} in {printed}");
    assert_eq!(edges(&again), edges(&router), "{printed}");
    assert_eq!(lang::print(&again), printed);
}

fn edges(router: &Router) -> Vec<(lang::Port, lang::Port)> {
    let mut edges: Vec<_> = router.connections.iter().map(|c| (c.from, c.to)).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn read(text: &str) -> (Router, Vec<Diagnostic>) {
    let mut map = SourceMap::new();
    let file = map.add("fuzz.click", text);
    let definitions = [("X".to_owned(), "1, 'a b'".to_owned())];
    let (router, mistakes) = lang::parse(&mut map, file, &definitions);
    for mistake in &mistakes {
        let notes = mistake.notes.iter().filter_map(|(span, _)| *span);
        notes.chain(mistake.span).for_each(|s| inside(&map, s));
        assert!(!mistake.message.is_empty());
    }
    for element in &router.elements {
        inside(&map, element.span);
        inside(&map, element.class_span);
        inside(&map, element.config.span());
        for range in lang::args::split(&element.config.text) {
            inside(&map, element.config.slice(range).span());
        }
    }
    for connection in &router.connections {
        inside(&map, connection.span);
        let ends = [connection.from, connection.to];
        assert!(ends.iter().all(|p| p.element < router.elements.len()));
    }
    let _ = lang::render_all(&mistakes, &map);
    let _ = lang::to_json(&mistakes, &map);
    (router, mistakes)
}

fn inside(map: &SourceMap, span: Span) {
    assert!(
        map.text(span.file).get(span.range()).is_some(),
        "{span:?} is not in its text"
    );
}
