//! Tables of rates between two readings of a router's counters.

use crate::cli::Sort;
use control::view::{CopyStats, DeviceUse, Element, Router, Stats};
use elements::device::vlan::{self, InsertedRole};
use std::collections::HashMap;
use std::fmt::Write;

mod element_table;
mod readings;

pub(crate) use readings::Rates;

/// Choice and order of the elements that are shown.
#[derive(Default)]
pub(crate) struct Selection {
    /// Words to match: a name or a class must contain one. All elements are shown if there are none.
    pub(crate) words: Vec<String>,
    pub(crate) sort: Sort,
}

/// Annotations shown beside counters: VLANs, and for each element in a fused loop, by name, the loop's first element.
#[derive(Default)]
pub(crate) struct Annotations {
    pub(crate) vlans: Vec<Vlan>,
    pub(crate) fused: HashMap<String, String>,
}

impl Annotations {
    pub(crate) fn of(elements: Vec<Element>) -> Annotations {
        let fused = elements
            .iter()
            .filter_map(|e| Some((e.name.clone(), e.fused.clone()?)))
            .collect();
        Annotations {
            fused,
            vlans: vlans(elements),
        }
    }
}

/// One direction of a VLAN port (`eth0.100`) of a configuration: the element and the output by which its packets leave.
pub(crate) struct Vlan {
    id: String,
    element: Element,
    output: usize,
}

/// The VLANs of a configuration.
fn vlans(elements: Vec<Element>) -> Vec<Vlan> {
    let mut all = Vec::new();
    for element in &elements {
        let ids: Vec<String> = match vlan::inserted_role(&element.class, &element.name) {
            Some(InsertedRole::In(_)) => {
                let ids = element.configuration.split(',');
                std::iter::once("")
                    .chain(ids)
                    .map(|id| id.trim().to_owned())
                    .collect()
            }
            Some(InsertedRole::Out(sender)) => {
                let outer = vlan::outer_of(sender);
                let outer = elements.iter().find(|e| e.name == outer);
                let tags = outer.into_iter().chain([element]);
                let tags = tags.filter_map(|e| vlan::encap_tag(&e.configuration));
                let tags: Vec<String> = tags.map(|tag| tag.to_string()).collect();
                vec![tags.join(".")]
            }
            None => continue,
        };
        let each = ids.into_iter().enumerate().filter(|(_, id)| !id.is_empty());
        all.extend(each.map(|(output, id)| Vlan {
            id,
            element: element.clone(),
            output,
        }));
    }
    all
}

/// The table that `ashlar top` shows.
///
/// # Errors
/// The router was started again between the readings.
pub(crate) fn table(
    before: &Stats,
    after: &Stats,
    known: &Annotations,
    choice: &Selection,
) -> Result<String, String> {
    let rates = Rates::new(before, after).ok_or("the router was started again a moment ago")?;
    let mut out = String::new();
    rates.queues(&mut out, &known.vlans);
    rates.workers(&mut out);
    rates.steering(&mut out);
    rates.elements(&mut out, &known.fused, choice);
    rates.print_losses(&mut out);
    Ok(out)
}

/// Table of a process's routers: the share of each worker's time that each router has used in `time` nanoseconds.
pub(crate) fn routers(before: &[Router], after: &[Router], time: f64) -> String {
    let width = after.iter().map(|r| r.name.len()).fold(6, usize::max);
    let mut out = format!(
        "{:width$} {:>9} {:>8} {:>9}",
        "router", "elements", "share", "priority"
    );
    let workers = after.first().map_or(0, |r| r.busy_ns.len());
    for worker in 0..workers {
        let _ = write!(out, " {:>8}", format!("worker{worker}"));
    }
    out.push('\n');
    for r in after {
        let was = before.iter().find(|b| b.name == r.name);
        let _ = write!(
            out,
            "{:width$} {:>9} {:>8} {:>9}",
            r.name, r.elements, r.share, r.priority
        );
        for (worker, busy) in r.busy_ns.iter().enumerate() {
            let was = was.and_then(|was| was.busy_ns.get(worker)).unwrap_or(&0);
            let _ = write!(out, " {:>8}", share(busy.saturating_sub(*was) as f64, time));
        }
        out.push('\n');
    }
    out
}

/// Formats a number with three digits: 950, 12.3k, 4.56M.
pub(crate) fn short_number(n: f64) -> String {
    let (scaled, unit) = match n.abs() {
        x if x >= 999.5e6 => (n / 1e9, "G"),
        x if x >= 999.5e3 => (n / 1e6, "M"),
        x if x >= 999.5 => (n / 1e3, "k"),
        _ => (n, ""),
    };
    let digits = match scaled.abs() {
        _ if unit.is_empty() && scaled.fract() == 0.0 => 0,
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{unit}")
}

/// Formats a time: 15us, 8.14ms.
fn duration(nanoseconds: u64) -> String {
    match nanoseconds as f64 {
        n if n >= 1e9 => format!("{}s", short_number(n / 1e9)),
        n if n >= 1e6 => format!("{}ms", short_number(n / 1e6)),
        n => format!("{}us", short_number((n / 1e3).round())),
    }
}

/// Formats a share in percent; a dash if `whole` is 0.
pub(crate) fn share(part: f64, whole: f64) -> String {
    match whole > 0.0 {
        true => format!("{:.0}%", 100.0 * part / whole),
        false => "-".to_owned(),
    }
}

fn per(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => short_number((part as f64 / whole as f64).round()),
    }
}

/// Number of packets that an element's copy handled: those that left it, plus those it dropped; for a sink, those it
/// took.
fn handled(copy: &CopyStats) -> u64 {
    let gone = copy.sent.iter().sum::<u64>() + copy.drops.iter().sum::<u64>();
    let sent = copy
        .device
        .as_ref()
        .filter(|d| !d.receives)
        .map(|d| d.packets);
    match (gone, sent) {
        (_, Some(sent)) => gone + sent,
        (0, None) => copy.packets,
        (gone, None) => gone,
    }
}

impl Rates<'_> {
    /// "up" or "down".
    fn link(&self, port: &str) -> String {
        if self.is_up(port) { "up" } else { "down" }.to_owned()
    }

    /// A row for each worker of a VLAN's elements; its queues and bytes are the port's.
    fn of_vlan(&self, vlan: &Vlan) -> Vec<[String; 8]> {
        let find = |name: &str| self.after.elements.iter().find(|e| e.name == name);
        let (port, way) = match vlan::inserted_role(&vlan.element.class, &vlan.element.name) {
            Some(InsertedRole::In(port)) => (Some(port), "in"),
            Some(InsertedRole::Out(sender)) => {
                let copies = find(sender).map(|e| &e.copies).into_iter().flatten();
                let mut devices = copies.filter_map(|copy| copy.device.as_ref());
                (devices.next().map(|device| &*device.port), "out")
            }
            None => (None, ""),
        };
        let (Some(port), Some(element)) = (port, find(&vlan.element.name)) else {
            return Vec::new();
        };
        let sent = |copy: &CopyStats| copy.sent.get(vlan.output).copied().unwrap_or(0);
        let row = |copy: &CopyStats| {
            let was = sent(&self.earlier_counts(element, copy.worker));
            [
                format!("{port}.{}", vlan.id),
                self.link(port),
                way.to_owned(),
                "-".to_owned(),
                copy.worker.to_string(),
                short_number(self.rate(was, sent(copy))),
                "-".to_owned(),
                "-".to_owned(),
            ]
        };
        element.copies.iter().map(row).collect()
    }

    fn queues(&self, out: &mut String, vlans: &[Vlan]) {
        let mut rows: Vec<_> = vlans.iter().flat_map(|vlan| self.of_vlan(vlan)).collect();
        for element in &self.after.elements {
            for copy in &element.copies {
                let Some(now) = &copy.device else { continue };
                let was = self
                    .earlier_counts(element, copy.worker)
                    .device
                    .unwrap_or_default();
                let queues: Vec<String> = now.queues.iter().map(usize::to_string).collect();
                let (before, after) = (self.earlier_counts(element, copy.worker).task, copy.task);
                let polls = after.map(|t| {
                    let b = before.unwrap_or_default();
                    (
                        t.empty.saturating_sub(b.empty) as f64,
                        t.runs.saturating_sub(b.runs) as f64,
                    )
                });
                rows.push([
                    now.port.clone(),
                    self.link(&now.port),
                    if now.receives { "in" } else { "out" }.to_owned(),
                    queues.join("+"),
                    copy.worker.to_string(),
                    short_number(self.rate(was.packets, now.packets)),
                    short_number(8.0 * self.rate(was.bytes, now.bytes)),
                    polls.map_or("-".into(), |(empty, runs)| share(empty, runs)),
                ]);
            }
        }
        rows.sort();
        let head = [
            "port",
            "link",
            "way",
            "queue",
            "worker",
            "packets/s",
            "bits/s",
            "empty polls",
        ];
        print(out, &head, 3, rows);
    }

    fn workers(&self, out: &mut String) {
        let rows = self.after.workers.iter().enumerate().map(|(n, now)| {
            let was = self.before.workers.get(n).cloned().unwrap_or_default();
            let turns = now.turns.saturating_sub(was.turns);
            let empty = now.empty.saturating_sub(was.empty);
            let asleep = self.rate(was.asleep_ns, now.asleep_ns) / 1e9;
            [
                n.to_string(),
                short_number(turns as f64 / self.seconds),
                share(empty as f64, turns as f64),
                share(self.busy(n), 1.0),
                share(asleep.min(1.0), 1.0),
                self.buckets(n),
                now.held.to_string(),
                duration(now.longest.longest_turn_ns),
                duration(now.longest.longest_run_ns),
                duration(now.longest.longest_wait_ns),
                duration(now.longest.longest_control_ns),
            ]
        });
        let head = [
            "worker",
            "turns/s",
            "empty",
            "busy",
            "asleep",
            "buckets",
            "held",
            "longest turn",
            "run",
            "wait",
            "control",
        ];
        print(out, &head, 0, rows.collect());
        out.push_str(&self.uneven_advice());
    }

    /// Advice if one worker receives all packets while others idle.
    fn uneven_advice(&self) -> String {
        let mut received = vec![0; self.after.workers.len()];
        for element in &self.after.elements {
            for copy in &element.copies {
                let was = self.earlier_counts(element, copy.worker).device;
                let packets = |device: &DeviceUse| if device.receives { device.packets } else { 0 };
                let now = copy.device.as_ref().map_or(0, packets);
                let packets_received = now.saturating_sub(was.as_ref().map_or(0, packets));
                if let Some(sum) = received.get_mut(copy.worker) {
                    *sum += packets_received;
                }
            }
        }
        let all: u64 = received.iter().sum();
        let most = received
            .iter()
            .enumerate()
            .max_by_key(|(_, packets)| **packets);
        let Some((worker, most)) = most.filter(|_| received.len() > 1) else {
            return String::new();
        };
        if (all as f64) < 1000.0 * self.seconds || (*most as f64) < 0.95 * all as f64 {
            return String::new();
        }
        format!(
            "worker {worker} receives {} of the packets, the others idle: a port puts all packets of a flow into one \
             queue. Give it more queues, or spread flows by `FromDevice(..., CLASSIFY ...)` (docs/queues.md)\n\n",
            share(*most as f64, all as f64)
        )
    }

    /// Buckets of flows that a worker owns.
    fn buckets(&self, worker: usize) -> String {
        let tables = &self.after.balance.tables;
        let own = tables.iter().filter_map(|t| t.buckets.get(worker));
        match tables.is_empty() {
            true => "-".to_owned(),
            false => own.sum::<usize>().to_string(),
        }
    }

    /// Effect and cost of steering, if any element steers.
    fn steering(&self, out: &mut String) {
        let (was, now) = (&self.before.balance, &self.after.balance);
        if now.tables.is_empty() {
            return;
        }
        let (mut packets, mut cycles, mut all) = (0, 0, 0);
        for element in &self.after.elements {
            for copy in &element.copies {
                let was = self.earlier_counts(element, copy.worker);
                let spent = copy.cycles.saturating_sub(was.cycles);
                all += spent;
                if element.class == "Steer" {
                    packets += copy.packets.saturating_sub(was.packets);
                }
                if element.class == "Steer" || element.class.starts_with("BucketBy") {
                    cycles += spent;
                }
            }
        }
        let _ = writeln!(
            out,
            "steering: {} packets/s, {} cycles a packet, {} of all cycles; {} buckets/s moved, {} since the start, {} \
                followed by ports\n",
            short_number(packets as f64 / self.seconds),
            per(cycles, packets),
            share(cycles as f64, all as f64),
            short_number(self.rate(was.buckets_moved, now.buckets_moved)),
            now.buckets_moved,
            now.buckets_followed
        );
    }

    /// Losses that are counted by ports only; counters that are zero are left out.
    fn print_losses(&self, out: &mut String) {
        let mut rows = Vec::new();
        for port in &self.after.ports {
            for counter in port.counters.iter().filter(|c| c.value > 0) {
                rows.push([
                    port.name.clone(),
                    counter.queue.map_or("-".into(), |q| q.to_string()),
                    counter.name.clone(),
                    short_number(self.rate(self.earlier_value(port, counter), counter.value)),
                    counter.value.to_string(),
                ]);
            }
        }
        print(out, &["port", "queue", "event", "per s", "total"], 1, rows);
    }
}

/// Aligns rows under their heads; the first `texts` columns and the last one, if it is no number,
/// to the left. Nothing is written without rows.
pub(crate) fn print<const N: usize>(
    out: &mut String,
    head: &[&str; N],
    texts: usize,
    rows: Vec<[String; N]>,
) {
    if rows.is_empty() {
        return;
    }
    let width = |at: usize| {
        let cells = rows.iter().map(|r| r[at].chars().count());
        cells.chain([head[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut line = |cells: &[&str]| {
        let mut text = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let gap = if at == 0 { "" } else { "  " };
            let w = widths[at];
            let _ = match at < texts || (at + 1 == N && head[at] == "drops/s") {
                true => write!(text, "{gap}{cell:<w$}"),
                false => write!(text, "{gap}{cell:>w$}"),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(head);
    for row in &rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        line(&cells);
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::view::{DeviceUse, ElementStats, Task, WorkerStats};

    fn at(seconds: u64, packets: u64) -> Stats {
        let source = CopyStats {
            sent: vec![packets],
            cycles: packets * 20,
            task: Some(Task {
                runs: packets,
                empty: packets / 2,
                ..Task::default()
            }),
            device: Some(DeviceUse {
                port: "eth0".into(),
                receives: true,
                queues: vec![0, 2],
                packets,
                bytes: packets * 100,
            }),
            ..CopyStats::default()
        };
        let queue = CopyStats {
            packets: 2 * packets,
            sent: vec![packets / 2],
            drops: vec![packets / 2],
            held: 3,
            ..CopyStats::default()
        };
        let element = |name: &str, drops: &[&str], copy| ElementStats {
            name: name.into(),
            class: "Class".into(),
            drop_names: drops.iter().map(|&d| d.to_owned()).collect(),
            copies: vec![copy],
        };
        Stats {
            time_ns: seconds * 1_000_000_000,
            elements: vec![element("q", &["full"], queue), element("in", &[], source)],
            workers: vec![WorkerStats {
                turns: 10 * seconds,
                empty: 5 * seconds,
                asleep_ns: seconds * 250_000_000,
                busy_ns: seconds * 100_000_000,
                ..WorkerStats::default()
            }],
            ..Stats::default()
        }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let table = table(
            &at(10, 1000),
            &at(12, 5000),
            &Annotations::default(),
            &Selection::default(),
        )
        .unwrap();
        let right = "\
port  link  way  queue  worker  packets/s  bits/s  empty polls
eth0  up    in     0+2       0      2.00k   1.60M          50%

worker  turns/s  empty  busy  asleep  buckets  held  longest turn  run  wait  control
     0       10    50%   10%     25%        -     0           0us  0us   0us      0us

element      packets/s  cycles/packet  held  drops/s
q :: Class       2.00k              0     3  full 1.00k
in :: Class      2.00k             20     0

";
        assert_eq!(table, right);
    }

    #[test]
    fn table_says_that_the_router_was_started_again() {
        let (known, choice) = (Annotations::default(), Selection::default());
        let table = table(&at(10, 1000), &at(2, 5000), &known, &choice);
        let why = "the router was started again a moment ago";
        assert_eq!(table, Err(why.to_owned()));
    }

    #[test]
    fn vlans_have_rows_beside_those_of_their_port() {
        let element = |name: &str, class: &str, configuration: &str| Element {
            name: name.into(),
            class: class.into(),
            configuration: configuration.into(),
            workers: vec![0],
            fused: None,
            handlers: Vec::new(),
        };
        let known = Annotations::of(vec![
            element("eth0/vlans", "VLANSplit", "10, 20"),
            element("out/vlan", "VLANEncap", "7"),
            element("mine", "VLANEncap", "8"),
        ]);
        let at = |seconds: u64, packets: u64| {
            let counts = |name: &str, sent: Vec<u64>, device| ElementStats {
                name: name.into(),
                copies: vec![CopyStats {
                    sent,
                    device,
                    ..CopyStats::default()
                }],
                ..ElementStats::default()
            };
            let sender = DeviceUse {
                port: "eth1".into(),
                packets,
                ..DeviceUse::default()
            };
            Stats {
                time_ns: seconds * 1_000_000_000,
                elements: vec![
                    counts("eth0/vlans", vec![1, 2 * packets, 4 * packets], None),
                    counts("out/vlan", vec![packets], None),
                    counts("out", vec![], Some(sender)),
                ],
                ..Stats::default()
            }
        };
        let table = table(&at(1, 0), &at(2, 100), &known, &Selection::default()).unwrap();
        let right = "\
port     link  way  queue  worker  packets/s  bits/s  empty polls
eth0.10  up    in       -       0        200       -            -
eth0.20  up    in       -       0        400       -            -
eth1     up    out              0        100       0            -
eth1.7   up    out      -       0        100       -            -
";
        assert!(table.starts_with(right), "{table}");
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown: Vec<String> = [0.0, 7.5, 950.0, 999.6, 12_345.0, 4.56e6, 1.5e9]
            .map(short_number)
            .into();
        assert_eq!(
            shown,
            ["0", "7.50", "950", "1.00k", "12.3k", "4.56M", "1.50G"]
        );
    }
}
