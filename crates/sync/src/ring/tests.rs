use super::*;
use std::thread;

#[test]
fn items_leave_in_the_order_in_which_they_came() {
    let (mut tail, mut head) = ring::<Box<usize>>(5);
    let (mut next_in, mut next_out) = (0, 0);
    let mut out = Vec::new();
    for burst in [1, 5, 3, 7, 2, 4, 9, 1, 6, 5, 5, 3] {
        let mut items: Vec<_> = (next_in..next_in + burst).map(Box::new).collect();
        next_in += tail.push_burst(&mut items);
        assert_eq!(
            items.first().map(|i| **i),
            (!items.is_empty()).then_some(next_in)
        );
        assert_eq!(tail.len(), next_in - next_out);
        let n = head.pop_burst(burst.div_ceil(2), &mut out);
        for item in out.drain(..) {
            assert_eq!(*item, next_out);
            next_out += 1;
        }
        assert!(n <= burst);
        assert_eq!(head.len(), next_in - next_out);
    }
    assert!(next_out > 15, "{next_out} crossed");
}

#[test]
fn a_full_ring_takes_nothing_and_gives_the_item_back() {
    let (mut tail, mut head) = ring::<u64>(3);
    assert_eq!((tail.capacity(), head.capacity()), (3, 3));
    let mut items = vec![1, 2, 3, 4, 5];
    assert_eq!(tail.push_burst(&mut items), 3);
    assert_eq!(items, [4, 5]);
    assert_eq!(tail.push(9), Err(9));
    assert_eq!(tail.push_from(2, &mut items.drain(..)), 0);
    assert_eq!(head.pop(), Some(1));
    assert_eq!(tail.push(9), Ok(()));
    assert_eq!(
        [head.pop(), head.pop(), head.pop(), head.pop()],
        [Some(2), Some(3), Some(9), None]
    );
    assert!(head.is_empty() && tail.is_empty());
}

#[test]
fn a_source_keeps_items_that_do_not_fit() {
    let (mut tail, _head) = ring::<u64>(4);
    let mut source = 0..10u64;
    assert_eq!(tail.push_from(3, &mut source), 3);
    assert_eq!(tail.push_from(3, &mut source), 1);
    assert_eq!(source.next(), Some(4));
}

#[test]
fn the_limit_moves_between_nothing_and_the_capacity() {
    let (mut tail, mut head) = ring::<u64>(6);
    tail.push_burst(&mut vec![1, 2, 3, 4]);
    head.set_limit(2);
    assert_eq!(tail.push(5), Err(5), "lowered below what is inside");
    assert_eq!(tail.len(), 4, "nothing was lost by it");
    let mut out = Vec::new();
    head.pop_burst(3, &mut out);
    assert_eq!((tail.push(5), tail.push(6)), (Ok(()), Err(6)));
    tail.level().set_limit(100);
    assert_eq!(tail.level().limit(), 6);
    assert_eq!(tail.push_burst(&mut vec![6, 7, 8, 9, 10]), 4);
    tail.set_limit(0);
    head.pop_burst(9, &mut out);
    assert_eq!(tail.push(11), Err(11));
    assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn items_left_in_a_ring_are_freed_once() {
    let token = std::sync::Arc::new(());
    let (mut tail, mut head) = ring(8);
    for _ in 0..7 {
        assert!(tail.push(Plain(token.clone())).is_ok());
    }
    drop(head.pop());
    assert_eq!(std::sync::Arc::strong_count(&token), 7);
    drop(tail);
    assert!(head.pop().is_some(), "what was pushed outlives the pusher");
    drop(head);
    assert_eq!(std::sync::Arc::strong_count(&token), 1);
}

#[test]
fn panicking_receiver_neither_loses_nor_repeats_other_items() {
    let token = std::sync::Arc::new(());
    let (mut tail, mut head) = ring(4);
    tail.push_burst(&mut vec![
        Plain(token.clone()),
        Plain(token.clone()),
        Plain(token.clone()),
    ]);
    let mut seen = 0;
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        head.pop_each(3, |_| {
            seen += 1;
            assert!(seen < 2, "second item");
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(head.len(), 1);
    drop((head, tail));
    assert_eq!(std::sync::Arc::strong_count(&token), 1);
}

#[test]
fn two_threads_exchange_everything_in_order() {
    let items: u64 = if cfg!(miri) { 300 } else { 1_000_000 };
    let (mut tail, mut head) = ring::<Box<u64>>(37);
    let level = tail.level().clone();
    let pusher = thread::spawn(move || {
        let mut source = (0..items).map(Box::new);
        let (mut sent, mut burst) = (0, 1);
        while sent < items {
            let n = tail.push_from(burst, &mut source) as u64;
            sent += n;
            burst = burst % 61 + 1;
            if n == 0 {
                thread::yield_now();
            }
            if sent % 5 == 0 {
                tail.set_limit(1 + sent as usize % 37);
            }
        }
    });
    let (mut expected, mut max) = (0, 1);
    while expected < items {
        let n = head.pop_each(max, |item| {
            assert_eq!(*item, expected);
            expected += 1;
        });
        assert!(level.len() <= 37);
        max = max % 29 + 1;
        if n == 0 {
            thread::yield_now();
        }
    }
    pusher.join().unwrap();
    assert!(head.pop().is_none());
}

#[test]
fn a_level_tells_when_pushed_items_have_been_popped() {
    let (mut tail, mut head) = ring::<u64>(2);
    let level = tail.level().clone();
    assert!(level.is_past(level.pushed()));
    assert!(tail.push(1).is_ok());
    let mark = level.pushed();
    assert!(tail.push(2).is_ok());
    assert!(!level.is_past(mark));
    head.pop();
    assert!(level.is_past(mark) && !level.is_past(level.pushed()));
    assert!(has_reached(1, usize::MAX) && !has_reached(usize::MAX, 1));
}
