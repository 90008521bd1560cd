//! Queues that also access their other end: they drop from the front, or insert packets there. Both ends must be on
//! one worker.

use super::overflow::Overflow;
use super::queue::IDLE_POLLS_MAX;
use crate::prelude::*;
use arguments::units;
use engine::notify::Notifies;
use std::collections::VecDeque;
use std::marker::PhantomData;

drops! {
    FULL = "full",
    RESET = "reset",
}

/// Treatment of a packet that arrives.
pub(crate) trait Policy: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Inputs and outputs.
    const PORTS: Ports;

    /// Inserts a packet. Returns the packet that has no room, if any.
    fn insert(
        held: &mut VecDeque<Packet>,
        capacity: usize,
        input: usize,
        packet: Packet,
    ) -> Option<Packet>;

    /// Takes out the packet that goes first when the capacity shrinks.
    fn evict(held: &mut VecDeque<Packet>) -> Option<Packet>;
}

pub(crate) struct TwoEnded<P> {
    policy: PhantomData<P>,
    held: VecDeque<Packet>,
    capacity: usize,
    highest: usize,
    dropped: u64,
    idle_polls: u32,
    words: Overflow,
}

impl<P: Policy> TwoEnded<P> {
    fn overflow(&mut self, packet: Packet, cx: &mut Cx) {
        self.words.log_first_drop(self.dropped, self.capacity, cx);
        self.dropped += 1;
        if !cx.connected(1) {
            cx.note_overflow(1);
        }
        cx.send(packet, Verdict::reject(FULL, 1));
    }
}

impl<P: Policy> Element for TwoEnded<P> {
    const CONTRACT: Contract = Contract::new(P::CLASS, P::MANUAL)
        .ports(P::PORTS)
        .drops(DROPS)
        .copies(Copies::One)
        .extensions(&[&Notifies::PACKETS]);

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.optional("CAPACITY", Capacity(1000), "packets").0
    }

    fn new(config: &Arc<usize>, init: &Init) -> TwoEnded<P> {
        TwoEnded {
            policy: PhantomData,
            held: VecDeque::new(),
            capacity: **config,
            highest: 0,
            dropped: 0,
            idle_polls: 0,
            words: Overflow::new(P::CLASS, init),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if !self.held.is_empty() {
            cx.wake_pullers();
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            if let Some(late) = P::insert(&mut self.held, self.capacity, input, packet) {
                self.overflow(late, cx);
            }
        }
        self.highest = self.highest.max(self.held.len());
        self.idle_polls = 0;
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let n = max.min(self.held.len());
        into.extend(self.held.drain(..n));
        self.idle_polls = if n > 0 { 0 } else { self.idle_polls + 1 };
        if self.idle_polls >= IDLE_POLLS_MAX {
            cx.note_empty();
        }
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn take(&mut self, old: TwoEnded<P>) {
        self.highest = old.highest;
        self.held = old.held;
    }

    const HANDLERS: &'static [Handler<TwoEnded<P>>] = &[
        Handler::sum("length", "packets held now", |e| e.held.len() as u64),
        Handler::show("highwater_length", "most packets ever held", |e| &e.highest),
        Handler::show("capacity", "packets that may be held", |e| &e.capacity),
        Handler::argument(Handler::set(
            "capacity",
            "packets that may be held",
            |e, value, cx| {
                e.capacity = units::parse::<Capacity>(value)?.0;
                // These packets were accepted before: as in Click, they do not count as packets that found no room.
                while e.held.len() > e.capacity
                    && let Some(shed) = P::evict(&mut e.held)
                {
                    cx.drop(shed, FULL);
                }
                Ok(())
            },
        )),
        counter!("drops", "packets that had no room", dropped),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            (e.highest, e.dropped) = (0, 0);
            Ok(())
        }),
        Handler::set("reset", "frees the packets held", |e, _, cx| {
            let mut held: Batch = e.held.drain(..).collect();
            cx.drop_batch(&mut held, RESET);
            Ok(())
        }),
    ];
}
