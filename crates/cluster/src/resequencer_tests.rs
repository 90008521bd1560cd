use super::*;
use std::collections::BTreeMap;

const WAIT: u64 = 1000;

fn resequencer<T>(capacity: usize) -> Resequencer<T> {
    Resequencer::new(Bounds {
        wait: WAIT,
        capacity,
    })
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(99);
        (self.0 >> 33) % n
    }
}

/// A packet: arrival time, input node, stream, and position in the stream.
type Sent = (u64, NodeId, u32, usize);

/// Packets of several streams in order of arrival, each delayed by up to `skew`. One packet in `lost` never arrives.
fn arrivals(seed: u64, skew: u64, lost: u64) -> Vec<Sent> {
    let mut draw = Draw(seed);
    let mut sent = Vec::new();
    let mut places = BTreeMap::new();
    let mut now = 10_000;
    for _ in 0..5000 {
        now += draw.below(40);
        let (input, flow) = (draw.below(3) as NodeId, draw.below(5) as u32);
        let place = places.entry((input, flow)).or_insert(0usize);
        let at = now + draw.below(skew);
        if draw.below(lost) > 0 || *place == 0 {
            sent.push((at, input, flow, *place));
        }
        *place += 1;
    }
    sent.sort();
    sent
}

/// Runs arrivals through a resequencer. Returns the packets that left, with their times.
fn run(sent: &[Sent], capacity: usize) -> (Vec<(u64, Sent)>, Counts) {
    let mut resequencer = resequencer(capacity);
    let mut left = Vec::new();
    for &packet in sent {
        let (now, input, flow, place) = packet;
        while let Some(due) = resequencer.due().filter(|&due| due <= now) {
            resequencer.tick(due, &mut |packet| left.push((due, packet)));
        }
        // Numbers start just before they wrap around.
        let number = (65_000 + place) as u16;
        let key = (flow as u16, number);
        resequencer.take(now, input, key, packet, &mut |packet| {
            left.push((now, packet))
        });
        assert!(resequencer.held() <= capacity);
    }
    while let Some(due) = resequencer.due() {
        resequencer.tick(due, &mut |packet| left.push((due, packet)));
    }
    assert_eq!(resequencer.held(), 0);
    (left, *resequencer.counts())
}

fn reordered(left: &[(u64, Sent)]) -> usize {
    let mut last = BTreeMap::new();
    let later = left.iter().filter(|(_, (_, input, flow, place))| {
        let before = last.insert((*input, *flow), *place);
        before.is_some_and(|before| before > *place)
    });
    later.count()
}

#[test]
fn nothing_is_reordered_while_ways_differ_by_less_than_the_wait() {
    for seed in 0..20 {
        for lost in [u64::MAX, 50, 5] {
            let sent = arrivals(seed, WAIT, lost);
            assert!(reordered(&sent.iter().map(|&s| (s.0, s)).collect::<Vec<_>>()) > 100);
            let (left, counts) = run(&sent, 100_000);
            assert_eq!(reordered(&left), 0, "seed {seed}");
            assert_eq!(left.len(), sent.len(), "none is lost or doubled");
            assert!(left.iter().all(|(at, packet)| at - packet.0 <= WAIT));
            assert_eq!(counts.late, 0);
            assert_eq!(counts.missed == 0, lost == u64::MAX, "{counts:?}");
        }
    }
}

#[test]
fn a_packet_leaves_when_the_naive_rule_lets_it() {
    for seed in 0..10 {
        let sent = arrivals(seed, 3 * WAIT, 9);
        let (left, _) = run(&sent, 100_000);
        assert_eq!(left, naive(&sent));
    }
}

/// Naive model: for each stream a sorted list and the next number; every rule is applied anew at each moment.
fn naive(sent: &[Sent]) -> Vec<(u64, Sent)> {
    let mut next: BTreeMap<(NodeId, u32), usize> = BTreeMap::new();
    let mut waiting: Vec<Sent> = Vec::new();
    let mut left = Vec::new();
    let follow = |now: u64,
                  key: (NodeId, u32),
                  next: &mut BTreeMap<_, usize>,
                  waiting: &mut Vec<Sent>,
                  left: &mut Vec<(u64, Sent)>| {
        while let Some(at) =
            (waiting.iter()).position(|w| (w.1, w.2) == key && Some(&w.3) == next.get(&key))
        {
            left.push((now, waiting.remove(at)));
            *next.entry(key).or_default() += 1;
        }
    };
    let expire = |now: u64,
                  next: &mut BTreeMap<_, usize>,
                  waiting: &mut Vec<Sent>,
                  left: &mut Vec<(u64, Sent)>| {
        while let Some(oldest) = waiting.iter().min_by_key(|w| w.0).copied() {
            let due = oldest.0 + WAIT;
            if due > now {
                return;
            }
            let key = (oldest.1, oldest.2);
            let mut before: Vec<Sent> = waiting.clone();
            before.retain(|w| (w.1, w.2) == key && w.3 <= oldest.3);
            before.sort_by_key(|w| w.3);
            waiting.retain(|w| !before.contains(w));
            left.extend(before.into_iter().map(|w| (due, w)));
            next.insert(key, oldest.3 + 1);
            follow(due, key, next, waiting, left);
        }
    };
    for &packet in sent {
        expire(packet.0, &mut next, &mut waiting, &mut left);
        let key = (packet.1, packet.2);
        match next.get(&key) {
            Some(&wanted) if packet.3 < wanted => left.push((packet.0, packet)),
            _ => waiting.push(packet),
        }
        follow(packet.0, key, &mut next, &mut waiting, &mut left);
    }
    expire(u64::MAX, &mut next, &mut waiting, &mut left);
    left
}

#[test]
fn a_full_buffer_gives_up_waiting_and_loses_nothing() {
    let sent = arrivals(3, 2 * WAIT, 3);
    let (left, _) = run(&sent, 8);
    assert_eq!(left.len(), sent.len());
}

#[test]
fn an_input_node_that_restarts_is_followed() {
    let mut resequencer = resequencer(100);
    let mut left = Vec::new();
    let mut now = 0;
    for number in [
        5u16, 6, 40_000, 40_001, 20_000, 20_001, 20_003, 20_002, 20_004,
    ] {
        now += 10;
        resequencer.take(now, 1, (7, number), number, &mut |n| left.push(n));
        if number == 6 || number == 40_001 {
            now += WAIT;
            resequencer.tick(now, &mut |n| left.push(n));
        }
    }
    resequencer.tick(now + WAIT, &mut |n| left.push(n));
    assert_eq!(
        left,
        [5, 6, 40_000, 40_001, 20_000, 20_001, 20_002, 20_003, 20_004]
    );
}

#[test]
fn doubles_and_random_numbers_do_no_harm() {
    let mut draw = Draw(8);
    let mut resequencer = resequencer(50);
    let (mut came, mut left) = (0u64, 0u64);
    for now in 0..200_000 {
        let key = (draw.below(3) as u16, draw.below(70_000) as u16 & 0xf0ff);
        resequencer.take(now, 2, key, (), &mut |()| left += 1);
        came += 1;
        if now % 100 == 0 {
            resequencer.tick(now, &mut |()| left += 1);
        }
        assert_eq!(came, left + resequencer.held() as u64);
    }
    resequencer.tick(u64::MAX, &mut |()| left += 1);
    assert_eq!((came, resequencer.due()), (left, None));
}

#[test]
fn numbers_are_those_of_a_stream_and_of_a_worker() {
    let mut numbers = Numbers::new(3, 65_535);
    assert_eq!(numbers.number(1, 0x1_2345), (0x3345, 65_535));
    assert_eq!(numbers.number(1, 0x5_5345), (0x3345, 0));
    assert_eq!(numbers.number(2, 0x1_2345), (0x3345, 65_535));
    assert_eq!(numbers.number(1, 0x1_2346), (0x3346, 65_535));
    assert_eq!(Numbers::new(4, 0).number(1, 0x345).0, 0x4345);
}
