//! Output formats of control: the API's JSON types, which server and client share, Prometheus text, pcapng, packet
//! accounting, and failures.
//!
//! Times are nanoseconds, cycles are those of the time-stamp counter. Counts only grow while an element stays (a reload
//! keeps them).

mod failure;

mod member;
pub mod metrics;
pub mod packet_accounting;
pub mod pcapng;

pub use failure::Failure;
pub use member::{Certificates, Event, Member, MemberLink, Namespace};

use crate::description::numbers::Numbers;
use crate::description::source::Source;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Drop reasons that are no loss: heartbeats end in VLBHeartbeat, answers in ARPQuerier.
pub const NO_LOSS_REASONS: [&str; 2] = ["heard", "learned"];

/// Response of `GET /v1/info`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Info {
    /// The router's name.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Process number.
    pub pid: u32,
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// Nanoseconds since 1970 on the router's clock, which traces and journals use.
    #[serde(default)]
    pub clock_ns: u64,
    /// Source of the configuration.
    pub configuration: String,
    /// Configuration that is read by a restart, by SIGHUP, and by a reload without a file.
    #[serde(default)]
    pub own: String,
    /// File from which a start reads saved settings; `None` if the configuration came from standard input.
    #[serde(default)]
    pub saved: Option<PathBuf>,
    /// Number of reloads since the start.
    pub reloads: u64,
}

/// A router of the process, in `GET /v1/routers`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Router {
    /// Name of the router.
    pub name: String,
    /// Source of its configuration.
    pub configuration: String,
    /// Network namespace, if different from the process's.
    pub netns: Option<String>,
    /// Number of the router's tickets.
    pub share: u32,
    /// Number of tickets of the router's group; `None` without a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_share: Option<u32>,
    /// Priority of the router; routers with a greater priority run first.
    pub priority: u8,
    /// Maximum number of packets that the router may hold on each worker; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<u32>,
    /// Maximum number of routes in each table of the router; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<u32>,
    /// Nanoseconds since the router was started.
    pub uptime_ns: u64,
    /// Number of reloads since the start.
    pub reloads: u64,
    /// Number of elements.
    pub elements: usize,
    /// Ports of the router.
    pub ports: Vec<String>,
    /// True if the router has ended by itself.
    pub ended: bool,
    /// Process of an isolated router; `None` for other routers. If isolated, elements and ports here are those of the
    /// gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<Isolated>,
    /// Busy time of the router by worker, in nanoseconds.
    pub busy_ns: Vec<u64>,
}

/// Process of an isolated router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolated {
    /// User of the process.
    pub user: String,
    /// Number of starts.
    pub starts: u64,
    /// True if the router's process runs.
    pub running: bool,
}

/// An element, in `GET /v1/elements`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Element {
    /// Name.
    pub name: String,
    /// Class.
    pub class: String,
    /// Configuration string.
    pub configuration: String,
    /// Workers that run a clone of the element.
    pub workers: Vec<usize>,
    /// First element of the fused loop that runs this element, to which the loop's cycles are attributed. `None` for an
    /// element outside of fused loops.
    #[serde(default)]
    pub fused: Option<String>,
    /// Handlers.
    pub handlers: Vec<Handler>,
}

/// A handler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Handler {
    /// Name.
    pub name: String,
    /// Description in one sentence.
    pub doc: String,
    /// True if the handler may be read.
    pub read: bool,
    /// True if the handler may be written.
    pub write: bool,
}

/// Response of `GET /v1/stats`: all counters at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Nanoseconds since the start.
    pub time_ns: u64,
    /// Number of reloads. If it differs between two responses, their entries must not be matched by position.
    pub reloads: u64,
    /// Elements, in the order of the configuration.
    pub elements: Vec<ElementStats>,
    /// Workers.
    pub workers: Vec<WorkerStats>,
    /// Open ports.
    pub ports: Vec<PortStats>,
    /// Packet buffers.
    pub pool: PoolStats,
    /// Distribution of flow buckets over workers.
    #[serde(default)]
    pub balance: Balance,
}

/// Distribution of flow buckets over workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Balance {
    /// Number of workers with buckets; 0 without steering.
    pub working: usize,
    /// Indirection tables.
    pub tables: Vec<Table>,
    /// Buckets that the balancer has moved.
    pub buckets_moved: u64,
    /// Number of moves of buckets.
    pub moves: u64,
    /// Receive queues of ports that the balancer has moved.
    pub queues_moved: u64,
    /// Number of buckets for which ports were reprogrammed.
    #[serde(default)]
    pub buckets_followed: u64,
}

/// An indirection table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Number of buckets of each worker.
    pub buckets: Vec<usize>,
    /// Packets of each worker between the last two measurements.
    pub packets: Vec<u64>,
}

/// Counters of an element.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ElementStats {
    /// Name.
    pub name: String,
    /// Class.
    pub class: String,
    /// Names of its drop counters.
    pub drop_names: Vec<String>,
    /// One entry for each worker that runs a clone.
    pub copies: Vec<CopyStats>,
}

/// Counters of an element's clone on one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CopyStats {
    /// Number of the worker.
    pub worker: usize,
    /// Packets that entered the element, or were pulled from it.
    pub packets: u64,
    /// Batches in which these packets arrived.
    pub batches: u64,
    /// Processor cycles spent in the element.
    pub cycles: u64,
    /// Packets that left, by output.
    pub sent: Vec<u64>,
    /// Dropped packets, in the order of `drop_names`.
    pub drops: Vec<u64>,
    /// Packets that the element holds now.
    pub held: u64,
    /// Statistics of the copy's task, if it has one.
    pub task: Option<Task>,
    /// Statistics of the copy's device queues, if it uses a device.
    pub device: Option<DeviceUse>,
}

/// Statistics of a task.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Task {
    /// Number of runs.
    pub runs: u64,
    /// Number of runs without packets (empty polls).
    pub empty: u64,
    /// Cycles of runs that moved packets, including all elements that the packets passed.
    pub cycles: u64,
    /// Cycles of empty polls.
    pub empty_cycles: u64,
}

/// Traffic on the device queues of one clone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Name of the port.
    pub port: String,
    /// True if the element receives from the device; false if it sends.
    pub receives: bool,
    /// Numbers of the queues.
    pub queues: Vec<usize>,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Counters of a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerStats {
    /// Number of turns of the worker's loop.
    pub turns: u64,
    /// Number of turns without packets.
    pub empty: u64,
    /// Time of turns with packets, in nanoseconds.
    #[serde(default)]
    pub busy_ns: u64,
    /// Time asleep, in nanoseconds.
    pub asleep_ns: u64,
    /// Number of sleeps.
    pub sleeps: u64,
    /// Longest turn.
    #[serde(flatten)]
    pub longest: Longest,
    /// Histogram of turns with packets, by their time on the core: below 1 us, 2 us, 4 us and so on. The last entry
    /// counts all longer ones.
    #[serde(default)]
    pub runs: Vec<u64>,
    /// Packets held by elements of this worker.
    pub held: u64,
    /// Buffers allocated minus buffers freed by this worker. Only the sum over all workers is meaningful.
    pub buffers: i64,
}

/// Longest turn of a worker since the last `POST /v1/turns`. The parts may stem from different turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Longest {
    /// Maximum time between two reads of the mailbox while awake.
    pub longest_turn_ns: u64,
    /// Maximum time in a turn on the core, or after yielding it voluntarily.
    pub longest_run_ns: u64,
    /// Maximum time in a turn in which other threads, or the machine's host, used the core.
    pub longest_wait_ns: u64,
    /// Maximum time in a turn spent on control work: messages, locks, page faults.
    pub longest_control_ns: u64,
}

/// A port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortStats {
    /// Name in configurations.
    pub name: String,
    /// Driver of the port.
    pub driver: String,
    /// MAC address.
    pub mac: String,
    /// Maximum length of a network-layer packet, in bytes.
    pub mtu: usize,
    /// True if the link is up.
    pub up: bool,
    /// Counters of the port's driver or hardware.
    pub counters: Vec<PortCounter>,
}

/// A counter of a port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortCounter {
    /// Name, such as `kernel_drops`.
    pub name: String,
    /// Queue number; `None` for a counter of the whole port.
    pub queue: Option<usize>,
    /// Value.
    pub value: u64,
}

/// State of the packet buffers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct PoolStats {
    /// Number of buffers created; for DPDK's pool, the number in use.
    pub buffers: usize,
    /// Memory of the buffers, in bytes.
    pub bytes: usize,
}

/// Body of `POST /v1/reload`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// The new configuration; without it the router reads its file again.
    #[serde(default)]
    pub text: Option<String>,
    /// Name of the configuration in messages.
    #[serde(default)]
    pub name: Option<String>,
    /// File, absolute, for later reloads and libraries.
    #[serde(default)]
    pub path: Option<String>,
    /// Server of a cluster whose configuration this is, if the file describes a cluster.
    #[serde(default)]
    pub server: Option<String>,
    /// Numbers in frames between the servers of that cluster.
    #[serde(default)]
    pub numbers: Option<Numbers>,
    /// Changed definitions of variables: name and value.
    #[serde(default)]
    pub definitions: Vec<(String, String)>,
    /// True for a dry run: the answer says what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// Name of a router to start; nothing else is changed. The router is described in the file of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
}

impl ReloadRequest {
    /// Request for a configuration that has been read.
    pub fn of(source: Source, dry_run: bool) -> ReloadRequest {
        ReloadRequest {
            dry_run,
            name: Some(source.name),
            path: source.path.map(|path| path.to_string_lossy().into_owned()),
            text: Some(source.text.to_string()),
            server: source.server,
            numbers: source.numbers,
            definitions: source.definitions,
            add: None,
        }
    }
}

/// Answer to `POST /v1/reload`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReloadReply {
    /// True if the new configuration is good (and, unless it was a dry run, runs).
    pub good: bool,
    /// Changes, if the configuration is valid.
    pub changes: Changes,
    /// Mistakes and warnings, as text for people.
    pub text: String,
    /// Diagnostics for programs.
    pub diagnostics: serde_json::Value,
    /// Source of the configuration.
    #[serde(default)]
    pub configuration: String,
    /// Source that the next reload without a file, SIGHUP or restart reads, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Change of each router, if a file that describes several was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterChange>,
    /// Settings by handlers that the reload has discarded: `ELEMENT.HANDLER VALUE`, after the router's name if there
    /// are several routers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// Effect of a reload on a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterChange {
    /// Name of the router.
    pub name: String,
    /// `add`, `remove`, `change` or `keep`.
    pub what: String,
    /// Changes in its graph.
    pub changes: Changes,
}

impl Changes {
    /// True if the graph stays as it is.
    pub fn are_none(&self) -> bool {
        let kept = Changes {
            kept: self.kept,
            ..Changes::default()
        };
        *self == kept
    }
}

/// Changes of a reload, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Elements that are new (or have another class than before).
    pub added: Vec<String>,
    /// Elements that go.
    pub removed: Vec<String>,
    /// Elements with another configuration.
    pub reconfigured: Vec<String>,
    /// Files that elements' configurations name and that have another content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Number of elements that stay as they are.
    pub kept: usize,
    /// Connections that are new.
    pub connected: Vec<String>,
    /// Connections that go.
    pub disconnected: Vec<String>,
    /// Devices to open.
    pub opened: Vec<String>,
    /// Devices to close.
    pub closed: Vec<String>,
}

/// Body of an error.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wrong {
    /// Reason for the failure, a sentence.
    pub error: String,
}

/// A packet of `GET /v1/trace`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TracedPacket {
    /// Number of the packet, from 1.
    pub number: usize,
    /// True if the packet was sent, discarded or dropped; false if it is held or became another packet.
    pub over: bool,
    /// First bytes of the packet where it was first seen.
    pub bytes: Vec<u8>,
    /// Path of the packet.
    pub steps: Vec<Step>,
}

/// One step on a packet's path through the elements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// Nanoseconds since 1970, of the worker's turn.
    pub time_ns: u64,
    /// Number of the worker.
    pub worker: usize,
    /// Name of the element.
    pub element: String,
    /// Class of the element.
    pub class: String,
    /// Number of the port.
    pub port: usize,
    /// `enters`, `leaves` (it was pulled) or `dropped`.
    pub what: String,
    /// The name of the drop.
    pub reason: Option<String>,
    /// Length of the packet here, in bytes.
    pub len: usize,
}
