//! Two ends of one link; the tests deliver each heartbeat themselves.

use super::*;

/// Two nodes whose heartbeats the test delivers by hand.
fn pair() -> (Health, Health) {
    let map = Map::mesh(2, 1e9);
    let cabling = Arc::new(Cabling::new(&map).expect("few links"));
    let one = |me| {
        let (cabling, config) = (Arc::clone(&cabling), Config::default());
        Health::new(&map, cabling, me, 10 + u64::from(me), config, 0)
    };
    (one(0), one(1))
}

fn sent(health: &mut Health, now: u64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    health.tick(now, &mut |_, bytes| all.push(bytes.to_vec()));
    all
}

/// Delivers heartbeats in both directions, every interval, until `now`.
fn talk(a: &mut Health, b: &mut Health, times: std::ops::Range<u64>) {
    for time in times.step_by(5) {
        let now = time * MS;
        for bytes in sent(a, now) {
            b.heard(0, &bytes, now).expect("good");
        }
        for bytes in sent(b, now) {
            a.heard(0, &bytes, now).expect("good");
        }
    }
}

#[test]
fn a_dead_peer_is_found_by_a_node_that_is_always_late() {
    let (mut a, mut b) = pair();
    talk(&mut a, &mut b, 5..100);
    assert!(a.links().up(0));
    let looks = (1..).take_while(|look| {
        sent(&mut a, (95 + look * 30) * MS);
        a.links().up(0)
    });
    assert!(
        looks.count() <= 4,
        "each look counts two intervals of silence"
    );
}

#[test]
fn a_link_comes_up_after_some_good_heartbeats_both_ways_and_not_before() {
    let (mut a, mut b) = pair();
    talk(&mut a, &mut b, 5..40);
    assert!(!a.links().up(0) && !b.links().up(0));
    talk(&mut a, &mut b, 40..60);
    assert!(a.links().up(0) && b.links().up(0));
}

#[test]
fn a_peer_that_starts_again_is_new_and_comes_back() {
    let (mut a, mut b) = pair();
    talk(&mut a, &mut b, 5..100);
    let map = Map::mesh(2, 1e9);
    let mut again = Health::new(
        &map,
        Arc::clone(&b.cabling),
        1,
        99,
        Config::default(),
        100 * MS,
    );
    talk(&mut a, &mut again, 105..110);
    assert!(!a.links().up(0));
    assert_eq!(
        a.states().next().map(|state| state.cause),
        Some(Cause::Restarted)
    );
    talk(&mut a, &mut again, 110..220);
    assert!(a.links().up(0) && again.links().up(0));
    assert_eq!(
        a.heard(0, &sent(&mut b, 220 * MS)[0], 220 * MS),
        Err(Refused::Replayed)
    );
}

/// Two nodes with a key and with epochs of their link.
fn keyed_pair(lives: [u8; 2]) -> (Health, Health) {
    let map = Map::mesh(2, 1e9);
    let cabling = Arc::new(Cabling::new(&map).expect("few links"));
    let one = |me: u16| {
        let config = Config {
            keys: Some(Keys::new(Key::new([1; 16]), None)),
            lives: vec![Life([lives[usize::from(me)]; 16])],
            ..Config::default()
        };
        Health::new(&map, Arc::clone(&cabling), me, 10, config, 0)
    };
    (one(0), one(1))
}

#[test]
fn an_epoch_is_agreed_on_by_answers_of_the_peer_and_not_by_replayed_heartbeats() {
    let (mut a, mut b) = keyed_pair([1, 2]);
    let kept: Vec<_> = (1..4)
        .flat_map(|time| sent(&mut a, time * 5 * MS))
        .collect();
    b.heard(0, &kept[0], 15 * MS).expect("good");
    assert_eq!(
        (b.agreed(0), b.take_agreement()),
        (None, false),
        "a does not know b yet"
    );
    talk(&mut a, &mut b, 20..100);
    assert_eq!(
        (a.agreed(0), b.agreed(0)),
        (Some(Life([2; 16])), Some(Life([1; 16])))
    );
    assert!(a.take_agreement() && b.take_agreement() && !b.take_agreement());
    assert!(a.links().up(0));
    let late: Vec<_> = sent(&mut a, 105 * MS);
    // Both ends restart at the same time of day, and an attacker replays an old heartbeat from a to b.
    let (_, mut again) = keyed_pair([3, 4]);
    for (at, beat) in (1..).zip(kept.iter().chain(&late)) {
        again.heard(0, beat, at * MS).expect("it is signed");
    }
    assert_eq!(again.agreed(0), None);
    assert!(!again.links().up(0));
}

#[test]
fn the_epoch_of_a_link_that_is_new_to_a_peer_is_agreed_on_again() {
    let (mut a, mut b) = keyed_pair([1, 2]);
    talk(&mut a, &mut b, 5..100);
    // The same node, whose configuration lacked this link for a while.
    a.config.lives = vec![Life([5; 16])];
    talk(&mut a, &mut b, 100..120);
    assert_eq!(b.agreed(0), Some(Life([5; 16])));
    assert!(b.take_agreement());
}

#[test]
fn a_link_whose_frames_are_refused_while_heartbeats_come_goes_down_by_name() {
    let (mut a, mut b) = keyed_pair([1, 2]);
    talk(&mut a, &mut b, 5..100);
    assert!(b.links().up(0));
    let mut down = None;
    for beat in 0..400 {
        let now = (100 + 5 * beat) * MS;
        a.tell(0, beat + 1);
        talk(&mut a, &mut b, now / MS..now / MS + 1);
        assert_eq!(b.told(0), beat + 1);
        b.compare(0, (0, beat), now);
        if !b.links().up(0) {
            let cause = b.states().next().map(|state| state.cause);
            assert_eq!(cause, Some(Cause::Stuck));
            down = Some(beat * 5);
            break;
        }
    }
    let down = down.expect("it goes down");
    assert!((1000..1500).contains(&down), "after {down} ms");
}

#[test]
fn a_node_whose_clock_was_set_back_is_believed_again() {
    let mut lab = Lab::new(Map::mesh(4, 1e9), Config::default(), 4);
    assert!(lab.run_while(400 * MS, |lab| !all_up(lab)));
    lab.kill(2);
    lab.run(100 * MS);
    lab.tolerant = true;
    lab.start_as(2, 7);
    assert!(lab.run_while(400 * MS, |lab| !all_up(lab)));
}

#[test]
fn a_node_that_starts_again_at_the_same_time_of_day_is_believed_again() {
    let (mut a, mut b) = pair();
    talk(&mut a, &mut b, 5..100);
    let (_, mut again) = pair();
    for time in (105..250).step_by(5) {
        let now = time * MS;
        for bytes in sent(&mut again, now - 100 * MS) {
            let _ = a.heard(0, &bytes, now);
        }
        for bytes in sent(&mut a, now) {
            again.heard(0, &bytes, now - 100 * MS).expect("good");
        }
    }
    assert!(a.links().up(0) && again.links().up(0));
}

#[test]
fn a_node_that_learns_of_more_nodes_takes_no_link_down() {
    let mut lab = Lab::new(Map::mesh(4, 1e9), Config::default(), 6);
    assert!(lab.run_while(400 * MS, |lab| !all_up(lab)));
    lab.lost.clear();
    // The links of the fifth node have the highest numbers.
    let mut more = Map::mesh(4, 1e9);
    more.nodes.push(more.nodes[0].clone());
    for node in 0..4 {
        let ends = [node, 4];
        more.links.push(crate::map::Link { ends, rate: 1e9 });
    }
    let was = lab.map.links.len();
    for node in 0..4 {
        lab.learn(node, &more);
        lab.run(30 * MS);
    }
    lab.join(more);
    assert!(lab.run_while(400 * MS, |lab| !all_up(lab)));
    let lost: Vec<_> = lab
        .lost
        .iter()
        .filter(|(_, node, link)| *node < 4 && *link < was)
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_link_that_loses_every_fifth_frame_does_not_flap() {
    for seed in 0..SEEDS {
        let mut lab = Lab::new(Map::mesh(2, 1e9), Config::default(), seed);
        assert!(lab.run_while(400 * MS, |lab| !all_up(lab)));
        each_way(&mut lab, At::Link(0), false, |way| way.loss = 200);
        lab.lost.clear();
        lab.run(60_000 * MS);
        let at_first = lab.lost.iter().filter(|(_, node, _)| *node == 0).count();
        assert!(
            (1..=8).contains(&at_first),
            "{seed}: {at_first} times in a minute"
        );
    }
}

#[test]
fn a_link_that_failed_often_comes_back_although_it_loses_a_frame_now_and_then() {
    for seed in 0..SEEDS {
        let mut lab = Lab::new(Map::mesh(2, 1e9), Config::default(), seed);
        each_way(&mut lab, At::Link(0), false, |way| way.loss = 10);
        // The required number of heartbeats doubles each time, up to five seconds of heartbeats.
        for failure in 0..9 {
            let up = lab.run_while(15_000 * MS, |lab| !all_up(lab));
            assert!(up, "{seed}: it stays down after {failure} failures");
            each_way(&mut lab, At::Link(0), false, |way| way.cut = true);
            lab.run(100 * MS);
            assert!(!all_up(&lab), "{seed}");
            each_way(&mut lab, At::Link(0), false, |way| way.cut = false);
        }
    }
}

#[test]
fn foreign_or_misplaced_heartbeats_are_refused_with_the_reason() {
    let keys = |secret| Some(Keys::new(Key::new([secret; 16]), None));
    let key = keys(1);
    let config = |cookie, keys| Config {
        cookie,
        keys,
        ..Config::default()
    };
    let map = Map::mesh(3, 1e9);
    let cabling = Arc::new(Cabling::new(&map).expect("few links"));
    let node = |me, config| Health::new(&map, Arc::clone(&cabling), me, 5, config, 0);
    let from = |me, config| sent(&mut node(me, config), 5 * MS);
    let mut me = node(0, config(1, key.clone()));
    let mut hear = |own, bytes: &[u8]| me.heard(own, bytes, 5 * MS);
    let good = from(1, config(1, key.clone()));
    assert_eq!(
        hear(1, &good[0]),
        Err(Refused::Misplaced),
        "cables changed places"
    );
    assert_eq!(
        hear(0, &good[1]),
        Err(Refused::Misplaced),
        "the cable of node 2"
    );
    assert_eq!(hear(7, &good[0]), Err(Refused::Misplaced), "no such link");
    assert_eq!(
        hear(0, &from(0, config(1, key.clone()))[0]),
        Err(Refused::Misplaced),
        "a loop"
    );
    assert_eq!(
        hear(0, &from(1, config(2, key.clone()))[0]),
        Err(Refused::Foreign)
    );
    assert_eq!(hear(0, &from(1, config(1, None))[0]), Err(Refused::Forged));
    let other = keys(2);
    assert_eq!(hear(0, &from(1, config(1, other))[0]), Err(Refused::Forged));
    assert_eq!(hear(0, &[0; 80]), Err(Refused::Malformed));
    assert_eq!(hear(0, &good[0]), Ok(()));
    assert_eq!(hear(0, &good[0]), Err(Refused::Replayed));
}

#[test]
fn a_heartbeat_has_a_bounded_size_and_all_records_get_their_turn() {
    let config = Config {
        records: 3,
        ..Config::default()
    };
    let mut lab = Lab::new(fly(), config, 5);
    lab.run(1000 * MS);
    assert!(
        all_up(&lab),
        "three records at a time tell of sixteen nodes"
    );
    let health = lab.health_mut(0).expect("it lives");
    let now = health.due() + 10 * MS;
    let longest = sent(health, now).iter().map(Vec::len).max();
    assert_eq!(longest, Some(126 + 3 * 18));
}

#[test]
fn a_peer_that_lies_of_the_largest_numbers_harms_itself_at_most() {
    let map = Map::mesh(3, 1e9);
    let cabling = Arc::new(Cabling::new(&map).expect("few links"));
    // A present-day time of day.
    let today = 1_800_000_000 * 1_000 * MS;
    let node = |me| Health::new(&map, Arc::clone(&cabling), me, today, Config::default(), 0);
    let [mut a, mut liar] = [node(0), node(1)];
    let (of_victim, mut bytes) = (2, Vec::new());
    let mut beat = Beat {
        from: 1,
        to: 0,
        link: 0,
        receives_peer: true,
        probe: false,
        incarnation: today,
        sequence: 1,
        time: 5 * MS,
        epoch: Life::default(),
        newest: 0,
        echo: Echo::default(),
    };
    let mut say = |beat: &Beat, records: &[Record], a: &mut Health| {
        bytes.clear();
        beat.write(records, 0, (None, &Names::default()), &mut bytes);
        a.heard(0, &bytes, 5 * MS)
    };
    // A record of another node, and one of the victim itself.
    for version in [
        u64::MAX,
        u64::MAX - 1,
        i64::MAX as u64,
        today + 2 * CLOCK_LEAD_MAX_NS,
    ] {
        let lies = [of_victim, 0].map(|node| Record {
            node,
            version,
            up: 0,
        });
        assert_eq!(say(&beat, &lies, &mut a), Ok(()));
        beat.sequence += 1;
        assert_eq!(a.gossip.record(of_victim).version, 0);
        assert_eq!(a.gossip.record(0).version, today);
        beat.echo = Echo {
            incarnation: version,
            ..Echo::default()
        };
        assert_eq!(say(&beat, &[], &mut a), Ok(()));
        beat.sequence += 1;
        assert_eq!(a.incarnation, today);
    }
    // A record with the greatest believed version can still be exceeded by the victim, which is then believed.
    let most = Record {
        node: of_victim,
        version: today + CLOCK_LEAD_MAX_NS,
        up: 3,
    };
    assert_eq!(say(&beat, &[most], &mut a), Ok(()));
    beat.sequence += 1;
    let next = Record {
        version: most.version + 1,
        up: 1,
        ..most
    };
    assert_eq!(say(&beat, &[next], &mut a), Ok(()));
    assert_eq!(a.gossip.record(of_victim), next);
    // A record of the victim itself.
    beat.incarnation = u64::MAX;
    beat.sequence = 1;
    assert_eq!(say(&beat, &[], &mut a), Err(Refused::Malformed));
    let honest = sent(&mut liar, 10 * MS);
    assert_eq!(a.heard(0, &honest[0], 10 * MS), Err(Refused::Replayed));
    let mut again = Health::new(
        &map,
        cabling,
        1,
        today + 20 * MS,
        Config::default(),
        15 * MS,
    );
    assert_eq!(a.heard(0, &sent(&mut again, 20 * MS)[0], 20 * MS), Ok(()));
}
