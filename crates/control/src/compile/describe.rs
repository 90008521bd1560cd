//! Description of a plan as text and JSON, for `ashlar plan`.

use engine::element::Runs;
use engine::plan::{Edge, Plan};
use lang::count;
use serde::Serialize;
use std::fmt;

/// A plan.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// Devices to open.
    pub devices: Vec<Device>,
    /// Workers and the elements that they run.
    pub workers: Vec<Worker>,
    /// Edges at which packets change worker.
    pub crossings: Vec<Crossing>,
    /// Elements that send packets to the workers that own their buckets.
    pub steered: Vec<Steered>,
    /// Names of elements that are run as one loop, for each such loop that is no part of another.
    pub loops: Vec<Vec<String>>,
    /// Names of receivers whose packets come without annotations, because no element reads them.
    pub bare: Vec<String>,
    /// Names of receivers whose super-frames (uncut TCP) are carried whole, as far as elements can.
    pub super_frames: Vec<String>,
    /// Elements.
    pub elements: Vec<Element>,
    /// Connections, in the syntax of the language.
    pub connections: Vec<String>,
    /// Memory.
    pub memory: Memory,
}

/// A device to open.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Name of the device.
    pub name: String,
    /// Receive queues.
    pub rx_queues: usize,
    /// Transmit queues.
    pub tx_queues: usize,
}

/// A worker.
#[derive(Clone, Debug, Serialize)]
pub struct Worker {
    /// Number of the worker.
    pub worker: usize,
    /// Elements that have a copy here.
    pub elements: usize,
    /// Elements at which packet processing starts: tasks, and users of device queues.
    pub starts: Vec<Start>,
}

/// An element at which packet processing starts on a worker.
#[derive(Clone, Debug, Serialize)]
pub struct Start {
    /// Name of the element.
    pub name: String,
    /// Class of the element.
    pub class: String,
    /// True if the element is a task; false if packets are pushed to it.
    pub task: bool,
    /// Device of the element.
    pub device: Option<String>,
    /// Queues of the device.
    pub queues: Vec<usize>,
}

/// A queue in which packets change worker.
#[derive(Clone, Debug, Serialize)]
pub struct Crossing {
    /// Name of the queue.
    pub element: String,
    /// Workers that fill the queue.
    pub from: Vec<usize>,
    /// The worker that empties the queue.
    pub to: usize,
}

/// An element that steers packets to the workers that own their buckets.
#[derive(Clone, Debug, Serialize)]
pub struct Steered {
    /// Name of the element.
    pub element: String,
    /// Workers from which packets may come.
    pub from: Vec<usize>,
    /// Workers that own buckets.
    pub to: Vec<usize>,
}

/// An element.
#[derive(Clone, Debug, Serialize)]
pub struct Element {
    /// Name.
    pub name: String,
    /// Class.
    pub class: String,
    /// Configuration.
    pub configuration: String,
    /// Workers with a copy.
    pub workers: Vec<usize>,
}

/// An estimate of memory.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Bytes of one packet buffer.
    pub buffer_bytes: usize,
    /// Buffers that may exist.
    pub buffers_max: usize,
    /// Bytes of all buffers together; memory is allocated as packets need it.
    pub pool_bytes_max: usize,
    /// Names of elements that state the size of their tables and rings, and the size in bytes.
    pub elements: Vec<(String, usize)>,
}

/// Describes a plan.
pub fn describe(plan: &Plan) -> Description {
    let (buffer_bytes, buffers_max) = engine::packet::pool::limits();
    let sized = plan.elements.iter().map(|e| (e.name.clone(), e.memory()));
    Description {
        devices: plan
            .devices
            .iter()
            .map(|d| Device {
                name: d.name.clone(),
                rx_queues: d.request.rx_queues,
                tx_queues: d.request.tx_queues,
            })
            .collect(),
        workers: (0..plan.workers).map(|w| worker(plan, w)).collect(),
        crossings: plan
            .crossings()
            .into_iter()
            .map(|(element, from, to)| Crossing {
                element: element.to_owned(),
                from,
                to,
            })
            .collect(),
        steered: plan
            .gathering()
            .map(|(element, from, to)| Steered {
                element: element.to_owned(),
                from: from.to_vec(),
                to: to.to_vec(),
            })
            .collect(),
        loops: loops(plan),
        bare: plan.bare_sources().map(str::to_owned).collect(),
        super_frames: plan.whole_sources().map(str::to_owned).collect(),
        elements: plan
            .elements
            .iter()
            .map(|e| Element {
                name: e.name.clone(),
                class: e.class.name.to_owned(),
                configuration: lang::masked(&e.text).into_owned(),
                workers: e.workers.clone(),
            })
            .collect(),
        connections: plan.edges.iter().map(|e| edge_name(plan, e)).collect(),
        memory: Memory {
            buffer_bytes,
            buffers_max,
            pool_bytes_max: buffer_bytes * buffers_max,
            elements: sized.filter(|(_, bytes)| *bytes > 0).collect(),
        },
    }
}

/// Maximal fused loops: those that are no suffix of another loop.
fn loops(plan: &Plan) -> Vec<Vec<String>> {
    let all: Vec<Vec<usize>> = plan.loops.iter().map(|p| p.all().collect()).collect();
    let part = |nodes: &Vec<usize>| {
        let holds = |other: &Vec<usize>| other.windows(nodes.len()).any(|part| part == nodes);
        all.iter()
            .any(|other| other.len() > nodes.len() && holds(other))
    };
    let name = |&node: &usize| plan.elements[node].name.clone();
    let whole = all.iter().filter(|nodes| !part(nodes));
    whole
        .map(|nodes| nodes.iter().map(name).collect())
        .collect()
}

/// A connection as the language spells it: `a [1] -> [0] b`, zeros left out.
pub(crate) fn edge_name(plan: &Plan, edge: &Edge) -> String {
    let port = |p: usize| {
        if p == 0 {
            String::new()
        } else {
            format!("[{p}]")
        }
    };
    let (from, to) = (&plan.elements[edge.from.0], &plan.elements[edge.to.0]);
    let (output, input) = (port(edge.from.1), port(edge.to.1));
    format!("{}{output} -> {input}{}", from.name, to.name)
}

fn worker(plan: &Plan, worker: usize) -> Worker {
    let here = plan.elements.iter().filter(|e| e.workers.contains(&worker));
    let starts = here
        .clone()
        .filter(|e| e.runs == Runs::AsTask || !e.queues_of(worker).is_empty());
    Worker {
        worker,
        elements: here.count(),
        starts: starts
            .map(|e| Start {
                name: e.name.clone(),
                class: e.class.name.to_owned(),
                task: e.runs == Runs::AsTask,
                device: e.device().map(|d| d.name),
                queues: e.queues_of(worker).to_vec(),
            })
            .collect(),
    }
}

/// Joins numbers: `0, 1 and 2`.
fn list(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// `worker 1`, `workers 0 and 1`.
fn workers(numbers: &[usize]) -> String {
    let word = if numbers.len() == 1 {
        "worker"
    } else {
        "workers"
    };
    format!("{word} {}", list(numbers))
}

/// Bytes in a unit that fits.
fn bytes(n: usize) -> String {
    match n {
        0..10_240 => count(n, "byte"),
        10_240..10_485_760 => format!("{} KiB", n / 1024),
        _ => format!("{} MiB", n / 1_048_576),
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for d in &self.devices {
            let (rx, tx) = (
                count(d.rx_queues, "receive queue"),
                count(d.tx_queues, "transmit queue"),
            );
            writeln!(f, "device `{}`: {rx}, {tx}", d.name)?;
        }
        for w in &self.workers {
            writeln!(f, "worker {}: {}", w.worker, count(w.elements, "element"))?;
            for s in &w.starts {
                write!(f, "  {} :: {}", s.name, s.class)?;
                if let Some(device) = &s.device {
                    let queues = match s.queues.len() {
                        0 => "no queue until it gets one".to_owned(),
                        1 => format!("queue {}", s.queues[0]),
                        _ => format!("queues {}", list(&s.queues)),
                    };
                    write!(f, ": `{device}` {queues}")?;
                }
                writeln!(f, "{}", if s.task { ", task" } else { "" })?;
            }
        }
        for c in &self.crossings {
            let (from, to) = (workers(&c.from), c.to);
            writeln!(
                f,
                "packets change worker in {}: from {from} to {to}",
                c.element
            )?;
        }
        for s in &self.steered {
            let (from, to) = (workers(&s.from), workers(&s.to));
            writeln!(
                f,
                "packets change worker in {} by their buckets: from {from} to {to}",
                s.element
            )?;
        }
        for names in &self.loops {
            writeln!(f, "run as one loop: {}", names.join(" -> "))?;
        }
        for name in &self.bare {
            writeln!(
                f,
                "without annotations, which nobody looks at: packets from {name}"
            )?;
        }
        for name in &self.super_frames {
            writeln!(
                f,
                "carried whole as far as elements do: TCP super-frames from {name}"
            )?;
        }
        let copied = self.elements.iter().filter(|e| e.workers.len() > 1).count();
        let (elements, edges) = (self.elements.len(), self.connections.len());
        writeln!(
            f,
            "{}, {}; {copied} on more than one worker",
            count(elements, "element"),
            count(edges, "connection")
        )?;
        let m = &self.memory;
        writeln!(
            f,
            "memory: packet buffers of {} bytes, {} at most ({}), taken as needed",
            m.buffer_bytes,
            m.buffers_max,
            bytes(m.pool_bytes_max)
        )?;
        for (name, size) in &m.elements {
            writeln!(f, "memory: {name}: {}", bytes(*size))?;
        }
        Ok(())
    }
}
