//! Handlers of the rewriting classes.

use super::rewriter::{Family, Rewriter};
use crate::prelude::*;
use arguments::units::whole_number;
use engine::clock::Time;
use nat::key::Key;
use nat::set::Counts;
use nat::spec::Input;
use std::net::Ipv4Addr;

/// Handlers common to all rewriting classes, followed by the class's own.
macro_rules! handlers {
    ($($more:expr),* $(,)?) => {
        &[
            Handler::sum("table_size", "mappings of this rewriter", |e| e.mappings()),
            Handler::sum("nmappings", "the same", |e| e.mappings()),
            Handler::sum(
                "mapping_failures",
                "flows for which no mapping could be made",
                |e| e.failures(),
            ),
            Handler::sum("size", "mappings of all rewriters that share the capacity", |e| e.size()),
            Handler::text(
                "capacity",
                "most mappings of all rewriters that share it",
                |e, _| Ok(e.capacity()),
            ),
            Handler::set("capacity", "changes the capacity", |e, value, cx| {
                e.set_capacity(value, cx)
            }),
            Handler::text("patterns", "treatment of new flows, a line per input, with the number of mappings", |e, _| {
                Ok(e.patterns())
            }),
            Handler::set("clear", "forgets all mappings of this rewriter", |e, _, _| {
                e.clear();
                Ok(())
            }),
            $($more),*
        ]
    };
}
pub(super) use handlers;

/// Handler that lists the mappings of one protocol number; 0 stands for all protocols.
pub(super) const fn table<F: Family, const PROTO: u8>(name: &'static str) -> Handler<Rewriter<F>> {
    Handler::text(name, "mappings, both directions", |e, _| Ok(e.table(PROTO)))
}

/// Handler that returns the rewritten form of a flow of one protocol number; 0 stands for any protocol.
pub(super) const fn lookup<F: Family, const PROTO: u8>(name: &'static str) -> Handler<Rewriter<F>> {
    Handler::text(
        name,
        "the rewritten form of a flow SADDR SPORT DADDR DPORT",
        |e, flow| e.lookup(flow, PROTO),
    )
}

impl<F: Family> Rewriter<F> {
    fn counts<T: std::iter::Sum>(&self, get: impl Fn(&nat::set::Counts) -> T) -> T {
        let set = self.joined.set.borrow();
        let space = &set.spaces[usize::from(self.joined.space)];
        space.inputs.iter().map(get).sum()
    }

    pub(super) fn mappings(&self) -> u64 {
        self.counts(|c| c.mappings)
    }

    pub(super) fn failures(&self) -> u64 {
        self.counts(|c| c.failures)
    }

    pub(super) fn size(&self) -> u64 {
        self.joined.set.borrow().count() as u64
    }

    /// Capacity of the flow set in flows, at most 2^31 - 1, the largest value that Click can show.
    pub(super) fn capacity(&self) -> String {
        let capacity = self.joined.set.borrow().capacity();
        capacity.min(i32::MAX as usize).to_string()
    }

    pub(super) fn set_capacity(&self, value: &str, cx: &mut Cx) -> Result<(), String> {
        let numbers: Option<Vec<usize>> = value.split_whitespace().map(whole_number).collect();
        // Click's reservation has no effect: guarantees decide which flows a full table keeps.
        let capacity = match numbers.as_deref() {
            Some(&[capacity] | &[capacity, _]) => capacity,
            _ => return Err("write a capacity, and a reservation if you like".to_owned()),
        };
        let mut set = self.joined.set.borrow_mut();
        set.set_capacity(capacity, cx.now());
        Ok(())
    }

    pub(super) fn patterns(&self) -> String {
        let set = self.joined.set.borrow();
        let counts = &set.spaces[usize::from(self.joined.space)].inputs;
        let lines = self.joined.inputs.iter().zip(counts);
        let show = |(input, counts): (&Input, &Counts)| match counts.mappings {
            0 => format!("{}\n", input.spec().show()),
            n => format!("{} [{n}]\n", input.spec().show()),
        };
        lines.map(show).collect()
    }

    pub(super) fn clear(&self) {
        self.joined.set.borrow_mut().clear(self.joined.space);
    }

    /// Mappings of one protocol number as text; 0 stands for all protocols.
    pub(super) fn table(&self, proto: u8) -> String {
        let set = self.joined.set.borrow();
        set.table(self.joined.space, F::KIND, proto)
    }

    /// Rewritten form of a flow `SADDR SPORT DADDR DPORT`; empty if the flow has no mapping.
    pub(super) fn lookup(&self, flow: &str, proto: u8) -> Result<String, String> {
        let words: Vec<&str> = flow.split_whitespace().collect();
        let address = |w: &str| w.parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits);
        let key = match words.as_slice() {
            &[src, sport, dst, dport] => address(src).zip(address(dst)).and_then(|(src, dst)| {
                Some(Key {
                    src,
                    dst,
                    sport: sport.parse().ok()?,
                    dport: dport.parse().ok()?,
                    space: self.joined.space,
                    proto,
                })
            }),
            _ => None,
        };
        let key = key.ok_or("give a flow: SADDR SPORT DADDR DPORT")?;
        let set = self.joined.set.borrow();
        // Handlers have no clock: an expired mapping counts until it is removed.
        Ok(set.find(&key, Time(0)).map_or(String::new(), |end| {
            let to = set.rewritten(end);
            let (src, dst) = (Ipv4Addr::from_bits(to.src), Ipv4Addr::from_bits(to.dst));
            format!("{src} {} {dst} {}", to.sport, to.dport)
        }))
    }
}
