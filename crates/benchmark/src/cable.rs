//! A test stand on ports of this machine: its packets reach a router on other ports of this machine through real
//! cables, and return by another cable.

use crate::offered_load::Source;
use crate::test_stand::{BenchState, End, Sink};
use engine::packet::{Batch, Packet};
use engine::port::{OpenPort, PortDirectory, PortRequest, RxQueue, TxQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use wire::EtherAddr;

/// Number of packets that are moved together.
const BURST: usize = 32;

/// A thread that sends by one port and receives by another. It ends when this is dropped.
pub struct Cable {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A port of the stand.
struct Side {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    end: Arc<End>,
    sink: Sink,
}

/// State of a port's thread between turns.
struct PortBuffers {
    received: Batch,
    /// Packets for which the port had no room yet.
    waiting: Batch,
    /// Frames that the port will never send; it counts them.
    refused: Batch,
}

impl PortBuffers {
    fn new() -> PortBuffers {
        PortBuffers {
            received: Batch::with_capacity(BURST),
            waiting: Batch::with_capacity(BURST),
            refused: Batch::new(),
        }
    }
}

impl Side {
    fn new(stand: &BenchState, port: &OpenPort, right: bool) -> Result<Side, String> {
        let busy = || {
            format!(
                "{} is in use by the configuration: name its other end",
                port.name
            )
        };
        let end = End::new(EtherAddr(port.port.info().mac));
        Ok(Side {
            rx: port.rx.first().and_then(|s| s.take()).ok_or_else(busy)?,
            tx: port.tx.first().and_then(|s| s.take()).ok_or_else(busy)?,
            sink: stand.sink(&end, right),
            end,
        })
    }

    /// Receives packets, and sends answers and due packets.
    fn exchange(&mut self, source: Option<&mut Source>, hand: &mut PortBuffers) {
        let PortBuffers {
            received,
            waiting,
            refused,
        } = hand;
        self.rx.receive(received, BURST);
        self.sink.consume(received);
        let answers = self.end.answers(BURST).into_iter();
        waiting.extend(answers.filter_map(|frame| Packet::from_bytes(&frame)));
        if let Some(source) = source {
            let room = BURST.saturating_sub(waiting.len());
            source.fill(waiting, room);
        }
        if !waiting.is_empty() {
            self.tx.transmit(waiting, refused);
            refused.clear();
        }
    }
}

/// Opens a port for the stand: one queue in each direction, promiscuous.
pub fn open(ports: &dyn PortDirectory, name: &str) -> Result<OpenPort, String> {
    let request = PortRequest {
        rx_queues: 1,
        tx_queues: 1,
        descriptors: 0,
        promiscuous: true,
    };
    ports.open(name, &request)
}

impl Cable {
    /// Starts to send by one port and to receive by another. The error is a sentence.
    pub fn new(
        stand: &Arc<BenchState>,
        send: &OpenPort,
        receive: &OpenPort,
    ) -> Result<Cable, String> {
        let mut near = Side::new(stand, send, false)?;
        let mut far = Side::new(stand, receive, true)?;
        let mut source = stand.source((0, 1));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let (mut there, mut back) = (PortBuffers::new(), PortBuffers::new());
            while !stopped.load(Relaxed) {
                near.exchange(Some(&mut source), &mut there);
                far.exchange(None, &mut back);
            }
        };
        let thread = std::thread::Builder::new().name("bench".into()).spawn(work);
        Ok(Cable {
            stop,
            thread: Some(thread.map_err(|e| format!("cannot start a thread: {e}"))?),
        })
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread ends by itself, also after a panic.
            let _ = thread.join();
        }
    }
}
