use super::*;
use crate::anno::{Anno, Cold};
use std::rc::Rc;
use std::sync::MutexGuard;
use sync::Lock;

fn packet(bytes: &[u8]) -> Packet {
    Packet::from_bytes(bytes).expect("the pool has room")
}

/// Lock for tests that use large buffers, because there are few and one test takes all.
pub(crate) fn large_ones() -> MutexGuard<'static, ()> {
    static TURN: Lock<()> = Lock::new(());
    TURN.lock()
}

#[test]
fn bytes_go_in_and_come_out() {
    let p = packet(b"hello");
    assert_eq!(p.data(), b"hello");
    assert_eq!(p.headroom(), HEADROOM);
    assert_eq!(*p.anno(), Anno::EMPTY);
}

#[test]
fn pull_and_push_move_the_front_and_annotations_stay_right() {
    let mut p = packet(b"headbody");
    p.set_mac_here();
    p.set_network_offset(4);
    assert!(p.pull(4));
    assert_eq!(p.data(), b"body");
    assert_eq!(p.network(), b"body");
    assert_eq!(p.mac(), Some(&b"headbody"[..]));
    p.push(2).expect("there is headroom").copy_from_slice(b"xx");
    assert_eq!((p.data(), p.network_offset()), (&b"xxbody"[..], 2));
    assert!(!p.pull(7));
    assert_eq!(p.len(), 6);
}

#[test]
fn a_link_layer_header_takes_the_place_of_what_is_before_the_network_header() {
    const HEADER: [u8; 14] = *b"fourteen bytes";
    for (headroom, network) in [(0, 0), (13, 0), (14, 0), (14, 5), (9, 5), (8, 5), (128, 33)] {
        let bytes: Vec<u8> = (0..40).collect();
        let fresh = || {
            let mut p = packet(&bytes);
            assert!(p.realign(headroom));
            if network > 0 {
                p.set_network_offset(network);
            }
            p
        };
        for removed in [0, network] {
            let (mut p, mut naive) = (fresh(), fresh());
            let done = match removed {
                0 => p.push_mac(&HEADER),
                _ => p.replace_mac(&HEADER),
            };
            assert_eq!(done, headroom + removed >= HEADER.len());
            if !done {
                assert_eq!((p.data(), p.mac()), (&bytes[..], None));
                continue;
            }
            assert!(naive.pull(removed));
            naive.push(14).expect("room").copy_from_slice(&HEADER);
            naive.set_mac_here();
            assert_eq!((p.data(), p.anno()), (naive.data(), naive.anno()));
            assert_eq!(p.data(), [&HEADER, &bytes[removed..]].concat());
        }
    }
    // The network header was cut off.
    let mut p = packet(b"short");
    p.set_network_offset(5);
    p.truncate(2);
    assert!(!p.replace_mac(&HEADER));
    assert_eq!(p.data(), b"sh");
}

#[test]
fn the_head_of_the_network_header_is_there_whole_or_not_at_all() {
    let mut p = packet(b"headbody");
    assert_eq!(p.network_head::<1>(), None);
    p.set_network_offset(4);
    assert_eq!(p.network_head(), Some(b"body"));
    assert_eq!(p.network_head::<5>(), None);
    p.network_head_mut::<2>().expect("it is there").fill(b'x');
    assert_eq!(p.data(), b"headxxdy");
    assert!(p.pull(5));
    assert_eq!((p.network_head::<1>(), p.network()), (None, &b"xdy"[..]));
}

#[test]
fn extend_adds_at_both_ends_or_not_at_all() {
    let mut p = packet(b"abc");
    let (head, tail) = (p.headroom(), p.tailroom());
    for (front, back) in [(head + 1, 0), (0, tail + 1), (head + 1, tail + 1)] {
        assert!(p.extend(front, back).is_none());
        assert_eq!(
            (p.data(), p.headroom(), p.tailroom()),
            (&b"abc"[..], head, tail)
        );
    }
    let all = p.extend(2, 1).expect("there is room");
    (all[0], all[1], all[5]) = (b'x', b'y', b'z');
    assert_eq!(p.data(), b"xyabcz");
    let all = p.extend(head - 2, tail - 1).expect("there is as much room");
    assert_eq!(all.len(), head + 3 + tail);
}

#[test]
fn put_and_take_move_the_end() {
    let mut p = packet(b"abc");
    p.put(2).expect("there is tailroom").copy_from_slice(b"de");
    assert_eq!(p.data(), b"abcde");
    assert!(p.take(4));
    assert!(!p.take(2));
    assert_eq!(p.data(), b"a");
    assert!(p.put(100_000).is_none());
    assert!(p.push(HEADROOM + 1).is_none());
}

#[test]
fn realigning_keeps_bytes_and_header_places() {
    let mut p = packet(b"0123456789");
    p.set_network_offset(3);
    assert!(p.realign(16));
    assert_eq!(
        (p.headroom(), p.data(), p.network()),
        (16, &b"0123456789"[..], &b"3456789"[..])
    );
    assert!(!p.realign(65_000));
}

#[test]
fn any_number_that_is_asked_for_is_fulfilled_or_refused() {
    let _turn = large_ones();
    let most = usize::MAX;
    let numbers = [
        65_535,
        65_536,
        1 << 31,
        1 << 63,
        most - 200,
        most - 128,
        most - 1,
        most,
    ];
    let mut usual = packet(b"0123456789");
    let mut long = packet(b"0123456789")
        .copy_with_room(60_000)
        .expect("there are large buffers");
    long.put(50_000).expect("there is room").fill(7);
    for n in numbers {
        for p in [&mut usual, &mut long] {
            let was = (p.headroom(), p.data().to_vec());
            assert!(!p.realign(n) && !p.pull(n) && !p.take(n));
            assert!(p.push(n).is_none() && p.put(n).is_none());
            p.truncate(n);
            assert!(p.copy_with_room(n).is_none_or(|_| n == 65_535));
            assert_eq!((p.headroom(), p.data().to_vec()), was);
        }
        assert!(Packet::large(n).is_none_or(|_| n == 65_535));
    }
    // A copy has room for all of the packet, whatever is asked for.
    for n in [0, 1, 2000, 2176, 50_009] {
        let twin = long.copy_with_room(n).expect("there are large buffers");
        assert_eq!(twin.data(), long.data());
    }
}

#[test]
fn a_stripped_header_moves_along_when_a_packet_is_realigned() {
    let mut p = packet(b"ethernet-ip");
    p.set_mac_here();
    assert!(p.pull(9));
    for headroom in [16, 200, 9] {
        assert!(p.realign(headroom));
        assert_eq!(p.data(), b"ip");
        assert_eq!(p.mac(), (headroom > 9).then_some(&b"ethernet-ip"[..]));
    }
    assert!(p.push(9).is_some_and(|header| header == b"ethernet-"));
}

#[test]
fn a_copy_has_its_own_bytes_and_the_same_annotations() {
    let mut p = packet(b"same");
    p.anno_mut().paint = 9;
    p.cold_mut().timestamp = 77;
    let mut q = p.copy().expect("the pool has room");
    q.data_mut()[0] = b'g';
    assert_eq!((p.data(), q.data()), (&b"same"[..], &b"game"[..]));
    assert_eq!((q.anno().paint, q.cold().timestamp), (9, 77));
}

#[test]
fn a_buffer_that_comes_back_carries_no_annotations_over() {
    let mut p = packet(b"x");
    p.cold_mut().user[0] = 1;
    p.anno_mut().paint = 3;
    p.set_hash(4);
    p.set_vlan_tci(5);
    p.set_bucket(6);
    assert_eq!((p.hash(), p.vlan_tci(), p.bucket()), (4, 5, 6));
    assert_eq!(p.copy().map(|q| q.bucket()), Some(6));
    drop(p);
    for _ in 0..200 {
        let q = packet(b"y");
        assert_eq!((*q.anno(), *q.cold()), (Anno::EMPTY, Cold::EMPTY));
        assert_eq!((q.hash(), q.vlan_tci(), q.bucket()), (0, 0, 0));
    }
}

#[test]
fn dropped_packets_are_back_in_the_pool() {
    let before = pool::balance();
    let batch: Batch = (0..500).map(|_| packet(b"x")).collect();
    assert_eq!(pool::balance(), before + 500);
    drop(batch);
    assert_eq!(pool::balance(), before);
}

#[test]
fn split_keeps_order_on_both_sides() {
    let mut batch: Batch = (0..100u8).map(|i| packet(&[i])).collect();
    let mut aside = Vec::new();
    let every = |p: &mut Packet, _: &mut Vec<u8>| {
        if p.data()[0].is_multiple_of(3) {
            Verdict::out(1)
        } else {
            Verdict::ON
        }
    };
    batch.split(&mut aside, every, |p, _, aside| aside.push(p.data()[0]));
    let kept: Vec<u8> = batch.iter().map(|p| p.data()[0]).collect();
    assert_eq!(kept, (0..100).filter(|i| i % 3 != 0).collect::<Vec<u8>>());
    assert_eq!(aside, (0..100).filter(|i| i % 3 == 0).collect::<Vec<u8>>());
}

#[test]
fn a_packet_that_is_held_may_be_another_afterwards_also_after_a_panic() {
    let before = pool::balance();
    let mut held = packet(&[1]);
    let said = held.with_local(|p| {
        *p = packet(&[2]);
        p.len()
    });
    assert_eq!((said, held.data()), (1, &[2][..]));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        held.with_local(|p| {
            *p = packet(&[3]);
            panic!("on purpose");
        })
    }));
    assert!(result.is_err());
    assert_eq!(held.data(), [3]);
    drop(held);
    assert_eq!(pool::balance(), before);
}

#[test]
fn a_panic_in_a_step_frees_no_packet_twice() {
    let before = pool::balance();
    let result = std::panic::catch_unwind(|| {
        let mut batch: Batch = (0..10u8).map(|i| packet(&[i])).collect();
        let fifth = |p: &mut Packet, _: &mut ()| {
            assert!(p.data()[0] < 5, "on purpose");
            Verdict::out(1)
        };
        batch.split(&mut (), fifth, |p, _, _| drop(p));
    });
    assert!(result.is_err());
    assert_eq!(
        pool::balance(),
        before + 5,
        "packets that were not looked at are leaked, not freed"
    );
}

#[test]
fn raw_sending_takes_the_first_ones_only() {
    let mut batch: Batch = (0..5u8).map(|i| packet(&[i])).collect();
    let taken = batch.send_first(2);
    assert_eq!(
        batch.iter().map(|p| p.data()[0]).collect::<Vec<_>>(),
        [2, 3, 4]
    );
    assert_eq!(
        taken.iter().map(|p| p.data()[0]).collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn buffers_freed_on_another_thread_are_used_again() {
    let (tail, head) = sync::ring::ring::<Packet>(64);
    let mut tail = tail;
    let worker = std::thread::spawn(move || {
        let mut head = head;
        let mut seen = 0;
        while seen < 1000 {
            seen += head.pop_each(32, drop);
            std::thread::yield_now();
        }
    });
    for i in 0..1000u32 {
        let mut p = packet(&i.to_be_bytes());
        while let Err(back) = tail.push(p) {
            p = back;
            std::thread::yield_now();
        }
    }
    worker.join().expect("the other end does not panic");
}

#[test]
fn a_batch_is_one_word_per_packet() {
    assert_eq!(std::mem::size_of::<Packet>(), std::mem::size_of::<Rc<()>>());
    assert_eq!(
        std::mem::size_of::<Option<Packet>>(),
        std::mem::size_of::<Packet>()
    );
}

#[test]
fn a_copy_may_grow_to_the_longest_datagram_in_a_large_buffer() {
    let _turn = large_ones();
    let before = pool::balance();
    let mut p = packet(b"linknet");
    p.set_mac_here();
    p.set_network_offset(4);
    p.cold_mut().timestamp = 77;
    for len in [p.len(), 4000, 65_407, 65_408, 65_500, 65_535] {
        let mut q = p.copy_with_room(len).expect("there are large buffers");
        let rest = q.put(len - p.len()).expect("there is room");
        rest.fill(9);
        assert_eq!((q.len(), &q.data()[..7]), (len, &b"linknet"[..]));
        assert_eq!((q.network_offset(), &q.network()[..3]), (4, &b"net"[..]));
        assert_eq!(q.headroom(), HEADROOM.min(65_535 - len), "{len}");
        assert_eq!(q.cold().timestamp, 77);
        let twin = q
            .copy()
            .expect("a large packet is copied into a large buffer");
        assert_eq!(twin.data(), q.data());
        q.truncate(600.min(len));
        q.leave_large();
        assert_eq!((q.headroom(), q.network_offset()), (HEADROOM, 4));
        assert_eq!(q.data(), &twin.data()[..q.len()]);
        assert!(q.headroom() + q.len() + q.tailroom() < 65_000);
    }
    assert!(p.copy_with_room(65_536).is_none());
    drop(p);
    assert_eq!(pool::balance(), before);
}

#[test]
fn large_buffers_are_few_and_come_back() {
    let _turn = large_ones();
    // Other tests of this process may hold large buffers.
    let many: Vec<Packet> = std::iter::from_fn(|| Packet::large_if_many(65_535)).collect();
    assert!(many.len() <= pool::LARGE_MANY);
    let mut all: Vec<Packet> = std::iter::from_fn(|| Packet::large(65_535)).collect();
    assert!(
        all.len() >= pool::LARGE_MAX - pool::LARGE_MANY,
        "some are left for others"
    );
    all.extend(many);
    assert!((1..=pool::LARGE_MAX).contains(&all.len()));
    assert!(Packet::new().is_some(), "usual ones are not touched");
    drop(all);
    assert!(Packet::large(65_535).is_some());
    let usual = Packet::new().expect("the pool has room");
    assert!(usual.tailroom() < 65_000, "a large buffer stays one");
}

#[test]
fn a_copy_keeps_the_stripped_bytes() {
    let mut packet = Packet::from_bytes(b"header and data").expect("the pool has buffers");
    assert!(packet.pull(7));
    let mut twin = packet.copy().expect("the pool has buffers");
    assert_eq!(twin.data(), b"and data");
    assert_eq!(twin.push(7).map(|front| &*front), Some(&b"header "[..]));
}

#[test]
fn a_batch_knows_its_bytes_whatever_happens_to_its_packets() {
    fn right(batch: &Batch) {
        let counted: usize = batch.iter().map(Packet::len).sum();
        assert_eq!(batch.bytes(), counted as u64);
        assert_eq!(batch.bytes(), counted as u64);
    }
    let mut batch: Batch = (1..9).map(|n| packet(&[0; 20][..n])).collect();
    right(&batch);
    batch.push(packet(b"pushed"));
    right(&batch);
    batch.extend([packet(b"x"), packet(b"yy")]);
    right(&batch);
    batch.iter_mut().for_each(|p| p.truncate(4));
    right(&batch);
    batch.drain_front(2);
    right(&batch);
    let mut rest = batch.split_off(3);
    let _ = [&batch, &rest].map(right);
    batch.append(&mut rest);
    let _ = [&batch, &rest].map(right);
    let shorten = |p: &mut Packet, _: &mut ()| {
        p.truncate(3);
        Verdict::ON
    };
    batch.split(&mut (), shorten, |_, _, _| ());
    right(&batch);
    batch.send_first(2);
    right(&batch);
    let mut taken = std::mem::take(&mut batch);
    let _ = [&batch, &taken].map(right);
    taken.drain();
    right(&taken);
    taken.push(packet(b"again"));
    right(&taken);
    taken.clear();
    right(&taken);
}

#[test]
fn packets_from_a_device_are_counted_as_they_arrive_unless_one_is_too_long() {
    let mut batch: Batch = (1..9).map(|n| packet(&[0; 20][..n])).collect();
    assert!(batch.count_arrived());
    assert_eq!(batch.bytes(), 36);
    batch.push(packet(b"behind"));
    assert!(batch.count_arrived());
    assert_eq!(batch.bytes(), 42);
    batch.iter_mut().for_each(|p| p.mbuf_mut().set_segments(2));
    batch.iter_mut().take(1).for_each(|p| p.truncate(0));
    assert!(!batch.count_arrived());
    assert_eq!(batch.bytes(), 41);
    batch.iter_mut().for_each(|p| p.mbuf_mut().set_segments(1));
}
