//! `fault:loss=0.01,dup=0.01,corrupt=0.01,seed=7/PORT`: loses, duplicates and damages frames in both directions; equal
//! seeds choose equal frames.

use super::{Wrapped, split};
use crate::counts::Count;
use crate::scheme::{Parts, PortContext, Scheme};
use engine::packet::{Batch, Packet};
use engine::port::{PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use std::os::fd::RawFd;
use std::sync::Arc;

/// The scheme `fault:`.
pub(crate) struct Fault;

impl Fault {
    /// The settings, and the inner port.
    fn parse<'n>(&self, rest: &'n str) -> Result<(Rates, &'n str), String> {
        let (rates, port) = split(rest, "/", self.name_syntax())?;
        Ok((Rates::parse(rates)?, port))
    }
}

impl Scheme for Fault {
    fn name_syntax(&self) -> &'static str {
        "fault:loss=0.01,dup=0.01,corrupt=0.01,seed=7/PORT"
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
        let (rates, port) = self.parse(rest)?;
        Ok(wrap(rates, site.open(port, request)?))
    }
}

/// Probabilities per frame, from 0 to 1, and the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    loss: f64,
    dup: f64,
    corrupt: f64,
    seed: u64,
}

impl Rates {
    /// Reads `NAME=VALUE,...`.
    fn parse(text: &str) -> Result<Rates, String> {
        let mut rates = Rates::default();
        for setting in text.split(',').filter(|s| !s.is_empty()) {
            let wrong =
                || format!("fault: {setting} is none of loss=, dup=, corrupt= (0 to 1), seed=");
            let (name, value) = setting.split_once('=').ok_or_else(wrong)?;
            if name == "seed" {
                rates.seed = value.parse().map_err(|_| wrong())?;
                continue;
            }
            let share: f64 = value.parse().map_err(|_| wrong())?;
            if !(0.0..=1.0).contains(&share) {
                return Err(wrong());
            }
            match name {
                "loss" => rates.loss = share,
                "dup" => rates.dup = share,
                "corrupt" => rates.corrupt = share,
                _ => return Err(wrong()),
            }
        }
        Ok(rates)
    }
}

#[derive(Default)]
struct Counters {
    lost: Count,
    doubled: Count,
    damaged: Count,
}

/// Random decisions about frames.
struct FaultGenerator {
    rates: Rates,
    state: u64,
    counts: Arc<Counters>,
}

impl FaultGenerator {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn occurs(&mut self, share: f64) -> bool {
        ((self.next() >> 11) as f64) < share * (1u64 << 53) as f64
    }

    /// Delivers a frame not at all, once, or twice.
    fn apply(&mut self, mut packet: Packet, deliver: &mut impl FnMut(Packet)) {
        if self.occurs(self.rates.loss) {
            return self.counts.lost.add_shared(1);
        }
        if self.occurs(self.rates.corrupt) && packet.len() > 0 {
            let bit = self.next() as usize % (packet.len() * 8);
            packet.data_mut()[bit / 8] ^= 1 << (bit % 8);
            self.counts.damaged.add_shared(1);
        }
        if self.occurs(self.rates.dup)
            && let Some(copy) = packet.copy()
        {
            deliver(copy);
            self.counts.doubled.add_shared(1);
        }
        deliver(packet);
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    faults: FaultGenerator,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        let mut batch = Batch::new();
        // Each frame may become two.
        self.inner.receive(&mut batch, max.div_ceil(2));
        for packet in batch.drain() {
            self.faults.apply(packet, &mut |packet| {
                if into.len() - before < max {
                    into.push(packet);
                }
            });
        }
        into.len() - before
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.inner.wait_fd()
    }

    fn ended(&self) -> bool {
        self.inner.ended()
    }

    fn fill(&self) -> Option<f64> {
        self.inner.fill()
    }
}

struct Tx {
    inner: Box<dyn TxQueue>,
    faults: FaultGenerator,
    /// Number of frames at the front of the batch that the port had no room for in the last call: their faults are
    /// already chosen.
    decided: usize,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        let refused_before = refused.len();
        let asked = batch.len();
        let mut line: Batch = batch.drain_front(self.decided).collect();
        for packet in batch.drain() {
            self.faults.apply(packet, &mut |packet| line.push(packet));
        }
        self.inner.transmit(&mut line, refused);
        self.decided = line.len();
        batch.append(&mut line);
        // Packets lost at random were sent, as far as the router can know.
        asked.saturating_sub(batch.len() + refused.len() - refused_before)
    }
}

/// Puts the wrapper around a port.
fn wrap(rates: Rates, parts: Parts) -> Parts {
    let counts = Arc::new(Counters::default());
    let dice = |side: u64, queue: usize| FaultGenerator {
        rates,
        state: rates.seed ^ (side << 32 | queue as u64) << 16,
        counts: Arc::clone(&counts),
    };
    let rx = parts.rx.into_iter().enumerate().map(|(queue, inner)| {
        Box::new(Rx {
            inner,
            faults: dice(0, queue),
        }) as Box<dyn RxQueue>
    });
    let rx = rx.collect();
    let tx = parts.tx.into_iter().enumerate().map(|(queue, inner)| {
        Box::new(Tx {
            inner,
            faults: dice(1, queue),
            decided: 0,
        }) as Box<dyn TxQueue>
    });
    let tx = tx.collect();
    let more = move || -> Vec<PortCounter> {
        vec![
            ("fault_lost", None, counts.lost.get()),
            ("fault_doubled", None, counts.doubled.get()),
            ("fault_damaged", None, counts.damaged.get()),
        ]
    };
    Parts {
        port: Arc::new(Wrapped {
            inner: parts.port,
            what: "fault",
            extra_counters: more,
        }),
        rx,
        tx,
    }
}
