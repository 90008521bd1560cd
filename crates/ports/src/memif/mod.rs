//! `memif:role=client,socket=PATH,id=0`: shared memory with another program that speaks memif 2.0: Ashlar, VPP, DPDK.
//!
//! Frames are copied into and out of memory that the client has made; the server listens at the socket. The other end
//! need not be trusted, although it can write any data into the memory and send any message. The worst results are
//! meaningless frames, or the end of the connection, which is counted as `peer_mistakes` and logged once. One exception
//! needs trust: the client makes the event counters by which the server wakes it, and could make the server block
//! there. So the end that must not block should be the client, as the process of routers is (docs/routers.md). Only
//! this user and root may connect to a server's socket.
//!
//! After a lost connection, a client connects again until a server answers, and a server waits for the next client.

mod config;
mod connector;
mod message;
mod ring;
mod session;
mod sys;

use crate::counts::{Count, Counts};
use crate::events::Events;
use crate::ring_handover::{Current, End, QueueResource};
use crate::scheme::{Parts, PortContext, Scheme};
use crate::sys as system;
use config::MemifConfig;
use connector::Connector;
use engine::packet::Batch;
use engine::port::{Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use ring::{Budget, ProtocolViolation, Ring};
use session::Queues;
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sync::Lock;

/// Regions of memory that a client may have.
const REGIONS_MAX: usize = 256;
/// Maximum size of all regions in bytes. Descriptors count 32 bits, and a hole in a file becomes memory of the reader.
const MEMORY_MAX: usize = 1 << 30;
/// Maximum number of queues in each direction.
const QUEUES_MAX: usize = 64;
/// Time that a new port waits for its other end before its link counts as down.
const SETTLING_TIME: Duration = Duration::from_secs(1);
/// Maximum number of frames in a ring, as a logarithm to base 2, unless more are asked for.
const RING_SIZE_LOG2: u8 = 10;

/// State shared by the queues and the connecting thread.
struct Shared {
    name: String,
    config: MemifConfig,
    events: Events,
    queues: Queues,
    /// A transmit queue has one ring, a receive queue several if the other end has more queues.
    rx: Vec<Arc<End<Ring>>>,
    tx: Vec<Arc<End<Ring>>>,
    is_connected: AtomicBool,
    /// Set by the first connection.
    was_connected: AtomicBool,
    opened: Instant,
    /// True if the port must not connect; `wake_fd` wakes the thread when this changes.
    is_held: AtomicBool,
    violations: Count,
    /// Protocol violation of the other end, for the thread, which `wake_fd` wakes.
    violation: Lock<Option<ProtocolViolation>>,
    wake_fd: OwnedFd,
}

impl Shared {
    /// Reports a protocol violation of the other end to the thread.
    #[cold]
    fn report_violation(&self, mistake: ProtocolViolation) {
        *self.violation.lock() = Some(mistake);
        system::signal(&self.wake_fd);
    }

    fn log(&self, text: &str) {
        self.events.add(format!("{}: {text}", self.name));
    }
}

impl QueueResource for Ring {
    fn wake_fd(&self) -> RawFd {
        self.doorbell().fd().as_raw_fd()
    }
}

struct Rx {
    current: Current<Ring>,
    shared: Arc<Shared>,
    counts: Arc<Counts<2>>,
    /// True if the worker asks to be woken.
    wants_wakeup: Cell<bool>,
    /// Index of the ring that was polled last.
    last_ring: usize,
}

impl Rx {
    #[cold]
    fn awake(&self) {
        self.wants_wakeup.set(false);
        system::clear(&self.current.end.change_event);
        self.current.all.iter().for_each(Ring::decline_wakeups);
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        if self.wants_wakeup.get() {
            self.awake();
        }
        if self.current.follow()
            && let Err(e) = self.current.listen()
        {
            let text = format!("packets are looked for every now and then: {e}");
            self.shared.log(&text);
        }
        let rings = self.current.all.len();
        let mut received = 0;
        let mut budget = Budget::of(max);
        for _ in 0..rings {
            // The ring after the last one that filled a burst is first in the next poll.
            self.last_ring = (self.last_ring + 1) % rings;
            match self.current.all[self.last_ring].receive(into, &mut budget, &self.counts) {
                Ok(more) => received += more,
                Err(mistake) => {
                    self.current.release_regions();
                    self.shared.report_violation(mistake);
                    break;
                }
            }
            if budget.is_spent() {
                break;
            }
        }
        received
    }

    fn wait_fd(&self) -> Option<RawFd> {
        if !self.wants_wakeup.replace(true) {
            let end = &self.current.end;
            let rings = &self.current.all;
            rings.iter().for_each(Ring::wake_me);
            if self.current.is_behind() || rings.iter().any(Ring::has_frames) {
                system::signal(&end.change_event);
            }
        }
        Some(self.current.end.set.as_raw_fd())
    }

    fn fill(&self) -> Option<f64> {
        let fills = self.current.all.iter().map(Ring::fill);
        fills.reduce(f64::max)
    }
}

struct Tx {
    current: Current<Ring>,
    shared: Arc<Shared>,
    counts: Arc<Counts<2>>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        self.current.follow();
        let Some(ring) = self.current.all.first_mut() else {
            // Old frames do not wait for the other end.
            self.counts.at(ring::LINK_DOWN).add(batch.len() as u64);
            refused.append(batch);
            return 0;
        };
        match ring.send(batch, refused, &self.counts) {
            Ok(sent) => sent,
            Err(mistake) => {
                self.current.release_regions();
                self.shared.report_violation(mistake);
                0
            }
        }
    }
}

/// The control side.
struct Memif {
    shared: Arc<Shared>,
    info: PortInfo,
    rx_counts: Vec<Arc<Counts<2>>>,
    tx_counts: Vec<Arc<Counts<2>>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Port for Memif {
    fn info(&self) -> PortInfo {
        self.info.clone()
    }

    fn link_up(&self) -> bool {
        self.shared.is_connected.load(Ordering::Relaxed)
    }

    fn is_settling(&self) -> bool {
        let shared = &self.shared;
        !shared.was_connected.load(Ordering::Relaxed) && shared.opened.elapsed() < SETTLING_TIME
    }

    fn hold_down(&self, down: bool) {
        if self.shared.is_held.swap(down, Ordering::SeqCst) != down {
            system::signal(&self.shared.wake_fd);
        }
    }

    fn counters(&self) -> Vec<PortCounter> {
        let mut all = vec![("peer_mistakes", None, self.shared.violations.get())];
        for counts in [&self.rx_counts, &self.tx_counts] {
            let each = counts.iter().enumerate();
            each.for_each(|(queue, counts)| counts.report(queue, &mut all));
        }
        all
    }
}

impl Drop for Memif {
    fn drop(&mut self) {
        system::signal(&self.stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The scheme `memif:`.
pub(crate) struct SharedMemory;

impl Scheme for SharedMemory {
    fn name_syntax(&self) -> &'static str {
        "memif:WORDS"
    }

    fn is_shared_memory(&self) -> bool {
        true
    }

    fn probe(&self, text: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        Ok(info(&config::read(text)?))
    }

    fn open(
        &self,
        text: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        open(text, request, site.events())
    }
}

fn info(config: &MemifConfig) -> PortInfo {
    PortInfo {
        mac: config.mac,
        mtu: config.mtu.or_else(crate::mtu).unwrap_or(1500),
        ..PortInfo::of_process("memif", QUEUES_MAX)
    }
}

/// Opens the port: the other end need not be there yet.
///
/// # Errors
/// A sentence: an invalid argument, the server's socket cannot be made, or no descriptors or threads are left.
fn open(text: &str, request: &PortRequest, events: &Events) -> Result<Parts, String> {
    let config = config::read(text)?;
    let info = info(&config);
    let name = format!("memif:{text}");
    let failed = |e: std::io::Error| format!("cannot open {name}: {e}");
    let listener = connector::listener(&config).map_err(|why| format!("{name}: {why}"))?;
    let asked = request.descriptors.next_power_of_two().clamp(32, 1 << 14);
    let ring = match (config.ring, request.descriptors) {
        (0, 0) => RING_SIZE_LOG2,
        (0, _) => asked.ilog2() as u8,
        (log, _) => log,
    };
    let ends = |queues| -> std::io::Result<Vec<Arc<End<Ring>>>> {
        (0..queues).map(|_| End::new()).collect()
    };
    let shared = Arc::new(Shared {
        queues: Queues {
            rx: request.rx_queues,
            tx: request.tx_queues,
            ring,
        },
        rx: ends(request.rx_queues).map_err(failed)?,
        tx: ends(request.tx_queues).map_err(failed)?,
        events: events.clone(),
        is_connected: AtomicBool::new(false),
        was_connected: AtomicBool::new(false),
        opened: Instant::now(),
        is_held: AtomicBool::new(false),
        violations: Count::default(),
        violation: Lock::default(),
        wake_fd: system::eventfd().map_err(failed)?,
        config,
        name: name.clone(),
    });
    let counts = |names, queues: usize| -> Vec<Arc<Counts<2>>> {
        (0..queues).map(|_| Arc::new(Counts::new(names))).collect()
    };
    let rx_counts = counts(ring::RX_NAMES, request.rx_queues);
    let tx_counts = counts(ring::TX_NAMES, request.tx_queues);
    let rx = shared.rx.iter().zip(&rx_counts).map(|(end, counts)| {
        Box::new(Rx {
            current: Current::new(end),
            shared: Arc::clone(&shared),
            counts: Arc::clone(counts),
            wants_wakeup: Cell::new(false),
            last_ring: 0,
        }) as Box<dyn RxQueue>
    });
    let tx = shared.tx.iter().zip(&tx_counts).map(|(end, counts)| {
        Box::new(Tx {
            current: Current::new(end),
            shared: Arc::clone(&shared),
            counts: Arc::clone(counts),
        }) as Box<dyn TxQueue>
    });
    let (rx, tx) = (rx.collect(), tx.collect());
    let stop = Arc::new(system::eventfd().map_err(failed)?);
    let connector = Connector::new(&shared, &stop, listener);
    let thread = std::thread::Builder::new().name("memif".into());
    let thread = thread.spawn(move || connector.run()).map_err(failed)?;
    let port = Memif {
        shared,
        info,
        rx_counts,
        tx_counts,
        stop,
        thread: Some(thread),
    };
    Ok(Parts {
        port: Arc::new(port),
        rx,
        tx,
    })
}

#[cfg(test)]
mod tests;
