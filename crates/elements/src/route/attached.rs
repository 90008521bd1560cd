//! Routes of attached networks: `ATTACHED here` instead of two routes for each interface.
//!
//! An interface is a compound element that has an AddressInfo with the interface's own addresses. The connections
//! show which output of the table leads to it, so the user need not write it. Before a configuration is planned, the
//! routes are written out, as the user could have done.

use super::{TABLES4, TABLES6};
use arguments::Kind;
use lang::{Config, Diagnostic, Router, args};
use planner::Options;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Maximum number of elements followed from a table's output to an interface.
const STEPS_MAX: usize = 8;

/// A compound element, with `/` after its name, and the value of the requested name in its AddressInfo.
struct Interface {
    place: String,
    addresses: Vec<String>,
}

/// Inserts the routes of `ATTACHED` before the other arguments of routing tables.
pub fn rewrite(router: &mut Router, _: &Options) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let has_any = |e: &lang::Element| e.config.text.contains("ATTACHED");
    if !router.elements.iter().any(has_any) {
        return errors;
    }
    let (ways, interfaces) = (Ways::of(router), interfaces(router));
    for index in 0..router.elements.len() {
        let element = &router.elements[index];
        let class = element.class.as_str();
        let network = match (TABLES4.contains(&class), TABLES6.contains(&class)) {
            (true, _) => Kind::IpNet,
            (_, true) => Kind::Ip6Net,
            _ => continue,
        };
        let (mut name, mut local, mut written) = (None, None, HashSet::new());
        for range in args::split(&element.config.text) {
            let text = &element.config.text[range.clone()];
            match args::keyword(text) {
                Some(("ATTACHED", value)) => name = Some((value.to_owned(), range)),
                Some(("LOCAL", value)) => local = value.parse::<u8>().ok(),
                _ => written.extend(text.split_whitespace().next().map(str::to_owned)),
            }
        }
        let Some((name, range)) = name else {
            continue;
        };
        let interfaces = interfaces.get(&name).map_or(&[][..], Vec::as_slice);
        let mut routes = Vec::new();
        let mut reached = BTreeSet::new();
        for (output, place) in output_paths(router, &ways, index) {
            let here = interfaces.iter().filter(|i| place.starts_with(&i.place));
            for interface in here {
                reached.insert(&interface.place);
                let addresses = interface.addresses.iter();
                routes.extend(addresses.flat_map(|a| routes_of(a, network, output, local)));
            }
        }
        let element = &router.elements[index];
        let own = element.config.clone();
        let place = own.span_of(range);
        let say = |wrong: Diagnostic, help: String| {
            let title = format!("{} :: {class}", element.name);
            let wrong = wrong.at(place).help(help);
            wrong.about(title, element.span, Some("configuring"))
        };
        if reached.is_empty() {
            let message = format!("no output leads to an interface with addresses named `{name}`");
            errors.push(say(
                Diagnostic::error("attached", message),
                format!("connect an output to a compound element that has `AddressInfo({name} ADDRESS/LENGTH)`"),
            ));
        } else {
            let is_asked = |i: &&Interface| {
                let mut addresses = i.addresses.iter().filter(|a| !written.contains(*a));
                addresses.any(|a| !routes_of(a, network, 0, None).is_empty())
            };
            let missed = interfaces.iter().filter(is_asked);
            for missed in missed.filter(|i| !reached.contains(&i.place)) {
                let missed = missed.place.trim_end_matches('/');
                let message =
                    format!("no output leads to `{missed}`, so its networks have no route");
                errors.push(say(
                    Diagnostic::warning("attached", message),
                    format!("connect an output to `{missed}`, with nothing in between that has several outputs; or \
                        write the routes"),
                ));
            }
        }
        let parts = routes
            .into_iter()
            .map(|route| Config::verbatim(route, place));
        let parts: Vec<Config> = parts.chain([own]).collect();
        let span = router.elements[index].config.span();
        router.elements[index].config = Config::join(&parts, span);
    }
    errors
}

/// For each name in an AddressInfo, the compound elements that define it.
fn interfaces(router: &Router) -> HashMap<String, Vec<Interface>> {
    let mut found: HashMap<String, Vec<Interface>> = HashMap::new();
    for info in router.elements.iter().filter(|e| e.class == "AddressInfo") {
        let Some(slash) = info.name.rfind('/') else {
            continue;
        };
        for range in args::split(&info.config.text) {
            let words = args::unquoted_words(&info.config.text[range]);
            if let [name, addresses @ ..] = &words[..] {
                found.entry(name.clone()).or_default().push(Interface {
                    place: info.name[..=slash].to_owned(),
                    addresses: addresses.to_vec(),
                });
            }
        }
    }
    found
}

/// Outputs of an element in order, each with the compound elements that the path from this output enters.
fn output_paths(router: &Router, ways: &Ways, element: usize) -> BTreeSet<(usize, String)> {
    let out = ways.from(element).iter();
    out.flat_map(|&(port, to)| ways.along(to).map(move |to| (port, to)))
        .map(|(port, to)| (port, place_of(&router.elements[to].name)))
        .collect()
}

/// Adjacency list of a router's elements.
pub struct Ways {
    /// For each element, pairs of an output port and the element connected to it.
    out: Vec<Vec<(usize, usize)>>,
}

impl Ways {
    /// The list of a router.
    pub fn of(router: &Router) -> Ways {
        let mut out = vec![Vec::new(); router.elements.len()];
        for c in &router.connections {
            out[c.from.element].push((c.from.port, c.to.element));
        }
        Ways { out }
    }

    /// Pairs of an output port and the element connected to it.
    pub fn from(&self, element: usize) -> &[(usize, usize)] {
        &self.out[element]
    }

    /// The element `first` and its successors, as long as each has one connection, up to `STEPS_MAX` elements.
    pub fn along(&self, first: usize) -> impl Iterator<Item = usize> {
        let next = |&at: &usize| match self.out[at][..] {
            [(_, to)] => Some(to),
            _ => None,
        };
        // The bound ends loops.
        std::iter::successors(Some(first), next).take(STEPS_MAX)
    }
}

/// Name of the compound element around an element, with `/` after it.
fn place_of(element: &str) -> String {
    element[..element.rfind('/').map_or(0, |slash| slash + 1)].to_owned()
}

/// Route to the network of an address. If `local` is an output, also the host route of the address itself.
fn routes_of(address: &str, network: Kind, output: usize, local: Option<u8>) -> Vec<String> {
    let kinds = arguments::entries(address);
    let Some((_, net)) = kinds.into_iter().find(|(kind, _)| *kind == network) else {
        return Vec::new();
    };
    let bits = if network == Kind::IpNet { 32 } else { 128 };
    let own = address.split('/').next().zip(local);
    let own = own.map(|(host, local)| format!("{host}/{bits} {local}"));
    let own = own.filter(|_| !net.ends_with(&format!("/{bits}")));
    own.into_iter().chain([format!("{net} {output}")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::port::NoPorts;

    const INTERFACE: &str = "elementclass Port { $address, $more |
        AddressInfo(here $address $more); input -> Discard; Idle -> output };";

    /// Configuration of the table, and its mistakes.
    fn table(text: &str) -> (String, Vec<Diagnostic>) {
        let mut map = lang::SourceMap::new();
        let file = map.add("test.click", format!("{INTERFACE} {text}"));
        let (mut router, errors) = lang::parse(&mut map, file, &[]);
        assert!(errors.is_empty(), "{errors:?}");
        let errors = rewrite(&mut router, &Options::new(1, &NoPorts));
        let table = router.find("rt").expect("a table");
        (router.elements[table].config.text.clone(), errors)
    }

    #[test]
    fn networks_behind_outputs_are_routed_there_and_their_addresses_to_the_router() {
        let (table, errors) = table(
            "Idle -> rt :: RadixIPLookup(0/0 10.0.1.9 2, ATTACHED here, LOCAL 0, NOROUTE 3);
            rt[0] -> Discard; rt[3] -> Discard;
            rt[1] -> Paint(1) -> Counter -> Port(10.0.2.1/24, fd00::1/64) -> Discard;
            rt[2] -> Port(fd00:1::1/64, 10.0.1.1/25) -> Discard",
        );
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(
            table,
            "10.0.2.1/32 0, 10.0.2.1/24 1, 10.0.1.1/32 0, 10.0.1.1/25 2, \
             0/0 10.0.1.9 2, ATTACHED here, LOCAL 0, NOROUTE 3"
        );
    }

    #[test]
    fn a_table_of_ipv6_takes_networks_of_ipv6() {
        let (table, errors) = table(
            "Idle -> rt :: LookupIP6Route(ATTACHED here);
            rt[0] -> Port(10.0.2.1/24, fd00::1/64) -> Discard;
            rt[1] -> Port(fd00:1::1/64, 10.0.1.1/25) -> Discard",
        );
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(table, "fd00::1/64 0, fd00:1::1/64 1, ATTACHED here");
    }

    #[test]
    fn an_interface_to_which_no_output_leads_is_told() {
        let (table, errors) = table(
            "Idle -> rt :: RadixIPLookup(ATTACHED here) -> a :: Port(10.0.2.1/24, fd00::1/64) -> Discard;
            rt[1] -> t :: Tee -> b :: Port(10.0.1.1/24, fd00:1::1/64) -> Discard; t[1] -> Discard;
            Idle -> Port(fd00:2::1/64, fd00:3::1/64) -> Discard",
        );
        assert_eq!(table, "10.0.2.0/24 0, ATTACHED here".replace("2.0", "2.1"));
        // Unless its route is given explicitly.
        let (_, no_errors) = self::table(
            "Idle -> rt :: RadixIPLookup(ATTACHED here, 10.0.1.1/24 1) -> a :: Port(10.0.2.1/24, fd00::1/64) -> Discard;
            rt[1] -> t :: Tee -> b :: Port(10.0.1.1/24, fd00:1::1/64) -> Discard; t[1] -> Discard",
        );
        assert!(no_errors.is_empty(), "{no_errors:?}");
        let said: Vec<_> = errors.iter().map(|e| e.message.clone()).collect();
        assert_eq!(
            said,
            ["no output leads to `b`, so its networks have no route"]
        );
        assert!(!errors[0].is_error());
    }

    #[test]
    fn a_name_that_no_interface_has_is_a_mistake_with_a_remedy() {
        let (_, errors) = table(
            "Idle -> rt :: RadixIPLookup(ATTACHED hre) -> Port(10.0.2.1/24, fd00::1/64) -> Discard",
        );
        let said = format!("{errors:?}");
        assert!(
            said.contains("no output leads to an interface with addresses named `hre`"),
            "{said}"
        );
        assert!(said.contains("AddressInfo(hre ADDRESS/LENGTH)"), "{said}");
    }
}
