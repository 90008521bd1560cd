//! When packets of a file leave: with the delays between their timestamps, and with a probability.

use engine::Cx;
use engine::clock::Time;
use engine::packet::Packet;
use std::time::Duration;

/// Keeps the delays between packets as their timestamps have them.
#[derive(Default)]
pub(super) struct Pace {
    /// Nanoseconds from a packet's timestamp to the time at which it leaves.
    offset: Option<i64>,
}

impl Pace {
    /// Forgets what it knows: the next packet is the first again.
    pub(super) fn reset(&mut self) {
        self.offset = None;
    }

    /// When a packet is due, if that is not yet; the first one is due at once.
    pub(super) fn wait(&mut self, packet: &Packet, now: Time) -> Option<Time> {
        let stamp = packet.cold().timestamp as i64;
        let now_nanos = now.0 as i64;
        let offset = *self
            .offset
            .get_or_insert_with(|| now_nanos.wrapping_sub(stamp));
        let left = stamp.wrapping_add(offset).saturating_sub(now_nanos);
        let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
        Some(now + Duration::from_nanos(left))
    }
}

/// A sampling probability, in fixed-point arithmetic of 28 bits as Click's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample(u32);

const ONE: u32 = 1 << 28;

impl Sample {
    /// From a probability; more than 1 is 1.
    pub(super) fn new(probability: f64) -> Sample {
        Sample((probability.clamp(0.0, 1.0) * f64::from(ONE)).round() as u32)
    }

    /// Whether this packet is taken.
    pub(super) fn takes(self, cx: &mut Cx) -> bool {
        self.0 >= ONE || cx.random() & (ONE - 1) < self.0
    }

    /// The probability as text.
    pub(super) fn show(self) -> String {
        (f64::from(self.0) / f64::from(ONE)).to_string()
    }
}
