//! Routes as text: `PREFIX [GATEWAY] PORT [WEIGHT n] [| ...]`.

use super::family::Family;
use arguments::Names;
use arguments::units::whole_number;
use std::collections::HashMap;
use std::sync::Arc;
use tables::fib::Prefix;
use tables::groups::Member;

/// Number of ports to which a route can lead; the engine reserves 255 for "none".
pub const PORTS_MAX: u16 = 255;

/// Next hops, shared by routes whose texts name the same ones.
pub type Hops = Arc<[Member]>;

/// A change to a routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<const N: usize> {
    /// Adds a route; fails if the prefix has one.
    Add(Prefix<N>, Hops),
    /// Adds or replaces a route.
    Set(Prefix<N>, Hops),
    /// Removes the route of a prefix. If next hops are given, they must be those of the route.
    Remove(Prefix<N>, Option<Hops>),
}

/// Parser of routes. Next hops are cached, since the routes of a table share few sets of them.
pub struct Parser<'n> {
    names: &'n Names,
    hops: HashMap<String, Hops>,
}

const FORM: &str = "a route is written ADDRESS/MASK [GATEWAY] PORT";

impl<'n> Parser<'n> {
    /// A parser that knows these names.
    pub fn new(names: &'n Names) -> Parser<'n> {
        Parser {
            names,
            hops: HashMap::new(),
        }
    }

    /// Parses a route.
    pub fn route<F: Family<N>, const N: usize>(
        &mut self,
        text: &str,
    ) -> Result<(Prefix<N>, Hops), String> {
        let (prefix, hops) = split(text);
        let prefix =
            F::prefix(prefix, self.names).map_err(|wrong| format!("the destination {wrong}"))?;
        Ok((prefix, self.hops::<F, N>(hops)?))
    }

    /// Parses a line of `ctrl`: `add ROUTE`, `set ROUTE` or `remove PREFIX [...]`.
    pub fn command<F: Family<N>, const N: usize>(
        &mut self,
        line: &str,
    ) -> Result<Command<N>, String> {
        let (word, rest) = split(line);
        match word {
            "add" => self.route::<F, N>(rest).map(|(p, h)| Command::Add(p, h)),
            "set" => self.route::<F, N>(rest).map(|(p, h)| Command::Set(p, h)),
            "remove" => self.removal::<F, N>(rest),
            _ => Err(format!("`{word}` is neither add, set nor remove")),
        }
    }

    /// Parses the argument of `remove`.
    pub fn removal<F: Family<N>, const N: usize>(
        &mut self,
        text: &str,
    ) -> Result<Command<N>, String> {
        let (prefix, hops) = split(text);
        let prefix =
            F::prefix(prefix, self.names).map_err(|wrong| format!("the destination {wrong}"))?;
        let hops = match hops {
            "" => None,
            hops => Some(self.hops::<F, N>(hops)?),
        };
        Ok(Command::Remove(prefix, hops))
    }

    fn hops<F: Family<N>, const N: usize>(&mut self, text: &str) -> Result<Hops, String> {
        if let Some(known) = self.hops.get(text) {
            return Ok(Arc::clone(known));
        }
        let each = text.split('|').map(|hop| hop_of::<F, N>(hop, self.names));
        let hops: Hops = each.collect::<Result<Vec<Member>, String>>()?.into();
        self.hops.insert(text.to_owned(), Arc::clone(&hops));
        Ok(hops)
    }
}

/// Splits a text into its first word and the remainder.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((first, rest)) => (first, rest.trim_start()),
        None => (text, ""),
    }
}

fn hop_of<F: Family<N>, const N: usize>(text: &str, names: &Names) -> Result<Member, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (words, weight) = match words.as_slice() {
        [hop @ .., "WEIGHT", weight] => (hop, *weight),
        hop => (hop, "1"),
    };
    let (gateway, port) = match words {
        [port] => (None, *port),
        ["-", port] => (None, *port),
        [gateway, port] => {
            let gateway = F::gateway(gateway, names);
            (
                gateway.map_err(|wrong| format!("the gateway {wrong}"))?,
                *port,
            )
        }
        _ => return Err(FORM.to_owned()),
    };
    let number = |text: &str, what: &str, most: u16| {
        let parsed = whole_number(text).filter(|&n: &u16| n <= most);
        parsed.ok_or_else(|| format!("the {what} must be a number up to {most}, not `{text}`"))
    };
    let weight = number(weight, "weight", u16::MAX)?;
    if weight == 0 {
        return Err("the weight must not be 0: leave the next hop out".to_owned());
    }
    Ok(Member {
        gateway,
        port: number(port, "port", PORTS_MAX - 1)?,
        labels: wire::mpls::Labels::NONE,
        weight,
    })
}

/// Text form of next hops, with `-` for a missing gateway.
pub fn show_hops<'m>(hops: impl IntoIterator<Item = &'m Member>) -> String {
    let each = hops.into_iter().map(|hop| {
        let gateway = hop.gateway.map_or("-".to_owned(), |g| g.to_string());
        let weight = match hop.weight {
            1 => String::new(),
            n => format!(" WEIGHT {n}"),
        };
        format!("{gateway} {}{weight}", hop.port)
    });
    each.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{V4, V6};
    use std::net::IpAddr;

    fn route(text: &str) -> Result<(Prefix<4>, Hops), String> {
        Parser::new(&Names::default()).route::<V4, 4>(text)
    }

    fn hop(gateway: Option<[u8; 4]>, port: u16, weight: u16) -> Member {
        Member {
            gateway: gateway.map(IpAddr::from),
            port,
            labels: wire::mpls::Labels::NONE,
            weight,
        }
    }

    #[test]
    fn routes_have_one_next_hop_or_several() {
        let (prefix, hops) = route("18.26.4/24  1").unwrap();
        assert_eq!(prefix, Prefix::new([18, 26, 4, 0], 24));
        assert_eq!(*hops, [hop(None, 1, 1)]);
        let (prefix, hops) = route("0/0 192.0.2.1 1 | 192.0.2.2 2 WEIGHT 3|- 0").unwrap();
        assert_eq!(prefix, Prefix::ALL);
        let (a, b) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        assert_eq!(
            *hops,
            [hop(Some(a), 1, 1), hop(Some(b), 2, 3), hop(None, 0, 1)]
        );
        assert_eq!(
            show_hops(&*hops),
            "192.0.2.1 1 | 192.0.2.2 2 WEIGHT 3 | - 0"
        );
        let names = Names::default();
        let (prefix, hops) = Parser::new(&names).route::<V6, 16>("::/0 ::0 3").unwrap();
        assert_eq!((prefix, hops[0]), (Prefix::ALL, hop(None, 3, 1)));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("", "the destination must be an IPv4 prefix"),
            ("::/0 1", "the destination must be an IPv4 prefix"),
            ("0/0", "a route is written"),
            ("0/0 1.2.3.4 1 2", "a route is written"),
            ("0/0 ::1 1", "the gateway must be an IPv4 address"),
            ("0/0 255", "the port must be a number up to 254"),
            ("0/0 -1", "the port must be a number"),
            ("0/0 1 WEIGHT 0", "the weight must not be 0"),
            ("0/0 1 |", "a route is written"),
        ] {
            let message = route(text).unwrap_err();
            assert!(message.contains(wrong), "{text}: {message}");
        }
        let names = Names::default();
        let mut parser = Parser::new(&names);
        assert!(
            parser
                .command::<V4, 4>("drop 0/0")
                .unwrap_err()
                .contains("neither add")
        );
    }
}
