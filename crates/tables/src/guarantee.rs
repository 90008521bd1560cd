//! Guarantees of delay: the flows that a link can accept, the delay bound of each flow, and the deadlines that enforce
//! it.
//!
//! Delay bound: a flow keeps to a token bucket of `burst` bytes and `rate` bytes a second, and each hop reserves
//! `reserved` bytes a second for it (no less than `rate`). Then it is delayed by at most
//!
//! ```text
//! burst/reserved + (hops - 1) * packet/reserved + hops * (mtu/link + bin)
//! ```
//!
//! if each hop sends in the order of deadlines, packets without one last, and no more is reserved than the link has.
//! RFC 2212 gives this bound, with the error terms C = packet (for all hops but the first, whose bucket contains the
//! packet) and D = mtu/link + bin. The terms exist because a packet in transmission is not interrupted, and bins
//! sort only to within their width. A packet's deadline is the time at which it would have left a private link of
//! `reserved` bytes a second (virtual clock; P. Goyal, S. Lam, H. Vin, "Determining End-to-End Delay Bounds in
//! Heterogeneous Networks", 1995). No packet takes less than the shortest packet's time on each link, so the
//! delays of two packets differ by at most the bound minus the sum of these times.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time is counted in 1/16 ns; the range is 36 years.
const TICKS: u64 = 16;
/// Fractional bits of the time per byte.
const FRACTION_BITS: u32 = 24;
const SECOND: u128 = 1_000_000_000;
/// Minimum length of a packet in bytes; it bounds the rounding error.
const PACKET_MIN: u64 = 40;

/// A link, as admission control sees it; all other links of the path are assumed equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rate, in bytes per second.
    pub rate: u64,
    /// Length of the longest packet of any flow in bytes.
    pub mtu: u64,
    /// Width of a bin in nanoseconds: packets may leave out of order by at most this time.
    pub bin: u64,
}

/// A flow's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Maximum average rate of the flow, in bytes per second.
    pub rate: u64,
    /// Maximum burst of the flow, in bytes.
    pub burst: u64,
    /// Longest packet of the flow, in bytes.
    pub packet: u64,
    /// Number of hops on the flow's path.
    pub hops: u64,
    /// Requested maximum delay in nanoseconds.
    pub delay: Option<u64>,
    /// Requested maximum difference between the delays of two packets, in nanoseconds.
    pub jitter: Option<u64>,
    /// Rate to reserve in bytes a second, if more than `rate`.
    pub reserve: Option<u64>,
}

/// Reservation granted to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Reserved rate, in bytes per second.
    pub reserved: u64,
    /// Maximum delay of the flow's packets, in nanoseconds.
    pub bound: u64,
    /// Maximum difference between the delays of two packets, in nanoseconds.
    pub jitter: u64,
}

impl Grant {
    /// Advance of the flow's virtual time at each hop, in nanoseconds: a packet's time at the reserved rate.
    pub fn hop(&self, wanted: &Wanted) -> u64 {
        time(wanted.packet.into(), self.reserved).max(1)
    }
}

/// Reason why a flow is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request is invalid: it has no rate, its bucket is smaller than a packet, or its packets are longer than
    /// the link's.
    InvalidRequest(&'static str),
    /// The requested delay is impossible at any rate. Holds the least possible delay in nanoseconds.
    TooShort(u64),
    /// The link has less unreserved rate than is needed; both in bytes a second.
    InsufficientRate {
        /// Rate that would have to be reserved, in bytes per second.
        needed: u64,
        /// Unreserved rate, in bytes per second.
        unreserved: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::InvalidRequest(why) => f.write_str(why),
            Refusal::TooShort(least) => write!(
                f,
                "no reservation makes delay or jitter that short: each hop may take longer than {least} ns in all \
                 to send a packet that it has begun, or to sort within a bin; a narrower bin or a faster link would \
                 help"
            ),
            Refusal::InsufficientRate {
                needed,
                unreserved: left,
            } => write!(
                f,
                "the flow needs {} bit/s, and {} bit/s of the link are not reserved; a longer delay needs less",
                needed.saturating_mul(8),
                left.saturating_mul(8)
            ),
        }
    }
}

fn div_up(a: u128, b: u128) -> u64 {
    u64::try_from(a.div_ceil(b.max(1))).unwrap_or(u64::MAX)
}

/// Transmission time of `bytes` at `rate`, in nanoseconds, rounded up.
fn time(bytes: u128, rate: u64) -> u64 {
    div_up(bytes.saturating_mul(SECOND), u128::from(rate))
}

impl Link {
    /// Transmission time of `bytes` on the link, in nanoseconds, rounded up.
    #[inline]
    pub fn time(&self, bytes: u64) -> u64 {
        let part = bytes.saturating_mul(1_000_000_000);
        part.div_ceil(self.rate.max(1))
    }

    /// Nanoseconds by which a hop may miss a deadline: the packet in transmission, and one bin.
    pub fn error(&self) -> u64 {
        time(self.mtu.into(), self.rate).saturating_add(self.bin)
    }

    /// Part of the delay that no reservation shortens, over all hops, in nanoseconds.
    fn fixed(&self, wanted: &Wanted) -> u64 {
        let hop = self.error();
        // Each packet of a burst is late by up to one tick, because its transmission time is rounded up.
        let rounding = wanted.burst / PACKET_MIN / TICKS + 1;
        wanted.hops.saturating_mul(hop).saturating_add(rounding)
    }

    /// Minimum delay of a packet, in nanoseconds: each hop takes the time of the shortest packet on the link.
    fn min_delay_ns(&self, wanted: &Wanted) -> u64 {
        let hop = PACKET_MIN.saturating_mul(1_000_000_000) / self.rate.max(1);
        wanted.hops.saturating_mul(hop)
    }

    /// Number of bytes whose transmission time at the reserved rate adds to the delay.
    fn paced(wanted: &Wanted) -> u128 {
        u128::from(wanted.burst) + u128::from(wanted.hops - 1) * u128::from(wanted.packet)
    }

    /// Admits a flow if the link has enough rate left. `reserved` bytes a second are reserved for other flows.
    ///
    /// # Errors
    /// The request is invalid, requires too short a delay, or needs more than is left.
    pub fn admit(&self, wanted: &Wanted, reserved: u64) -> Result<Grant, Refusal> {
        let unsound = match wanted {
            w if w.rate == 0 => Some("the flow's rate must not be 0"),
            w if w.hops == 0 => Some("a flow has a hop at least"),
            w if w.packet == 0 || w.burst < w.packet => {
                Some("the bucket must hold the flow's longest packet")
            }
            w if w.packet > self.mtu => Some("the flow's packets are longer than the link's MTU"),
            _ => None,
        };
        if let Some(why) = unsound {
            return Err(Refusal::InvalidRequest(why));
        }
        let (fixed, paced) = (self.fixed(wanted), Link::paced(wanted));
        let mut needed = wanted.rate.max(wanted.reserve.unwrap_or(0));
        let least = self.min_delay_ns(wanted);
        let for_jitter = wanted.jitter.map(|jitter| jitter.saturating_add(least));
        if let Some(delay) = wanted.delay.into_iter().chain(for_jitter).min() {
            let for_rate = delay.checked_sub(fixed).filter(|&time| time > 0);
            let for_rate = for_rate.ok_or(Refusal::TooShort(fixed))?;
            needed = needed.max(div_up(paced.saturating_mul(SECOND), for_rate.into()));
        }
        let left = self.rate.saturating_sub(reserved);
        if needed > left {
            return Err(Refusal::InsufficientRate {
                needed,
                unreserved: left,
            });
        }
        let bound = time(paced, needed).saturating_add(fixed);
        Ok(Grant {
            reserved: needed,
            bound,
            jitter: bound - least.min(bound),
        })
    }
}

/// Transmission time of a byte at some rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace(u64);

impl Pace {
    /// Pace of `rate` bytes a second; 0 counts as 1.
    pub fn new(rate: u64) -> Pace {
        let byte = (u128::from(TICKS) * SECOND) << FRACTION_BITS;
        Pace(div_up(byte, rate.max(1).into()))
    }

    /// The pace encoded as a word, for a table.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Decodes a pace from such a word.
    #[inline]
    pub fn of(word: u64) -> Pace {
        Pace(word)
    }

    /// Ticks of `bytes` bytes, rounded up.
    #[inline]
    fn ticks(self, bytes: u64) -> u64 {
        let ticks =
            (u128::from(self.0) * u128::from(bytes) + ((1 << FRACTION_BITS) - 1)) >> FRACTION_BITS;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Depth of a bucket of `bytes` bytes, for [`Finish::police`].
    pub fn depth(self, bytes: u64) -> u64 {
        self.ticks(bytes)
    }
}

/// Virtual finish time: the time at which a private link of some pace would have sent all packets so far. Workers may
/// share it.
#[derive(Debug, Default)]
pub struct Finish(AtomicU64);

impl Finish {
    /// Resets the link to idle.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    /// Stamps a packet that arrives at `now` (ns): returns its finish time in nanoseconds, rounded up. Never 0.
    #[inline]
    pub fn stamp(&self, pace: Pace, now: u64, bytes: u64) -> u64 {
        let after = |at: u64| {
            at.max(now.saturating_mul(TICKS))
                .saturating_add(pace.ticks(bytes))
        };
        let before = self.0.fetch_update(Relaxed, Relaxed, |at| Some(after(at)));
        after(before.unwrap_or_else(|at| at)).div_ceil(TICKS).max(1)
    }

    /// Like [`stamp`](Self::stamp), but refuses a packet that would finish more than `depth` after now, as it exceeds
    /// a bucket of that depth. Returns true if the packet was accepted.
    #[inline]
    pub fn police(&self, pace: Pace, depth: u64, now: u64, bytes: u64) -> bool {
        let now = now.saturating_mul(TICKS);
        let take = |at: u64| {
            let after = at.max(now).saturating_add(pace.ticks(bytes));
            (after - now <= depth).then_some(after)
        };
        self.0.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Rate, TokenBucket};
    use crate::sample::Random;

    const MS: u64 = 1_000_000;
    /// 10 Mbit/s.
    const LINK: Link = Link {
        rate: 1_250_000,
        mtu: 1500,
        bin: MS,
    };
    const VOICE: Wanted = Wanted {
        rate: 8_000,
        burst: 400,
        packet: 200,
        hops: 5,
        delay: None,
        jitter: None,
        reserve: None,
    };

    #[test]
    fn the_bound_is_that_of_rfc_2212_and_a_shorter_one_costs_rate() {
        let grant = LINK.admit(&VOICE, 0).unwrap();
        // 400/8000 s + 4 * 200/8000 s + 5 * (1.2 ms + 1 ms)
        assert_eq!(grant.reserved, 8_000);
        assert_eq!(grant.bound / 1000, 50_000 + 100_000 + 11_000);
        let wanted = Wanted {
            delay: Some(51 * MS),
            ..VOICE
        };
        let grant = LINK.admit(&wanted, 0).unwrap();
        assert!(grant.bound <= 51 * MS && grant.bound > 50 * MS);
        assert!((30_000..30_010).contains(&grant.reserved));
        let least = LINK.admit(
            &Wanted {
                delay: Some(11 * MS),
                ..VOICE
            },
            0,
        );
        assert!(matches!(least, Err(Refusal::TooShort(11_000_001))));
    }

    #[test]
    fn jitter_is_the_bound_without_the_time_of_the_shortest_packets() {
        let grant = LINK.admit(&VOICE, 0).unwrap();
        // 40 bytes take 32 us of the link, at each of five hops.
        assert_eq!(grant.bound - grant.jitter, 5 * 32_000);
        let wanted = Wanted {
            jitter: Some(51 * MS),
            ..VOICE
        };
        let grant = LINK.admit(&wanted, 0).unwrap();
        assert!(grant.jitter <= 51 * MS && grant.jitter > 50 * MS);
        assert!(grant.reserved > VOICE.rate);
    }

    #[test]
    fn no_more_is_promised_than_the_link_has() {
        let (mut random, mut reserved, mut refused) = (Random::new(3), 0, 0);
        for _ in 0..2000 {
            let packet = 40 + random.below(1460);
            let wanted = Wanted {
                rate: 100 + random.below(20_000),
                burst: packet * (1 + random.below(4)),
                packet,
                hops: 1 + random.below(8),
                delay: (random.below(2) == 0).then(|| random.below(400) * MS),
                jitter: (random.below(4) == 0).then(|| random.below(400) * MS),
                reserve: (random.below(4) == 0).then(|| random.below(30_000)),
            };
            match LINK.admit(&wanted, reserved) {
                Ok(grant) => {
                    assert!(grant.reserved >= wanted.rate.max(wanted.reserve.unwrap_or(0)));
                    assert!(wanted.delay.is_none_or(|delay| grant.bound <= delay));
                    assert!(wanted.jitter.is_none_or(|jitter| grant.jitter <= jitter));
                    reserved += grant.reserved;
                    assert!(reserved <= LINK.rate);
                }
                Err(Refusal::InsufficientRate {
                    needed,
                    unreserved: left,
                }) => {
                    assert!(needed > left && left == LINK.rate - reserved);
                    refused += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0 && reserved > LINK.rate * 9 / 10);
    }

    #[test]
    fn extremes_are_refused_instead_of_overflowing() {
        let huge = Wanted {
            rate: u64::MAX,
            burst: u64::MAX,
            packet: 1500,
            hops: u64::MAX,
            delay: Some(u64::MAX),
            jitter: Some(u64::MAX),
            reserve: Some(u64::MAX),
        };
        assert!(LINK.admit(&huge, 5).is_err());
        let wide = Link {
            rate: u64::MAX,
            mtu: u64::MAX,
            bin: 0,
        };
        let longest = Wanted {
            rate: 1,
            packet: u64::MAX,
            reserve: None,
            ..huge
        };
        // A rate at which 2^128 bytes leave in time exceeds that of any link.
        assert!(wide.admit(&longest, 0).is_err());
        let grant = wide
            .admit(
                &Wanted {
                    delay: None,
                    jitter: None,
                    ..longest
                },
                0,
            )
            .unwrap();
        assert_eq!(grant.bound, u64::MAX);
        for wrong in [
            Wanted { rate: 0, ..VOICE },
            Wanted { hops: 0, ..VOICE },
            Wanted {
                burst: 199,
                ..VOICE
            },
            Wanted { packet: 0, ..VOICE },
            Wanted {
                packet: 1501,
                burst: 9000,
                ..VOICE
            },
        ] {
            assert!(matches!(
                LINK.admit(&wrong, 0),
                Err(Refusal::InvalidRequest(_))
            ));
        }
        let finish = Finish::default();
        assert!(finish.stamp(Pace::new(1), u64::MAX, u64::MAX) > 0);
    }

    #[test]
    fn the_policer_agrees_with_a_token_bucket() {
        let (rate, burst) = (1_000_000, 20_000);
        let (pace, finish) = (Pace::new(rate), Finish::default());
        let mut bucket = TokenBucket::new(Rate::new(rate, burst));
        let (mut random, mut now) = (Random::new(1), 0);
        for _ in 0..20_000 {
            now += random.below(3 * MS);
            let bytes = 40 + random.below(1460);
            let conforms = finish.police(pace, pace.depth(burst), now, bytes);
            assert_eq!(conforms, bucket.take(now, bytes));
        }
    }

    #[test]
    fn conforming_packets_are_due_within_their_burst() {
        let (mut random, mut now) = (Random::new(2), 0);
        let (police, clock) = (Finish::default(), Finish::default());
        let (slow, fast) = (Pace::new(10_000), Pace::new(25_000));
        for _ in 0..20_000 {
            now += random.below(60 * MS);
            let bytes = 40 + random.below(460);
            if police.police(slow, slow.depth(3000), now, bytes) {
                let due = clock.stamp(fast, now, bytes);
                assert!(due > now && due - now <= 120 * MS + 10);
            }
        }
    }
}
