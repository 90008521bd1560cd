//! Traces: the paths of some packets through the elements.

use super::Control;
use crate::view::{Failure, Step, TracedPacket};
use engine::plan::Plan;
use engine::stats::drop_names;
use engine::tap::{Event, Record};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Specification of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Packets to follow, on all workers together.
    pub count: u16,
    /// Source elements of the packets; empty = any source.
    pub sources: Vec<String>,
    /// First bytes of each that are kept.
    pub snap: usize,
    /// Maximum time to wait for packets.
    pub time_limit: Duration,
}

/// Maximum number of packets that can be followed at a time.
pub const COUNT_MAX: u16 = 500;
/// Maximum number of records that wait for control, of all workers together; also the maximum of stored steps.
const RECORDS_MAX: usize = 65_536;
/// Time without records after which packets that have not left count as held.
const HELD_AFTER: Duration = Duration::from_millis(200);

/// Next packet number. Traces use different numbers, so that packets of an earlier trace are not mistaken for those of
/// a later one.
static NEXT_NUMBER: AtomicU16 = AtomicU16::new(1);

/// Follows packets until all have ended or the time is over. Blocks.
pub fn run(control: &Control, spec: &Spec) -> Result<Vec<TracedPacket>, Failure> {
    let plan = control.router().plan();
    let sources = spec.sources.iter().map(|name| source(&plan, name));
    let mut sources: Vec<usize> = sources.collect::<Result<_, _>>()?;
    // A worker searches the list for each packet: it must not be longer than the plan's sources.
    sources.sort_unstable();
    sources.dedup();
    let workers = control.router().workers() as u16;
    let base = NEXT_NUMBER.fetch_add(spec.count.wrapping_mul(workers), Ordering::Relaxed);
    let (to, records) = sync_channel(RECORDS_MAX);
    for worker in 0..workers {
        let (to, plan, sources) = (to.clone(), plan.clone(), sources.clone());
        let (snap, count) = (spec.snap, spec.count);
        let first = base.wrapping_add(worker * count);
        let set = control.router().ask(usize::from(worker), move |local| {
            let graph = local.graph();
            let current = std::sync::Arc::ptr_eq(graph.plan(), &plan);
            if current {
                graph
                    .taps()
                    .trace((first, count), sources, u32::from(worker), snap, to);
            }
            current
        });
        if !set? {
            return Err(Failure::new(
                503,
                "the configuration is being replaced: ask again",
            ));
        }
    }
    drop(to);
    let ours = |id: u16| id.wrapping_sub(base) < spec.count.wrapping_mul(workers);
    let seen = collect(&records, spec, ours, control);
    // Workers that are gone have no taps.
    let _ = control
        .router()
        .ask_all(|local| local.graph().taps().end_trace());
    Ok(seen)
}

/// Number of a source element.
fn source(plan: &Plan, name: &str) -> Result<usize, Failure> {
    let node = plan.find(name);
    let node = node.ok_or_else(|| Failure::new(404, format!("there is no element `{name}`")))?;
    if plan.elements[node].inputs.is_empty() {
        return Ok(node);
    }
    let text = format!("`{name}` is no source: packets are followed from where they start");
    Err(Failure::new(422, text))
}

fn collect(
    records: &Receiver<Record>,
    spec: &Spec,
    ours: impl Fn(u16) -> bool,
    control: &Control,
) -> Vec<TracedPacket> {
    let until = Instant::now() + spec.time_limit;
    let wanted = usize::from(spec.count);
    let mut packets: BTreeMap<u16, Traced> = BTreeMap::new();
    let mut order = Vec::new();
    while !control.is_ending() {
        let all_here = order.len() == wanted;
        let all_over = all_here && packets.values().all(|p| p.over);
        let remaining = until.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            break;
        }
        // Copies of a packet (Tee) may still be in transit when the first copy has ended.
        let step = if all_over {
            HELD_AFTER / 10
        } else if all_here {
            HELD_AFTER
        } else {
            remaining.min(HELD_AFTER)
        };
        match records.recv_timeout(step.min(remaining)) {
            Ok(record) if ours(record.trace) => {
                let known = packets.contains_key(&record.trace);
                if !known && order.len() == wanted {
                    continue;
                }
                if !known {
                    order.push(record.trace);
                }
                packets.entry(record.trace).or_default().add(&record);
            }
            Ok(_) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if all_here => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let number = |(n, id): (usize, u16)| packets.remove(&id).unwrap_or_default().view(n + 1);
    order.into_iter().enumerate().map(number).collect()
}

#[derive(Default)]
struct Traced {
    /// Time of the packet's first step, by the router's clock and by the machine's.
    first_step_at: Option<(u64, Option<Instant>)>,
    steps: Vec<Step>,
    bytes: Vec<u8>,
    over: bool,
}

impl Traced {
    fn add(&mut self, record: &Record) {
        let plan = &record.plan;
        let element = |node: usize| {
            (
                plan.elements[node].name.clone(),
                plan.elements[node].class.name,
            )
        };
        let mut over = false;
        let (node, port, what, reason) = match record.event {
            Event::Enter(node, input) => {
                over = plan.elements[node].outputs.is_empty();
                (node, input, "enters", None)
            }
            Event::Pulled(node, output) => {
                let by = plan.edges.iter().find(|e| e.from == (node, output));
                over = by.is_some_and(|e| plan.elements[e.to.0].outputs.is_empty());
                (node, output, "leaves", None)
            }
            Event::Leave(node, output) => (node, output, "leaves", None),
            Event::Dropped(node, reason) => {
                over = true;
                let name = drop_names(&plan.elements[node]).into_iter().nth(reason);
                (node, 0, "dropped", name)
            }
        };
        if self.steps.is_empty() {
            self.bytes.clone_from(&record.bytes);
        }
        self.over |= over;
        let (name, class) = element(node);
        let time = engine::clock::wall_ns(record.at);
        let (start, began) = *self.first_step_at.get_or_insert((time, record.exact_time));
        let passed = record.exact_time.zip(began);
        let passed = passed.map(|(now, began)| now.saturating_duration_since(began));
        let time = passed.map_or(time, |passed| {
            start.saturating_add(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
        });
        self.steps.push(Step {
            time_ns: time,
            worker: record.tag as usize,
            element: name,
            class: class.to_owned(),
            port,
            what: what.to_owned(),
            reason,
            len: record.len,
        });
    }

    fn view(self, number: usize) -> TracedPacket {
        TracedPacket {
            number,
            over: self.over,
            bytes: self.bytes,
            steps: self.steps,
        }
    }
}
