use super::*;

/// A device that forwards `capacity` packets a second and queues up to `room` more.
struct Device {
    capacity: f64,
    room: f64,
    /// One in this many trials loses a thousandth of its packets by chance; 0 = none.
    unlucky: u64,
    seed: u64,
}

impl Device {
    fn of(capacity: f64) -> Device {
        Device {
            capacity,
            room: 0.0,
            unlucky: 0,
            seed: 1,
        }
    }

    /// Runs a trial; returns the share of lost packets.
    fn run(&mut self, trial: Trial) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let seconds = trial.duration.as_secs_f64();
        let over = (trial.load - self.capacity) * seconds - self.room;
        let lost = (over / (trial.load * seconds)).max(0.0);
        match self.unlucky > 0 && self.seed.is_multiple_of(self.unlucky) {
            true => lost + 0.001,
            false => lost,
        }
    }
}

fn settings(votes: usize) -> Settings {
    Settings {
        goals: vec![0.0, 0.005],
        loads: (10.0, 10_000_000.0),
        duration: Duration::from_secs(1),
        precision: 0.005,
        votes,
        trials_max: 500,
    }
}

/// Runs a search; returns both goals' bounds and the number of trials.
fn search(device: &mut Device, settings: Settings) -> (Bounds, Bounds, usize) {
    let mut search = Search::new(settings);
    while let Some(trial) = search.next_trial() {
        search.record(trial, device.run(trial));
    }
    (search.bounds(0), search.bounds(1), search.log().len())
}

#[test]
fn a_capacity_lies_between_bounds_as_close_as_asked() {
    for n in 1..200 {
        let capacity = 11.0 * 1.07f64.powi(n);
        let (ndr, pdr, trials) = search(&mut Device::of(capacity), settings(1));
        for (bounds, right) in [(ndr, capacity), (pdr, capacity / 0.995)] {
            let (lower, upper) = (bounds.lower.unwrap(), bounds.upper.unwrap());
            assert!(lower <= right && right < upper, "{bounds:?} {right}");
            assert!(upper <= lower * 1.005 + 1e-6, "{bounds:?}");
        }
        assert!(trials < 60, "{capacity}: {trials}");
    }
}

#[test]
fn load_that_only_short_trials_pass_is_not_accepted() {
    let mut device = Device {
        room: 5000.0,
        ..Device::of(20_000.0)
    };
    // In a trial of one second the device forwards the queued packets, too; in a sixteenth of a second these weigh
    // more.
    let (ndr, _, _) = search(&mut device, settings(1));
    let right = 25_000.0;
    assert!(
        ndr.lower.unwrap() <= right && right < ndr.upper.unwrap(),
        "{ndr:?}"
    );
}

#[test]
fn the_majority_of_trials_outvotes_bad_luck() {
    let worst = |votes| {
        let mut worst = 0.0f64;
        for seed in 1..=50u64 {
            let mut device = Device {
                unlucky: 10,
                seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                ..Device::of(1_000_000.0)
            };
            let (ndr, ..) = search(&mut device, settings(votes));
            let lower = ndr.lower.expect("most trials fit");
            assert!(
                lower <= 1_000_000.0,
                "nothing that loses is believed to fit"
            );
            worst = worst.max(1.0 - lower / 1_000_000.0);
        }
        worst
    };
    assert!(worst(1) > 0.02, "one vote is deceived");
    assert!(worst(9) < 0.01);
}

#[test]
fn a_device_that_carries_all_or_nothing_has_one_bound() {
    let (ndr, pdr, trials) = search(&mut Device::of(1e12), settings(1));
    let all = Bounds {
        lower: Some(10_000_000.0),
        upper: None,
    };
    assert_eq!((ndr, pdr, trials), (all, all, 3));
    let (ndr, pdr, _) = search(&mut Device::of(0.0), settings(1));
    let none = Bounds {
        lower: None,
        upper: Some(10.0),
    };
    assert_eq!((ndr, pdr), (none, none));
}

#[test]
fn search_without_goals_runs_no_trials() {
    let none = Settings {
        goals: Vec::new(),
        ..settings(1)
    };
    assert_eq!(Search::new(none).next_trial(), None);
}

#[test]
fn a_search_ends_with_its_last_trial() {
    let few = Settings {
        trials_max: 4,
        ..settings(1)
    };
    let (.., trials) = search(&mut Device::of(77_777.0), few);
    assert_eq!(trials, 4);
}
