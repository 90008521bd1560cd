//! Throughput search: which load to try next, and the bounds that trials have shown.
//!
//! RFC 2544, 26.1 asks for the greatest load without a loss. Bisection with long trials takes long, and one unlucky
//! trial spoils the result. This search follows the idea of MLRsearch (draft-ietf-bmwg-mlrsearch). It has several
//! goals, each a tolerated share of losses, which use each other's trials. Early phases are coarse with short trials,
//! and their results are only the start of the next phase. In the last phase the majority of several trials decides
//! about a load.
//!
//! The search knows no clock and no device. [`Search::next_trial`] names a trial, [`Search::record`] takes its
//! result, [`Search::bounds`] returns the known bounds.

use std::time::Duration;

/// Goals and precision of a search.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Tolerated share of lost packets for each goal; 0 for the non-drop rate (NDR). Empty: no search.
    pub goals: Vec<f64>,
    /// Least and greatest load in packets per second.
    pub loads: (f64, f64),
    /// Length of the trials of the last phase.
    pub duration: Duration,
    /// Greatest final distance of the bounds, relative to the lower one.
    pub precision: f64,
    /// Number of trials whose majority decides about a load.
    pub votes: usize,
    /// Maximum number of trials.
    pub trials_max: usize,
}

/// Number of phases: trials have a sixteenth, a quarter, and then all of the full length.
const PHASES: usize = 3;

/// A trial to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Packets per second.
    pub load: f64,
    /// Length of the trial.
    pub duration: Duration,
}

/// Bounds of the result for a goal. A load equal to `lower` meets the goal; one equal to `upper` does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Greatest load that meets the goal, below the upper bound; `None` if none is known.
    pub lower: Option<f64>,
    /// Least load that does not meet the goal.
    pub upper: Option<f64>,
}

/// A search under way.
pub struct Search {
    settings: Settings,
    log: Vec<(Trial, f64)>,
    phase: usize,
    goal: usize,
    /// Relative distance of the next load beyond the known bound; it doubles each time.
    step: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Fits,
    Fails,
    Open,
}

impl Search {
    /// A search without trials.
    pub fn new(settings: Settings) -> Search {
        let mut search = Search {
            settings,
            log: Vec::new(),
            phase: 0,
            goal: 0,
            step: 0.0,
        };
        search.step = 2.0 * search.width();
        search
    }

    /// The next trial; `None` if all results are known, or no more trials may run.
    pub fn next_trial(&mut self) -> Option<Trial> {
        if self.settings.goals.is_empty() {
            return None;
        }
        while self.log.len() < self.settings.trials_max && self.phase < PHASES {
            if let Some(load) = self.next_load() {
                let (least, most) = self.settings.loads;
                return Some(Trial {
                    load: load.clamp(least, most),
                    duration: self.duration(self.phase),
                });
            }
            self.goal += 1;
            if self.goal == self.settings.goals.len() {
                (self.goal, self.phase) = (0, self.phase + 1);
            }
            self.step = 2.0 * self.width();
        }
        None
    }

    /// Records the result of a trial: the share of lost packets.
    pub fn record(&mut self, trial: Trial, lost: f64) {
        self.log.push((trial, lost));
    }

    /// Bounds for a goal, by its index, that trials of full length have shown.
    pub fn bounds(&self, goal: usize) -> Bounds {
        self.known_bounds(goal, PHASES - 1)
    }

    /// All trials so far in order, each with its share of lost packets.
    pub fn log(&self) -> &[(Trial, f64)] {
        &self.log
    }

    fn duration(&self, phase: usize) -> Duration {
        self.settings.duration / (1 << (2 * (PHASES - 1 - phase)))
    }

    /// Maximum distance of bounds in this phase.
    fn width(&self) -> f64 {
        let phase = self.phase.min(PHASES - 1);
        self.settings.precision * f64::from(1 << (PHASES - 1 - phase))
    }

    /// Majority of the trials at this load that are at least as long as this phase's; `None` if there is none yet.
    fn verdict(&self, load: f64, goal: usize, phase: usize) -> Verdict {
        let votes = match phase {
            p if p + 1 == PHASES => self.settings.votes,
            _ => 1,
        };
        let most = self.settings.goals[goal];
        let long = |t: &Trial| t.load == load && t.duration >= self.duration(phase);
        let (mut fits, mut fails) = (0, 0);
        for (_, lost) in self.log.iter().filter(|(t, _)| long(t)) {
            match *lost <= most {
                true => fits += 1,
                false => fails += 1,
            }
        }
        match votes / 2 + 1 {
            needed if fails >= needed && fails >= fits => Verdict::Fails,
            needed if fits >= needed => Verdict::Fits,
            _ => Verdict::Open,
        }
    }

    fn known_bounds(&self, goal: usize, phase: usize) -> Bounds {
        let mut judged = Vec::new();
        for (trial, _) in &self.log {
            judged.push((trial.load, self.verdict(trial.load, goal, phase)));
        }
        let with = |v: Verdict| judged.iter().filter(move |j| j.1 == v).map(|j| j.0);
        let upper = with(Verdict::Fails).min_by(f64::total_cmp);
        let below = |load: &f64| upper.is_none_or(|upper| *load < upper);
        Bounds {
            lower: with(Verdict::Fits).filter(below).max_by(f64::total_cmp),
            upper,
        }
    }

    /// A load that was tried in this phase, lies between the bounds and has no majority yet.
    fn undecided(&self, known: Bounds) -> Option<f64> {
        let between = |load: f64| {
            known.lower.is_none_or(|lower| load > lower)
                && known.upper.is_none_or(|upper| load < upper)
        };
        let tried = self.log.iter().rev();
        let mut now = tried.filter(|(t, _)| t.duration >= self.duration(self.phase));
        let open = |load| self.verdict(load, self.goal, self.phase) == Verdict::Open;
        now.find(|(t, _)| between(t.load) && open(t.load))
            .map(|(t, _)| t.load)
    }

    /// The next load that this phase needs to try for its goal.
    fn next_load(&mut self) -> Option<f64> {
        let known = self.known_bounds(self.goal, self.phase);
        if let Some(load) = self.undecided(known) {
            return Some(load);
        }
        let (least, most) = self.settings.loads;
        let before = match self.phase {
            0 => Bounds::default(),
            phase => self.known_bounds(self.goal, phase - 1),
        };
        match (known.lower, known.upper) {
            (None, None) => Some(before.lower.or(before.upper).unwrap_or(most)),
            (Some(lower), None) if lower >= most => None,
            (Some(lower), None) => Some(match before.upper.filter(|&upper| upper > lower) {
                Some(upper) => upper,
                None => lower * (1.0 + self.extrapolate()),
            }),
            (None, Some(upper)) if upper <= least => None,
            (None, Some(upper)) => {
                let hint = before.lower.or_else(|| self.forwarded(upper));
                let hint = hint.filter(|&lower| lower < upper / (1.0 + self.width()));
                Some(hint.unwrap_or_else(|| upper / (1.0 + self.extrapolate())))
            }
            (Some(lower), Some(upper)) if upper <= lower * (1.0 + self.width()) => None,
            (Some(lower), Some(upper)) => Some((lower * upper).sqrt()),
        }
    }

    fn extrapolate(&mut self) -> f64 {
        let step = self.step;
        self.step *= 2.0;
        step
    }

    /// Rate that was forwarded at an excessive load: an estimate of the capacity.
    fn forwarded(&self, load: f64) -> Option<f64> {
        let mut tried = self.log.iter().filter(|(t, _)| t.load == load);
        tried.next_back().map(|(t, lost)| t.load * (1.0 - lost))
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
