//! Sorts packets by their AGGREGATE annotation: the first filter that lists it decides.
//!
//! ```click
//! FromDump(trace.pcap, FORCE_IP true) -> AggregateIPFlows -> AggregateFilter(allow 1 5 9-20) -> ToDump(some.pcap);
//! ```
//!
//! Packets that no filter lists are dropped (`unlisted`), and so are those of a `drop` filter (`filtered`).
//!
//! Arguments:
//!
//! - `FILTERS`: for each filter an action, then aggregates: numbers, ranges `0-98`, or `all` (also `-`). The
//!   action is an output, `allow` for output 0, or `drop` (also `deny`).

use crate::prelude::*;
use arguments::units;
use lang::Severity;
use std::ops::RangeInclusive;

/// Ranges of aggregates and where they go; `None` = dropped.
type Rules = Vec<(RangeInclusive<u32>, Option<u8>)>;

pub(super) struct AggregateFilter(Arc<Rules>);

drops! {
    UNLISTED = "unlisted",
    FILTERED = "filtered",
}

fn range(word: &str) -> Option<RangeInclusive<u32>> {
    if matches!(word, "all" | "-") {
        return Some(0..=u32::MAX);
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let number = |text| units::parse(text).ok();
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

impl Element for AggregateFilter {
    const CONTRACT: Contract = Contract::new("AggregateFilter", manual!())
        .ports(Ports::coded(&["in"], &["out*"], "h/h"))
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Rules;

    fn configure(args: &mut Args) -> Rules {
        let mut rules: Rules = Vec::new();
        let filters = args.rest(
            "FILTERS",
            "an action and aggregates",
            "what to do with which aggregates",
        );
        for (number, arg) in filters.into_iter().enumerate() {
            let words = arg.words();
            let Some((action, aggregates)) = words.split_first() else {
                continue;
            };
            // A filter behind one for all aggregates may be anything, as in Click.
            if rules.iter().any(|rule| rule.0 == (0..=u32::MAX)) {
                let text = format!("pattern {number} matches no packets");
                args.report(Severity::Warning, text);
                continue;
            }
            let action = match action.as_str() {
                "allow" => Some(0),
                "drop" | "deny" => None,
                port => match units::whole_number::<u8>(port) {
                    Some(port) => Some(port),
                    None => {
                        args.error(&arg, format!("unknown slot ID '{port}'"));
                        None
                    }
                },
            };
            if aggregates.is_empty() {
                args.error(&arg, format!("pattern {number} has no aggregates"));
            }
            for word in aggregates {
                match range(word) {
                    Some(range) => rules.push((range, action)),
                    None => args.error(&arg, format!("bad aggregate '{word}'")),
                }
            }
        }
        rules
    }

    fn new(rules: &Arc<Rules>, _: &Init) -> AggregateFilter {
        AggregateFilter(Arc::clone(rules))
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let aggregate = packet.cold().aggregate();
        let rule = self.0.iter().find(|rule| rule.0.contains(&aggregate));
        match rule {
            Some((_, Some(port))) => Verdict::out(*port),
            Some((_, None)) => Verdict::drop(FILTERED),
            None => Verdict::drop(UNLISTED),
        }
    }
}

impl Resources for AggregateFilter {
    fn port_count(rules: &Rules) -> (Option<usize>, Option<usize>) {
        let last = rules.iter().filter_map(|rule| rule.1).max();
        (None, last.map(|port| usize::from(port) + 1))
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_first_filter_that_lists_an_aggregate_counts() {
        let mut bench = Bench::new(
            crate::with_basics(),
            "a :: AggregateLength -> f :: AggregateFilter(0x1 0x2, deny 3, allow 1-3) -> out :: Collect;
             f[1] -> one :: Collect",
        );
        bench.push("a", &[&b"a"[..], b"aa", b"aaa", b"aaaa"]);
        assert_eq!(bench.take("out"), [b"a"]);
        assert_eq!(bench.take("one"), [b"aa"]);
        assert_eq!(
            (bench.drops("f", "filtered"), bench.drops("f", "unlisted")),
            (1, 1)
        );
        let text = "a :: AggregateLength -> AggregateFilter(allow all, 5) -> out :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.push("a", &[b"a"]);
        assert_eq!(bench.take("out"), [b"a"], "Click warns of the second one");
        let errors = testkit::errors(
            crate::with_basics(),
            "Idle -> AggregateFilter(allow x) -> Discard",
        );
        assert!(errors.contains("bad aggregate 'x'"), "{errors}");
        let errors = testkit::errors(
            crate::with_basics(),
            "Idle -> AggregateFilter(deny) -> Discard",
        );
        assert!(errors.contains("has no aggregates"), "{errors}");
    }
}
