use super::*;

const S: u64 = 1_000_000_000;

/// Guarantee and lifetime of the classes.
const CLASSES: [(u64, u64); 3] = [(5 * S, 300 * S), (0, 60 * S), (5 * S, 8 * S)];

fn table(capacity: usize) -> Flows<u32, u32> {
    let mut flows = Flows::new(capacity);
    for (guarantee, lifetime) in CLASSES {
        flows.add_class(guarantee, lifetime);
    }
    flows
}

#[test]
fn a_flow_is_found_from_both_ends_until_it_is_removed() {
    let mut flows = table(4);
    let flow = flows.insert([1, 2], 77, (0, 0), 0, |_, _| {}).unwrap();
    assert_eq!(flows.find(&1), Some(Side { flow, side: 0 }));
    assert_eq!(flows.find(&2), Some(Side { flow, side: 1 }));
    assert_eq!(flows.find(&3), None);
    assert_eq!(flows.remove(flow), 77);
    assert_eq!((flows.find(&1), flows.find(&2)), (None, None));
    assert!(flows.is_empty());
}

#[test]
fn a_flow_with_equal_ends_is_found_by_its_second() {
    let mut flows = table(4);
    let flow = flows.insert([9, 9], 1, (0, 0), 0, |_, _| {}).unwrap();
    assert_eq!(flows.find(&9), Some(Side { flow, side: 1 }));
    flows.remove(flow);
    assert_eq!(flows.find(&9), None);
}

#[test]
fn full_table_keeps_guaranteed_flows_and_evicts_the_first_to_expire() {
    let mut flows = table(2);
    let mut gone = Vec::new();
    flows
        .insert([1, 2], 1, (0, 0), 0, |_, v| gone.push(v))
        .unwrap();
    flows
        .insert([3, 4], 2, (0, 0), S, |_, v| gone.push(v))
        .unwrap();
    assert_eq!(
        flows.insert([5, 6], 3, (0, 0), 2 * S, |_, v| gone.push(v)),
        None
    );
    flows.touch(flows.find(&1).unwrap().flow, 0, 3 * S);
    assert!(
        flows
            .insert([5, 6], 3, (0, 0), 6 * S, |_, v| gone.push(v))
            .is_some()
    );
    assert_eq!(gone, [2]);
    assert_eq!(flows.len(), 2);
}

#[test]
fn a_new_flow_that_would_end_first_is_refused() {
    let mut flows = table(1);
    flows.insert([1, 2], 1, (0, 0), 0, |_, _| {}).unwrap();
    assert_eq!(
        flows.insert([3, 4], 2, (1, 0), 10 * S, |_, _| panic!()),
        None
    );
    assert!(flows.find(&1).is_some());
}

#[test]
fn a_smaller_capacity_lets_flows_go_even_held_ones() {
    let mut flows = table(4);
    for i in 0..4 {
        flows.insert([i * 2, i * 2 + 1], i, (0, 0), u64::from(i), |_, _| {});
    }
    let mut gone = Vec::new();
    flows.set_capacity(1, 10, |_, v| gone.push(v));
    assert_eq!(gone, [0, 1, 2]);
}

#[test]
fn a_table_that_grows_finds_all_its_flows() {
    let count = if cfg!(miri) { 300 } else { 40_000 };
    let mut flows = table(usize::MAX);
    for n in 0..count {
        let keys = [2 * n, 2 * n + 1];
        assert!(flows.insert(keys, n, (0, 0), 0, |_, _| panic!()).is_some());
    }
    assert_eq!(flows.is_large(), !cfg!(miri));
    flows.prefetch(0..3 * count);
    for n in 0..count {
        let found = [2 * n, 2 * n + 1].map(|key| flows.find(&key).expect("it was added"));
        assert_eq!(
            found.map(|end| (*flows.value(end.flow), end.side)),
            [(n, 0), (n, 1)]
        );
    }
    assert_eq!(flows.find(&(2 * count)), None);
}

/// Reference model: the same table as a list that is searched from end to end.
#[derive(Default)]
struct Naive {
    flows: Vec<Entry>,
    capacity: usize,
    touches: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    keys: [u32; 2],
    value: u32,
    class: Class,
    group: Group,
    touched: u64,
    turn: u64,
}

impl Entry {
    fn times(&self) -> (u64, u64) {
        CLASSES[usize::from(self.class)]
    }
}

impl Naive {
    fn find(&self, key: u32) -> Option<(u32, usize)> {
        let of = |e: &Entry| Some((e.value, (0..2).rev().find(|&s| e.keys[s] == key)?));
        self.flows.iter().find_map(of)
    }

    fn first_loose(&self, now: u64) -> Option<(u64, usize)> {
        let each = self.flows.iter().enumerate();
        let loose = each.filter(|(_, e)| e.touched + e.times().0 <= now);
        let order = loose.map(|(i, e)| (e.touched + e.times().1, e.class, e.turn, i));
        order.min().map(|(ends, .., i)| (ends, i))
    }

    fn insert(&mut self, entry: Entry, gone: &mut Vec<u32>) -> bool {
        for key in entry.keys {
            if let Some((value, _)) = self.find(key) {
                gone.push(value);
                self.flows.retain(|e| e.value != value);
            }
        }
        if self.flows.len() == self.capacity {
            let Some((ends, i)) = self.first_loose(entry.touched) else {
                return false;
            };
            if entry.times().0 == 0 && ends > entry.touched + entry.times().1 {
                return false;
            }
            gone.push(self.flows.remove(i).value);
        }
        self.touches += 1;
        self.flows.push(Entry {
            turn: self.touches,
            ..entry
        });
        true
    }
}

#[test]
fn random_histories_follow_the_naive_table() {
    let mut state = 88172645463325252u64;
    let mut random = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    for round in 0..40 {
        let capacity = 1 + random(20) as usize;
        let mut flows = table(capacity);
        let mut naive = Naive {
            capacity,
            ..Naive::default()
        };
        let (mut now, mut next) = (0, 0);
        for _ in 0..600 {
            now += random(3) * S;
            let (mut gone, mut naive_gone) = (Vec::new(), Vec::new());
            let class = random(3) as Class;
            match random(10) {
                0..4 => {
                    next += 1;
                    let keys = [random(30) as u32, random(30) as u32];
                    let entry = Entry {
                        keys,
                        value: next,
                        class,
                        group: random(4) as Group,
                        touched: now,
                        turn: 0,
                    };
                    let place = (class, entry.group);
                    let added = flows.insert(keys, next, place, now, |_, v| gone.push(v));
                    assert_eq!(added.is_some(), naive.insert(entry, &mut naive_gone));
                }
                4..8 => {
                    let key = random(30) as u32;
                    if let Some(end) = flows.find(&key) {
                        let value = *flows.value(end.flow);
                        flows.touch(end.flow, class, now);
                        naive.touches += 1;
                        let turn = naive.touches;
                        let entry = naive.flows.iter_mut().find(|e| e.value == value).unwrap();
                        (entry.class, entry.touched, entry.turn) = (class, now, turn);
                    }
                }
                8 => {
                    let more = flows.expire(now, 2, |_, v| gone.push(v));
                    let mut any = true;
                    for _ in 0..2 {
                        match naive.first_loose(now) {
                            Some((ends, i)) if ends <= now => {
                                naive_gone.push(naive.flows.remove(i).value);
                            }
                            _ => {
                                any = false;
                                break;
                            }
                        }
                    }
                    assert_eq!(more, any);
                }
                _ => {
                    if let Some(end) = flows.find(&(random(30) as u32)) {
                        let value = flows.remove(end.flow);
                        naive.flows.retain(|e| e.value != value);
                    }
                }
            }
            flows.prefetch((0..random(70) as u32).map(|key| key * 7 % 40));
            assert_eq!(gone, naive_gone, "round {round} at {now}");
            assert_eq!(flows.len(), naive.flows.len());
            assert!(flows.len() <= capacity);
            for key in 0..30 {
                let found = flows.find(&key).map(|e| (*flows.value(e.flow), e.side));
                assert_eq!(found, naive.find(key));
                if let Some(end) = flows.find(&key) {
                    let value = *flows.value(end.flow);
                    let entry = naive.flows.iter().find(|e| e.value == value).unwrap();
                    let over = entry.touched + entry.times().1 <= now;
                    assert_eq!(flows.is_over(end.flow, now), over);
                }
            }
            assert_eq!(flows.iter().count(), flows.len());
            for group in 0..5 {
                let found: Vec<u32> = flows.of_group(group).map(|f| *flows.value(f)).collect();
                // Values are numbers in the order in which flows were added.
                let own = naive.flows.iter().filter(|e| e.group == group);
                let mut own: Vec<u32> = own.map(|e| e.value).collect();
                own.sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(found, own);
                assert!(flows.of_group(group).all(|f| flows.group_of(f) == group));
            }
        }
    }
}
