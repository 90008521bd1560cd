//! `record:FILE.pcap/PORT`: writes what crosses a port, both ways, into a capture file, in the order of the calls.
//! Queues share the file under a lock, so the port is not for measurements.

use super::{Wrapped, split};
use crate::counts::Count;
use crate::events::Events;
use crate::pcap::format::Writer;
use crate::scheme::{Parts, PortContext, Scheme};
use engine::packet::{Batch, Packet};
use engine::port::{PortInfo, PortRequest, RxQueue, TxQueue};
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use sync::Lock;

/// End of a file's name. Paths have slashes too, so it separates the file from the inner port.
const FILE_END: &str = ".pcap/";

/// The scheme `record:`.
pub(crate) struct Record;

impl Scheme for Record {
    fn name_syntax(&self) -> &'static str {
        "record:FILE.pcap/PORT"
    }

    fn inner_name<'n>(&self, rest: &'n str) -> Option<&'n str> {
        Some(rest.split_once(FILE_END)?.1)
    }

    fn keeps_annotations(&self) -> bool {
        true
    }

    fn probe(&self, rest: &str, site: &PortContext<'_>) -> Result<PortInfo, String> {
        site.probe(split(rest, FILE_END, self.name_syntax())?.1)
    }

    fn open(
        &self,
        rest: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        let (file, port) = split(rest, FILE_END, self.name_syntax())?;
        let parts = site.open(port, request)?;
        wrap(&format!("{file}.pcap"), parts, site.events())
    }
}

struct Recording {
    name: String,
    /// Writer of the recording; `None` after the first error, which is logged once.
    writer: Lock<Option<Writer<BufWriter<File>>>>,
    lost: Count,
    events: Events,
}

impl Recording {
    fn write<'a>(&self, packets: impl Iterator<Item = &'a Packet>) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64);
        let mut writer = self.writer.lock();
        for packet in packets {
            let Some(file) = writer.as_mut() else {
                self.lost.add_shared(1);
                continue;
            };
            if let Err(e) = file.write(now, packet.data()) {
                self.events
                    .add(format!("{}: recording ends: {e}", self.name));
                self.lost.add_shared(1);
                *writer = None;
            }
        }
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    recording: Arc<Recording>,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        let n = self.inner.receive(into, max);
        if n > 0 {
            self.recording.write(into.iter().skip(before));
        }
        n
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
    recording: Arc<Recording>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        // Only sent frames are recorded, so each is offered separately.
        let (mut one, mut sent) = (Batch::new(), 0);
        while one.is_empty() && !batch.is_empty() {
            one.extend(batch.drain_front(1));
            let copy = one.iter().next().and_then(Packet::copy);
            if self.inner.transmit(&mut one, refused) > 0 {
                self.recording.write(copy.iter());
                sent += 1;
            }
        }
        one.append(batch);
        std::mem::swap(batch, &mut one);
        sent
    }
}

/// Puts the wrapper around a port.
///
/// # Errors
/// The file cannot be made.
fn wrap(file: &str, parts: Parts, events: &Events) -> Result<Parts, String> {
    let writer = File::create(file).and_then(|made| Writer::new(BufWriter::new(made)));
    let writer = writer.map_err(|e| format!("cannot write {file}: {e}"))?;
    let tape = Arc::new(Recording {
        name: format!("record:{file}"),
        writer: Lock::new(Some(writer)),
        lost: Count::default(),
        events: events.clone(),
    });
    let rx = parts.rx.into_iter().map(|inner| {
        Box::new(Rx {
            inner,
            recording: Arc::clone(&tape),
        }) as Box<dyn RxQueue>
    });
    let rx = rx.collect();
    let tx = parts.tx.into_iter().map(|inner| {
        Box::new(Tx {
            inner,
            recording: Arc::clone(&tape),
        }) as Box<dyn TxQueue>
    });
    let tx = tx.collect();
    let more = move || vec![("record_lost", None, tape.lost.get())];
    Ok(Parts {
        port: Arc::new(Wrapped {
            inner: parts.port,
            what: "record",
            extra_counters: more,
        }),
        rx,
        tx,
    })
}
