use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use sync::Lock;
use wire::flow::Flow;
use wire::{FlowKey, proto};

fn rule(n: u32) -> Match {
    Match::Flow(FlowKey::V4(Flow {
        src: n.into(),
        dst: 1.into(),
        src_port: 7,
        dst_port: 9,
        protocol: proto::UDP,
    }))
}

/// A driver with room for some rules, which stores them. It waits for permission before each call, if `leave` is given.
struct Card {
    room: usize,
    /// True if the card cannot remove rules.
    clings: AtomicBool,
    /// Number of the first rule that the card accepts.
    fits: AtomicU32,
    rules: Lock<BTreeMap<u32, u16>>,
    calls: Lock<Vec<String>>,
    leave: Option<Lock<mpsc::Receiver<()>>>,
}

fn number(rule: &Match) -> u32 {
    match rule {
        Match::Flow(FlowKey::V4(flow)) => flow.src.to_bits(),
        _ => unreachable!("the tests have flows"),
    }
}

impl Card {
    fn new(room: usize) -> Card {
        Card {
            room,
            clings: AtomicBool::new(false),
            fits: AtomicU32::new(0),
            rules: Lock::default(),
            calls: Lock::default(),
            leave: None,
        }
    }

    fn call(&self, what: String) {
        self.calls.lock().push(what);
        if let Some(leave) = &self.leave {
            // When the test no longer allows single calls, all calls pass.
            let _ = leave.lock().recv();
        }
    }
}

impl Driver for Arc<Card> {
    type Handle = u32;

    fn create(&self, rule: &Match, queue: u16) -> Result<u32, String> {
        let n = number(rule);
        self.call(format!("{n} to {queue}"));
        let mut rules = self.rules.lock();
        if rules.len() == self.room || n < self.fits.load(Relaxed) {
            return Err("no room".into());
        }
        assert_eq!(rules.insert(n, queue), None, "a rule that it has");
        Ok(n)
    }

    fn destroy(&self, rule: u32) -> Result<(), (u32, String)> {
        self.call(format!("not {rule}"));
        if self.clings.load(Relaxed) {
            return Err((rule, "it is busy".into()));
        }
        let known = self.rules.lock().remove(&rule);
        known.map(|_| ()).ok_or((rule, "no such rule".into()))
    }
}

fn settled(rules: &Rules<Arc<Card>>) -> Directed {
    let begun = Instant::now();
    while rules.directed().waiting > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::yield_now();
    }
    rules.directed()
}

#[test]
fn the_driver_has_the_rules_that_are_wanted_whatever_the_order_of_changes() {
    let card = Arc::new(Card::new(1000));
    let rules = Rules::of(Arc::clone(&card)).expect("there are threads");
    let mut rng = testkit::Rng::seed(7);
    let mut model = BTreeMap::new();
    for _ in 0..200 {
        let some: Vec<(u32, Option<u16>)> = (0..20)
            .map(|_| {
                let n = u32::from(rng.u8() % 64);
                (n, Some(u16::from(rng.u8() % 4)).filter(|q| *q != 3))
            })
            .collect();
        let all = rng.u8().is_multiple_of(8);
        if all {
            model.clear();
        }
        for (n, queue) in &some {
            match queue {
                Some(queue) => _ = model.insert(*n, *queue),
                None => _ = model.remove(n),
            }
        }
        let some: Vec<_> = some.iter().map(|(n, q)| (rule(*n), *q)).collect();
        rules.direct(&some, all);
    }
    let end = settled(&rules);
    assert_eq!(*card.rules.lock(), model);
    assert_eq!((end.held, end.refused, end.why), (model.len(), 0, None));
    assert_eq!(rules.shared.state.lock().rules.len(), model.len());
    drop(rules);
    assert!(card.rules.lock().is_empty(), "rules that nobody wants");
}

#[test]
fn slow_driver_gets_a_waiting_rule_once_in_its_latest_state() {
    let (leave, taken) = mpsc::channel();
    let card = Arc::new(Card {
        leave: Some(Lock::new(taken)),
        ..Card::new(10)
    });
    let rules = Rules::of(Arc::clone(&card)).expect("there are threads");
    rules.direct(&[(rule(1), Some(0))], false);
    for n in 0..1000 {
        rules.direct(&[(rule(2), Some(n % 2)), (rule(3), Some(1))], false);
        rules.direct(&[(rule(1), Some(n % 2)), (rule(3), None)], false);
        assert!(rules.directed().waiting <= 3);
    }
    drop(leave);
    settled(&rules);
    assert_eq!(*card.rules.lock(), BTreeMap::from([(1, 1), (2, 1)]));
    let calls = card.calls.lock().len();
    assert!(calls <= 4, "{calls} calls for two rules");
}

#[test]
fn refusals_are_counted_with_the_first_reason_and_tried_again_when_all_are_told() {
    let card = Arc::new(Card::new(2));
    let rules = Rules::of(Arc::clone(&card)).expect("there are threads");
    let all: Vec<_> = (0..5).map(|n| (rule(n), Some(1))).collect();
    rules.direct(&all, true);
    let full = settled(&rules);
    assert_eq!((full.held, full.refused), (2, 3));
    assert_eq!(full.why.as_deref(), Some("no room"));
    // A repeated request changes nothing; a rule that is no longer wanted no longer counts as refused.
    let calls = card.calls.lock().len();
    rules.direct(&all, false);
    assert_eq!((settled(&rules), card.calls.lock().len()), (full, calls));
    // With all rules requested, the refused one is tried again, though no rule was removed.
    rules.direct(&all, true);
    settled(&rules);
    assert_eq!(card.calls.lock().len(), calls + 3);
    rules.direct(&all[..2], true);
    let fits = settled(&rules);
    assert_eq!((fits.held, fits.refused, fits.why), (2, 0, None));
}

#[test]
fn refused_rules_take_the_room_of_those_that_go_in_the_order_in_which_they_were_refused() {
    let card = Arc::new(Card::new(2));
    let rules = Rules::of(Arc::clone(&card)).expect("there are threads");
    rules.direct(&[0, 1, 2, 3, 4].map(|n| (rule(n), Some(1))), false);
    settled(&rules);
    let had = |of: &[u32]| card.rules.lock().keys().copied().eq(of.iter().copied());
    assert!(had(&[0, 1]));
    rules.direct(&[(rule(0), None)], false);
    assert_eq!((settled(&rules).held, settled(&rules).refused), (2, 2));
    assert!(had(&[1, 2]));
    // A refused rule that is no longer wanted is not tried; a changed one is, with its present queue.
    rules.direct(&[(rule(3), None), (rule(4), Some(7))], false);
    settled(&rules);
    rules.direct(&[(rule(1), None), (rule(2), None)], false);
    let end = settled(&rules);
    assert_eq!((end.held, end.refused, end.why), (1, 0, None));
    assert_eq!(*card.rules.lock(), BTreeMap::from([(4, 7)]));
}

#[test]
fn rules_that_wait_for_room_come_before_new_ones() {
    let card = Arc::new(Card::new(2));
    let rules = Rules::of(Arc::clone(&card)).expect("there are threads");
    rules.direct(&[0, 1, 2, 3].map(|n| (rule(n), Some(1))), false);
    settled(&rules);
    // Each request removes one rule and adds another.
    for new in 4..10 {
        let gone = *card.rules.lock().keys().next().expect("two");
        rules.direct(&[(rule(gone), None), (rule(new), Some(1))], false);
        let now = settled(&rules);
        assert_eq!((now.held, now.refused), (2, 2));
        let had: Vec<u32> = card.rules.lock().keys().copied().collect();
        assert_eq!(had, [new - 3, new - 2]);
    }
    // New refused rules do not delay those that wait.
    let new = (20..30).map(|n| (rule(n), Some(1)));
    let one = std::iter::once((rule(7), None));
    rules.direct(&Vec::from_iter(one.chain(new)), false);
    settled(&rules);
    let had: Vec<u32> = card.rules.lock().keys().copied().collect();
    assert_eq!(had, [6, 8]);
}

#[test]
fn removed_rule_causes_few_retries_while_the_driver_refuses() {
    let card = Arc::new(Card::new(1));
    let rules = Rules::of(Arc::clone(&card)).expect("there are threads");
    rules.direct(&[(rule(1000), Some(0))], false);
    rules.direct(&Vec::from_iter((0..100).map(|n| (rule(n), Some(1)))), false);
    settled(&rules);
    // There is room for no repeated rule.
    card.fits.store(1000, Relaxed);
    let mut tried = Vec::new();
    for _ in 0..50 {
        let before = card.calls.lock().len();
        rules.direct(&[(rule(1000), None)], false);
        settled(&rules);
        let calls = card.calls.lock()[before..].to_vec();
        assert!(calls.len() <= 1 + RETRIES_MAX, "{calls:?}");
        tried.extend(calls.into_iter().filter(|call| call.ends_with("to 1")));
        rules.direct(&[(rule(1000), Some(0))], false);
        settled(&rules);
    }
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried.len(), 100, "all had their turn");
    assert_eq!((settled(&rules).held, settled(&rules).refused), (1, 100));
}

#[test]
fn rule_that_the_driver_cannot_remove_is_kept_once() {
    let card = Arc::new(Card::new(10));
    let rules = Rules::of(Arc::clone(&card)).expect("there are threads");
    rules.direct(&[1, 2, 3].map(|n| (rule(n), Some(0))), true);
    settled(&rules);
    card.clings.store(true, Relaxed);
    // One rule gets another queue, and one is removed.
    rules.direct(&[(rule(1), Some(1)), (rule(2), None)], false);
    let stuck = settled(&rules);
    assert_eq!((stuck.held, stuck.refused), (1, 2));
    assert_eq!(stuck.why.as_deref(), Some("it is busy"));
    assert_eq!(*card.rules.lock(), BTreeMap::from([(1, 0), (2, 0), (3, 0)]));
    // The driver has the requested rule.
    rules.direct(&[(rule(2), Some(0))], false);
    assert_eq!((settled(&rules).held, settled(&rules).refused), (2, 1));
    rules.direct(&[(rule(2), None)], false);
    assert_eq!((settled(&rules).held, settled(&rules).refused), (1, 2));
    // With all rules requested, the rule is tried again.
    card.clings.store(false, Relaxed);
    rules.direct(&[(rule(1), Some(1)), (rule(3), Some(0))], true);
    let free = settled(&rules);
    assert_eq!((free.held, free.refused, free.why), (2, 0, None));
    assert_eq!(*card.rules.lock(), BTreeMap::from([(1, 1), (3, 0)]));
    // The rule that is removed last is the one that the driver had before.
    card.clings.store(true, Relaxed);
    rules.direct(&[(rule(3), None)], false);
    settled(&rules);
    card.clings.store(false, Relaxed);
    drop(rules);
    assert!(card.rules.lock().is_empty(), "rules that nobody wants");
}

#[test]
fn a_rank_that_is_refused_becomes_the_last_that_is_taken_and_order_stays() {
    for limit in [0, 1, 7, 8, 100] {
        let ranks: Vec<u32> = (0..=32)
            .map(|wanted| {
                let mut calls = 0;
                let takes = |rank| {
                    calls += 1;
                    rank <= limit
                };
                let rank = nearest(wanted, takes).expect("it takes rank 0");
                assert!(calls <= 7, "{calls} calls for one rule");
                rank
            })
            .collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(ranks.last(), Some(&limit.min(32)));
    }
    assert_eq!(nearest(5, |_| false), None);
}
