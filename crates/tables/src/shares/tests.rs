//! Compares shares with the ideal ones of a fluid model, and packets one by one with a naive model of lists.

use super::*;
use crate::codel::CodelParameters;
use crate::sample::Random;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
/// 100 Mbit/s.
const LINK: u64 = 12_500_000;

struct Tree {
    classes: Vec<Share>,
    groups: Vec<Share>,
    subscribers: Vec<(usize, Share)>,
}

impl Tree {
    fn random(random: &mut Random) -> Tree {
        let mut share = |most: u64| {
            let rate = LINK / 100 * (1 + random.below(most));
            let ceiling = (random.below(3) == 0).then(|| rate * (1 + random.below(3)));
            Share { rate, ceiling }
        };
        let classes = (0..3).map(|_| share(5)).collect();
        let groups = (0..3).map(|_| share(5)).collect();
        let subscribers = (0..9).map(|n| (n / 3, share(5))).collect();
        Tree {
            classes,
            groups,
            subscribers,
        }
    }

    fn shares(&self, settings: Settings) -> Shares<(usize, u64)> {
        Shares::new(settings, &self.classes, &self.groups, &self.subscribers).unwrap()
    }

    /// Ideal rate of each queue if the `busy` ones are never empty, computed level by level (water filling).
    fn ideal(&self, busy: &[bool]) -> Vec<f64> {
        let ceiling = |share: &Share| share.ceiling.map_or(f64::INFINITY, |rate| rate as f64);
        let classes = self.classes.len();
        let wants = |subscriber: usize| -> Vec<f64> {
            let each = self.classes.iter().enumerate();
            each.map(|(c, share)| match busy[subscriber * classes + c] {
                true => ceiling(share),
                false => 0.0,
            })
            .collect()
        };
        let of_subscriber = |n: usize| -> f64 {
            let sum: f64 = wants(n).iter().sum();
            sum.min(ceiling(&self.subscribers[n].1))
        };
        let members = |g: usize| -> Vec<usize> {
            let all = 0..self.subscribers.len();
            all.filter(|&n| self.subscribers[n].0 == g).collect()
        };
        let of_group = |g: usize| -> f64 {
            let sum: f64 = members(g).into_iter().map(of_subscriber).sum();
            sum.min(ceiling(&self.groups[g]))
        };
        let groups: Vec<(f64, f64)> = (0..self.groups.len())
            .map(|g| (self.groups[g].rate as f64, of_group(g)))
            .collect();
        let mut all = vec![0.0; busy.len()];
        for (g, gets) in divide(LINK as f64, &groups).into_iter().enumerate() {
            let of: Vec<(f64, f64)> = members(g)
                .into_iter()
                .map(|n| (self.subscribers[n].1.rate as f64, of_subscriber(n)))
                .collect();
            for (n, gets) in members(g).into_iter().zip(divide(gets, &of)) {
                let rates = self.classes.iter().map(|share| share.rate as f64);
                let of: Vec<(f64, f64)> = rates.zip(wants(n)).collect();
                let divided = divide(gets, &of);
                all[n * classes..][..classes].copy_from_slice(&divided);
            }
        }
        all
    }
}

/// Divides an amount by weights; each part has a maximum.
fn divide(mut left: f64, shares: &[(f64, f64)]) -> Vec<f64> {
    let mut gets = vec![0.0; shares.len()];
    let mut open: Vec<usize> = (0..shares.len()).filter(|&i| shares[i].1 > 0.0).collect();
    while !open.is_empty() {
        let weights: f64 = open.iter().map(|&i| shares[i].0).sum();
        let has_enough = |&i: &usize| shares[i].1 <= left * shares[i].0 / weights;
        let (full, others): (Vec<usize>, Vec<usize>) = open.iter().partition(|i| has_enough(i));
        if full.is_empty() {
            others
                .iter()
                .for_each(|&i| gets[i] = left * shares[i].0 / weights);
            return gets;
        }
        full.iter().for_each(|&i| gets[i] = shares[i].1);
        left -= full.iter().map(|&i| shares[i].1).sum::<f64>();
        open = others;
    }
    gets
}

#[test]
fn each_gets_its_share_within_a_hundredth() {
    let mut random = Random::new(1);
    for _ in 0..6 {
        let tree = Tree::random(&mut random);
        let mut shares = tree.shares(Settings {
            link: Some(LINK),
            ..Settings::default()
        });
        let queues = 27;
        let busy: Vec<bool> = (0..queues).map(|_| random.below(3) > 0).collect();
        let mut sent = vec![0u64; queues];
        let (mut now, end) = (1000 * MS, 9000 * MS);
        let begin = now;
        while now < end {
            for place in (0..queues).filter(|&place| busy[place]) {
                while shares.queued(place) < 3 {
                    let bytes = 64 + random.below(1437) as u32;
                    assert!(
                        shares
                            .push(place, now, bytes, (place, bytes.into()))
                            .is_ok()
                    );
                }
            }
            match shares.pop(now, drop) {
                Some((place, bytes)) => sent[place] += bytes,
                None => now = shares.next_pop_at().unwrap().max(now + 1),
            }
        }
        let seconds = (now - begin) as f64 / 1e9;
        for (place, ideal) in tree.ideal(&busy).into_iter().enumerate() {
            let got = sent[place] as f64 / seconds;
            // Tolerance: one turn more or less at the end, and the burst at the beginning.
            let slack = ideal / 100.0 + 10.0 * 1500.0 / seconds;
            assert!(
                (got - ideal).abs() <= slack,
                "queue {place}: {got}, not {ideal}"
            );
        }
    }
}

/// Reference model of a ceiling, computed anew for each packet.
struct Bucket {
    rate: f64,
    depth: f64,
    tokens: f64,
    at: u64,
}

impl Bucket {
    /// Bucket of a share; `least` is the least rate among its siblings.
    fn new(share: &Share, least: u64, burst: u64) -> Option<Bucket> {
        let rate = share.ceiling? as f64;
        let turn = share.rate as f64 / least as f64 * 1500.0 + 1500.0;
        Some(Bucket {
            rate,
            depth: turn.max(rate * burst as f64 / 1e9),
            tokens: 0.0,
            at: 0,
        })
    }

    fn fill(&mut self, now: u64) {
        let more = (now - self.at) as f64 * self.rate / 1e9;
        self.tokens = (self.tokens + more).min(self.depth);
        self.at = now;
    }
}

#[test]
fn packets_leave_when_they_may_in_their_order_and_never_before() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let tree = Tree::random(&mut random);
        let settings = Settings {
            burst: 3 * MS,
            capacity: 300,
            limit: 40,
            ..Settings::default()
        };
        let mut shares = tree.shares(settings);
        let mut model: Vec<VecDeque<u64>> = vec![VecDeque::new(); 27];
        let least = |rates: &mut dyn Iterator<Item = u64>| rates.min().unwrap();
        let bucket = |share: &Share, least| Bucket::new(share, least, settings.burst);
        let of_groups = least(&mut tree.groups.iter().map(|share| share.rate));
        let of_classes = least(&mut tree.classes.iter().map(|share| share.rate));
        let mut groups: Vec<_> = tree.groups.iter().map(|g| bucket(g, of_groups)).collect();
        let subscribers = tree.subscribers.iter().map(|(group, share)| {
            let siblings = tree.subscribers.iter().filter(|(other, _)| other == group);
            bucket(share, least(&mut siblings.map(|(_, share)| share.rate)))
        });
        let mut subscribers: Vec<_> = subscribers.collect();
        let leaves = (0..27).map(|place| bucket(&tree.classes[place % 3], of_classes));
        let mut leaves: Vec<_> = leaves.collect();
        let (mut now, mut number) = (5 * MS, 0);
        for _ in 0..30_000 {
            if random.below(3) > 0 {
                let place = random.below(27) as usize;
                let held: usize = model.iter().map(VecDeque::len).sum();
                let len = model[place].len();
                let bytes = 64 + random.below(1437) as u32;
                let fits = len < 40 && len < 300 - held;
                let result =
                    shares.push(place, now, bytes, (place, number << 16 | u64::from(bytes)));
                assert_eq!(result.is_ok(), fits);
                if fits {
                    model[place].push_back(number);
                }
                number += 1;
                continue;
            }
            now += random.below(MS / 3);
            for bucket in groups
                .iter_mut()
                .chain(&mut subscribers)
                .chain(&mut leaves)
                .flatten()
            {
                bucket.fill(now);
            }
            for _ in 0..random.below(8) {
                let Some((place, item)) = shares.pop(now, drop) else {
                    // All queues that have packets wait for a ceiling; wake-ups are exact to one bin.
                    let late = |bucket: &Option<Bucket>| {
                        bucket
                            .as_ref()
                            .is_some_and(|b| b.tokens < 2.0 * WIDTH as f64 * b.rate / 1e9)
                    };
                    for (place, _) in model
                        .iter()
                        .enumerate()
                        .filter(|(_, queue)| !queue.is_empty())
                    {
                        let subscriber = place / 3;
                        let above = [
                            &leaves[place],
                            &subscribers[subscriber],
                            &groups[subscriber / 3],
                        ];
                        assert!(above.into_iter().any(late), "queue {place} could send");
                    }
                    let wait = shares.next_pop_at();
                    assert_eq!(wait.is_none(), shares.is_empty());
                    assert!(wait.is_none_or(|at| at > now));
                    break;
                };
                assert_eq!(model[place].pop_front(), Some(item >> 16));
                let subscriber = place / 3;
                for bucket in [
                    &mut leaves[place],
                    &mut subscribers[subscriber],
                    &mut groups[subscriber / 3],
                ] {
                    let Some(bucket) = bucket else { continue };
                    let left = bucket.tokens;
                    assert!(left > -2.0, "more than the ceiling: {left}");
                    bucket.tokens -= (item & 0xffff) as f64;
                }
            }
            assert_eq!(shares.len(), model.iter().map(VecDeque::len).sum());
        }
        let mut left = vec![VecDeque::new(); 27];
        for (place, _, _, (_, item)) in shares.drain() {
            left[place].push_back(item >> 16);
        }
        assert!(left == model && shares.is_empty() && shares.next_pop_at().is_none());
        assert!(shares.pop(now + 1000 * MS, drop).is_none());
        assert!(shares.push(0, now, 100, (0, 0)).is_ok());
        assert!(shares.pop(now + 1000 * MS, drop).is_some());
    }
}

fn even(rate: u64) -> Share {
    Share {
        rate,
        ceiling: None,
    }
}

#[test]
fn light_queue_does_not_wait_for_heavy_ones() {
    let settings = Settings::default();
    let members: Vec<_> = (0..50).map(|_| (0, even(10))).collect();
    let mut shares = Shares::new(settings, &[even(1), even(1)], &[even(1)], &members).unwrap();
    let mut came = 0;
    for round in 0..3000u64 {
        for subscriber in 1..50 {
            while shares.queued(shares.queue_index(subscriber, 0)) < 3 {
                assert!(
                    shares
                        .push(shares.queue_index(subscriber, 0), 0, 1000, usize::MAX)
                        .is_ok()
                );
            }
        }
        // Packets of 100 bytes in 10,000 take less than a fiftieth of the link.
        if round % 10 == 0 {
            assert!(shares.push(shares.queue_index(0, 1), 0, 100, 7).is_ok());
            let next = [shares.pop(0, drop), shares.pop(0, drop)];
            // In the first rounds every packet belongs to a new queue, so they are not counted.
            came += usize::from(round >= 200 && next.contains(&Some(7)));
        } else {
            shares.pop(0, drop);
        }
    }
    assert_eq!(came, 280, "each leaves within two packets");
}

#[test]
fn a_queue_that_is_short_at_times_gets_no_more_than_its_share() {
    // The queue becomes empty and returns as often as it can.
    let members = [(0, even(1)), (0, even(1)), (0, even(1))];
    let mut shares = Shares::new(Settings::default(), &[even(1)], &[even(1)], &members).unwrap();
    let mut sent = [0u32; 3];
    for _ in 0..9000 {
        for n in 0..3 {
            let most = if n == 0 { 1 } else { 9 };
            while shares.queued(n) < most {
                assert!(shares.push(n, 0, 700, n).is_ok());
            }
        }
        let n = shares.pop(0, drop).unwrap();
        sent[n] += 1;
    }
    assert!((2970..=3030).contains(&sent[0]), "{sent:?}");
}

#[test]
fn a_queue_that_stays_long_loses_packets_and_others_none() {
    let aim = CodelParameters {
        target: 5 * MS,
        interval: 100 * MS,
    };
    let settings = Settings {
        link: Some(LINK),
        codel: Some(aim),
        ..Settings::default()
    };
    let members = [(0, even(1)), (0, even(1))];
    let mut shares = Shares::new(settings, &[even(1)], &[even(1)], &members).unwrap();
    let (mut dropped, mut sent) = ([0u64; 2], [0u64; 2]);
    for ms in 1..4000 {
        let now = ms * MS;
        // 12 Mbyte/s and 0.5 Mbyte/s of 12.5; the first subscriber starts with 130 packets too many.
        for _ in 0..if ms == 1 { 142 } else { 12 } {
            assert!(shares.push(0, now, 1000, 0).is_ok());
        }
        if ms % 2 == 0 {
            assert!(shares.push(1, now, 1000, 1).is_ok());
        }
        while let Some(n) = shares.pop(now, |n: usize| dropped[n] += 1) {
            sent[n] += 1;
        }
    }
    assert!(dropped[0] > 10 && dropped[1] == 0, "{dropped:?}");
    assert!(shares.queued(0) < 80);
    let counts = shares.counts(0..1);
    assert_eq!(
        (counts.packets, counts.delay, counts.bytes),
        (sent[0], dropped[0], sent[0] * 1000)
    );
    assert_eq!(shares.group_bytes(0), (sent[0] + sent[1]) * 1000);
}

#[test]
fn flooded_queue_leaves_room_for_others() {
    let settings = Settings {
        capacity: 100,
        limit: 1000,
        ..Settings::default()
    };
    let members: Vec<_> = (0..10).map(|_| (0, even(1))).collect();
    let mut shares = Shares::new(settings, &[even(1)], &[even(1)], &members).unwrap();
    for n in 0..1000 {
        let taken = shares.push(0, 0, 100, n);
        assert_eq!(taken.is_ok(), n < 50);
        assert!(n < 50 || matches!(taken, Err((Full::Memory, _))));
    }
    assert!((1..10).all(|place| (0..3).all(|n| shares.push(place, 0, 100, n).is_ok())));
    assert_eq!(shares.counts(0..1).full, 950);
}

#[test]
fn siblings_that_differ_too_much_are_refused() {
    let new = |classes: &[Share], groups: &[Share], members: &[(usize, Share)]| {
        Shares::<u8>::new(Settings::default(), classes, groups, members).err()
    };
    let (one, some, far) = ([even(1)], [even(1), even(1000)], [even(1), even(2001)]);
    assert_eq!(new(&some, &some, &[(0, even(5)), (1, even(50_000))]), None);
    assert_eq!(new(&far, &one, &[]), Some(SettingsError::Classes));
    assert_eq!(new(&one, &far, &[]), Some(SettingsError::Groups));
    assert_eq!(
        new(&one, &some, &[(1, far[0]), (1, far[1])]),
        Some(SettingsError::Subscribers(1))
    );
    assert_eq!(new(&one, &[even(0)], &[]), Some(SettingsError::Groups));
}

#[test]
fn a_share_can_change_while_packets_wait() {
    let members = [(0, even(10)), (0, even(10))];
    let mut shares = Shares::new(Settings::default(), &[even(1)], &[even(1)], &members).unwrap();
    let count = |shares: &mut Shares<usize>, packets| {
        let mut sent = [0u32; 2];
        for _ in 0..packets {
            for n in 0..2 {
                while shares.queued(n) < 5 {
                    assert!(shares.push(n, 0, 1000, n).is_ok());
                }
            }
            sent[shares.pop(0, drop).unwrap()] += 1;
        }
        sent
    };
    count(&mut shares, 100);
    assert_eq!(shares.set(1, even(30)), Ok(()));
    let sent = count(&mut shares, 4000);
    assert!((2970..=3030).contains(&sent[1]), "{sent:?}");
    for wrong in [9, 10_011] {
        assert_eq!(
            shares.set(1, even(wrong)),
            Err(SettingsError::Subscribers(0))
        );
    }
}
