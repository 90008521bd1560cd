//! `ashlar bench`: measures the throughput of a configuration, and the latency of packets.
//!
//! A [`test_stand::Stand`] offers packets that are due at equal intervals ([`offered_load`]) and counts returning
//! packets, with the time since each was due ([`histogram`]). A stand replaces the devices of a configuration
//! ([`memory_devices`]), or is connected to them by cables ([`cable`]). A [`test_bed::TestBed`] runs trials, with a
//! router in real time or in simulated time. [`search`], which is pure, chooses the trials.

pub mod arrivals;
pub mod cable;
pub mod histogram;
pub mod memory_devices;
pub mod neighbour;
pub mod offered_load;
pub mod search;
pub mod test_bed;
pub mod test_stand;
pub mod traffic;

use search::{Bounds, Search, Settings, Trial};
use std::time::Duration;
use test_bed::{Measured, TestBed};

/// Result of a search for one goal.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// Acceptable share of lost packets.
    pub goal: f64,
    /// Greatest load that meets the goal, and least load that does not.
    pub bounds: Bounds,
    /// The last full trial at the lower bound.
    pub fits: Option<Measured>,
    /// The last full trial at the upper bound.
    pub fails: Option<Measured>,
}

/// Searches for the greatest load at which each goal's loss is not exceeded. Calls `tell` with every trial and the
/// bounds of the first goal.
pub fn throughput(
    bed: &mut dyn TestBed,
    settings: Settings,
    tell: &mut dyn FnMut(&Measured, Bounds),
) -> Result<Vec<SearchResult>, String> {
    let (goals, full) = (settings.goals.clone(), settings.duration);
    let (mut search, mut all) = (Search::new(settings), Vec::new());
    while let Some(trial) = search.next_trial() {
        let measured = bed.run(trial)?;
        search.record(trial, measured.lost());
        tell(&measured, search.bounds(0));
        all.push(measured);
    }
    let last = |load: Option<f64>| {
        let mut full = all.iter().rev().filter(|m| m.trial.duration >= full);
        full.find(|m| Some(m.trial.load) == load).cloned()
    };
    let found = goals.iter().enumerate().map(|(n, &goal)| {
        let bounds = search.bounds(n);
        SearchResult {
            goal,
            bounds,
            fits: last(bounds.lower),
            fails: last(bounds.upper),
        }
    });
    Ok(found.collect())
}

/// Sends a few packets of every flow, so that neighbours are resolved and caches are warm. Checks that packets arrive
/// at the right port; the error says where they went.
pub fn warm_up(bed: &mut dyn TestBed, flows: usize, to: &str) -> Result<(), String> {
    let duration = Duration::from_millis(200);
    let load = (2.0 * flows as f64 / duration.as_secs_f64()).max(1000.0);
    let mut first = bed.run(Trial { load, duration })?;
    if first.received == 0 {
        // The first packets may only have started address resolution, so the trial is repeated.
        first = bed.run(Trial { load, duration })?;
    }
    if first.received > 0 {
        return Ok(());
    }
    let mut text = format!("none of {} packets left by {to}", first.offered);
    if first.elsewhere > 0 {
        text += &format!("; {} left by another port", first.elsewhere);
    }
    for (name, n) in &first.drops {
        text += &format!("; {n} were dropped: {name}");
    }
    Err(format!(
        "{text}. Name the ports with --from and --to, and addresses that lead there with --source and \
         --destination"
    ))
}
