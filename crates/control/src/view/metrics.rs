//! Counts as Prometheus text (exposition format 0.0.4).

mod member;
mod text;

pub use text::Text;

use crate::view::{CopyStats, ElementStats, Info, Stats};
use std::collections::BTreeMap;

/// Name, help text and value function of a counter metric.
type Counter<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Labels of an element's clone: element, class and worker.
fn labels<'a>(element: &'a ElementStats, worker: &'a str) -> [(&'static str, &'a str); 3] {
    [
        ("element", &element.name),
        ("class", &element.class),
        ("worker", worker),
    ]
}

impl Text {
    /// Adds all counters of a router that is alone in its process.
    pub fn router(&mut self, info: &Info, stats: &Stats) {
        self.build(info);
        self.gauge("ashlar_uptime_seconds", "Time since the start.")
            .sample(&[], seconds(info.uptime_ns));
        self.of_router(info, stats);
        self.of_process(stats);
    }

    /// Adds the counters of one of several routers, with the router's name as label. The counters of the process are
    /// added with the `first` router.
    pub fn router_of_many(&mut self, info: &Info, stats: &Stats, first: bool) {
        self.build(info);
        self.router = Some(info.name.clone());
        self.gauge("ashlar_uptime_seconds", "Time since the start.")
            .sample(&[], seconds(info.uptime_ns));
        self.of_router(info, stats);
        if first {
            self.router = None;
            self.of_process(stats);
            self.router = Some(info.name.clone());
        }
    }

    /// Ends the current router's label.
    pub fn end_router(&mut self) {
        self.router = None;
    }

    fn build(&mut self, info: &Info) {
        self.router = None;
        let version = [("version", info.version.as_str()), ("router", &info.name)];
        self.gauge("ashlar_build_info", "What runs.")
            .sample(&version, 1);
    }

    fn of_router(&mut self, info: &Info, stats: &Stats) {
        self.counter(
            "ashlar_reloads_total",
            "Configurations applied since the start.",
        )
        .sample(&[], info.reloads);
        elements(self, stats);
        tasks(self, stats);
        devices(self, stats);
        ports(self, stats);
        let held = "Packets that its elements hold.";
        let mut family = self.gauge("ashlar_worker_held_packets", held);
        for (worker, w) in stats.workers.iter().enumerate() {
            family.sample(&[("worker", &worker.to_string())], w.held);
        }
        balance(self, stats);
    }

    fn of_process(&mut self, stats: &Stats) {
        workers(self, stats);
        let help = "Packet buffers allocated; with DPDK, buffers in use.";
        self.gauge("ashlar_pool_buffers", help)
            .sample(&[], stats.pool.buffers);
        self.gauge("ashlar_pool_bytes", "Memory of the packet buffers.")
            .sample(&[], stats.pool.bytes);
    }

    /// Adds counters of a followed kernel: type, name, description, value.
    pub fn kernel(&mut self, counts: &[(&str, &str, &str, u64)]) {
        for (kind, name, help, value) in counts {
            let end = if *kind == "counter" { "_total" } else { "" };
            let name = format!("ashlar_netlink_{name}{end}");
            self.family(kind, &name, help).sample(&[], value);
        }
    }

    /// Adds samples from elements' handlers `metrics`: lines `NAME VALUE LABEL=WORD...`. A name that ends in `_total`
    /// denotes a counter. Invalid lines are ignored.
    pub fn samples(&mut self, elements: &[(String, String)]) {
        let is_name = |word: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(fits)
        };
        for (element, text) in elements {
            for line in text.lines() {
                let mut words = line.split_whitespace();
                let (Some(name), Some(value)) = (words.next(), words.next()) else {
                    continue;
                };
                let labels: Option<Vec<_>> = words.map(|word| word.split_once('=')).collect();
                let Some(labels) = labels.filter(|all| all.iter().all(|(label, _)| is_name(label)))
                else {
                    continue;
                };
                if !is_name(name) || value.parse::<f64>().is_err() {
                    continue;
                }
                let kind = match name.ends_with("_total") {
                    true => "counter",
                    false => "gauge",
                };
                let labels: Vec<_> = [("element", &**element)]
                    .into_iter()
                    .chain(labels)
                    .collect();
                let help = "Sample of an element: see the manual page of its class.";
                self.family(kind, &format!("ashlar_{name}"), help)
                    .sample(&labels, value);
            }
        }
    }

    /// Adds the busy time that a router has used on each worker, in nanoseconds.
    pub fn busy(&mut self, busy: &[u64]) {
        let help = "Time of a worker's turns in which the router moved packets.";
        let mut family = self.counter("ashlar_router_busy_seconds_total", help);
        for (worker, &time) in busy.iter().enumerate() {
            family.sample(&[("worker", &worker.to_string())], seconds(time));
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Clones of all elements, each with its worker as text.
fn copies(stats: &Stats) -> impl Iterator<Item = (&ElementStats, &CopyStats, String)> {
    stats.elements.iter().flat_map(|element| {
        let copies = element.copies.iter();
        copies.map(move |copy| (element, copy, copy.worker.to_string()))
    })
}

type Of<T> = fn(&CopyStats) -> T;

fn elements(text: &mut Text, stats: &Stats) {
    let counters: [(&'static str, &str, Of<u64>); 3] = [
        (
            "ashlar_element_packets_total",
            "Packets that came in, or were pulled.",
            |c| c.packets,
        ),
        (
            "ashlar_element_batches_total",
            "Batches in which they came.",
            |c| c.batches,
        ),
        (
            "ashlar_element_cycles_total",
            "Cycles spent in the element.",
            |c| c.cycles,
        ),
    ];
    for (name, help, get) in counters {
        let mut family = text.counter(name, help);
        for (e, c, worker) in copies(stats) {
            family.sample(&labels(e, &worker), get(c));
        }
    }
    let mut family = text.gauge(
        "ashlar_element_held_packets",
        "Packets that the element holds.",
    );
    for (e, c, worker) in copies(stats) {
        family.sample(&labels(e, &worker), c.held);
    }
    let mut family = text.counter(
        "ashlar_element_sent_packets_total",
        "Packets that left, by output.",
    );
    for (e, c, worker) in copies(stats) {
        for (output, sent) in c.sent.iter().enumerate() {
            let output = output.to_string();
            let [element, class, worker] = labels(e, &worker);
            family.sample(&[element, class, worker, ("output", &output)], sent);
        }
    }
    let mut family = text.counter("ashlar_element_drops_total", "Packets dropped, by name.");
    for (e, c, worker) in copies(stats) {
        // Drops by a reason and by an unconnected output may have the same name; a time series must be unique.
        let mut drops: BTreeMap<&str, u64> = BTreeMap::new();
        for (reason, count) in e.drop_names.iter().zip(&c.drops) {
            *drops.entry(reason).or_default() += count;
        }
        for (reason, drops) in drops {
            let [element, class, worker] = labels(e, &worker);
            family.sample(&[element, class, worker, ("reason", reason)], drops);
        }
    }
}

fn tasks(text: &mut Text, stats: &Stats) {
    let counters: [Counter<crate::view::Task>; 4] = [
        ("ashlar_task_runs_total", "Times that a task ran.", |t| {
            t.runs
        }),
        (
            "ashlar_task_empty_total",
            "Times that it found nothing: empty polls.",
            |t| t.empty,
        ),
        (
            "ashlar_task_cycles_total",
            "Cycles of runs that moved packets.",
            |t| t.cycles,
        ),
        (
            "ashlar_task_empty_cycles_total",
            "Cycles of empty polls.",
            |t| t.empty_cycles,
        ),
    ];
    for (name, help, get) in counters {
        let mut family = text.counter(name, help);
        for (e, c, worker) in copies(stats) {
            if let Some(task) = &c.task {
                family.sample(&labels(e, &worker), get(task));
            }
        }
    }
}

/// Queue numbers, joined for clones that serve several.
fn queues(list: &[usize]) -> String {
    let words: Vec<String> = list.iter().map(usize::to_string).collect();
    words.join("+")
}

fn devices(text: &mut Text, stats: &Stats) {
    let counters: [Counter<crate::view::DeviceUse>; 2] = [
        (
            "ashlar_port_packets_total",
            "Packets through the queues of a port.",
            |d| d.packets,
        ),
        (
            "ashlar_port_bytes_total",
            "Bytes through the queues of a port.",
            |d| d.bytes,
        ),
    ];
    for (name, help, get) in counters {
        let mut family = text.counter(name, help);
        for (e, c, worker) in copies(stats) {
            let Some(device) = &c.device else { continue };
            let labels = [
                ("port", device.port.as_str()),
                ("queue", &queues(&device.queues)),
                (
                    "direction",
                    if device.receives {
                        "receive"
                    } else {
                        "transmit"
                    },
                ),
                ("worker", &worker),
                ("element", &e.name),
            ];
            family.sample(&labels, get(device));
        }
    }
}

fn ports(text: &mut Text, stats: &Stats) {
    let mut family = text.gauge("ashlar_port_info", "What a port is.");
    for p in &stats.ports {
        let labels = [
            ("port", p.name.as_str()),
            ("driver", &p.driver),
            ("mac", &p.mac),
        ];
        family.sample(&labels, 1);
    }
    let mut family = text.gauge("ashlar_port_up", "Whether the link is up.");
    for p in &stats.ports {
        family.sample(&[("port", &p.name)], u8::from(p.up));
    }
    let mut family = text.gauge("ashlar_port_mtu_bytes", "Largest network-layer packet.");
    for p in &stats.ports {
        family.sample(&[("port", &p.name)], p.mtu);
    }
    let help = "Counters of the port, by name; most count lost packets.";
    let mut family = text.counter("ashlar_port_events_total", help);
    for p in &stats.ports {
        for c in &p.counters {
            let queue = c.queue.map(|q| q.to_string()).unwrap_or_default();
            let labels = [
                ("port", p.name.as_str()),
                ("queue", &queue),
                ("reason", &c.name),
            ];
            family.sample(&labels, c.value);
        }
    }
}

fn balance(text: &mut Text, stats: &Stats) {
    let balance = &stats.balance;
    if balance.tables.is_empty() {
        return;
    }
    text.gauge("ashlar_balance_workers", "Workers that have buckets.")
        .sample(&[], balance.working);
    let mut family = text.gauge("ashlar_balance_buckets", "Buckets that a worker owns.");
    for table in &balance.tables {
        for (worker, buckets) in table.buckets.iter().enumerate() {
            let worker = worker.to_string();
            family.sample(&[("table", &table.name), ("worker", &worker)], buckets);
        }
    }
    for (name, help, value) in [
        (
            "ashlar_balance_buckets_moved_total",
            "Buckets that have changed their worker.",
            balance.buckets_moved,
        ),
        (
            "ashlar_balance_moves_total",
            "Moves in which they did.",
            balance.moves,
        ),
        (
            "ashlar_balance_queues_moved_total",
            "Receive queues of ports that have changed their worker.",
            balance.queues_moved,
        ),
        (
            "ashlar_balance_buckets_followed_total",
            "Buckets that ports' own tables have followed to their workers.",
            balance.buckets_followed,
        ),
    ] {
        text.counter(name, help).sample(&[], value);
    }
}

fn workers(text: &mut Text, stats: &Stats) {
    type Get = fn(&crate::view::WorkerStats) -> f64;
    let counters: [(&'static str, &str, Get); 5] = [
        (
            "ashlar_worker_turns_total",
            "Turns of a worker's loop.",
            |w| w.turns as f64,
        ),
        (
            "ashlar_worker_empty_turns_total",
            "Turns in which nothing moved.",
            |w| w.empty as f64,
        ),
        (
            "ashlar_worker_busy_seconds_total",
            "Time of turns in which something moved.",
            |w| seconds(w.busy_ns),
        ),
        ("ashlar_worker_asleep_seconds_total", "Time asleep.", |w| {
            seconds(w.asleep_ns)
        }),
        (
            "ashlar_worker_sleeps_total",
            "Times that it went to sleep.",
            |w| w.sleeps as f64,
        ),
    ];
    let gauges: [(&'static str, &str, Get); 4] = [
        (
            "ashlar_worker_longest_turn_seconds",
            "Longest turn so far, awake.",
            |w| seconds(w.longest.longest_turn_ns),
        ),
        (
            "ashlar_worker_longest_run_seconds",
            "Longest part of a turn with its core.",
            |w| seconds(w.longest.longest_run_ns),
        ),
        (
            "ashlar_worker_longest_wait_seconds",
            "Longest part of a turn in which others had its core.",
            |w| seconds(w.longest.longest_wait_ns),
        ),
        (
            "ashlar_worker_longest_control_seconds",
            "Longest part of a turn that control took: messages, locks, page faults.",
            |w| seconds(w.longest.longest_control_ns),
        ),
    ];
    let all = counters
        .map(|c| ("counter", c))
        .into_iter()
        .chain(gauges.map(|g| ("gauge", g)));
    for (kind, (name, help, get)) in all {
        let mut family = text.family(kind, name, help);
        for (worker, w) in stats.workers.iter().enumerate() {
            family.sample(&[("worker", &worker.to_string())], get(w));
        }
    }
    let help = "Histogram of turns in which packets moved, by time on the core (le).";
    let mut family = text.counter("ashlar_worker_run_seconds_bucket", help);
    for (worker, w) in stats.workers.iter().enumerate() {
        let mut total = 0;
        for (place, turns) in w.runs.iter().enumerate() {
            total += turns;
            let le = match place + 1 == w.runs.len() {
                true => "+Inf".to_owned(),
                false => seconds(1_000 << place).to_string(),
            };
            family.sample(&[("worker", &worker.to_string()), ("le", &le)], total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_elements_are_taken_if_they_are_well_formed() {
        let mut text = Text::default();
        let said = "backends_up 1 backend=r1\nbackends_up 0 backend=r\"2\nmoves_total 3\n\
                    Up 1\nx nine\nx\nx 1 y\nx 1 Y=z\n";
        text.samples(&[("lb".to_owned(), said.to_owned())]);
        assert_eq!(
            text.finish(),
            "# HELP ashlar_backends_up Sample of an element: see the manual page of its class.\n\
             # TYPE ashlar_backends_up gauge\n\
             ashlar_backends_up{element=\"lb\",backend=\"r1\"} 1\n\
             ashlar_backends_up{element=\"lb\",backend=\"r\\\"2\"} 0\n\
             # HELP ashlar_moves_total Sample of an element: see the manual page of its class.\n\
             # TYPE ashlar_moves_total counter\n\
             ashlar_moves_total{element=\"lb\"} 3\n"
        );
    }

    #[test]
    fn every_line_is_a_comment_or_a_series_of_the_family_above_it_and_none_comes_twice() {
        let stats = Stats {
            elements: vec![ElementStats {
                name: "q".into(),
                class: "Queue".into(),
                drop_names: vec!["full".into(), "late".into(), "full".into()],
                copies: vec![CopyStats {
                    sent: vec![3],
                    drops: vec![2, 0, 5],
                    ..CopyStats::default()
                }],
            }],
            workers: vec![crate::view::WorkerStats::default()],
            ..Stats::default()
        };
        let mut text = Text::default();
        text.router(&Info::default(), &stats);
        let text = text.finish();
        let mut family = "";
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => family = rest.split(' ').next().unwrap_or_default(),
                None => assert!(
                    line.starts_with("# HELP ") || line.starts_with(family),
                    "{line}"
                ),
            }
        }
        let drops = "ashlar_element_drops_total{element=\"q\",class=\"Queue\",worker=\"0\",reason=\"full\"} 7\n";
        assert_eq!(text.matches("reason=\"full\"").count(), 1, "{text}");
        assert!(text.contains(drops), "{text}");
    }

    #[test]
    fn routers_share_families_and_differ_by_their_label() {
        let stats = Stats {
            workers: vec![crate::view::WorkerStats::default()],
            ..Stats::default()
        };
        let mut text = Text::default();
        for (n, name) in ["red", "blue"].into_iter().enumerate() {
            let info = Info {
                name: name.into(),
                reloads: n as u64,
                ..Info::default()
            };
            text.router_of_many(&info, &stats, n == 0);
            text.kernel(&[("gauge", "routes4", "IPv4 routes.", 7)]);
            text.busy(&[1_500_000_000]);
            text.end_router();
        }
        let text = text.finish();
        for line in [
            "ashlar_reloads_total{router=\"red\"} 0\nashlar_reloads_total{router=\"blue\"} 1\n",
            "ashlar_netlink_routes4{router=\"red\"} 7\nashlar_netlink_routes4{router=\"blue\"} 7\n",
            "ashlar_router_busy_seconds_total{worker=\"0\",router=\"blue\"} 1.5\n",
            "ashlar_worker_turns_total{worker=\"0\"} 0\n",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line}{text}");
        }
        let heads = text.lines().filter(|line| line.starts_with("# TYPE "));
        let mut heads: Vec<&str> = heads.collect();
        let all = heads.len();
        heads.sort_unstable();
        heads.dedup();
        assert_eq!(heads.len(), all, "{text}");
    }
}
