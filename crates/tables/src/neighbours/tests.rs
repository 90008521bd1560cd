use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::sample::Random;

const T: Timing = Timing {
    reachable: 100,
    retry: 10,
    idle: 500,
    tries: 3,
    slow_interval: None,
    told: false,
};

fn mac(n: u8) -> EtherAddr {
    EtherAddr([2, 0, 0, 0, 0, n])
}

fn table(capacity: usize) -> Neighbours<u32> {
    Neighbours::new(capacity, T, 42)
}

#[test]
fn a_neighbour_is_asked_for_answers_ages_and_is_probed() {
    let t = table(8);
    assert_eq!(t.ask(7, 0), Ok(Ask::All));
    assert_eq!(t.ask(7, 9), Ok(Ask::NoProbe), "one request per retry time");
    assert_eq!(t.get(7).unwrap().known(), None);
    assert_eq!(t.ask(7, 10), Ok(Ask::All));
    let generation = t.generation();
    assert_eq!(t.confirm(7, mac(1), 12), Ok(true));
    assert_ne!(t.generation(), generation);
    assert_eq!(t.get(7).unwrap().known(), Some(mac(1)));
    assert_eq!(t.ask(7, 111), Ok(Ask::NoProbe));
    assert_eq!(t.ask(7, 112), Ok(Ask::One(mac(1))), "stale and used");
    assert_eq!(t.ask(7, 113), Ok(Ask::NoProbe));
    assert_eq!(
        t.confirm(7, mac(1), 114),
        Ok(false),
        "nothing new for packets"
    );
    assert_eq!(t.ask(7, 214), Ok(Ask::One(mac(1))));
    assert_eq!(t.ask(7, 224), Ok(Ask::One(mac(1))));
    assert_eq!(t.ask(7, 234), Ok(Ask::One(mac(1))));
    assert_eq!(
        t.get(7).unwrap().known(),
        Some(mac(1)),
        "used while it is probed"
    );
    assert_eq!(
        t.ask(7, 244),
        Ok(Ask::All),
        "it may have another address now"
    );
    assert_eq!(t.get(7).unwrap().known(), None);
}

#[test]
fn a_silent_neighbour_is_given_up_and_resolved_again_later() {
    let t = table(8);
    for now in [0, 10, 20] {
        assert_eq!(t.ask(7, now), Ok(Ask::All));
    }
    assert_eq!(t.ask(7, 29), Ok(Ask::NoProbe));
    assert_eq!(t.ask(7, 30), Ok(Ask::Unreachable));
    assert_eq!(t.ask(7, 39), Ok(Ask::Unreachable));
    assert_eq!(t.ask(7, 40), Ok(Ask::All));
}

#[test]
fn unsolicited_answers_make_no_entry_and_requests_a_stale_one() {
    let t = table(8);
    assert_eq!(t.confirm(7, mac(1), 0), Ok(false));
    assert!(t.is_empty());
    assert_eq!(t.learn(7, mac(1), 0), Ok(true));
    assert_eq!(t.get(7).unwrap().state, State::Stale);
    t.confirm(7, mac(1), 5).unwrap();
    assert_eq!(t.learn(7, mac(1), 6), Ok(false));
    assert_eq!(
        t.get(7).unwrap().state,
        State::Reachable,
        "the same address is no news"
    );
    assert_eq!(t.learn(7, mac(2), 6), Ok(true));
    assert_eq!(t.get(7).unwrap().state, State::Stale);
}

#[test]
fn a_permanent_neighbour_stays_as_it_is_until_removed() {
    let t = table(8);
    t.set_permanent(7, mac(9), 0).unwrap();
    assert_eq!(
        (t.confirm(7, mac(1), 1), t.learn(7, mac(2), 1)),
        (Ok(false), Ok(false))
    );
    t.expire(u64::MAX, 0..t.buckets(), |_, _| {
        panic!("nothing happens to it")
    });
    assert_eq!(t.ask(7, u64::MAX - 50), Ok(Ask::NoProbe));
    assert_eq!(t.get(7).unwrap().known(), Some(mac(9)));
    assert_eq!((t.remove(7), t.remove(7)), (Ok(true), Ok(false)));
    assert!(t.get(7).is_none() && t.is_empty());
}

#[test]
fn neighbour_set_by_the_kernel_is_used_until_the_kernel_changes_it() {
    let told = Timing { told: true, ..T };
    let t = Neighbours::new(8, told, 42);
    assert_eq!(t.set_stale(7, mac(1), 0), Ok(true));
    for now in [0, 10, 20, 30, 1000] {
        assert_eq!(t.ask(7, now), Ok(Ask::One(mac(1))));
        assert_eq!(t.ask(7, now + 9), Ok(Ask::NoProbe), "not that often");
        assert_eq!(t.set_stale(7, mac(1), now), Ok(false));
        assert_eq!(t.ask(7, now + 9), Ok(Ask::NoProbe), "he was asked already");
    }
    assert_eq!(t.set_stale(7, mac(2), 1000), Ok(true));
    assert_eq!(t.get(7).unwrap().known(), Some(mac(2)));
    t.set_unreachable(7, 1000).unwrap();
    assert_eq!(t.get(7).unwrap().known(), None);
    assert_eq!(t.ask(7, 1009), Ok(Ask::Unreachable));
    assert_eq!(t.ask(7, 1010), Ok(Ask::All), "asked for anew");
    t.set_unreachable(8, 1000).unwrap();
    assert_eq!(t.get(8), None, "nobody had asked for it");
}

#[test]
fn expiry_ages_forgets_reminds_and_gives_up() {
    let t = table(8);
    let expire = |now| {
        let mut events = Vec::new();
        t.expire(now, 0..t.buckets(), |k, e| events.push((k, e)));
        events
    };
    t.ask(1, 0).unwrap();
    t.confirm(1, mac(1), 0).unwrap();
    t.ask(2, 95).unwrap();
    assert_eq!(expire(99), []);
    assert_eq!(expire(100), [(1, Event::BecameStale)]);
    assert_eq!(expire(105), [(2, Event::ProbeDue)]);
    assert_eq!((t.ask(2, 105), t.ask(2, 115)), (Ok(Ask::All), Ok(Ask::All)));
    assert_eq!(expire(125), [(2, Event::Failed)]);
    assert_eq!(expire(500), [(1, Event::Removed)]);
    assert!(t.is_empty());
}

#[test]
fn full_table_replaces_unanswered_and_stale_entries_first() {
    let t = table(4); // two buckets, every key may be in both
    t.set_permanent(1, mac(1), 0).unwrap();
    t.ask(2, 1).unwrap();
    t.confirm(2, mac(2), 2).unwrap();
    t.learn(3, mac(3), 3).unwrap();
    t.ask(4, 4).unwrap();
    assert_eq!(t.ask(5, 5), Ok(Ask::All));
    assert!(t.get(4).is_none(), "the unanswered one went");
    t.confirm(5, mac(5), 6).unwrap();
    assert_eq!(t.ask(6, 7), Ok(Ask::All));
    assert!(t.get(3).is_none(), "then the stale one");
    t.confirm(6, mac(6), 8).unwrap();
    assert_eq!(t.ask(7, 9), Err(Refused::Full));
    assert_eq!(t.len(), 4);
    for key in [1, 2, 5, 6] {
        assert!(t.get(key).is_some());
    }
}

#[test]
fn a_table_holds_its_configured_number_of_entries() {
    for seed in 0..4 {
        let t = Neighbours::<[u8; 16]>::new(10_000, T, seed);
        let key = |n: u16| {
            let mut key = [0; 16];
            (key[0], key[1]) = (0xfe, 0x80);
            key[14..].copy_from_slice(&n.to_be_bytes());
            key
        };
        for n in 0..10_000 {
            t.ask(key(n), 0).unwrap();
            t.confirm(key(n), mac(n as u8), 1).unwrap();
        }
        assert_eq!((t.len(), t.iter().count()), (10_000, 10_000));
        assert!((0..10_000).all(|n| t.get(key(n)).unwrap().known() == Some(mac(n as u8))));
        assert_eq!(t.ask(key(10_000), 2), Err(Refused::Full));
    }
}

/// Reference model: a plain map of entries, with the rules in their shortest form.
#[derive(Default)]
struct Model(BTreeMap<u32, Neighbour>);

impl Model {
    fn ask(&mut self, key: u32, now: u64) -> Ask {
        let wait = Neighbour {
            tries: 1,
            probe_at: now + T.retry,
            ..Neighbour::confirmed(mac(0), State::Incomplete, now)
        };
        let wait = Neighbour {
            mac: EtherAddr::ZERO,
            ..wait
        };
        let Some(e) = self.0.get_mut(&key) else {
            self.0.insert(key, wait);
            return Ask::All;
        };
        let fresh = e.state == State::Reachable && now - e.confirmed < T.reachable;
        if e.state == State::Permanent || fresh {
            return Ask::NoProbe;
        }
        let probing = matches!(e.state, State::Probe | State::Incomplete);
        if probing && now < e.probe_at {
            return if e.tries == 0 {
                Ask::Unreachable
            } else {
                Ask::NoProbe
            };
        }
        e.probe_at = now + T.retry;
        if e.state == State::Incomplete {
            e.tries = if e.tries == T.tries { 0 } else { e.tries + 1 };
            return if e.tries == 0 {
                Ask::Unreachable
            } else {
                Ask::All
            };
        }
        e.tries = if probing { e.tries + 1 } else { 1 };
        e.state = State::Probe;
        if e.tries > T.tries {
            *e = Neighbour {
                confirmed: e.confirmed,
                ..wait
            };
            return Ask::All;
        }
        Ask::One(e.mac)
    }

    fn expire(&mut self, now: u64) {
        self.0.retain(|_, e| {
            let old = |age| now - e.confirmed >= age;
            let spent = e.tries == 0 || e.tries == T.tries;
            match e.state {
                State::Stale => !old(T.idle),
                State::Incomplete => now < e.probe_at || !spent,
                _ => true,
            }
        });
        for e in self.0.values_mut() {
            if e.state == State::Reachable && now - e.confirmed >= T.reachable {
                e.state = State::Stale;
            }
        }
    }
}

#[test]
fn change_count_grows_when_an_address_needs_a_probe_again() {
    let t = table(8);
    let news = |act: &dyn Fn()| {
        let before = t.changes();
        act();
        t.changes() != before
    };
    assert!(!news(&|| _ = t.ask(7, 0)));
    assert_eq!(t.usable_address(7), None);
    assert!(news(&|| _ = t.confirm(7, mac(1), 0)));
    assert_eq!(t.usable_address(7), Some(mac(1)));
    assert!(!news(&|| _ = t.confirm(7, mac(1), 50)), "it is as sure");
    assert!(news(&|| _ = t.confirm(7, mac(2), 50)));
    assert!(!news(&|| t.expire(149, 0..t.buckets(), |_, _| ())));
    assert!(
        news(&|| t.expire(150, 0..t.buckets(), |_, _| ())),
        "it has aged"
    );
    assert_eq!(
        (t.usable_address(7), t.get(7).unwrap().known()),
        (None, Some(mac(2)))
    );
    assert!(!news(&|| _ = t.ask(7, 150)));
    assert!(news(&|| _ = t.confirm(7, mac(2), 151)), "the answer");
    assert!(news(&|| _ = t.learn(7, mac(3), 152)));
    assert_eq!(t.usable_address(7), None, "nobody had asked");
    assert!(news(&|| _ = t.set_permanent(7, mac(4), 153)));
    assert!(!news(&|| _ = t.report_conflict(7)));
    assert!(news(&|| _ = t.remove(7)));
    assert_eq!(t.usable_address(7), None);
}

#[test]
fn random_histories_follow_the_model() {
    for seed in 0..5 {
        let (t, mut model, mut random) = (table(400), Model::default(), Random::new(seed));
        let mut now = 0;
        for _ in 0..20_000 {
            now += random.below(4);
            let key = random.below(200) as u32;
            let address = mac(1 + random.below(3) as u8);
            let known = model.0.get(&key).copied();
            let generation = t.generation();
            match random.below(20) {
                0 => {
                    model.expire(now);
                    t.expire(now, 0..t.buckets(), |_, _| ());
                }
                1 => assert_eq!(t.remove(key), Ok(model.0.remove(&key).is_some())),
                2 if known.is_none() => {
                    let new = Neighbour::confirmed(address, State::Permanent, now);
                    model.0.insert(key, new);
                    assert_eq!(t.set_permanent(key, address, now), Ok(true));
                }
                3..8 => {
                    let mut news = false;
                    if let Some(e) = model
                        .0
                        .get_mut(&key)
                        .filter(|e| e.state != State::Permanent)
                    {
                        news = e.known() != Some(address);
                        *e = Neighbour::confirmed(address, State::Reachable, now);
                    }
                    assert_eq!(t.confirm(key, address, now), Ok(news));
                }
                8 => {
                    let news = known
                        .is_none_or(|e| e.state != State::Permanent && e.known() != Some(address));
                    if news {
                        model
                            .0
                            .insert(key, Neighbour::confirmed(address, State::Stale, now));
                    }
                    assert_eq!(t.learn(key, address, now), Ok(news));
                    assert_eq!(t.generation() != generation, news);
                }
                _ => assert_eq!(
                    t.ask(key, now),
                    Ok(model.ask(key, now)),
                    "{known:?} at {now}"
                ),
            }
            assert_eq!(t.get(key), model.0.get(&key).copied());
            assert_eq!(t.len(), model.0.len());
        }
        let all: BTreeMap<_, _> = t.iter().collect();
        assert_eq!(all, model.0);
    }
}

#[test]
fn one_of_several_concurrent_callers_sends_the_probe() {
    let (workers, rounds) = (4, if cfg!(miri) { 10 } else { 2_000 });
    let t = table(64);
    let sent = AtomicU64::new(0);
    let barrier = std::sync::Barrier::new(workers);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                for round in 0..rounds {
                    barrier.wait();
                    match t.ask(round as u32 % 16, (round as u64 / 16) * T.retry) {
                        Ok(Ask::All) => drop(sent.fetch_add(1, Ordering::Relaxed)),
                        Ok(Ask::NoProbe | Ask::Unreachable) | Err(Refused::Contended) => {}
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    // For each key: three requests, one round of silence, and so on.
    let per_key = |key: usize| (rounds - key).div_ceil(16);
    let expected: usize = (0..16.min(rounds))
        .map(|k| per_key(k) - per_key(k) / 4)
        .sum();
    assert_eq!(sent.load(Ordering::Relaxed), expected as u64);
}

#[test]
fn an_entry_is_read_as_one() {
    let changes = if cfg!(miri) { 100 } else { 300_000u64 };
    let t = table(8);
    let done = AtomicBool::new(false);
    let of = |n: u64| {
        EtherAddr([
            2,
            0,
            (n >> 24) as u8,
            (n >> 16) as u8,
            (n >> 8) as u8,
            n as u8,
        ])
    };
    t.learn(7, of(0), 0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // `None` if the writer was interrupted during a write.
                if let Some(entry) = t.get(7) {
                    assert_eq!(entry.mac, of(entry.confirmed));
                }
            }
        });
        for now in 1..=changes {
            t.confirm(7, of(now), now).unwrap();
            if now % 16 == 0 {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn readers_never_see_half_an_entry_while_others_write() {
    let changes = if cfg!(miri) { 50 } else { 20_000 };
    let t = table(24); // crowded: entries come and go
    let done = AtomicBool::new(false);
    let of = |key: u32, n: u8| EtherAddr([key as u8, n, n, n, n, key as u8]);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|seed| {
                let t = &t;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for now in 0..changes {
                        let (key, n) = (random.below(40) as u32, random.below(250) as u8);
                        let _ = match random.below(4) {
                            0 => t.remove(key),
                            1 => t.ask(key, now).map(|_| true),
                            2 => t.confirm(key, of(key, n), now),
                            _ => t.learn(key, of(key, n), now),
                        };
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for key in 0..40 {
                    if let Some(mac) = t.get(key).and_then(|e| e.known()) {
                        assert_eq!(mac, of(key, mac.0[2]));
                    }
                }
                t.expire(changes / 2, 0..t.buckets(), |_, _| ());
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let mut keys: Vec<_> = t.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), t.len());
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), t.len(), "no key twice");
    assert!(
        t.len() <= 24 + 2,
        "two writers may both take the last place"
    );
}

#[test]
fn a_doubted_address_is_kept_and_probed() {
    let t = table(8);
    t.report_conflict(7).unwrap();
    assert!(t.is_empty());
    t.ask(7, 0).unwrap();
    t.confirm(7, mac(1), 1).unwrap();
    t.report_conflict(7).unwrap();
    assert_eq!(t.address(7), Some((mac(1), State::Stale)));
    assert_eq!(t.ask(7, 2), Ok(Ask::One(mac(1))));
    t.set_permanent(7, mac(2), 3).unwrap();
    t.report_conflict(7).unwrap();
    assert_eq!(t.address(7), Some((mac(2), State::Permanent)));
}
