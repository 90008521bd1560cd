//! Bad input to a whole router: every frame of a capture per feature, cut at every length and with
//! changed bytes, on both walkers. Nothing panics, no buffer is lost, and the books balance.
#![allow(clippy::print_stdout)]

use engine::graph::Walker;
use router_tests::{Books, Feeder, Whole, every_length, features};
use std::collections::{BTreeMap, BTreeSet};
use testkit::{Rng, recorded_inputs};

type Groups = Vec<(String, Vec<Vec<u8>>)>;

/// The features of the generator.
fn made() -> Groups {
    let groups = features().into_iter();
    groups.map(|(name, f)| (name.to_owned(), f)).collect()
}

/// Observations of a run, summed over routers.
#[derive(Default)]
struct Seen {
    injected: u64,
    sent: u64,
    held: u64,
    drops: BTreeMap<String, u64>,
    classes: BTreeSet<&'static str>,
}

impl Seen {
    fn add(&mut self, router: &mut Whole, books: &Books) {
        self.injected += router.injected();
        self.sent += router.sent_so_far();
        self.held += books.held();
        for (name, n) in books.drops() {
            *self.drops.entry(name).or_default() += n;
        }
        self.classes.extend(books.classes_used());
    }

    fn print(&self, title: &str) {
        let Seen {
            injected,
            sent,
            held,
            drops,
            ..
        } = self;
        println!("{title}: {injected} in, {sent} out, {held} held, drops {drops:?}");
        let used: Vec<_> = self.classes.iter().copied().collect();
        println!("{} classes exercised: {}", used.len(), used.join(" "));
    }
}

/// Changes a frame's destination address to the router, if it was for another station.
fn to_router(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    match frame.first_chunk_mut::<6>() {
        Some(to) if to[0] & 1 == 0 => *to = [2, 0, 0, 0, 0, 1],
        _ => {}
    }
    frame
}

/// Feeds all frames of each group to a router per group, in the variants that `each` makes of a frame.
fn feed(groups: &Groups, walker: Walker, mut each: impl FnMut(&[u8], &mut Feeder)) -> Seen {
    let mut seen = Seen::default();
    for (_, frames) in groups {
        let before = engine::packet::pool::balance();
        let mut feeder = Feeder::new(Whole::router(walker));
        frames
            .iter()
            .for_each(|frame| each(&to_router(frame), &mut feeder));
        feeder.finish(before, |router, books| seen.add(router, books));
    }
    assert!(seen.injected > 0 && seen.sent > 0);
    seen
}

/// Copies of a frame with changed bytes, bits and lengths.
fn mutated(frame: &[u8], rng: &mut Rng, feeder: &mut Feeder) {
    for _ in 0..24 {
        let mut frame = frame.to_vec();
        for _ in 0..rng.range(1..4) {
            let reach = if rng.one_in(4) {
                frame.len()
            } else {
                frame.len().min(80)
            };
            if reach > 0 {
                let at = rng.below(reach);
                frame[at] = match rng.below(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => frame[at] ^ 1 << rng.below(8),
                    _ => rng.u8(),
                };
            }
        }
        if rng.one_in(4) {
            frame.resize(rng.below(1600), rng.u8());
        }
        feeder.feed(&frame);
    }
}

#[test]
fn made_features_cut_at_every_length_leave_the_books_balanced() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let seen = feed(&made(), walker, every_length);
        seen.print(&format!("made features, every length, {walker:?}"));
    }
}

#[test]
fn made_features_with_changed_bytes_leave_the_books_balanced() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut rng = Rng::seed(11);
        let seen = feed(&made(), walker, |f, feeder| mutated(f, &mut rng, feeder));
        seen.print(&format!("made features, changed, {walker:?}"));
    }
}

#[test]
fn shared_data_cut_at_every_length_are_all_accounted_for() {
    let captures = recorded_inputs::captures("pcap/features.tar.zst");
    for walker in [Walker::Sweep, Walker::Strict] {
        let seen = feed(&captures, walker, every_length);
        seen.print(&format!("captured features, every length, {walker:?}"));
    }
}

#[test]
fn shared_data_with_changed_bytes_are_all_accounted_for() {
    let captures = recorded_inputs::captures("pcap/features.tar.zst");
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut rng = Rng::seed(12);
        let seen = feed(&captures, walker, |f, feeder| mutated(f, &mut rng, feeder));
        seen.print(&format!("captured features, changed, {walker:?}"));
    }
}

#[test]
fn random_frames_are_all_accounted_for() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let mut rng = Rng::seed(13);
        let noise = (0..4_000).map(|_| {
            let n = rng.below(200);
            rng.bytes(n)
        });
        let groups = vec![
            ("noise".to_owned(), noise.collect()),
            ("mix".to_owned(), testkit::traffic::mix(5, 20_000)),
        ];
        let seen = feed(&groups, walker, |frame, feeder| feeder.feed(frame));
        seen.print(&format!("random frames, {walker:?}"));
    }
}
