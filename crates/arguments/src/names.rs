//! Names that arguments may use instead of addresses and ports.

use lang::args as text;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Names of addresses that arguments may use: AddressInfo entries and the addresses of devices, as visible in one
/// compound element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    values: Arc<HashMap<(String, Kind), NameValues>>,
    /// The compound element, followed by a slash; empty for the router itself.
    scope: String,
}

/// Values of one name, by the compound element that declares it. A map, because there may be thousands of
/// declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NameValues {
    /// Value by compound element, written as [`Names::scope`].
    by_scope: HashMap<String, String>,
    /// Value outside all compound elements that declare the name.
    default: Option<String>,
}

/// Type of a name's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An IPv4 address.
    Ip,
    /// An IPv4 prefix.
    IpNet,
    /// An IPv6 address.
    Ip6,
    /// An IPv6 prefix.
    Ip6Net,
    /// An Ethernet address.
    Ether,
    /// The device's MTU in bytes.
    Mtu,
    /// A TCP port.
    TcpPort,
    /// A UDP port.
    UdpPort,
    /// Not an address. AddressInfo reports the mistake.
    Mistake,
}

impl Kind {
    fn suffix(self) -> &'static [&'static str] {
        match self {
            Kind::Ip => &["ip", "ip4"],
            Kind::IpNet => &["ipnet", "ip4net", "net"],
            Kind::Ip6 => &["ip6"],
            Kind::Ip6Net => &["ip6net"],
            Kind::Ether => &["eth", "ether", "ethernet"],
            Kind::Mtu => &["mtu"],
            Kind::TcpPort | Kind::UdpPort | Kind::Mistake => &[],
        }
    }

    /// The name in `name:kind`; `None` if the text does not end in this kind.
    pub(crate) fn name_in(self, text: &str) -> Option<&str> {
        let mut suffixes = self.suffix().iter();
        suffixes.find_map(|suffix| text.strip_suffix(suffix)?.strip_suffix(':'))
    }
}

impl Names {
    /// The names visible to an element: those of its enclosing compound elements, innermost first.
    pub fn seen_by(&self, element: &str) -> Names {
        let end = element.rfind('/').map_or(0, |slash| slash + 1);
        Names {
            values: Arc::clone(&self.values),
            scope: element[..end].to_owned(),
        }
    }

    /// Declares the following names in the compound element around this element.
    pub fn enter(&mut self, element: &str) {
        let end = element.rfind('/').map_or(0, |slash| slash + 1);
        self.scope = element[..end].to_owned();
    }

    /// Declares a name with a value of some kind, written as in an argument.
    pub fn insert(&mut self, name: &str, kind: Kind, value: impl Into<String>) {
        let place = self.scope.clone();
        self.values_mut(name, kind)
            .by_scope
            .insert(place, value.into());
    }

    /// Like [`insert`](Self::insert), for places where no compound element declares the name.
    pub fn insert_default(&mut self, name: &str, kind: Kind, value: impl Into<String>) {
        self.values_mut(name, kind).default = Some(value.into());
    }

    fn values_mut(&mut self, name: &str, kind: Kind) -> &mut NameValues {
        let values = Arc::make_mut(&mut self.values);
        values.entry((name.to_owned(), kind)).or_default()
    }

    /// Names whose values differ from those in `before`.
    pub fn changed_since(&self, before: &Names) -> Vec<String> {
        let (now, before) = (&self.values, &before.values);
        let keys = now.keys().chain(before.keys());
        let differ = keys.filter(|&key| now.get(key) != before.get(key));
        let mut names: Vec<String> = differ.map(|(name, _)| name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The value of `name` or `name:kind` here, or of `compound/name` anywhere.
    pub fn get(&self, name: &str, kind: Kind) -> Option<&str> {
        let name = kind.name_in(name).unwrap_or(name);
        if let Some(slash) = name.rfind('/') {
            let (place, name) = name.split_at(slash + 1);
            let there = self.values.get(&(name.to_owned(), kind));
            if let Some(text) = there.and_then(|meaning| meaning.by_scope.get(place)) {
                return Some(text);
            }
        }
        let meaning = self.values.get(&(name.to_owned(), kind))?;
        // Search the enclosing compound elements, from the innermost outwards.
        let mut place = &*self.scope;
        loop {
            match (meaning.by_scope.get(place), place.strip_suffix('/')) {
                (Some(text), _) => return Some(text),
                (None, Some(inner)) => place = &place[..inner.rfind('/').map_or(0, |at| at + 1)],
                (None, None) => return meaning.default.as_deref(),
            }
        }
    }

    /// True if the argument uses a name that AddressInfo declares wrongly. AddressInfo reports it, so no other error is
    /// needed.
    pub fn has_mistake(&self, argument: &str) -> bool {
        let name = |word: &str| {
            word.rsplit('/')
                .next()
                .and_then(|name| name.split(':').next().map(str::to_owned))
        };
        let mut names = text::each_word(argument).filter_map(name);
        names.any(|name| self.values.contains_key(&(name, Kind::Mistake)))
    }

    /// Expands a word of a list. `*/name` stands for that name in each compound element that declares it with one of
    /// these kinds, ordered by the elements' names; any other word stands for itself.
    pub fn expand_word(&self, word: &str, kinds: &[Kind]) -> Vec<String> {
        let Some(name) = word.strip_prefix("*/") else {
            return vec![word.to_owned()];
        };
        let meanings = kinds
            .iter()
            .filter_map(|&kind| self.values.get(&(name.to_owned(), kind)));
        let places: BTreeSet<&String> = meanings.flat_map(|m| m.by_scope.keys()).collect();
        let places = places.into_iter().filter(|place| !place.is_empty());
        let found: Vec<String> = places.map(|place| format!("{place}{name}")).collect();
        match found.is_empty() {
            // A name without an element is a mistake: the caller reports it for the word as written.
            true => vec![word.to_owned()],
            false => found,
        }
    }
}

thread_local! {
    /// The names that the present handler call on this thread may use.
    static OF_CALL: RefCell<Names> = RefCell::default();
}

/// Runs a handler whose value may use these names. A handler gets its value as text and parses it itself, so the names
/// belong to the call, not to the handler; calls may nest.
pub fn with_names<R>(names: Names, call: impl FnOnce() -> R) -> R {
    let outer = OF_CALL.replace(names);
    let result = call();
    OF_CALL.set(outer);
    result
}

/// The names that the present handler call on this thread may use; empty outside calls.
pub fn names_of_call() -> Names {
    OF_CALL.with_borrow(Names::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_within_its_compound_element_and_the_nearest_one_counts() {
        let mut names = Names::default();
        names.insert_default("a", Kind::Ip, "9.9.9.9");
        names.insert_default("b", Kind::Ip, "8.8.8.8");
        names.insert_entry("a 10.0.0.1");
        names.enter("c/AddressInfo@1");
        names.insert_entry("a 10.0.0.2");
        names.insert_entry("inner 10.0.0.3");
        let seen = |element: &str, name| {
            let names = names.seen_by(element);
            names.get(name, Kind::Ip).map(str::to_owned)
        };
        for (element, name, value) in [
            ("x", "a", Some("10.0.0.1")),
            ("c/x", "a", Some("10.0.0.2")),
            ("c/d/x", "a", Some("10.0.0.2")),
            ("cc/x", "a", Some("10.0.0.1")),
            ("c/d/x", "inner", Some("10.0.0.3")),
            ("x", "inner", None),
            ("c/x", "b", Some("8.8.8.8")),
        ] {
            assert_eq!(seen(element, name).as_deref(), value, "{element} {name}");
        }
    }

    #[test]
    fn names_of_compound_elements_are_seen_from_everywhere_by_their_paths() {
        let mut names = Names::default();
        names.insert_entry("here 9.9.9.9");
        for (place, entry) in [
            ("a/AddressInfo@1", "here 10.0.1.1/24 fd00:1::1/64"),
            ("b/c/AddressInfo@1", "here 10.0.2.1/24"),
            ("d/AddressInfo@1", "here fd00:4::1"),
        ] {
            names.enter(place);
            names.insert_entry(entry);
        }
        let names = names.seen_by("d/x");
        assert_eq!(names.get("a/here", Kind::Ip), Some("10.0.1.1"));
        assert_eq!(names.get("b/c/here:ip", Kind::Ip), Some("10.0.2.1"));
        assert_eq!(names.get("c/here", Kind::Ip), None);
        assert_eq!(names.get("a/there", Kind::Ip), None);
        assert_eq!(
            names.expand_word("*/here", &[Kind::Ip]),
            ["a/here", "b/c/here"]
        );
        let six = [Kind::Ip6Net, Kind::Ip6];
        assert_eq!(names.expand_word("*/here", &six), ["a/here", "d/here"]);
        assert_eq!(names.expand_word("*/there", &six), ["*/there"]);
        assert_eq!(names.expand_word("10.0.0.0/8", &six), ["10.0.0.0/8"]);
    }
}
