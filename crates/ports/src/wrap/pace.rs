//! `pace:RATE/PORT`: receives no more than RATE packets per second and queue (`100000`, `100k`, `2M`).

use super::{Wrapped, split};
use crate::scheme::{Parts, PortContext, Scheme};
use engine::packet::Batch;
use engine::port::{PortInfo, PortRequest, RxQueue};
use std::sync::Arc;
use std::time::Instant;

/// Number of packets that may arrive at once after a pause.
const BURST_PACKETS: f64 = 256.0;

/// The scheme `pace:`.
pub(crate) struct Pace;

impl Pace {
    /// The rate in packets per second, and the inner port.
    fn parse<'n>(&self, rest: &'n str) -> Result<(f64, &'n str), String> {
        let (rate, port) = split(rest, "/", self.name_syntax())?;
        Ok((parse(rate)?, port))
    }
}

impl Scheme for Pace {
    fn name_syntax(&self) -> &'static str {
        "pace:PACKETS_PER_SECOND/PORT"
    }

    fn inner_name<'n>(&self, rest: &'n str) -> Option<&'n str> {
        Some(rest.split_once('/')?.1)
    }

    fn probe(&self, rest: &str, site: &PortContext<'_>) -> Result<PortInfo, String> {
        site.probe(self.parse(rest)?.1)
    }

    fn open(
        &self,
        rest: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        let (rate, port) = self.parse(rest)?;
        Ok(wrap(rate, site.open(port, request)?))
    }
}

/// Reads a rate in packets per second.
fn parse(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate * factor),
        _ => Err(format!(
            "pace: {text} is no rate in packets per second, such as 100k"
        )),
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    rate: f64,
    tokens: f64,
    filled: Option<Instant>,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let now = Instant::now();
        let since = self
            .filled
            .replace(now)
            .map_or(0.0, |then| (now - then).as_secs_f64());
        self.tokens = (self.tokens + since * self.rate).min(BURST_PACKETS);
        let n = self.inner.receive(into, max.min(self.tokens as usize));
        self.tokens -= n as f64;
        n
    }

    // The wrapped port's descriptor is not passed on: a packet that waits for its time must not wake the worker.

    fn ended(&self) -> bool {
        self.inner.ended()
    }

    fn fill(&self) -> Option<f64> {
        self.inner.fill()
    }
}

/// Puts the wrapper around a port.
fn wrap(rate: f64, parts: Parts) -> Parts {
    let rx = parts.rx.into_iter().map(|inner| {
        Box::new(Rx {
            inner,
            rate,
            tokens: 0.0,
            filled: None,
        }) as Box<dyn RxQueue>
    });
    let rx = rx.collect();
    let port = Arc::new(Wrapped {
        inner: parts.port,
        what: "pace",
        extra_counters: Vec::new,
    });
    Parts {
        port,
        rx,
        tx: parts.tx,
    }
}
