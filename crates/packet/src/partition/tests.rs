use super::*;
use crate::pool;

const OUTPUTS: u8 = 4;

/// Packets with these numbers, of different lengths.
fn numbered(numbers: std::ops::Range<u8>) -> Batch {
    let packet = |i: u8| Packet::from_bytes(&vec![i; 1 + usize::from(i % 13)]);
    numbers.filter_map(packet).collect()
}

fn numbers(batch: &Batch) -> Vec<u8> {
    batch.iter().map(|p| p.data()[0]).collect()
}

fn lengths(batch: &Batch) -> u64 {
    batch.iter().map(|p| p.len() as u64).sum()
}

/// Verdicts for the packets of a burst.
struct Burst {
    verdicts: Vec<Verdict>,
    /// True for a packet for which the step returns `None` at first.
    slow: Vec<bool>,
}

impl Burst {
    /// Random verdicts; one output is more frequent than the others.
    fn draw(random: &mut u64, packets: usize) -> Burst {
        let mut below = |n: u64| {
            *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (*random >> 33) % n
        };
        let (often, rarely) = (below(3), 1 + below(20));
        let mut verdict = || match below(12) {
            0..4 => Verdict::out(often as u8),
            4 => Verdict::drop(below(3) as u8),
            5 => Verdict::out(OUTPUTS + 1), // there is none
            6 => Verdict::reject(2, 1),
            _ => Verdict::out(below(u64::from(OUTPUTS)) as u8),
        };
        Burst {
            verdicts: (0..packets).map(|_| verdict()).collect(),
            slow: (0..packets).map(|_| below(rarely) == 0).collect(),
        }
    }

    fn of(&self, packet: &Packet) -> Verdict {
        self.verdicts[usize::from(packet.data()[0])]
    }

    /// Partitions the batch; returns the numbers of the packets without an output, in order.
    fn partition(&self, partition: &mut Partition) -> Vec<u8> {
        let (mut nobodys, mut seen) = (Vec::new(), Vec::new());
        loop {
            let known = partition.run(|packet| {
                let number = packet.data()[0];
                seen.push(number);
                (!self.slow[usize::from(number)]).then(|| self.of(packet))
            });
            let Some(packet) = partition.peek() else {
                break;
            };
            let verdict = self.of(packet);
            assert!(known.is_none_or(|known| known == verdict));
            assert_eq!(known.is_none(), self.slow[usize::from(packet.data()[0])]);
            nobodys.extend(partition.go(verdict).map(|packet| packet.data()[0]));
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "each is shown once");
        nobodys
    }

    /// Numbers of the packets with this output, starting at packet `from`.
    fn by(&self, output: Option<usize>, from: usize) -> Vec<u8> {
        let of = |i: &usize| {
            let port = self.verdicts[*i].port();
            Some(port).filter(|&port| port < usize::from(OUTPUTS)) == output
        };
        let all = (from..self.verdicts.len()).filter(of);
        all.map(|i| i as u8).collect()
    }
}

#[test]
fn packets_are_dealt_out_in_order_however_they_take_turns() {
    let (mut random, mut last_home) = (1, None);
    let mut sides = Sides::new(usize::from(OUTPUTS));
    let rounds = if cfg!(miri) { 40 } else { 4000 };
    for round in 0..rounds {
        let packets = [0, 1, 2, 3, 31, 64, 65, 100][round % 8];
        let burst = Burst::draw(&mut random, packets);
        let stay = [
            None,
            Some((0, 2)),
            Some((1, 0)),
            Some((7, 200)),
            Some((200, 3)),
        ][round % 5];
        let kept = stay.map_or(0, |(kept, _)| packets.min(kept));
        let mut batch = numbered(0..packets as u8);
        if round % 3 > 0 {
            batch.bytes(); // otherwise the bytes are not counted
        }
        let mut partition = sides.partition(&mut batch, stay);
        let nobodys = burst.partition(&mut partition);
        let home = partition.done();

        let first = (0..packets).find_map(|i| {
            let port = burst.verdicts[i].port();
            Some(port).filter(|&port| port < usize::from(OUTPUTS))
        });
        let expected = stay.map(|(_, home)| home).or(last_home).or(first);
        assert_eq!(home, expected);
        last_home = home;
        assert_eq!(nobodys, burst.by(None, kept));
        let mut stayed: Vec<u8> = (0..kept as u8).collect();
        if home.is_some_and(|home| home < usize::from(OUTPUTS)) {
            stayed.extend(burst.by(home, kept));
        }
        assert_eq!(numbers(&batch), stayed);
        assert_eq!(batch.bytes(), lengths(&batch));
        let mut gone = vec![Vec::new(); usize::from(OUTPUTS)];
        sides.each(|output, side| {
            assert!(!side.is_empty() && gone[output].is_empty());
            gone[output] = numbers(side);
            assert_eq!(side.bytes(), lengths(side));
            side.clear();
        });
        assert_eq!(sides.part(), gone.iter().any(|gone| !gone.is_empty()));
        for (output, gone) in gone.into_iter().enumerate() {
            let expected = match home {
                Some(home) if home == output => Vec::new(),
                _ => burst.by(Some(output), kept),
            };
            assert_eq!(gone, expected);
        }
        if round % 7 == 0 {
            sides.reset();
            (last_home, _) = (None, assert!(!sides.part()));
        }
    }
}

#[test]
fn packets_not_fetched_stay_in_their_batch() {
    let mut sides = Sides::new(2);
    for _ in 0..2 {
        let mut batch = numbered(0..9);
        let mut partition = sides.partition(&mut batch, None);
        partition.run(|p| Some(Verdict::out(p.data()[0] % 2)));
    }
    sides.each(|_, side| assert_eq!(numbers(side), [1, 3, 5, 7, 1, 3, 5, 7]));
}

#[test]
fn lengths_may_change_where_bytes_are_counted_again() {
    let mut batch = numbered(0..50);
    let _ = batch.iter_mut();
    let mut sides = Sides::new(2);
    let mut partition = sides.partition(&mut batch, None);
    partition.run(|p| {
        p.put(3)?;
        Some(Verdict::out(p.data()[0] % 2))
    });
    drop(partition);
    assert_eq!(batch.bytes(), lengths(&batch));
    sides.each(|_, side| assert_eq!(side.bytes(), lengths(side)));
}

#[test]
fn partition_dropped_early_keeps_the_remaining_packets() {
    let mut batch = numbered(0..6);
    let mut sides = Sides::new(1);
    let mut partition = sides.partition(&mut batch, Some((1, 0)));
    assert!(partition.go(Verdict::drop(0)).is_some());
    assert!(partition.go(Verdict::out(0)).is_none());
    assert!(partition.go(Verdict::drop(0)).is_some());
    drop(partition);
    assert_eq!(numbers(&batch), [0, 2, 4, 5]);
}

#[test]
fn a_panic_while_packets_are_dealt_out_frees_none_twice() {
    let before = pool::balance();
    let mut sides = Sides::new(2);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut batch = numbered(0..10);
        sides.partition(&mut batch, None).run(|p| {
            assert!(p.data()[0] < 6, "on purpose");
            Some(Verdict::out(p.data()[0] % 2))
        });
    }));
    assert!(result.is_err());
    sides.each(|_, side| assert_eq!(numbers(side), [1, 3, 5]));
    drop(sides);
    assert_eq!(
        pool::balance(),
        before + 4,
        "those that were not looked at are leaked"
    );
}

#[test]
fn leaked_partition_does_no_harm() {
    let mut sides = Sides::new(3);
    let mut batch = numbered(0..10);
    let mut partition = sides.partition(&mut batch, None);
    partition.run(|p| Some(Verdict::out(p.data()[0] % 2)));
    std::mem::forget(partition);
    drop(batch);
    let mut batch = numbered(0..10);
    let mut partition = sides.partition(&mut batch, None);
    partition.run(|p| Some(Verdict::out(2 - p.data()[0] % 2)));
    drop(partition);
    assert!(batch.is_empty());
    let mut gone = Vec::new();
    sides.each(|output, side| gone.push((output, numbers(side))));
    assert_eq!(gone, [(1, vec![1, 3, 5, 7, 9]), (2, vec![0, 2, 4, 6, 8])]);
}

#[test]
fn an_output_that_was_closed_opens_again() {
    let mut sides = Sides::new(3);
    let mut burst = |ports: u8| {
        let mut batch = numbered(0..9);
        let mut partition = sides.partition(&mut batch, None);
        partition.run(|p| Some(Verdict::out(p.data()[0] % ports)));
        drop(partition);
        let mut gone = Vec::new();
        sides.each(|output, side| {
            gone.push((output, numbers(side)));
            *side = Batch::new(); // frees the batch's memory, too
        });
        gone.sort();
        (numbers(&batch).len(), gone)
    };
    let three = (3, vec![(1, vec![1, 4, 7]), (2, vec![2, 5, 8])]);
    for _ in 0..3 {
        assert_eq!(burst(3), three);
        assert_eq!(burst(1), (9, vec![]));
    }
}
