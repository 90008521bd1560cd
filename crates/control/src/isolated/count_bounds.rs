//! Bounds of an isolated router's counts. Its process is not trusted, so only the elements and ports of the router's
//! plan are taken from an answer: the size of the metrics depends on the configuration, not on the answer.

use crate::view::{Balance, CopyStats, ElementStats, Info, PortCounter, PortStats, Stats, Table};
use engine::plan::Plan;
use engine::stats::drop_names;
use std::collections::{BTreeMap, BTreeSet};

/// Base length of an answer in bytes, without elements and ports.
const ANSWER_BASE_BYTES: usize = 64 << 10;
/// Length of an answer per clone of an element and per port, in bytes.
const COPY_BYTES: usize = 2 << 10;
const PORT_BYTES: usize = 32 << 10;
/// Length of a number with its separators, in bytes.
const NUMBER_BYTES: usize = 24;
/// Maximum number of counters of a port, and maximum length of their names and of other words, in bytes.
const PORT_COUNTERS_MAX: usize = 256;
const NAME_MAX: usize = 64;
/// Maximum number of a port's queues that one clone of an element uses.
const QUEUES_MAX: usize = 64;
/// Name of a drop counter that depends on the capabilities of ports.
const NO_SEGMENT: &str = "no_segment";

/// An isolated router's elements and ports, as this process has planned them.
#[derive(Clone, Debug)]
pub(crate) struct PlannedNames {
    elements: Vec<Element>,
    ports: BTreeSet<String>,
    workers: usize,
}

#[derive(Clone, Debug)]
struct Element {
    name: String,
    class: &'static str,
    outputs: usize,
    drops: BTreeSet<String>,
}

/// The text if it is short and can be part of a label; otherwise the empty string.
fn word(text: &str) -> String {
    let fits = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    match text.len() <= NAME_MAX && text.bytes().all(fits) {
        true => text.to_owned(),
        false => String::new(),
    }
}

impl PlannedNames {
    /// Elements and ports of a router with this plan and `workers` workers.
    pub(crate) fn of(plan: &Plan, workers: usize) -> PlannedNames {
        let element = |element: &engine::plan::PlanElement| Element {
            name: element.name.clone(),
            class: element.class.name,
            outputs: element.outputs.len(),
            drops: drop_names(element)
                .into_iter()
                .chain([NO_SEGMENT.to_owned()])
                .collect(),
        };
        PlannedNames {
            elements: plan.elements.iter().map(element).collect(),
            ports: plan.devices.iter().map(|d| d.name.clone()).collect(),
            workers,
        }
    }

    /// Maximum length of an answer with all counters, in bytes.
    pub(crate) fn most_bytes(&self) -> usize {
        let of = |e: &Element| {
            let names: usize = e.drops.iter().map(|name| name.len() + NUMBER_BYTES).sum();
            let copy = COPY_BYTES + NUMBER_BYTES * (e.outputs + e.drops.len());
            2 * e.name.len() + names + copy * self.workers
        };
        let elements: usize = self.elements.iter().map(of).sum();
        let names: usize = self.ports.iter().map(String::len).sum();
        ANSWER_BASE_BYTES + elements + 2 * names + PORT_BYTES * (self.ports.len() + 1)
    }

    /// Filters an answer: only planned elements and ports remain, with bounded numbers of counters.
    pub(crate) fn filter(&self, name: String, info: &Info, stats: Stats) -> (Info, Stats) {
        let info = Info {
            name,
            version: word(&info.version),
            uptime_ns: info.uptime_ns,
            reloads: info.reloads,
            ..Info::default()
        };
        let told: BTreeMap<&str, &ElementStats> = stats
            .elements
            .iter()
            .map(|element| (element.name.as_str(), element))
            .collect();
        let elements = self.elements.iter().filter_map(|known| {
            let told = told.get(known.name.as_str())?;
            Some(self.element(known, told))
        });
        let elements = elements.collect();
        let mut workers = stats.workers;
        workers.truncate(self.workers);
        let mut seen = BTreeSet::new();
        let ports = stats.ports.into_iter();
        let ports = ports.filter(|p| self.ports.contains(&p.name) && seen.insert(p.name.clone()));
        let checked = Stats {
            time_ns: stats.time_ns,
            reloads: stats.reloads,
            elements,
            workers,
            ports: ports.map(port).collect(),
            pool: stats.pool,
            balance: self.balance(stats.balance),
        };
        (info, checked)
    }

    fn element(&self, known: &Element, reported: &ElementStats) -> ElementStats {
        // Counters are matched to drop names by position.
        let places = reported.drop_names.iter().enumerate();
        let places: Vec<(usize, &String)> = places
            .filter(|(_, name)| known.drops.contains(*name))
            .take(2 * known.drops.len())
            .collect();
        let mut seen = BTreeSet::new();
        let copies = reported.copies.iter();
        let copies = copies.filter(|copy| copy.worker < self.workers && seen.insert(copy.worker));
        ElementStats {
            name: known.name.clone(),
            class: known.class.to_owned(),
            drop_names: places.iter().map(|(_, name)| (*name).clone()).collect(),
            copies: copies
                .map(|copy| CopyStats {
                    worker: copy.worker,
                    packets: copy.packets,
                    batches: copy.batches,
                    cycles: copy.cycles,
                    sent: copy.sent.iter().copied().take(known.outputs).collect(),
                    drops: places
                        .iter()
                        .map(|(at, _)| copy.drops.get(*at).copied().unwrap_or(0))
                        .collect(),
                    held: copy.held,
                    task: copy.task,
                    device: copy.device.clone().filter(|used| {
                        self.ports.contains(&used.port) && used.queues.len() <= QUEUES_MAX
                    }),
                })
                .collect(),
        }
    }

    /// Filters load-balancing tables, which must have the name of an element or port.
    fn balance(&self, reported: Balance) -> Balance {
        let names: BTreeSet<&str> = self.elements.iter().map(|e| e.name.as_str()).collect();
        let mut seen = BTreeSet::new();
        let is_one = |table: &Table| {
            let is_known = names.contains(table.name.as_str()) || self.ports.contains(&table.name);
            is_known && table.buckets.len() <= self.workers
        };
        let tables = reported.tables.into_iter().filter(is_one);
        let tables = tables.filter(|table| seen.insert(table.name.clone()));
        Balance {
            tables: tables.collect(),
            ..reported
        }
    }
}

fn port(reported: PortStats) -> PortStats {
    let mut seen = BTreeSet::new();
    let counters = reported.counters.into_iter().take(PORT_COUNTERS_MAX);
    let counters = counters.map(|counter| PortCounter {
        name: word(&counter.name),
        ..counter
    });
    PortStats {
        driver: word(&reported.driver),
        mac: word(&reported.mac),
        counters: counters
            .filter(|c| !c.name.is_empty() && seen.insert((c.name.clone(), c.queue)))
            .collect(),
        ..reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::compile;
    use crate::description::source::Source;
    use crate::view::DeviceUse;
    use crate::view::metrics::Text;
    use planner::Options;
    use ports::Directory;

    fn known() -> PlannedNames {
        let source = Source {
            text: "FromDevice(null:) -> q :: Queue(5) -> Unqueue -> c :: Counter -> Discard;"
                .into(),
            ..Source::default()
        };
        let ports = Directory::new();
        let options = Options::new(1, &ports);
        let compiled = compile(&source, &classes::registry(), &options);
        PlannedNames::of(compiled.plan.as_deref().expect("it is good"), 1)
    }

    fn text(stats: Stats) -> String {
        let (info, stats) = known().filter("red".into(), &Info::default(), stats);
        let mut text = Text::default();
        text.router_of_many(&info, &stats, false);
        text.end_router();
        text.finish()
    }

    fn element(name: &str, drop_names: &[&str], copies: usize) -> ElementStats {
        ElementStats {
            name: name.into(),
            class: "x".repeat(1000),
            drop_names: drop_names.iter().map(|&name| name.to_owned()).collect(),
            copies: (0..copies)
                .map(|worker| CopyStats {
                    worker,
                    packets: 7,
                    sent: vec![1; 1000],
                    drops: vec![4; 1000],
                    device: Some(DeviceUse {
                        port: "y".repeat(1000),
                        ..DeviceUse::default()
                    }),
                    ..CopyStats::default()
                })
                .collect(),
        }
    }

    #[test]
    fn counters_of_planned_elements_are_kept() {
        let stats = Stats {
            elements: vec![element("q", &["no_segment", "full"], 1)],
            ..Stats::default()
        };
        let text = text(stats);
        for line in [
            "ashlar_element_packets_total{element=\"q\",class=\"Queue\",worker=\"0\",router=\"red\"} 7\n",
            "ashlar_element_drops_total{element=\"q\",class=\"Queue\",worker=\"0\",reason=\"full\",router=\"red\"} 4\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn answer_adds_no_more_text_than_the_plan_has_names_for() {
        let honest = text(Stats {
            elements: vec![element("q", &["full"], 1), element("c", &[], 1)],
            ..Stats::default()
        });
        let long = "z".repeat(100_000);
        let hostile = text(Stats {
            elements: (0..1000)
                .map(|_| element("q", &["full", &long, "full", "a\u{1b}[2J"], 50))
                .chain([element(&long, &["full"], 50), element("c", &[&long], 50)])
                .collect(),
            workers: vec![crate::view::WorkerStats::default(); 1000],
            ports: vec![
                PortStats {
                    name: long.clone(),
                    ..PortStats::default()
                };
                100
            ],
            balance: Balance {
                tables: vec![
                    Table {
                        name: "q".into(),
                        buckets: vec![1; 100_000],
                        ..Table::default()
                    };
                    100
                ],
                ..Balance::default()
            },
            ..Stats::default()
        });
        assert!(hostile.len() < 2 * honest.len(), "{hostile}");
        assert!(!hostile.contains('\u{1b}'), "{hostile}");
    }

    #[test]
    fn honest_answer_has_room() {
        let stats = Stats {
            elements: vec![element("q", &["full"], 1)],
            ..Stats::default()
        };
        let bytes = serde_json::to_vec(&stats).expect("it is plain data").len();
        assert!(known().most_bytes() > bytes, "{bytes}");
    }
}
