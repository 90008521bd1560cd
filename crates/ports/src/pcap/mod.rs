//! `pcap:FILE`: a capture file as a port. Receiving reads it, sending writes it; `pcap:IN,OUT` reads
//! one file and writes another.

pub use captures as format;

use crate::counts::Count;
use crate::events::Events;
use crate::scheme::{Parts, PortContext, Scheme};
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{
    Port, PortCounter, PortInfo, PortRequest, RxQueue, TxOutcome, TxQueue, offer_each,
};
use format::{ETHERNET, Reader, Writer};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Size of the file buffer in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Default)]
struct Counters {
    too_long: Count,
    cut_short: Count,
    not_ethernet: Count,
    tx_errors: Count,
}

struct Pcap {
    info: PortInfo,
    counts: Arc<Counters>,
}

impl Port for Pcap {
    fn info(&self) -> PortInfo {
        self.info.clone()
    }

    fn link_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<PortCounter> {
        vec![
            ("too_long", None, self.counts.too_long.get()),
            ("cut_short", None, self.counts.cut_short.get()),
            ("not_ethernet", None, self.counts.not_ethernet.get()),
            ("tx_errors", None, self.counts.tx_errors.get()),
        ]
    }
}

struct Rx {
    path: String,
    /// `None` when the file has ended.
    reader: Option<Reader<BufReader<File>>>,
    frame: Vec<u8>,
    /// Time of the frame in `frame`, if the pool had no buffer for it.
    waiting: Option<u64>,
    counts: Arc<Counters>,
    events: Events,
}

impl Rx {
    /// Brings the next usable frame into `frame`; gives its time.
    fn advance(&mut self) -> Option<u64> {
        if let Some(timestamp) = self.waiting.take() {
            return Some(timestamp);
        }
        loop {
            match self.reader.as_mut()?.next(&mut self.frame) {
                Ok(Some(record)) if record.link != ETHERNET => self.counts.not_ethernet.add(1),
                Ok(Some(_)) if self.frame.len() > engine::packet::pool::data_bytes() => {
                    self.counts.too_long.add(1);
                }
                Ok(Some(record)) => {
                    // The capture has only the first bytes: the packet is delivered truncated.
                    if record.original > self.frame.len() {
                        self.counts.cut_short.add(1);
                    }
                    return Some(record.timestamp);
                }
                Ok(None) => self.reader = None,
                Err(e) => {
                    self.events
                        .add(format!("pcap:{}: {e}; reading ends here", self.path));
                    self.reader = None;
                }
            }
        }
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let mut n = 0;
        while n < max
            && let Some(timestamp) = self.advance()
        {
            let Some(mut packet) = Packet::from_bytes(&self.frame) else {
                self.waiting = Some(timestamp);
                break;
            };
            packet.set_mac_here();
            packet.anno_mut().packet_type = PacketType::of_frame(&self.frame);
            packet.cold_mut().timestamp = timestamp;
            into.push(packet);
            n += 1;
        }
        n
    }

    fn ended(&self) -> bool {
        self.reader.is_none() && self.waiting.is_none()
    }
}

struct Tx {
    path: String,
    /// `None` after the first error, which is said once; frames are counted and dropped then.
    writer: Option<Writer<BufWriter<File>>>,
    counts: Arc<Counters>,
    events: Events,
}

impl Tx {
    fn fail(&mut self, e: &std::io::Error) {
        self.events.add(format!(
            "pcap:{}: cannot be written: {e}; writing ends here",
            self.path
        ));
        self.writer = None;
    }
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64);
        offer_each(batch, refused, |packet| {
            let Some(writer) = &mut self.writer else {
                self.counts.tx_errors.add(1);
                return TxOutcome::Refused;
            };
            let timestamp = match packet.cold().timestamp {
                0 => now,
                arrived => arrived,
            };
            match writer.write(timestamp, packet.data()) {
                Ok(()) => TxOutcome::Sent,
                Err(e) => {
                    self.counts.tx_errors.add(1);
                    self.fail(&e);
                    TxOutcome::Refused
                }
            }
        })
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(Err(e)) = self.writer.as_mut().map(Writer::flush) {
            self.fail(&e);
        }
    }
}

/// The files to read and to write.
fn files(rest: &str) -> (&str, &str) {
    match rest.split_once(',') {
        Some((input, output)) => (input.trim(), output.trim()),
        None => (rest, rest),
    }
}

/// The scheme `pcap:`.
pub(crate) struct Files;

impl Scheme for Files {
    fn name_syntax(&self) -> &'static str {
        "pcap:FILE"
    }

    fn keeps_annotations(&self) -> bool {
        true
    }

    /// Describes the port: one queue each way.
    fn probe(&self, rest: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        if rest.is_empty() {
            return Err("pcap: needs a file: pcap:FILE, or pcap:IN,OUT".into());
        }
        Ok(PortInfo {
            mtu: crate::buffer_mtu(),
            ..PortInfo::of_process("pcap", 1)
        })
    }

    fn open(
        &self,
        rest: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        open(rest, self.probe(rest, site)?, request, site.events())
    }
}

/// Opens the files that the request needs.
///
/// # Errors
/// A file cannot be read as a capture of Ethernet frames, cannot be made, or is both input and output.
fn open(
    rest: &str,
    info: PortInfo,
    request: &PortRequest,
    events: &Events,
) -> Result<Parts, String> {
    let (input, output) = files(rest);
    if request.rx_queues > 0 && request.tx_queues > 0 && input == output {
        return Err(format!(
            "pcap:{rest} would be read and overwritten: name two files, pcap:IN,OUT"
        ));
    }
    let counts = Arc::new(Counters::default());
    let (mut rx, mut tx) = (Vec::new(), Vec::new());
    if request.rx_queues > 0 {
        let queue = Rx {
            path: input.to_string(),
            reader: Some(reader(input)?),
            frame: Vec::new(),
            waiting: None,
            counts: Arc::clone(&counts),
            events: events.clone(),
        };
        rx.push(Box::new(queue) as Box<dyn RxQueue>);
    }
    if request.tx_queues > 0 {
        let file = File::create(output)
            .and_then(|file| Writer::new(BufWriter::with_capacity(BUFFER_BYTES, file)));
        let writer = file.map_err(|e| format!("cannot write {output}: {e}"))?;
        let queue = Tx {
            path: output.to_string(),
            writer: Some(writer),
            counts: Arc::clone(&counts),
            events: events.clone(),
        };
        tx.push(Box::new(queue) as Box<dyn TxQueue>);
    }
    Ok(Parts {
        port: Arc::new(Pcap { info, counts }),
        rx,
        tx,
    })
}

fn reader(path: &str) -> Result<Reader<BufReader<File>>, String> {
    let file = File::open(Path::new(path)).map_err(|e| format!("cannot read {path}: {e}"))?;
    let reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, file))
        .map_err(|e| format!("cannot read {path}: {e}"))?;
    match reader.link() {
        Some(link) if link != ETHERNET => Err(format!(
            "{path} holds frames of link type {link}, not Ethernet (1): convert it, for example \
             with `tcprewrite --dlt=enet`"
        )),
        _ => Ok(reader),
    }
}
