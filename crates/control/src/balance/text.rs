//! Texts of the balancer: `ashlar show balance`, and counts for programs.

use super::driver::{Balance, TableMeasurement};
use super::settings::Mode;
use crate::view;
use std::collections::BTreeMap;
use std::fmt::Write;
use steer::ranges;

/// Number of events shown.
const EVENTS_SHOWN: usize = 10;

impl Balance {
    /// Report of load, proposed moves with reasons, and past moves.
    pub fn show(&self) -> String {
        let state = self.lock();
        let mode = match state.settings.mode {
            Mode::Off => "off",
            Mode::Even => "even",
            Mode::On => "on",
        };
        let mut text = format!(
            "balance {mode}, share {:.0}%, every {} ms, {} of {} workers\n",
            state.settings.share * 100.0,
            state.settings.interval.as_millis(),
            state.active.min(state.all),
            state.all
        );
        if state.measurements.is_empty() {
            text.push_str("nothing is steered: FromDevice(..., CLASSIFY hash) does that\n");
        }
        for measurement in &state.measurements {
            table(&mut text, measurement, &state.busy);
        }
        for lost in &state.following.observed {
            let mut by_queue: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
            for one in &lost.misdelivered {
                let buckets = by_queue.entry((one.from.0, one.to)).or_default();
                buckets.push(one.bucket.into());
            }
            for ((from, to), buckets) in by_queue {
                let (element, buckets) = (&lost.element, ranges(&buckets));
                let _ = writeln!(
                    text,
                    "{element}: the port would move packets from queue {from} to queue {to}: buckets {buckets}"
                );
            }
        }
        let _ = writeln!(
            text,
            "{} buckets have moved in {} moves, and {} queues; ports have followed {} buckets",
            state.moved, state.moves, state.queues, state.following.followed
        );
        let skipped = state.history.len().saturating_sub(EVENTS_SHOWN);
        for event in state.history.iter().skip(skipped) {
            let _ = writeln!(text, "{:10.3}s {}", event.at.as_secs_f64(), event.text);
        }
        text
    }

    /// Load-balancing state for the API.
    pub fn view(&self) -> view::Balance {
        let state = self.lock();
        let table = |measurement: &TableMeasurement| view::Table {
            name: measurement.table.name().to_owned(),
            buckets: measurement.buckets.clone(),
            packets: measurement.proposal.before.clone(),
        };
        view::Balance {
            working: state.active.min(state.all),
            tables: state.measurements.iter().map(table).collect(),
            buckets_moved: state.moved,
            moves: state.moves,
            queues_moved: state.queues,
            buckets_followed: state.following.followed,
        }
    }
}

fn table(text: &mut String, measurement: &TableMeasurement, busy: &[f64]) {
    let (proposal, seconds) = (
        &measurement.proposal,
        measurement.time.as_secs_f64().max(1e-9),
    );
    let _ = writeln!(text, "{}: {}", measurement.table.name(), proposal.why);
    for worker in measurement.table.workers() {
        let rate = |load: u64| load as f64 / seconds;
        let _ = writeln!(
            text,
            "  worker {worker}: busy {:.0}%, {} buckets, {:.0} packets/s, would have {:.0}",
            busy.get(worker).unwrap_or(&0.0) * 100.0,
            measurement.buckets[worker],
            rate(proposal.before[worker]),
            rate(proposal.after[worker])
        );
    }
    for ((from, to), buckets) in proposal.by_pair() {
        let buckets = ranges(&buckets);
        let _ = writeln!(text, "  would move from worker {from} to {to}: {buckets}");
    }
    if !proposal.oversized.is_empty() {
        let above = &proposal.oversized[..proposal.oversized.len().min(EVENTS_SHOWN)];
        let above: Vec<String> = above.iter().map(usize::to_string).collect();
        let _ = writeln!(
            text,
            "  above the mean, and never split: buckets {}",
            above.join(" ")
        );
    }
}
