//! Interfaces of a lookup that names none: those of the ports to which its outputs lead.
//!
//! A port is a compound element in which a LinuxInput names its interface. Before a configuration is planned, the names
//! are written as the lookup's arguments.

use super::{linux_mpls_encap, linux_mpls_lookup, lookup};
use elements::route::attached::Ways;
use lang::{Config, Router, args};
use planner::Options;
use std::collections::BTreeMap;

/// Lookup classes, each with its first output for an interface.
const LOOKUPS: [(&str, usize); 4] = [
    ("LinuxIPLookup", lookup::OUT_FIRST),
    ("LinuxIP6Lookup", lookup::OUT_FIRST),
    ("LinuxMPLSEncap", linux_mpls_encap::OUT_FIRST),
    ("LinuxMPLSLookup", linux_mpls_lookup::OUT_FIRST),
];

/// Adds the interface names to lookups without arguments. A missing name is reported by the lookup itself.
pub fn rewrite(router: &mut Router, _: &Options) -> Vec<lang::Diagnostic> {
    let first_output = |class: &str| LOOKUPS.iter().find(|(known, _)| *known == class);
    if !router
        .elements
        .iter()
        .any(|e| first_output(&e.class).is_some())
    {
        return Vec::new();
    }
    let ways = Ways::of(router);
    for index in 0..router.elements.len() {
        let element = &router.elements[index];
        let Some((_, first)) = first_output(&element.class) else {
            continue;
        };
        // Keyword arguments may be present without interface names.
        let given = args::split(&element.config.text);
        let texts: Vec<&str> = given
            .into_iter()
            .map(|at| &element.config.text[at])
            .collect();
        let is_name = |text: &&str| !text.is_empty() && !text.contains(char::is_whitespace);
        if !texts.iter().any(is_name) {
            let keys = texts.iter().filter(|text| !text.is_empty());
            let mut all = names(router, &ways, index, *first);
            all.extend(keys.map(|text| (*text).to_owned()));
            let span = element.config.span();
            router.elements[index].config = Config::verbatim(args::join(all), span);
        }
    }
    Vec::new()
}

/// Interface names in the order of outputs, from `first` up to the first output without an interface.
fn names(router: &Router, ways: &Ways, lookup: usize, first: usize) -> Vec<String> {
    let inputs = router.elements.iter().filter(|e| e.class == "LinuxInput");
    let ports: Vec<(&str, String)> = inputs
        .filter_map(|e| {
            let slash = e.name.rfind('/')?;
            let first = args::split(&e.config.text).into_iter().next()?;
            Some((&e.name[..=slash], e.config.text[first].to_owned()))
        })
        .collect();
    let mut by_output = BTreeMap::new();
    for &(output, to) in ways.from(lookup).iter().filter(|(o, _)| *o >= first) {
        let mut to = ways.along(to).map(|to| &router.elements[to].name);
        let port = to.find_map(|to| ports.iter().find(|(place, _)| to.starts_with(place)));
        if let Some((_, name)) = port {
            by_output.insert(output, name.clone());
        }
    }
    (first..)
        .map_while(|output| by_output.remove(&output))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::port::NoPorts;

    fn names(text: &str) -> String {
        let port =
            "elementclass Port { $name | LinuxInput($name, dev) -> output; input -> Discard }";
        let mut map = lang::SourceMap::new();
        let file = map.add(
            "test.click",
            format!("{port}; Idle -> rt :: LinuxIPLookup{text}"),
        );
        let (mut router, errors) = lang::parse(&mut map, file, &[]);
        assert!(errors.is_empty(), "{errors:?}");
        rewrite(&mut router, &Options::new(1, &NoPorts));
        let at = router.find("rt").expect("a lookup");
        router.elements[at].config.text.clone()
    }

    #[test]
    fn interfaces_are_those_of_the_ports_behind_the_outputs() {
        let ports = "rt[0], rt[1] -> Discard; rt[3] -> Port(lan) -> Discard; rt[2] -> Counter -> p :: Port(wan) -> \
            Discard;";
        assert_eq!(names(&format!("; {ports}")), "wan, lan");
        assert_eq!(names(&format!("(a, b); {ports}")), "a, b");
        // Nothing is known after a gap; the look-up itself reports missing elements.
        assert_eq!(
            names(&format!("; {ports} rt[5] -> Port(x) -> Discard")),
            "wan, lan"
        );
        assert_eq!(names("; rt[2] -> Discard"), "");
    }
}
