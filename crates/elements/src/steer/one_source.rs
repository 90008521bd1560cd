//! A port can hold the rules of only one element: those of a second element would replace them.

use super::port_rules::port_name;
use lang::{Diagnostic, Element, Router, Span};
use std::collections::HashMap;

/// Classes whose rules a port can apply.
const SOURCES: [&str; 3] = ["BucketByAddress", "BucketByFlow", "BucketByPrefix"];

/// Argument PORT of an element: its position in the source, and the port.
fn port_of(element: &Element) -> Option<(Span, String)> {
    let config = &element.config;
    let find = |range: std::ops::Range<usize>| {
        let (name, value) = lang::args::keyword(&config.text[range.clone()])?;
        let port = lang::args::unquote(value);
        (name == "PORT").then(|| (config.span_of(range), port_name(&port).to_owned()))
    };
    lang::args::split(&config.text).into_iter().find_map(find)
}

/// Reports elements whose PORT already belongs to another element.
pub(crate) fn check(router: &Router) -> Vec<Diagnostic> {
    let mut first: HashMap<String, &Element> = HashMap::new();
    let mut errors = Vec::new();
    for element in &router.elements {
        if !SOURCES.contains(&element.class.as_str()) {
            continue;
        }
        let Some((place, port)) = port_of(element) else {
            continue;
        };
        let other: &Element = first.entry(port.clone()).or_insert(element);
        if std::ptr::eq(other, element) {
            continue;
        }
        let name = &other.name;
        let message = format!("the port `{port}` does the rules of `{name}` already");
        let title = format!("{} :: {}", element.name, element.class);
        let wrong = Diagnostic::error("port", message).at(place);
        let wrong = wrong.about(title, element.span, Some("configuring"));
        let wrong = wrong.note_at(other.span, format!("`{name}` is here"));
        errors.push(wrong.help("leave PORT out of one of them: it sorts all the same, by itself"));
    }
    errors
}

#[cfg(test)]
mod tests {
    fn errors(second: &str) -> String {
        let text = format!(
            "Idle -> a :: BucketByPrefix(10.0.0.0/8, PORT dpdk:net_null0)
                -> b :: BucketByFlow({second}) -> Discard"
        );
        let mut map = lang::SourceMap::new();
        let file = map.add("test.click", &text);
        let (router, errors) = lang::parse(&mut map, file, &[]);
        assert!(errors.is_empty(), "{}", lang::render_all(&errors, &map));
        lang::render_all(&super::check(&router), &map)
    }

    #[test]
    fn rules_for_a_port_come_from_one_element() {
        let text = errors("RULES 9, PORT \"net_null0\"");
        assert!(text.contains("does the rules of `a` already"), "{text}");
        assert!(text.contains("test.click:2:"), "{text}");
        assert!(text.contains("leave PORT out"), "{text}");
        assert_eq!(errors("") + &errors("PORT net_null1"), "");
    }
}
