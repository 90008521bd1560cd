//! Captures: packets at edges and drops, copied to a client as pcapng. All buffers are bounded: records that the client
//! does not read in time are lost and counted, and packets never wait.

use super::Control;
use super::capture_point;
use crate::view::{Failure, NO_LOSS_REASONS, pcapng};
use bytes::Bytes;
use engine::handler::AskError;
use engine::stats::drop_names;
use engine::tap::{Event, Filter, Point, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use sync::Lock;
use tokio::sync::mpsc::Sender;

/// Specification of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Edges; see [`capture_point`](super::capture_point).
    pub points: Vec<String>,
    /// Captured drops: those of one element, or losses of all (`Some(None)`); `None` for no drops.
    pub drops: Option<Option<String>>,
    /// Packets after which the capture ends; `None` = when the client goes.
    pub count: Option<u64>,
    /// An expression as tcpdump takes it; empty = all packets.
    pub filter: String,
    /// First bytes of each packet that are copied.
    pub snap: usize,
}

/// Maximum number of records that wait for control, of all workers together.
const RECORDS_MAX: usize = 4096;
/// Interval at which losses are reported to the client, and its connection is checked.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Size in bytes from which a chunk is sent to the client even if more records wait.
const CHUNK_BYTES: usize = 64 * 1024;

/// A capture in progress; its taps are removed on drop.
pub(crate) struct Capture {
    control: Arc<Control>,
    id: u64,
    records: Receiver<Record>,
    names: Vec<String>,
    spec: Spec,
    /// Interfaces written so far: tag and link type.
    interfaces: Vec<(u32, u16)>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Capture {
    /// Sets the taps.
    ///
    /// # Errors
    /// The request is invalid, a worker does not answer, or the configuration is being replaced; a message.
    pub(crate) fn start(control: &Arc<Control>, spec: Spec) -> Result<Capture, Failure> {
        let plan = control.router().plan();
        let wrong = |e: String| Failure::new(422, e);
        let mut places = Vec::new();
        for text in &spec.points {
            places.extend(capture_point::parse(&plan, text).map_err(wrong)?);
        }
        if let Some(element) = &spec.drops {
            let node =
                match element {
                    Some(name) => Some(plan.find(name).ok_or_else(|| {
                        Failure::new(404, format!("there is no element `{name}`"))
                    })?),
                    None => None,
                };
            places.push(capture_point::CapturePoint {
                point: Point::Drop(node),
                name: element
                    .as_ref()
                    .map_or("drops".into(), |e| format!("drops of {e}")),
            });
        }
        places.dedup();
        check_filter(&spec.filter)?;
        let (to, records) = sync_channel(RECORDS_MAX);
        let capture = Capture {
            control: Arc::clone(control),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            records,
            names: places.iter().map(|p| p.name.clone()).collect(),
            interfaces: Vec::new(),
            spec,
        };
        let points: Vec<Point> = places.iter().map(|p| p.point).collect();
        for worker in 0..control.router().workers() {
            capture.tap(worker, &plan, &points, &to)?;
        }
        Ok(capture)
    }

    fn tap(
        &self,
        worker: usize,
        plan: &Arc<engine::plan::Plan>,
        points: &[Point],
        to: &SyncSender<Record>,
    ) -> Result<(), Failure> {
        let taps: Vec<(Point, Filter)> = points
            .iter()
            .map(|&point| Ok((point, filter(&self.spec.filter)?)))
            .collect::<Result<_, Failure>>()?;
        let (id, snap, to, plan) = (self.id, self.spec.snap, to.clone(), Arc::clone(plan));
        let set = self.control.router().ask(worker, move |local| {
            let graph = local.graph();
            let current = Arc::ptr_eq(graph.plan(), &plan);
            if current {
                for (tag, (point, filter)) in taps.into_iter().enumerate() {
                    graph
                        .taps()
                        .capture((id, tag as u32), point, snap, filter, to.clone());
                }
            }
            current
        });
        match set? {
            true => Ok(()),
            false => Err(Failure::new(
                503,
                "the configuration is being replaced: ask again",
            )),
        }
    }

    /// Records lost so far because the client, or control, was slow.
    fn lost(&self) -> Result<u64, AskError> {
        let id = self.id;
        let lost = self
            .control
            .router()
            .ask_all(move |local| local.graph().taps().lost_records(id))?;
        Ok(lost.iter().sum())
    }

    /// Sends the capture to a client until it disconnects, the count is reached, or no more packets can come. It
    /// blocks.
    pub(crate) fn run(mut self, to: &Sender<Bytes>) {
        let mut piece = pcapng::section();
        for tag in 0..self.names.len() as u32 {
            self.interface(tag, pcapng::ETHERNET, &mut piece);
        }
        let mut left = self.spec.count.unwrap_or(u64::MAX);
        let mut told = (Instant::now(), 0);
        while left > 0 && !to.is_closed() && !self.control.is_ending() {
            match self.records.recv_timeout(REPORT_INTERVAL) {
                Ok(record) => {
                    left -= self.write(&record, &mut piece);
                    // Drops that are no loss fill no piece, and may come without end.
                    for _ in 0..RECORDS_MAX {
                        if left == 0 || piece.len() >= CHUNK_BYTES {
                            break;
                        }
                        let Ok(record) = self.records.try_recv() else {
                            break;
                        };
                        left -= self.write(&record, &mut piece);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if told.0.elapsed() >= REPORT_INTERVAL {
                told = (Instant::now(), self.tell_lost(told.1, &mut piece));
            }
            if !piece.is_empty() && to.blocking_send(std::mem::take(&mut piece).into()).is_err() {
                return;
            }
        }
        self.tell_lost(told.1, &mut piece);
        // The client may have disconnected, and then the data is not needed.
        let _ = to.blocking_send(piece.into());
    }

    /// Writes the number of lost records if it has changed. Returns the number.
    fn tell_lost(&self, before: u64, piece: &mut Vec<u8>) -> u64 {
        let lost = self.lost().unwrap_or(before);
        if lost != before {
            let now = engine::clock::Clock::real().now();
            piece.extend(pcapng::lost_packets(0, engine::clock::wall_ns(now), lost));
        }
        lost
    }

    /// The number of an interface; it is described when it is first used.
    fn interface(&mut self, tag: u32, link: u16, piece: &mut Vec<u8>) -> u32 {
        let wanted = (tag, link);
        if let Some(at) = self.interfaces.iter().position(|i| *i == wanted) {
            return at as u32;
        }
        let name = self.names.get(tag as usize).map_or("", String::as_str);
        piece.extend(pcapng::interface(name, link, self.spec.snap));
        self.interfaces.push(wanted);
        self.interfaces.len() as u32 - 1
    }

    /// Writes a record. Returns the number of packets written.
    fn write(&mut self, record: &Record, piece: &mut Vec<u8>) -> u64 {
        let mut comment = String::new();
        if let Event::Dropped(node, reason) = record.event {
            let element = &record.plan.elements[node];
            let names = drop_names(element);
            let reason = names.get(reason).map_or("", String::as_str);
            if self.spec.drops == Some(None) && NO_LOSS_REASONS.contains(&reason) {
                return 0;
            }
            comment = format!("dropped by {}: {reason}", element.name);
        }
        let link = match record.at_network {
            true => pcapng::RAW_IP,
            false => pcapng::ETHERNET,
        };
        let interface = self.interface(record.tag, link, piece);
        let time = engine::clock::wall_ns(record.at);
        piece.extend(pcapng::packet(
            interface,
            time,
            &record.bytes,
            record.len,
            &comment,
        ));
        1
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let id = self.id;
        // Ended workers have no taps.
        let _ = self
            .control
            .router()
            .ask_all(move |local| local.graph().taps().end_capture(id));
    }
}

/// Lock around libpcap's filter compiler: older versions keep global state.
static COMPILER: Lock<()> = Lock::new(());

fn program(link: u16, expression: &str) -> Result<pcap::BpfProgram, Failure> {
    let _held = COMPILER.lock();
    let link = pcap::Linktype(i32::from(link));
    let wrong = |e: pcap::Error| Failure::new(422, format!("the filter is not understood: {e}"));
    let handle = pcap::Capture::dead(link).map_err(wrong)?;
    handle.compile(expression, true).map_err(wrong)
}

/// True if an expression can be compiled; the failure is libpcap's.
fn check_filter(expression: &str) -> Result<(), Failure> {
    if expression.contains('\0') {
        return Err(Failure::new(422, "the filter has a zero byte"));
    }
    if !expression.is_empty() {
        program(pcapng::ETHERNET, expression)?;
    }
    Ok(())
}

/// A filter for one tap. An expression with Ethernet's fields matches no packet without them.
fn filter(expression: &str) -> Result<Filter, Failure> {
    if expression.is_empty() {
        return Ok(Box::new(|_, _| true));
    }
    let frames = program(pcapng::ETHERNET, expression)?;
    // DLT_RAW is 12 for the compiler, though 101 in files.
    let packets = program(12, expression).ok();
    Ok(Box::new(move |bytes, at_network| {
        match (at_network, &packets) {
            (false, _) => frames.filter(bytes),
            (true, Some(packets)) => packets.filter(bytes),
            (true, None) => false,
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_distinguishes_frames_from_packets() {
        let mut udp = filter("udp port 53").expect("tcpdump takes it");
        let ip = [
            0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 53, 0,
            12, 0, 0,
        ];
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(ip);
        assert!(udp(&frame, false) && udp(&ip, true));
        assert!(!udp(&ip, false) && !udp(&frame[..20], false));
        let mut broadcast = filter("ether broadcast").expect("tcpdump takes it");
        assert!(!broadcast(&ip, true));
    }

    #[test]
    fn a_wrong_filter_is_refused_in_words() {
        let refused = check_filter("udp portt 53").expect_err("there is no portt");
        assert_eq!(refused.status, 422);
        assert!(refused.text.contains("not understood"), "{}", refused.text);
    }
}
