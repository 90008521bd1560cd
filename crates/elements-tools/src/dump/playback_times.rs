//! Sending times of a file's packets: with the delays between their timestamps, and with a probability.

use arguments::Args;
use engine::Cx;
use engine::clock::Time;
use engine::packet::Packet;
use lang::Severity;
use std::time::Duration;

/// Keeps the delays between packets as their timestamps have them.
#[derive(Default)]
pub(super) struct Pace {
    /// Nanoseconds from a packet's timestamp to the time at which it leaves.
    offset: Option<i64>,
    /// True if the offset holds for one more packet: the one that waits.
    holds_once_more: bool,
}

impl Pace {
    /// Starts again: the next packet that is read is the first. One that waits keeps its time.
    pub(super) fn reset(&mut self, waits: bool) {
        self.holds_once_more = waits;
        if !waits {
            self.offset = None;
        }
    }

    /// Due time of a packet, if that is later than now; the first one is due at once.
    pub(super) fn due_later(&mut self, packet: &Packet, now: Time) -> Option<Time> {
        let stamp = packet.cold().timestamp as i64;
        let now_nanos = now.0 as i64;
        let offset = *self
            .offset
            .get_or_insert_with(|| now_nanos.wrapping_sub(stamp));
        let left = stamp.wrapping_add(offset).saturating_sub(now_nanos);
        if left > 0 {
            return Some(now + Duration::from_nanos(left.unsigned_abs()));
        }
        if std::mem::take(&mut self.holds_once_more) {
            self.offset = None;
        }
        None
    }
}

/// A sampling probability, in fixed-point arithmetic of 28 bits as Click's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample(u32);

const ONE: u32 = 1 << 28;

impl Sample {
    /// Reads the keyword `SAMPLE`, with a word about values that mean something else, or nothing.
    pub(super) fn parse(args: &mut Args) -> Sample {
        let probability: f64 = args.key("SAMPLE", 1.0, "probability to take a packet");
        let sample = Sample::of(probability);
        if probability.is_sign_negative() || probability >= 16.0 {
            // Click's fixed-point numbers end at 16.
            args.error_in_whole(
                "SAMPLE must lie between 0 and 1",
                "leave it out to take all packets",
            );
        } else if probability > 1.0 {
            args.report(Severity::Warning, "SAMPLE probability reduced to 1");
        } else if sample.0 == 0 {
            let word = "SAMPLE probability is 0; emitting no packets";
            args.report(Severity::Warning, word);
        }
        sample
    }

    /// The nearest sampling probability that can be stored; more than 1 is 1.
    fn of(probability: f64) -> Sample {
        Sample((probability.clamp(0.0, 1.0) * f64::from(ONE)).round() as u32)
    }

    /// True if this packet is sampled.
    pub(super) fn is_sampled(self, cx: &mut Cx) -> bool {
        self.0 >= ONE || cx.random() & (ONE - 1) < self.0
    }

    /// The probability as text, with the fewest digits that distinguish it from neighbouring values.
    pub(super) fn show(self) -> String {
        let exact = f64::from(self.0) / f64::from(ONE);
        let rounded = (0..9).map(|digits| format!("{exact:.digits$}"));
        let same = |text: &String| text.parse().is_ok_and(|near| Sample::of(near) == self);
        rounded
            .into_iter()
            .find(same)
            .unwrap_or_else(|| exact.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_shown_as_they_were_written() {
        for text in ["0", "1", "0.5", "0.1", "0.333", "0.00001"] {
            let sample = Sample::of(text.parse().expect("it is a number"));
            assert_eq!(sample.show(), text);
        }
        assert_eq!(Sample::of(7.5), Sample(ONE));
    }

    #[test]
    fn a_probability_is_no_other_number() {
        for value in ["-5", "-0", "1e3"] {
            let text = format!("FromIPSummaryDump(DATA \"\", SAMPLE {value}) -> Discard");
            let said = testkit::errors(crate::with_basics(), &text);
            assert!(said.contains("SAMPLE must lie between"), "{said}");
        }
    }

    #[test]
    fn odd_probabilities_are_told() {
        for (value, word) in [("2", "reduced to 1"), ("0", "emitting no packets")] {
            let text =
                format!("FromIPSummaryDump(DATA \"\", SAMPLE {value}, FOO 1, BAR 2) -> Discard");
            let said = testkit::errors(crate::with_basics(), &text);
            assert!(said.contains(word), "{said}");
        }
    }
}
