//! Patterns: the rewritten form that a new mapping gives a flow.

use super::free_values::{AllocationScope, FreeTracker, Range, Value};
use super::key::{Key, Kind};
use arguments::Args;
use arguments::units::FromArg;
use engine::shared::Shared;
use std::cell::Cell;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// Words of each named pattern in the router's IPRewriterPatterns elements, and the number of patterns with that name.
pub struct NamedPatterns(pub HashMap<String, (Vec<String>, usize)>);

impl NamedPatterns {
    /// Patterns of all IPRewriterPatterns elements.
    pub fn new(args: &Args) -> NamedPatterns {
        let mut found = HashMap::new();
        for peer in args.peers("IPRewriterPatterns") {
            for arg in peer.args(&[]).rest("", "", "") {
                let mut words = arg.words().into_iter();
                if let Some(name) = words.next() {
                    let first = || (words.collect(), 0);
                    found.entry(name).or_insert_with(first).1 += 1;
                }
            }
        }
        NamedPatterns(found)
    }
}

/// Order in which values of a range are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The packet's own source port if it is free, otherwise a random port.
    Own,
    /// Random order (`?`).
    Random,
    /// Ascending order (`#`).
    Sequential,
}

/// Rewriting pattern: `SADDR SPORT DADDR DPORT`, `SADDR DADDR IDENT` or `SADDR DADDR`. `None` (a dash) leaves a field
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    src: Option<u32>,
    sport: Option<u16>,
    dst: Option<u32>,
    dport: Option<u16>,
    /// Varying field with its first value, and the length of its range minus 1.
    range: Option<(Range, u32)>,
    order: Order,
    /// True if the pattern contains ports.
    ports: bool,
    /// Name under which inputs share the pattern's state.
    pub name: String,
}

/// State of a pattern for one input of a rewriter.
#[derive(Debug)]
pub struct PatternState {
    /// Next value in ascending order, shared by all inputs that use the same named pattern.
    next: Rc<Cell<u32>>,
}

impl PatternState {
    /// State of a pattern; inputs of one worker share that of a named pattern.
    pub fn new(pattern: &Pattern, shared: &Shared) -> PatternState {
        PatternState {
            next: shared.get(&pattern.name, Cell::default),
        }
    }
}

/// Parses a port: a number, or the name of a TCP or UDP service.
fn port_of(word: &str, args: &Args) -> Option<u16> {
    let number = u16::from_arg(word, args.names()).ok();
    number.or_else(|| arguments::service::port(word, None, args.names()))
}

/// Parses a range of ports, or a single port. Returns the first and the last port.
pub fn ports(text: &str, args: &Args) -> Option<(u16, u16)> {
    let ends = text
        .split_once('-')
        .filter(|_| !text.starts_with(|c: char| c.is_alphabetic()));
    let (low, high) = ends.unwrap_or((text, text));
    let (low, high) = (port_of(low, args)?, port_of(high, args)?);
    (low <= high).then_some((low, high))
}

impl Pattern {
    /// True if the pattern changes the destination of flows.
    pub(crate) fn sets_destination(&self) -> bool {
        self.dst.is_some() || self.dport.is_some()
    }

    /// Parses the words of a pattern. An anonymous pattern keeps its state under `name`.
    pub fn parse(words: &[String], name: &str, args: &Args) -> Result<Pattern, String> {
        if let [named] = words {
            return Pattern::named(named, args);
        }
        let (src, port, dst, dport) = match words {
            [src, dst] => (src, None, dst, None),
            [src, dst, port] => (src, Some(port), dst, None),
            [src, port, dst, dport] => (src, Some(port), dst, Some(dport)),
            _ => return Err("bad pattern spec".to_owned()),
        };
        let mut pattern = Pattern {
            src: None,
            sport: None,
            dst: None,
            dport: None,
            range: None,
            order: Order::Own,
            ports: port.is_some(),
            name: name.to_owned(),
        };
        pattern.set_src(src, args).ok_or("bad source address")?;
        if let Some(port) = port {
            pattern.set_sport(port, args).ok_or("bad source port")?;
        }
        pattern.dst = address(dst, args).ok_or("bad destination address")?;
        if let Some(dport) = dport {
            pattern.dport = match dport.as_str() {
                "-" => None,
                word => {
                    let port = port_of(word, args).filter(|&port| port != 0);
                    Some(port.ok_or("bad destination port")?)
                }
            };
        }
        Ok(pattern)
    }

    /// Looks up the pattern `name` of an IPRewriterPatterns element.
    fn named(name: &str, args: &Args) -> Result<Pattern, String> {
        match args.memoize(NamedPatterns::new).0.get(name) {
            None => Err(format!("no pattern is named '{name}'")),
            Some((words, _)) if words.len() == 1 => Err("bad pattern spec".to_owned()),
            Some((words, _)) => Pattern::parse(words, &format!("pattern {name}"), args),
        }
    }

    fn set_src(&mut self, word: &str, args: &Args) -> Option<()> {
        if self.ports {
            self.src = address(word, args)?;
            return Some(());
        }
        let (text, order) = suffix(word);
        let (low, high) = match text.split_once('-') {
            Some((low, high)) if !low.is_empty() => {
                (parse_address(low, args)?, parse_address(high, args)?)
            }
            _ => match text.split_once('/') {
                Some(_) => hosts(text, args)?,
                None => {
                    self.src = address(text, args)?;
                    return Some(());
                }
            },
        };
        (self.src, self.order) = (Some(low), order);
        self.vary(Range::Addresses(low), high.checked_sub(low)?);
        Some(())
    }

    fn set_sport(&mut self, word: &str, args: &Args) -> Option<()> {
        if word == "-" {
            return Some(());
        }
        let (text, order) = suffix(word);
        // Port 0 stands only in a range, as in Click.
        let (low, high) = ports(text, args).filter(|&(_, high)| high != 0)?;
        (self.sport, self.order) = (Some(low), order);
        self.vary(Range::Ports(low.into()), u32::from(high - low));
        Some(())
    }

    fn vary(&mut self, range: Range, top: u32) {
        self.range = (top > 0).then_some((range, top));
    }

    /// True if the pattern has a range of source ports.
    pub(crate) fn varies_ports(&self) -> bool {
        matches!(self.range, Some((Range::Ports(_), _)))
    }

    /// Rewritten form of a flow; `None` if no free value is found. `free` tracks free values in the flow's bucket;
    /// `flows` is the number of flows in the table. `look` returns the state of a candidate key, `random` a random
    /// number.
    pub fn apply(
        &self,
        state: &PatternState,
        (key, kind): (Key, Kind),
        (free, bucket, flows): (&mut FreeTracker, u16, usize),
        mut look: impl FnMut(&Key) -> Value,
        mut random: impl FnMut() -> u32,
    ) -> Option<Key> {
        let mut to = key;
        to.src = self.src.unwrap_or(key.src);
        let with_ports = !matches!(kind, Kind::Address | Kind::Pair);
        if kind != Kind::Address {
            to.dst = self.dst.unwrap_or(key.dst);
        }
        if with_ports {
            to.sport = self.sport.unwrap_or(key.sport);
        }
        if with_ports && kind != Kind::Ping {
            to.dport = self.dport.unwrap_or(key.dport);
        }
        let (range, top) = match self.range {
            Some((Range::Ports(_), _)) if !with_ports => return Some(to),
            Some(range) => range,
            None => return Some(to),
        };
        let place = AllocationScope::new(to, (range, top), bucket);
        if let (Order::Own, Range::Ports(low)) = (self.order, range)
            && let Some(own) = u32::from(key.sport).checked_sub(low).filter(|&v| v <= top)
            && look(&place.key_for(own)) == Value::Free
        {
            return Some(place.key_for(own));
        }
        let in_order = self.order == Order::Sequential;
        let first = match self.order {
            Order::Sequential => state.next.get(),
            _ => 1 + ((u64::from(random()) * (u64::from(top) + 1)) >> 32) as u32,
        };
        let first = if first > top { 0 } else { first };
        let value = free.find(&place, (first, in_order), flows, look, random)?;
        state.next.set(value.saturating_add(1));
        Some(place.key_for(value))
    }

    /// Text form of the pattern, as handlers show it.
    pub fn show(&self) -> String {
        let dash = || "-".to_owned();
        let address = |a: Option<u32>| a.map_or_else(dash, |a| Ipv4Addr::from_bits(a).to_string());
        let port = |p: Option<u16>| p.map_or_else(dash, |p| p.to_string());
        let (mut src, mut sport) = (address(self.src), port(self.sport));
        match self.range {
            Some((Range::Ports(low), top)) => sport = format!("{low}-{}", low + top),
            Some((Range::Addresses(low), top)) => {
                let high = Ipv4Addr::from_bits(low + top);
                src = format!("{src}-{high}");
            }
            None => {}
        }
        let dst = address(self.dst);
        if self.ports {
            format!("{src} {sport} {dst} {}", port(self.dport))
        } else {
            format!("{src} {dst}")
        }
    }
}

fn suffix(word: &str) -> (&str, Order) {
    match word.as_bytes().last() {
        Some(b'#') => (&word[..word.len() - 1], Order::Sequential),
        Some(b'?') => (&word[..word.len() - 1], Order::Random),
        _ => (word, Order::Own),
    }
}

fn parse_address(word: &str, args: &Args) -> Option<u32> {
    let address = Ipv4Addr::from_arg(word, args.names()).ok()?;
    Some(address.to_bits())
}

/// Parses an address; a dash gives `Some(None)`.
fn address(word: &str, args: &Args) -> Option<Option<u32>> {
    match word {
        "-" => Some(None),
        word => parse_address(word, args).map(Some),
    }
}

/// First and last host address of a prefix, without the network and broadcast addresses of prefixes up to /30.
fn hosts(text: &str, args: &Args) -> Option<(u32, u32)> {
    let prefix = wire::Prefix4::from_arg(text, args.names()).ok()?;
    let low = prefix.addr().to_bits();
    let high = low | u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
    Some(if prefix.len() < 31 {
        (low + 1, high - 1)
    } else {
        (low, high)
    })
}
