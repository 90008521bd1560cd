//! Common part of elements with a token bucket: counting packets or bytes, and the configuration of rate and burst.

use crate::prelude::*;
use arguments::units::{self, Bandwidth, FromArg};
use std::time::Duration;
use tables::tokens::Tokens;

/// Default bucket depth, as a time at full rate.
const DEFAULT_BURST: Duration = Duration::from_millis(20);
/// Maximum debt of a bucket in bytes. Bytes are paid for after a packet, so that any packet can pass.
const CREDIT: u64 = 1 << 17;

/// Unit in which a bucket counts.
pub(crate) trait Unit: 'static {
    /// True to count bytes instead of packets.
    const BYTES: bool;
    /// Maximum number of units in a packet.
    const UNITS_MAX: u64 = if Self::BYTES { CREDIT } else { 1 };
}

/// Counts packets.
pub(crate) struct Packets;

/// Counts bytes.
pub(crate) struct Octets;

impl Unit for Packets {
    const BYTES: bool = false;
}

impl Unit for Octets {
    const BYTES: bool = true;
}

/// Rate in packets or bytes per second. A rate in bytes keeps the unit in which it is shown.
pub(crate) type PerSecond = Bandwidth;

/// Parses a rate argument.
pub(crate) fn rate<U: Unit>(args: &mut Args) -> PerSecond {
    if U::BYTES {
        args.required("RATE", "bandwidth, such as 384kbps")
    } else {
        let packets: u32 = args.required("RATE", "packets per second");
        PerSecond::of(packets.into())
    }
}

/// Parses a rate in a handler's value.
pub(crate) fn parse_rate<U: Unit>(value: &str) -> Result<PerSecond, String> {
    if U::BYTES {
        units::parse(value)
    } else {
        units::parse::<u32>(value).map(|packets| PerSecond::of(packets.into()))
    }
}

/// Text form of a rate, as handlers show it.
pub(crate) fn show_rate<U: Unit>(rate: PerSecond) -> String {
    if U::BYTES {
        rate.unparse()
    } else {
        rate.0.to_string()
    }
}

/// Depth of a bucket.
#[derive(Clone, Copy, Debug)]
enum Depth {
    Time(Duration),
    Units(u64),
}

/// Values of `RATE`, `BURST_DURATION`, and `BURST_SIZE` or `BURST_BYTES`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateConfig {
    rate: PerSecond,
    depth: Depth,
}

impl RateConfig {
    pub(crate) fn parse<U: Unit>(args: &mut Args) -> RateConfig {
        let rate = rate::<U>(args);
        let name = if U::BYTES {
            "BURST_BYTES"
        } else {
            "BURST_SIZE"
        };
        let time = args.key_maybe::<Duration>("BURST_DURATION", "the bucket's depth as a time");
        let units = args.key_maybe::<u32>(name, "the bucket's depth");
        if time.is_some() && units.is_some() {
            args.error_in_whole(
                format!("cannot specify both BURST_DURATION and {name}"),
                "leave one of them out",
            );
        }
        let time = time.unwrap_or(DEFAULT_BURST);
        RateConfig {
            rate,
            depth: units.map_or(Depth::Time(time), |n| Depth::Units(u64::from(n))),
        }
    }

    /// Rate and capacity of a bucket, in its units.
    fn size<U: Unit>(&self, rate: u64) -> (u64, u64) {
        let depth = match self.depth {
            Depth::Units(n) => n,
            Depth::Time(time) => {
                let units = u128::from(rate) * time.as_nanos() / 1_000_000_000;
                u64::try_from(units).unwrap_or(u64::MAX)
            }
        };
        let credit = if U::BYTES { CREDIT } else { 0 };
        (rate, depth.saturating_add(credit))
    }
}

/// Token bucket for packets or bytes, with its configuration.
pub(crate) struct Bucket<U> {
    config: RateConfig,
    rate: PerSecond,
    tokens: Tokens,
    unit: std::marker::PhantomData<U>,
}

impl<U: Unit> Bucket<U> {
    /// A bucket that is full at first, or empty if its rate is 0.
    pub(crate) fn new(config: RateConfig) -> Bucket<U> {
        let (rate, capacity) = config.size::<U>(config.rate.0);
        let mut bucket = Bucket {
            config,
            rate: config.rate,
            tokens: Tokens::new(rate, capacity),
            unit: std::marker::PhantomData,
        };
        bucket.empty_if_stopped();
        bucket
    }

    /// A rate of 0 passes nothing, not even the burst.
    fn empty_if_stopped(&mut self) {
        if self.rate.0 == 0 {
            // The byte before a packet may pass: a higher rate need not pay back the credit first.
            self.tokens.set(U::UNITS_MAX - 1);
        }
    }

    /// Takes over the level of the replaced bucket.
    pub(crate) fn take(&mut self, old: Bucket<U>) {
        let (rate, capacity) = self.config.size::<U>(self.rate.0);
        self.tokens = old.tokens;
        self.tokens.set_rate(rate, capacity);
        self.empty_if_stopped();
    }

    pub(crate) fn rate(&self) -> PerSecond {
        self.rate
    }

    pub(crate) fn set_rate(&mut self, rate: PerSecond) {
        self.rate = rate;
        let (rate, capacity) = self.config.size::<U>(rate.0);
        self.tokens.set_rate(rate, capacity);
        self.empty_if_stopped();
    }

    #[inline]
    pub(crate) fn refill(&mut self, now: Time) {
        self.tokens.refill(now.0);
    }

    /// Number of packets that may pass now, at most `max`; when counting bytes, at most one.
    #[inline]
    pub(crate) fn allows(&self, max: usize) -> usize {
        if U::BYTES {
            usize::from(self.tokens.contains(CREDIT)).min(max)
        } else {
            usize::try_from(self.tokens.level()).map_or(max, |n| n.min(max))
        }
    }

    /// Takes a packet's tokens from the bucket.
    #[inline]
    pub(crate) fn consume(&mut self, packet: &Packet) {
        self.tokens
            .remove(if U::BYTES { packet.len() as u64 } else { 1 });
    }

    /// Time at which the next packet may pass; `None` if none ever can at this rate.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        let wait = self.tokens.wait_ns(U::UNITS_MAX)?;
        Some(now + Duration::from_nanos(wait))
    }
}
