//! Properties of tables and pools, checked on random histories and against a naive model.

use super::*;
use crate::simulate::rng::SimRng;

const MS: u64 = 1_000_000;
const SETTINGS: Settings = Settings {
    idle: 100 * MS,
    deadline: 30_000 * MS,
    settle: 0,
};

fn candidates(all: &[(&str, u16)]) -> Vec<Option<Candidate>> {
    let one = |&(name, weight): &(&str, u16)| {
        (weight > 0).then(|| Candidate {
            key: key(name),
            weight,
        })
    };
    all.iter().map(one).collect()
}

fn pool(names: &[&str]) -> Pool {
    let members = names.iter().map(|name| Member {
        name: (*name).to_owned(),
        weight: 1,
    });
    let pool = Pool::new(SETTINGS, members.collect(), Vec::new(), vec![0, 1]);
    pool.sweep(0);
    pool
}

fn share(owners: &[u16], backend: u16) -> usize {
    owners.iter().filter(|owner| **owner == backend).count()
}

/// Sweeps several times, until every bucket counts as idle.
fn rest(pool: &Pool, now: &mut u64) {
    for _ in 0..4 {
        *now += 60 * MS;
        pool.sweep(*now);
    }
}

/// Compares with golden.txt, which golden.py wrote from the algorithm in docs/multistage.md alone.
#[test]
fn another_program_computes_the_same_table() {
    for line in include_str!("golden.txt").lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let members: Vec<(&str, u16)> = parts[0]
            .split(' ')
            .map(|one| {
                let (name, weight) = one.split_once(':').expect("name:weight");
                (name, weight.parse().expect("a weight"))
            })
            .collect();
        let all = owners(&candidates(&members));
        let some = [0, 1, 2, 3, 255, 256, 32767, 65535].map(|at: usize| all[at].to_string());
        assert_eq!(some.join(" "), parts[1], "{line}");
        let sum = all.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, owner| {
            (sum ^ u64::from(*owner)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        assert_eq!(format!("{sum:016x}"), parts[2], "{line}");
    }
}

#[test]
fn shares_follow_weights_within_statistical_bounds() {
    for weights in [
        &[1; 2][..],
        &[1; 16],
        &[1, 2, 3],
        &[5, 1, 10, 3, 1, 1, 20],
        &[1, 10_000],
    ] {
        let names: Vec<String> = (0..weights.len()).map(|n| format!("router{n}")).collect();
        let members: Vec<(&str, u16)> = names
            .iter()
            .map(|n| &**n)
            .zip(weights.iter().copied())
            .collect();
        let all = owners(&candidates(&members));
        let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        for (at, weight) in (0..).zip(weights) {
            let p = f64::from(*weight) / sum;
            let expected = p * BUCKETS as f64;
            let deviation = (expected * (1.0 - p)).sqrt();
            let found = share(&all, at) as f64;
            assert!(
                (found - expected).abs() <= 4.0 * deviation + 1.0,
                "{weights:?} {at}: {found} for {expected}"
            );
        }
    }
}

#[test]
fn removal_moves_exactly_the_share_and_adding_again_gives_the_first_table() {
    let mut chance = SimRng::new(1);
    for _ in 0..10 {
        let count = 2 + chance.below(20) as usize;
        let names: Vec<String> = (0..count)
            .map(|n| format!("{}-{n}", chance.bits()))
            .collect();
        let weights: Vec<u16> = names.iter().map(|_| 1 + chance.below(9) as u16).collect();
        let with: Vec<(&str, u16)> = names.iter().map(|n| &**n).zip(weights).collect();
        let gone = chance.below(count as u64) as u16;
        let mut without = with.clone();
        without[usize::from(gone)].1 = 0;
        let (with, without) = (candidates(&with), candidates(&without));
        let first = owners(&with);
        let mut now = first.clone();
        retarget(&mut now, &without, &[gone]);
        let moved = first.iter().zip(&now).filter(|(was, is)| was != is).count();
        assert_eq!(moved, share(&first, gone));
        assert_eq!(now, owners(&without));
        retarget(&mut now, &with, &[gone]);
        assert_eq!(now, first);
    }
}

#[test]
fn the_order_in_which_back_ends_are_listed_does_not_matter() {
    let some = [("a", 3), ("b", 1), ("c", 2), ("d", 1)];
    let mut turned = some;
    turned.reverse();
    let (one, other) = (owners(&candidates(&some)), owners(&candidates(&turned)));
    assert!(one.iter().zip(&other).all(|(a, b)| *a == 3 - *b));
}

/// Targets depend only on the present back ends: after any history they equal those of a new table.
#[test]
fn tables_of_two_balancers_are_equal_after_any_history() {
    let mut chance = SimRng::new(2);
    let names = ["r1", "r2", "r3", "r4", "r5"];
    for _ in 0..4 {
        let (one, other) = (pool(&names), pool(&names));
        let mut now = 0;
        for _ in 0..60 {
            now += chance.below(200) * MS;
            let of = chance.below(5) as u16;
            match chance.below(5) {
                0 => _ = one.set_up(of, false, now),
                1 => _ = one.set_up(of, true, now),
                2 => one.intend(of, Intent::Drained, None),
                3 => one.intend(of, Intent::Used, Some(chance.below(100) * MS)),
                _ => one.set_weight(of, 1 + chance.below(3) as u16, None),
            }
            one.sweep(now);
        }
        // The other pool learns only the present states, in the order of names.
        for (of, state) in (0..).zip(one.states()) {
            other.set_weight(of, state.member.weight, None);
            other.intend(of, state.intent, None);
            other.set_up(of, state.up, now);
        }
        assert_eq!(one.targets(0), other.targets(0));
        rest(&one, &mut now);
        rest(&other, &mut now);
        assert_eq!(one.owners(0), other.owners(0));
        assert_eq!(one.owners(0), one.targets(0));
    }
}

#[test]
fn a_crash_moves_its_buckets_at_once_and_no_others() {
    let pool = pool(&["r1", "r2", "r3"]);
    let before = pool.owners(0);
    assert_eq!(pool.speaker(), 0);
    assert_eq!(pool.set_up(0, false, MS), share(&before, 0));
    let after = pool.owners(0);
    let same = |(was, is): (&u16, &u16)| was == is || *was == 0 && *is != 0;
    assert!(before.iter().zip(&after).all(same));
    assert_eq!(share(&after, 0), 0);
    assert_eq!(pool.speaker(), 1);
    assert!(!pool.up(0) && pool.up(1));
    // A back end that has come back gets its buckets when they are idle.
    assert_eq!(pool.set_up(0, true, 2 * MS), 0);
    assert_eq!(pool.owners(0), after);
    rest(&pool, &mut (2 * MS));
    assert_eq!(pool.owners(0), before);
}

#[test]
fn a_busy_bucket_stays_until_it_is_silent_or_the_deadline_comes() {
    let pool = pool(&["r1", "r2"]);
    let owners = pool.owners(0);
    let of_r1: Vec<u16> = (0..=u16::MAX)
        .filter(|b| owners[usize::from(*b)] == 0)
        .collect();
    let (busy, bursty) = (of_r1[0], of_r1[1]);
    pool.intend(0, Intent::Drained, Some(1000 * MS));
    pool.sweep(0);
    let mut left = Vec::new();
    for at in 0..150 {
        let now = at * 10 * MS;
        if pool.owner(0, busy, now) == 1 {
            left.push(at);
        }
        // Ten packets, then silence for 150 ms.
        if at % 25 < 10 && pool.owner(0, bursty, now) == 1 {
            assert!(at >= 25, "it was not silent before");
        }
        pool.sweep(now);
    }
    assert_eq!(left.first(), Some(&101), "at the deadline and not before");
    assert_eq!(pool.owner(0, bursty, 2000 * MS), 1);
    assert_eq!(pool.owners(0), vec![1; BUCKETS]);
}

#[test]
fn the_first_packet_after_silence_is_the_first_at_the_new_owner() {
    let pool = pool(&["r1", "r2"]);
    let bucket = pool
        .owners(0)
        .iter()
        .position(|owner| *owner == 0)
        .expect("its share") as u16;
    pool.intend(0, Intent::Drained, None);
    // Without the periodic search for due buckets.
    let ask = |ms: u64| pool.owner(0, bucket, ms * MS);
    assert_eq!(
        [ask(0), ask(90), ask(180), ask(281), ask(282)],
        [0, 0, 0, 1, 1]
    );
}

#[test]
fn nothing_moves_by_plan_while_the_pool_settles_but_a_crash_does() {
    let members = ["r1", "r2"].map(|name| Member {
        name: name.to_owned(),
        weight: 1,
    });
    let settings = Settings {
        settle: 5000 * MS,
        ..SETTINGS
    };
    let pool = Pool::new(settings, members.to_vec(), Vec::new(), vec![]);
    let before = pool.owners(0);
    pool.intend(0, Intent::Drained, None);
    for at in 0..40 {
        pool.sweep(at * 100 * MS);
    }
    assert_eq!(pool.owners(0), before);
    assert!(pool.set_up(0, false, 4100 * MS) > 0);
    assert_eq!(share(&pool.owners(0), 0), 0);
}

#[test]
fn if_all_are_down_the_last_one_keeps_all_until_another_comes_back() {
    let pool = pool(&["r1", "r2"]);
    assert!(pool.set_up(0, false, 0) > 0);
    assert_eq!(pool.set_up(1, false, 0), 0);
    assert_eq!(pool.owners(0), vec![1; BUCKETS]);
    assert_eq!((pool.speaker(), pool.turn(0, 5)), (1, 1));
    assert!(!pool.up(0) && !pool.up(1));
    // The description is read again meanwhile.
    let mut new = self::pool(&["r2", "r1"]);
    new.follow(&pool);
    assert_eq!(new.owners(0), vec![0; BUCKETS]);
    assert_eq!(new.speaker(), 0);
    // Buckets of a back end that is down move without waiting until they are idle.
    assert_eq!(pool.set_up(0, true, MS), BUCKETS);
    assert_eq!(pool.owners(0), vec![0; BUCKETS]);
    assert_eq!(pool.speaker(), 0);
    // A drained back end is better than one that is down.
    pool.intend(0, Intent::Drained, None);
    assert_eq!(pool.owner(0, 7, MS), 0);
}

#[test]
fn back_ends_that_go_down_together_keep_their_buckets_if_no_other_is_up() {
    let pool = pool(&["r1", "r2", "r3"]);
    let before = pool.owners(0);
    assert_eq!(
        pool.set_states(&[(0, false), (1, false), (2, false)], 0),
        [0, 0, 0]
    );
    assert_eq!(pool.owners(0), before);
    // Two of them come back: what the third keeps moves to them at once, and nothing else.
    let third = share(&before, 2);
    let moved = pool.set_states(&[(0, true), (1, true)], MS);
    assert_eq!(moved.iter().sum::<usize>(), third);
    let after = pool.owners(0);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(old, new)| old == new || *old == 2)
    );
    assert_eq!(share(&after, 2), 0);
    // Two of three go down together: none of their buckets goes to the other one of them first.
    let before = pool.owners(0);
    pool.set_up(2, true, 2 * MS);
    let moved = pool.set_states(&[(0, false), (1, false)], 3 * MS);
    assert_eq!(moved, [share(&before, 0), share(&before, 1)]);
    assert_eq!(pool.owners(0), vec![2; BUCKETS]);
}

#[test]
fn back_ends_in_turn_come_as_often_as_they_weigh_and_evenly() {
    let pool = pool(&["r1", "r2", "r3"]);
    let turns = |count| (0..count).map(|n| pool.turn(0, n)).collect::<Vec<_>>();
    assert_eq!(turns(6), [0, 1, 2, 0, 1, 2]);
    pool.set_weight(0, 2, None);
    assert_eq!(turns(8), [0, 1, 2, 0, 0, 1, 2, 0]);
    pool.set_up(0, false, 0);
    assert_eq!(turns(4), [1, 2, 1, 2]);
}

#[test]
fn classes_have_tables_of_their_own() {
    let members = ["r1", "r2", "r3"].map(|name| Member {
        name: name.to_owned(),
        weight: 1,
    });
    let class = Class {
        members: vec![1, 2],
    };
    let pool = Pool::new(SETTINGS, members.to_vec(), vec![class], vec![]);
    assert_eq!(share(&pool.owners(1), 0), 0);
    assert!(share(&pool.owners(0), 0) > 0);
    pool.set_up(1, false, 0);
    assert_eq!(pool.owners(1), vec![2; BUCKETS]);
    // A back end of another class is better than none.
    pool.set_up(2, false, 0);
    assert_eq!(pool.owners(1), vec![0; BUCKETS]);
}

#[test]
fn a_new_description_keeps_health_intents_and_the_places_of_buckets() {
    let old = pool(&["r1", "r2", "r3"]);
    old.set_up(1, false, MS);
    old.intend(2, Intent::Drained, None);
    old.sweep(2 * MS);
    let before = old.owners(0);
    let mut new = pool(&["new", "r3", "r2", "r1"]);
    new.follow(&old);
    let names: Vec<_> = new
        .states()
        .into_iter()
        .map(|s| (s.member.name, s.up, s.intent))
        .collect();
    let used = Intent::Used;
    let expected = [
        ("new", true, used),
        ("r3", true, Intent::Drained),
        ("r2", false, used),
        ("r1", true, used),
    ];
    assert_eq!(
        names,
        expected.map(|(name, up, intent)| (name.to_owned(), up, intent))
    );
    let place = [3, 2, 1];
    let after = new.owners(0);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(was, is)| place[usize::from(*was)] == *is)
    );
    let mut now = 3 * MS;
    rest(&new, &mut now);
    let fresh = owners(&candidates(&[("new", 1), ("r3", 0), ("r2", 0), ("r1", 1)]));
    assert_eq!(new.owners(0), fresh);
    // Buckets of a back end that has left the file move at once: no box has its address any more.
    let mut third = pool(&["new"]);
    third.follow(&new);
    assert_eq!(third.owners(0), vec![0; BUCKETS]);
}

/// Load levelling moves only silent buckets; busy ones stay. A crash still moves all buckets at once.
#[test]
fn load_is_levelled_by_silent_buckets() {
    let settings = Settings {
        idle: 100_000_000,
        deadline: 30_000_000_000,
        settle: 0,
    };
    let members = ["r1", "r2", "r3"].map(|name| Member {
        name: name.into(),
        weight: 1,
    });
    let mut pool = Pool::new(settings, members.to_vec(), Vec::new(), vec![0]);
    pool.level_load();
    let first = pool.owners(0);
    // Buckets of r1 with one flow each: some send without a pause, the others every 200 ms.
    let mine = (0..)
        .zip(&first)
        .filter(|(_, owner)| **owner == 0)
        .map(|(at, _)| at);
    let mine: Vec<u16> = mine.take(400).collect();
    let (steady, pausing) = mine.split_at(100);
    let mut sent = [0_u64; 3];
    for step in 0..2000_u64 {
        let now = step * 20_000_000;
        pool.sweep(now);
        if step == 1900 {
            sent = [0; 3];
        }
        let pausing = pausing.iter().filter(|_| step % 10 == 0);
        for bucket in steady.iter().chain(pausing) {
            let bytes = if steady.contains(bucket) { 10 } else { 100 };
            let owner = pool.owner(0, *bucket, now);
            pool.carry(owner, bytes);
            sent[usize::from(owner)] += bytes;
        }
    }
    assert!(
        steady
            .iter()
            .all(|at| pool.owners(0)[usize::from(*at)] == 0),
        "a flow that talks stays"
    );
    let all: u64 = sent.iter().sum();
    for sent in sent {
        assert!(
            sent.abs_diff(all / 3) * 100 <= all / 3 * 10,
            "{sent} of {all}"
        );
    }
    pool.set_up(0, false, 41_000_000_000);
    assert!(pool.owners(0).iter().all(|owner| *owner != 0));
}
