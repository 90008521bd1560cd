//! Table of the elements that packets pass.

use super::{Rates, Selection, handled, per, print, short_number};
use crate::cli::Sort;
use control::view::ElementStats;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

/// Counters of an element in the interval.
struct Row<'a> {
    element: &'a ElementStats,
    packets: u64,
    cycles: u64,
    held: u64,
    drops: Vec<u64>,
}

impl Rates<'_> {
    /// Elements that packets pass, of those chosen. `fused` has the first element of the loop that runs an element, by
    /// its name.
    pub(super) fn elements(
        &self,
        out: &mut String,
        fused: &HashMap<String, String>,
        choice: &Selection,
    ) {
        let chosen = self.after.elements.iter().filter(|e| choice.is_shown(e));
        let mut rows: Vec<Row> = chosen.filter_map(|e| self.row(e)).collect();
        match choice.sort {
            Sort::Packets => rows.sort_by_key(|row| Reverse(row.packets)),
            Sort::Cycles => rows.sort_by_key(|row| Reverse(row.cycles)),
            Sort::Drops => rows.sort_by_key(|row| Reverse(row.drops.iter().sum::<u64>())),
            Sort::Name => rows.sort_by(|a, b| a.element.name.cmp(&b.element.name)),
        }
        let is_loop = rows.iter().any(|row| fused.contains_key(&row.element.name));
        let texts = rows.iter().map(|row| self.text(row, fused)).collect();
        let head = ["element", "packets/s", "cycles/packet", "held", "drops/s"];
        print(out, &head, 1, texts);
        if is_loop {
            out.truncate(out.trim_end().len());
            let _ = writeln!(
                out,
                "\n*: of the whole loop that begins with this element. Those that say \"in\" run in that loop.\n"
            );
        }
    }

    /// Counters of an element; `None` if it processed and holds no packets.
    fn row<'a>(&self, element: &'a ElementStats) -> Option<Row<'a>> {
        let mut row = Row {
            element,
            packets: 0,
            cycles: 0,
            held: 0,
            drops: self.drop_counts(element),
        };
        for copy in &element.copies {
            let was = self.earlier_counts(element, copy.worker);
            row.packets += handled(copy).saturating_sub(handled(&was));
            row.cycles += copy.cycles.saturating_sub(was.cycles);
            row.held += copy.held;
        }
        (row.packets > 0 || row.held > 0).then_some(row)
    }

    fn text(&self, row: &Row, fused: &HashMap<String, String>) -> [String; 5] {
        let element = row.element;
        let named = element
            .drop_names
            .iter()
            .zip(&row.drops)
            .filter(|(_, n)| **n > 0);
        let named: Vec<String> = named
            .map(|(name, n)| format!("{name} {}", short_number(*n as f64 / self.seconds)))
            .collect();
        let cycles = per(row.cycles, row.packets);
        [
            format!("{} :: {}", element.name, element.class),
            short_number(row.packets as f64 / self.seconds),
            match fused.get(&element.name) {
                Some(first) if *first == element.name => format!("{cycles}*"),
                Some(first) => format!("in {first}"),
                None => cycles,
            },
            row.held.to_string(),
            named.join(", "),
        ]
    }
}

impl Selection {
    /// True if an element is to be shown.
    fn is_shown(&self, element: &ElementStats) -> bool {
        let name = format!("{} :: {}", element.name, element.class).to_lowercase();
        let mut words = self.words.iter();
        self.words.is_empty() || words.any(|word| name.contains(&word.to_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Sort;
    use crate::rates::{Annotations, Selection, table};
    use control::view::{CopyStats, Element, ElementStats, Stats};

    fn at(seconds: u64) -> Stats {
        let element =
            |name: &str, class: &str, packets: u64, cycles: u64, drops: u64| ElementStats {
                name: name.into(),
                class: class.into(),
                drop_names: vec!["full".into()],
                copies: vec![CopyStats {
                    sent: vec![packets * seconds],
                    cycles: packets * cycles * seconds,
                    drops: vec![drops * seconds],
                    ..CopyStats::default()
                }],
            };
        Stats {
            time_ns: seconds * 1_000_000_000,
            elements: vec![
                element("check", "CheckIPHeader", 100, 50, 3),
                element("ttl", "DecIPTTL", 90, 0, 0),
                element("q", "Queue", 80, 70, 9),
            ],
            ..Stats::default()
        }
    }

    fn shown(words: &[&str], sort: Sort) -> Vec<String> {
        let element = |name: &str, fused: Option<&str>| Element {
            name: name.into(),
            fused: fused.map(str::to_owned),
            ..Element::default()
        };
        let known = Annotations::of(vec![
            element("check", Some("check")),
            element("ttl", Some("check")),
            element("q", None),
        ]);
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let text = table(&at(1), &at(2), &known, &Selection { words, sort }).unwrap();
        text.lines()
            .map(|line| line.split("  ").next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn elements_are_sorted_and_chosen_by_words() {
        let first = |sort| shown(&[], sort)[1].clone();
        assert_eq!(first(Sort::Packets), "check :: CheckIPHeader");
        assert_eq!(first(Sort::Cycles), "q :: Queue");
        assert_eq!(first(Sort::Drops), "q :: Queue");
        assert_eq!(first(Sort::Name), "check :: CheckIPHeader");
        let some = shown(&["ttl", "QUEUE"], Sort::Packets);
        assert_eq!(some[1..3], ["ttl :: DecIPTTL", "q :: Queue"]);
    }

    #[test]
    fn cycles_of_a_loop_are_said_to_be_the_loops() {
        let known = Annotations::of(vec![
            Element {
                name: "check".into(),
                fused: Some("check".into()),
                ..Element::default()
            },
            Element {
                name: "ttl".into(),
                fused: Some("check".into()),
                ..Element::default()
            },
        ]);
        let text = table(&at(1), &at(2), &known, &Selection::default()).unwrap();
        let right = "\
element                 packets/s  cycles/packet  held  drops/s
check :: CheckIPHeader        103            49*     0  full 3
ttl :: DecIPTTL                90       in check     0
q :: Queue                     89             63     0  full 9
*: of the whole loop that begins with this element. Those that say \"in\" run in that loop.
";
        assert!(text.starts_with(right), "{text}");
    }
}
