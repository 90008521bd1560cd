//! Packets that wait while their buckets move from one worker to another.

use super::worker_rings::Ends;
use crate::prelude::*;
use std::collections::VecDeque;
use steer::{HELD_MAX, Held};

/// Pseudo-owner of a bucket whose packets are held.
pub(super) const HELD: u16 = u16::MAX;

/// Maximum number of held packets sent at once.
const BURST: usize = 256;

#[derive(Default)]
pub(super) struct HeldPackets {
    /// Held packets in order of arrival, with their arrival times.
    waiting: VecDeque<(Time, Packet)>,
    /// Buckets to release once no packets are held, and their new owner.
    releasing: Option<(Vec<u16>, usize)>,
    count: Held,
    /// True if back-pressure is applied because too many packets are held.
    full: bool,
}

impl HeldPackets {
    /// Starts to hold packets of these buckets.
    pub(super) fn hold(&mut self, buckets: &[u16], owners: &mut [u16]) {
        self.count = Held::default();
        mark(owners, buckets, HELD);
    }

    /// Continues in a new clone of the element after a reload. `owners` is `None` if the new clone has another table.
    /// In that case, held packets go to their former destination, and no bucket is released afterwards.
    pub(super) fn moved(mut self, before: &[u16], owners: Option<&mut [u16]>) -> HeldPackets {
        match owners {
            Some(owners) => {
                let pairs = owners.iter_mut().zip(before);
                let held = pairs.filter(|(_, before)| **before == HELD);
                held.for_each(|(owner, _)| *owner = HELD);
            }
            None => {
                let releasing = self.releasing.iter_mut();
                releasing.for_each(|(buckets, _)| buckets.clear());
            }
        }
        self
    }

    /// Holds a packet.
    #[inline(never)]
    pub(super) fn hold_packet(&mut self, packet: Packet, cx: &mut Cx) {
        self.waiting.push_back((cx.now(), packet));
        self.count.packets += 1;
        if self.waiting.len() >= HELD_MAX && !self.full {
            self.full = true;
            cx.back_pressure(true);
        }
    }

    /// Releases buckets to the worker `to`: at once, or when no packets are held any more.
    pub(super) fn release(&mut self, buckets: &[u16], to: usize, owners: &mut [u16]) {
        if self.waiting.is_empty() {
            return mark(owners, buckets, to as u16);
        }
        self.releasing = Some((buckets.to_vec(), to));
    }

    /// Sends held packets, once their buckets have a new owner. Returns true if a packet was sent.
    pub(super) fn send_on(&mut self, owners: &mut [u16], ends: &mut Ends, cx: &mut Cx) -> bool {
        let Some((buckets, to)) = self.releasing.take() else {
            return false;
        };
        let before = self.waiting.len();
        let mut batch = cx.spare();
        while !self.waiting.is_empty() {
            let front = self.waiting.iter().take(BURST);
            let times: Vec<Time> = front.map(|(came, _)| *came).collect();
            let burst = self.waiting.drain(..times.len()).map(|(_, packet)| packet);
            if to == cx.worker() {
                batch.extend(burst);
            } else {
                let mut packets: Vec<Packet> = burst.collect();
                ends.send_some(to, &mut packets, cx);
                let gone = times.len() - packets.len();
                let back = times[gone..].iter().copied().zip(packets);
                back.rev().for_each(|item| self.waiting.push_front(item));
                if gone < times.len() {
                    self.record_delays(&times[..gone], cx.now());
                    break;
                }
            }
            self.record_delays(&times, cx.now());
        }
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        let left = self.waiting.len();
        if self.full && left < HELD_MAX {
            self.full = false;
            cx.back_pressure(false);
        }
        if left == 0 {
            mark(owners, &buckets, to as u16);
        } else {
            self.releasing = Some((buckets, to));
        }
        left < before
    }

    fn record_delays(&mut self, came: &[Time], now: Time) {
        if let Some(&first) = came.first() {
            self.count.longest = self.count.longest.max(now.since(first));
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn count(&self) -> Held {
        Held {
            waiting: self.waiting.len(),
            ..self.count
        }
    }
}

fn mark(owners: &mut [u16], buckets: &[u16], owner: u16) {
    for &bucket in buckets {
        if let Some(place) = owners.get_mut(usize::from(bucket)) {
            *place = owner;
        }
    }
}
