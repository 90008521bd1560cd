//! Properties that hold for every multistage router, in virtual time.

use super::*;
use crate::balance::{HealthSettings, Settings};
use crate::simulate::Matrix;

const MS: u64 = 1_000_000;

/// Two balancers, four back ends, and hosts that answer, far below the capacity of the boxes.
fn quiet(time_ms: u64, seed: u64) -> Config {
    Config {
        fronts: 4,
        balancers: 2,
        weights: vec![1; 4],
        rate: 2_000.0,
        answers: true,
        flows: 16,
        flow_packets: 40,
        settings: Settings {
            idle: 20 * MS,
            deadline: 60_000 * MS,
            settle: 50 * MS,
        },
        time: time_ms * MS,
        seed,
        ..Config::default()
    }
}

fn fails(what: Target, how: Fault, from_ms: u64, until_ms: u64) -> Failure {
    Failure {
        what,
        how,
        from: from_ms * MS,
        until: until_ms * MS,
    }
}

#[test]
fn without_events_all_packets_arrive_in_order_and_both_directions_meet() {
    let report = Simulation::new(quiet(500, 1)).finish();
    assert!(report.packets_in > 7000 && report.balances());
    assert_eq!(report.packets_in, report.packets_out);
    assert_eq!((report.reordering.late, report.apart), (0, 0));
    assert_eq!(
        (report.copies, report.doubled, report.false_alarms),
        (0, 0, 0)
    );
    assert!(report.agreed);
}

#[test]
fn runs_follow_from_the_seed() {
    let run = |seed| {
        let mut config = quiet(300, seed);
        config.add_random(10);
        format!("{:?}", Simulation::new(config).finish())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// Figure 7: routers add up until the front port's rate is reached.
#[test]
fn back_ends_add_up_as_in_the_paper() {
    let carried = |balancers: u16, backends: usize| {
        let config = Config {
            fronts: balancers.max(2).into(),
            balancers,
            weights: vec![1; backends],
            rate: 1_488_095.0 * f64::from(balancers) / f64::from(balancers.max(2)),
            in_turn: true,
            time: 20 * MS,
            ..Config::default()
        };
        let report = Simulation::new(config).finish();
        assert!(report.balances());
        report.carried as f64 / 0.02 / 1e3
    };
    for (balancers, backends, kpps) in [
        (1, 1, 640.0),
        (1, 2, 1280.0),
        (1, 3, 1488.0),
        (2, 2, 1280.0),
        (4, 10, 5952.0),
    ] {
        let found = carried(balancers, backends);
        assert!(
            (found - kpps).abs() < 0.02 * kpps,
            "{balancers} {backends}: {found}"
        );
    }
}

#[test]
fn planned_changes_lose_and_reorder_nothing() {
    for seed in 1..4 {
        let mut config = quiet(2000, seed);
        let change = |of, order, at: u64| Change {
            of,
            order,
            at: at * MS,
        };
        config.changes = vec![
            change(1, Order::Drain, 100),
            change(0, Order::Weight(3), 600),
            change(1, Order::Use, 1000),
            change(2, Order::Drain, 1050),
            change(0, Order::Weight(1), 1300),
            change(2, Order::Use, 1500),
        ];
        let report = Simulation::new(config).finish();
        assert!(report.balances());
        assert_eq!(
            (report.lost(), report.reordering.late, report.forced),
            (0, 0, 0)
        );
        assert!(report.backends.iter().all(|packets| *packets > 0));
        assert!(report.agreed, "all changes have ended");
    }
}

#[test]
fn a_drained_back_end_gets_nothing_when_its_flows_have_ended() {
    let mut config = quiet(3000, 1);
    config.changes = vec![Change {
        of: 1,
        order: Order::Drain,
        at: 0,
    }];
    config.warmup = 2500 * MS;
    config.time = 500 * MS;
    let report = Simulation::new(config).finish();
    assert_eq!(report.backends[1], 0);
    assert!(report.backends[0] > 0);
}

/// At the deadline busy buckets move, too, and a message about that is reported.
#[test]
fn a_deadline_moves_the_rest_and_says_so() {
    let mut config = quiet(500, 1);
    config.settings.deadline = 10 * MS;
    config.changes = vec![Change {
        of: 1,
        order: Order::Drain,
        at: 100 * MS,
    }];
    let report = Simulation::new(config).finish();
    assert!(report.forced > 0 && report.balances());
    assert_eq!(report.lost(), 0);
}

#[test]
fn each_crash_loses_at_most_detection_times_share() {
    for how in [Fault::Crash, Fault::OneWay] {
        let mut config = quiet(12_000, 3);
        // Back ends that fail repeatedly come back later each time. Here all are back before another fails.
        config.health.answers = 1;
        let failure = |n: u64| {
            fails(
                Target::Backend((n % 4) as u16),
                how,
                100 + 500 * n,
                300 + 500 * n,
            )
        };
        config.failures = (0..20).map(failure).collect();
        let report = Simulation::new(config).finish();
        assert!(report.balances() && report.losses.len() == 20);
        let (mut lost, mut expected) = (0, 0.0);
        for loss in &report.losses {
            let detection = loss.detection.expect("it was noticed");
            // The missing probe was sent up to one interval after the failure, and three intervals pass until
            // detection.
            assert!(
                (20 * MS..=41 * MS).contains(&detection),
                "{}: {detection}",
                loss.failure
            );
            assert!(loss.lost > 0);
            lost += loss.lost;
            expected += loss.expected();
        }
        // The flows of a back end may carry more or less than its share: over 20 failures chance allows 10 %.
        assert!(lost as f64 <= 1.1 * expected, "{lost} {expected}");
        assert_eq!(report.lost(), lost, "nothing else is lost");
        assert_eq!((report.doubled, report.false_alarms), (0, 0));
    }
}

/// A flow of another back end does not notice a crash.
#[test]
fn flows_of_other_back_ends_stay_in_order() {
    let mut config = quiet(600, 5);
    config.failures = vec![fails(Target::Backend(2), Fault::Crash, 100, 5000)];
    let report = Simulation::new(config).finish();
    assert_eq!(
        report.reordering.late, 0,
        "a flow that moves at a crash has left nothing behind"
    );
    assert_eq!(report.dropped(Drop::BackendDown), report.lost());
}

#[test]
fn a_hang_is_noticed_and_a_slow_box_is_no_false_alarm() {
    let mut config = quiet(800, 6);
    config.failures = vec![
        fails(Target::Backend(1), Fault::Hang, 100, 200),
        fails(Target::Backend(2), Fault::Slow, 400, 600),
        fails(Target::Balancer(0), Fault::Hang, 650, 700),
    ];
    let report = Simulation::new(config).finish();
    assert!(
        report.dropped(Drop::BackendFull) > 0,
        "its queue overflows until others know"
    );
    assert!(report.balances() && report.agreed);
    assert_eq!(report.false_alarms, 0);
}

#[test]
fn a_switch_that_has_forgotten_all_floods_and_doubles_nothing() {
    let mut config = quiet(500, 7);
    config.failures = vec![fails(Target::Switch, Fault::Crash, 100, 102)];
    let report = Simulation::new(config).finish();
    assert!(report.dropped(Drop::SwitchDown) > 0 && report.copies > 0);
    assert_eq!(report.lost(), report.dropped(Drop::SwitchDown));
    assert_eq!((report.doubled, report.false_alarms), (0, 0));
    assert!(report.balances());
}

#[test]
fn a_restarted_balancer_computes_the_same_table() {
    let mut config = quiet(1500, 8);
    config.changes = vec![Change {
        of: 0,
        order: Order::Weight(2),
        at: 100 * MS,
    }];
    config.failures = vec![fails(Target::Balancer(1), Fault::Crash, 900, 950)];
    let report = Simulation::new(config).finish();
    assert_eq!(report.lost(), report.dropped(Drop::BalancerDown));
    assert!(report.agreed && report.balances());
    assert_eq!(report.reordering.late, 0);
}

/// Crashes, hangs, one-way losses, slow boxes, drains, weights, restarts of the switch and of balancers.
#[test]
fn a_thousand_random_events_lose_no_packet_without_a_name() {
    for seed in 0..4 {
        let mut config = quiet(3_000, seed);
        config.rate = 1_000.0;
        config.settings.deadline = 200 * MS;
        config.health = HealthSettings {
            answers: 3,
            ..config.health
        };
        config.add_random(250);
        // All failures end, and all back ends return: one that failed often must answer 64 times as many probes.
        config.time += 2_000 * MS;
        config.matrix = [
            Matrix::Uniform,
            Matrix::Permutation,
            Matrix::Random,
            Matrix::HotSpot,
        ][seed as usize];
        let report = Simulation::new(config).finish();
        assert!(report.balances(), "{seed}: {report:?}");
        assert_eq!(report.doubled, 0, "{seed}");
        assert_eq!(report.false_alarms, 0, "{seed}");
        assert!(
            report.agreed,
            "{seed}: balancers have different tables after all"
        );
        for (drop, name) in Drop::ALL {
            let may_be_absent = matches!(
                drop,
                Drop::BackPortFull | Drop::FrontPortFull | Drop::NoPort | Drop::NoBackend
            );
            assert!(
                may_be_absent || report.dropped(drop) > 0,
                "{seed}: no event drops as {name}"
            );
        }
        assert!(
            report.packets_out > report.packets_in / 4,
            "{seed}: most packets pass"
        );
    }
}
