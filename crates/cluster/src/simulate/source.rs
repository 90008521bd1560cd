//! Sources of packets: inputs that send by a traffic matrix, or one that replays a trace.

use std::sync::Arc;

use super::rng::SimRng;
use crate::address::NodeId;

/// A packet of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Length of the frame in bytes.
    pub bytes: u32,
    /// Number of the flow, from 0.
    pub flow: u32,
}

/// Packets of recorded traffic, in order; their times are computed from the load.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The packets.
    pub records: Arc<[Record]>,
    /// Number of flows in all: greater than the number of each record's flow.
    pub flows: u32,
}

/// Frame lengths, each with its frequency.
pub type Sizes = Vec<(u32, u32)>;

/// Frame lengths like those of a research backbone of 2002 to 2005 (constructed, see eval/lib/frames.py): a mean of 677
/// bytes.
pub fn backbone() -> Sizes {
    let ip = [
        (40, 36),
        (52, 8),
        (100, 4),
        (200, 3),
        (300, 3),
        (576, 5),
        (1000, 3),
        (1300, 3),
        (1420, 4),
        (1500, 31),
    ];
    ip.map(|(bytes, weight): (u32, u32)| ((bytes + 14).max(60) + 4, weight))
        .to_vec()
}

/// Traffic of an input to one output.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// End of the output's interval on a scale of 2^32; the interval's length is the output's share.
    end: u64,
    output: NodeId,
    /// Number of the first flow to the output.
    flows: u32,
}

/// Next packet of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) output: NodeId,
    pub(super) bytes: u32,
    pub(super) flow: u32,
    /// Number of the packet in its source.
    pub(super) number: u32,
    /// Nanoseconds until the next packet.
    pub(super) gap: u64,
}

#[derive(Debug)]
enum Kind {
    Matrix {
        entries: Vec<Entry>,
        /// Number of flows of each entry.
        flows: u32,
        point: u32,
    },
    Trace {
        trace: Trace,
        output: NodeId,
        at: usize,
    },
}

/// An input.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) node: NodeId,
    /// Nanoseconds that a byte takes at the rate that is sent.
    per_byte: f64,
    kind: Kind,
    chance: SimRng,
    /// True if the source has stopped sending.
    stopped: bool,
    /// Number of packets sent.
    sent: u32,
    /// Delay in nanoseconds of the last packet, compared with its due time by the flow's rate alone.
    late: f64,
}

/// Next packet, before it has a number and a time.
struct NextPacket {
    output: NodeId,
    bytes: u32,
    flow: u32,
}

impl Source {
    /// Sends to outputs in parts of `rate`, each with `flows` flows numbered from `first`.
    pub(super) fn matrix(
        node: NodeId,
        rate: f64,
        row: &[(NodeId, f64)],
        (first, flows): (u32, u32),
        mut chance: SimRng,
    ) -> Source {
        let all: f64 = row.iter().map(|(_, part)| part).sum();
        let mut sum = 0.0;
        let entries = row.iter().enumerate().map(|(number, &(output, part))| {
            sum += part / all;
            Entry {
                end: (sum * (1u64 << 32) as f64).round() as u64,
                output,
                flows: first + number as u32 * flows,
            }
        });
        Source {
            node,
            per_byte: 8e9 / (rate * all),
            kind: Kind::Matrix {
                entries: entries.collect(),
                flows,
                point: chance.bits() as u32,
            },
            chance,
            stopped: false,
            sent: 0,
            late: 0.0,
        }
    }

    /// Replays a trace to one output.
    pub(super) fn trace(node: NodeId, rate: f64, output: NodeId, trace: Trace) -> Source {
        Source {
            node,
            per_byte: 8e9 / rate,
            kind: Kind::Trace {
                trace,
                output,
                at: 0,
            },
            chance: SimRng::new(0),
            stopped: false,
            sent: 0,
            late: 0.0,
        }
    }

    /// Time of the first packet.
    pub(super) fn first(&mut self) -> u64 {
        match self.kind {
            Kind::Matrix { .. } => (self.chance.unit() * 1000.0 * self.per_byte) as u64,
            Kind::Trace { .. } => 0,
        }
    }

    /// Stops sending.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// The next packet.
    pub(super) fn next(&mut self, sizes: &Sizes, sum: u32) -> Option<Next> {
        if self.stopped {
            return None;
        }
        let NextPacket {
            output,
            bytes,
            flow,
        } = self.draw(sizes, sum)?;
        let number = self.sent;
        self.sent = number.wrapping_add(1);
        let time = f64::from(bytes) * self.per_byte;
        // Inputs that sent in step would win or lose every packet at a full queue. So packets come a little late, but
        // no input is ever ahead of its rate.
        let late = match self.kind {
            Kind::Matrix { .. } => (self.late - time).max(0.0) + time * self.chance.unit(),
            Kind::Trace { .. } => self.late,
        };
        let wait = time - self.late + late;
        let gap = wait as u64;
        self.late = late - (wait - gap as f64);
        Some(Next {
            output,
            bytes,
            flow,
            number,
            gap,
        })
    }

    fn draw(&mut self, sizes: &Sizes, sum: u32) -> Option<NextPacket> {
        match &mut self.kind {
            Kind::Matrix {
                entries,
                flows,
                point,
            } => {
                // Steps of the golden section: parts are kept to within a few packets at any time.
                *point = point.wrapping_add(0x9e37_79b9);
                let at = entries.partition_point(|entry| entry.end <= u64::from(*point));
                let entry = entries.get(at).or(entries.last())?;
                Some(NextPacket {
                    output: entry.output,
                    bytes: draw(sizes, sum, &mut self.chance),
                    flow: entry.flows + self.chance.below(u64::from(*flows)) as u32,
                })
            }
            Kind::Trace { trace, output, at } => {
                let count = trace.records.len().max(1);
                let record = trace.records.get(*at % count)?;
                // Each round's flows are new ones.
                let round = (*at / count) as u32;
                *at += 1;
                Some(NextPacket {
                    output: *output,
                    bytes: record.bytes,
                    flow: round * trace.flows + record.flow,
                })
            }
        }
    }
}

fn draw(sizes: &Sizes, sum: u32, chance: &mut SimRng) -> u32 {
    let mut point = chance.below(u64::from(sum)) as u32;
    for &(bytes, weight) in sizes {
        match point.checked_sub(weight) {
            None => return bytes,
            Some(rest) => point = rest,
        }
    }
    64
}
