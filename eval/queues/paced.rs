//! A router whose two ports are a test stand: `in` gives numbered packets of flows when they are due, `out` notes of
//! every packet which it is, when it was due, when it left, which worker sent it and what its source has become.
//!
//!     paced CONF SOCKET RECORDS WORKERS SIZE FLOWS PROFILE RING [NAME=VALUE ...]
//!
//! Everything else is as with `ashlar run`: the same control, asked over SOCKET. No thread generates: a receive queue
//! gives what is due by the time it is polled, from a ring of RING packets that overflows as a device's does. Flow f
//! comes by receive queue f modulo their number, and a queue's flows in turn. PROFILE is a row of SECONDS:RATE,
//! separated by commas; it begins when a line comes by standard input. When it is over RECORDS is written (see
//! records.py), and "written" said.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use control::socket::Socket;
use control::{Common, Process, Runtime, Serve, Source};
use engine::packet::{Batch, Packet};
use engine::port::{PortInfo, PortRequest, RxQueue, TxQueue};
use planner::Options;
use router::Workers;
use router::worker::share::Share;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Offset of a packet's numbers: behind Ethernet, IPv4 and UDP headers.
const MARK: usize = 42;
/// Packets that no sink has by then are lost.
const PATIENCE: Duration = Duration::from_millis(500);
/// Nanoseconds over which it is noted how a queue was polled.
const WINDOW: u64 = 10_000_000;

/// A packet that left.
struct Record {
    flow: u16,
    worker: u16,
    number: u32,
    /// Nanoseconds since the stand was made.
    due: u64,
    left: u64,
    /// Source address and port with which it left.
    address: u32,
    port: u16,
}

impl Record {
    /// Writes the record's 32 bytes in the form of the file; see records.py.
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&self.flow.to_le_bytes())?;
        out.write_all(&self.worker.to_le_bytes())?;
        out.write_all(&self.number.to_le_bytes())?;
        out.write_all(&self.due.to_le_bytes())?;
        out.write_all(&self.left.to_le_bytes())?;
        out.write_all(&self.address.to_le_bytes())?;
        out.write_all(&self.port.to_le_bytes())?;
        out.write_all(&[0; 2])
    }
}

/// Offer of a receive queue: due packets, packets without room in its ring, and the most that waited in it.
#[derive(Default)]
struct Offered {
    due: AtomicU64,
    missed: AtomicU64,
    deepest: AtomicU64,
    /// Time of its last poll, in nanoseconds of the profile.
    polled: AtomicU64,
    /// For each [`WINDOW`] of the profile.
    windows: Vec<Window>,
}

/// Polling of a receive queue in a while; the queue's worker writes it.
#[derive(Default)]
struct Window {
    polls: AtomicU32,
    /// The longest time from poll to poll that ended in it, in microseconds.
    longest: AtomicU32,
    /// Most packets that waited.
    deepest: AtomicU32,
    missed: AtomicU32,
}

impl Offered {
    fn new(seconds: f64) -> Offered {
        let mut windows = Vec::new();
        let count = (seconds * 1e9) as u64 / WINDOW + 1;
        windows.resize_with(count as usize, Window::default);
        Offered {
            windows,
            ..Offered::default()
        }
    }

    /// Notes a poll `passed` nanoseconds after the profile began, with what waits and what was missed since the one
    /// before.
    fn note(&self, passed: u64, held: u64, missed: u64) {
        let since = passed.saturating_sub(self.polled.swap(passed, Relaxed));
        let Some(window) = self.windows.get((passed / WINDOW) as usize) else {
            return;
        };
        window.polls.fetch_add(1, Relaxed);
        window.longest.fetch_max((since / 1000) as u32, Relaxed);
        window.deepest.fetch_max(held as u32, Relaxed);
        window.missed.fetch_add(missed as u32, Relaxed);
    }
}

type Sunk = Arc<Mutex<Vec<Record>>>;

struct Stand {
    since: Instant,
    /// Start of the profile, in nanoseconds; the greatest number until it is known.
    start: AtomicU64,
    /// Seconds and packets a second.
    profile: Vec<(f64, f64)>,
    frame: Vec<u8>,
    flows: usize,
    ring: u64,
    offered: Mutex<Vec<Arc<Offered>>>,
    sunk: Mutex<Vec<Sunk>>,
}

impl Stand {
    fn now(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    fn seconds(&self) -> f64 {
        self.profile.iter().map(|part| part.0).sum()
    }

    fn packets(&self) -> f64 {
        self.profile.iter().map(|(s, rate)| s * rate).sum()
    }

    /// Packets of all queues due within the first `passed` nanoseconds of the profile.
    fn due_by(&self, passed: u64) -> u64 {
        let (mut left, mut packets) = (passed as f64 / 1e9, 0.0);
        for &(seconds, rate) in &self.profile {
            packets += rate * left.clamp(0.0, seconds);
            left -= seconds;
        }
        packets as u64
    }

    /// Due time of a packet, in nanoseconds of the profile.
    fn due(&self, packet: u64) -> u64 {
        let (mut before, mut packets) = (0.0, packet as f64 + 1.0);
        for &(seconds, rate) in &self.profile {
            if packets <= seconds * rate {
                return ((before + packets / rate) * 1e9) as u64;
            }
            packets -= seconds * rate;
            before += seconds;
        }
        (before * 1e9) as u64
    }

    fn receive_queue(self: &Arc<Stand>, queue: usize, count: usize) -> Box<dyn RxQueue> {
        let offered = Arc::new(Offered::new(self.seconds()));
        lock(&self.offered).push(Arc::clone(&offered));
        let flows = (queue..self.flows).step_by(count);
        Box::new(Rx {
            stand: Arc::clone(self),
            place: (queue as u64, count as u64),
            flows: flows.map(|flow| flow as u16).collect(),
            runs: std::collections::VecDeque::new(),
            held: 0,
            offered,
        })
    }

    fn transmit_queue(self: &Arc<Stand>, worker: usize) -> Box<dyn TxQueue> {
        // All of it is memory by now: a packet that leaves must not wait for a page.
        let blank = || Record {
            flow: 0,
            worker: 0,
            number: 1,
            due: 1,
            left: 1,
            address: 0,
            port: 0,
        };
        let mut records = Vec::new();
        records.resize_with(self.packets() as usize + 1, blank);
        records.clear();
        let sunk = Arc::new(Mutex::new(records));
        lock(&self.sunk).push(Arc::clone(&sunk));
        Box::new(Tx {
            stand: Arc::clone(self),
            worker: worker as u16,
            sunk,
        })
    }

    fn write(&self, path: &str) -> std::io::Result<()> {
        let mut out = BufWriter::new(std::fs::File::create(path)?);
        let offered = lock(&self.offered);
        let head = [
            offered.len() as u64,
            self.flows as u64,
            self.start.load(Acquire),
            offered.first().map_or(0, |own| own.windows.len()) as u64,
            WINDOW,
        ];
        head.iter()
            .try_for_each(|n| out.write_all(&n.to_le_bytes()))?;
        for (queue, own) in offered.iter().enumerate() {
            let count = offered.len() as u64;
            let due = self.due_by(u64::MAX).saturating_sub(queue as u64);
            let due = due.div_ceil(count).max(own.due.load(Acquire));
            // Packets nobody has polled for were due all the same: their ring was full, or they are as good as lost.
            let unseen = due - own.due.load(Acquire);
            let missed = own.missed.load(Acquire) + unseen;
            for number in [due, missed, own.deepest.load(Acquire)] {
                out.write_all(&number.to_le_bytes())?;
            }
        }
        for window in offered.iter().flat_map(|own| &own.windows) {
            for number in [
                &window.polls,
                &window.longest,
                &window.deepest,
                &window.missed,
            ] {
                out.write_all(&number.load(Acquire).to_le_bytes())?;
            }
        }
        for sunk in lock(&self.sunk).iter() {
            for record in lock(sunk).iter() {
                record.write(&mut out)?;
            }
        }
        out.flush()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Rx {
    stand: Arc<Stand>,
    /// Its number, and how many there are.
    place: (u64, u64),
    flows: Vec<u16>,
    /// Packets that wait in its ring, by their numbers in this queue.
    runs: std::collections::VecDeque<(u64, u64)>,
    held: u64,
    offered: Arc<Offered>,
}

impl Rx {
    /// Lets what is due by now arrive in the ring.
    fn look(&mut self, start: u64) {
        let passed = self.stand.now().saturating_sub(start);
        let (queue, count) = self.place;
        let due = self
            .stand
            .due_by(passed)
            .saturating_sub(queue)
            .div_ceil(count);
        let before = self.offered.due.load(Relaxed);
        let taken = due.saturating_sub(before).min(self.stand.ring - self.held);
        if taken > 0 {
            self.held += taken;
            self.offered.deepest.fetch_max(self.held, Release);
            match self.runs.back_mut().filter(|run| run.1 == before) {
                Some(run) => run.1 += taken,
                None => self.runs.push_back((before, before + taken)),
            }
        }
        let missed = due.saturating_sub(before) - taken;
        if due > before {
            self.offered.due.store(due, Release);
            self.offered.missed.fetch_add(missed, Release);
        }
        self.offered.note(passed, self.held, missed);
    }

    fn packet(&self, n: u64, start: u64) -> Option<Packet> {
        let mut packet = Packet::from_bytes(&self.stand.frame)?;
        let (flow, number) = (n % self.flows.len() as u64, n / self.flows.len() as u64);
        let flow = self.flows[flow as usize];
        let due = start + self.stand.due(n * self.place.1 + self.place.0);
        let data = packet.data_mut();
        // A number of its own, by which its fragments are told from those of others.
        let ident = number as u16;
        let check = u16::from_be_bytes([data[24], data[25]]);
        data[18..20].copy_from_slice(&ident.to_be_bytes());
        data[24..26].copy_from_slice(&fold(u32::from(!check) + u32::from(ident)).to_be_bytes());
        data[34..36].copy_from_slice(&(1024 + flow).to_be_bytes());
        data[MARK..MARK + 2].copy_from_slice(&flow.to_le_bytes());
        data[MARK + 2..MARK + 6].copy_from_slice(&(number as u32).to_le_bytes());
        data[MARK + 6..MARK + 14].copy_from_slice(&due.to_le_bytes());
        packet.set_mac_here();
        Some(packet)
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let start = self.stand.start.load(Acquire);
        if start == u64::MAX || self.flows.is_empty() {
            return 0;
        }
        self.look(start);
        let mut given = 0;
        while given < max
            && let Some(&(first, end)) = self.runs.front()
            && let Some(packet) = self.packet(first, start)
        {
            into.push(packet);
            given += 1;
            self.held -= 1;
            match first + 1 == end {
                true => drop(self.runs.pop_front()),
                false => self.runs[0].0 += 1,
            }
        }
        given
    }

    fn fill(&self) -> Option<f64> {
        Some(self.held as f64 / self.stand.ring.max(1) as f64)
    }
}

struct Tx {
    stand: Arc<Stand>,
    worker: u16,
    sunk: Sunk,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        let (count, left) = (batch.len(), self.stand.now());
        let mut sunk = lock(&self.sunk);
        for packet in batch.iter() {
            let data = packet.data();
            let Some(mark) = data.get(MARK..MARK + 14) else {
                continue;
            };
            let word =
                |at: usize| -> [u8; 8] { std::array::from_fn(|n| *mark.get(at + n).unwrap_or(&0)) };
            let [flow, number, due] = [word(0), word(2), word(6)].map(u64::from_le_bytes);
            sunk.push(Record {
                flow: flow as u16,
                worker: self.worker,
                number: number as u32,
                due,
                left,
                address: u32::from_be_bytes([data[26], data[27], data[28], data[29]]),
                port: u16::from_be_bytes([data[34], data[35]]),
            });
        }
        drop(sunk);
        batch.clear();
        count
    }
}

/// The Internet checksum of words that have been added up.
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A datagram of UDP in a frame of `size` bytes, frame check sequence counted.
fn frame(size: usize) -> Result<Vec<u8>, String> {
    let length = size.saturating_sub(4);
    if !(60..=1514).contains(&length) {
        return Err("SIZE is 64 to 1518".to_owned());
    }
    let mut frame = vec![0; length];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 8, 0]);
    frame[14..16].copy_from_slice(&[0x45, 0]);
    frame[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 1, 0, 0, 10, 2, 0, 1]);
    let words = frame[14..34].chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    frame[24..26].copy_from_slice(&fold(sum).to_be_bytes());
    frame[36..38].copy_from_slice(&5001u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(length as u16 - 34).to_be_bytes());
    Ok(frame)
}

fn info(last: u8) -> PortInfo {
    PortInfo {
        mac: [2, 0, 0, 0, 0, last],
        ..PortInfo::of_process("paced", 64)
    }
}

fn profile(text: &str) -> Option<Vec<(f64, f64)>> {
    let part = |part: &str| {
        let (seconds, rate) = part.split_once(':')?;
        Some((seconds.parse().ok()?, rate.parse().ok()?))
    };
    text.split(',').map(part).collect()
}

/// Waits for a line, runs the profile and writes what came of it.
fn play(stand: &Stand, records: &str) -> std::io::Result<()> {
    std::io::stdin().read_line(&mut String::new())?;
    stand.start.store(stand.now() + 1_000_000, Release);
    println!("started {:?}", std::time::SystemTime::now());
    std::thread::sleep(Duration::from_secs_f64(stand.seconds()) + PATIENCE);
    stand.write(records)?;
    println!("written");
    Ok(())
}

fn run(words: &[String]) -> Result<(), String> {
    let [
        conf,
        socket,
        records,
        workers,
        size,
        flows,
        rates,
        ring,
        definitions @ ..,
    ] = words
    else {
        return Err(
            "usage: paced CONF SOCKET RECORDS WORKERS SIZE FLOWS PROFILE RING [NAME=VALUE ...]"
                .to_owned(),
        );
    };
    let number = |word: &String| word.parse::<usize>().map_err(|e| format!("{word}: {e}"));
    let (workers, flows) = (number(workers)?, number(flows)?);
    let stand = Arc::new(Stand {
        since: Instant::now(),
        start: AtomicU64::new(u64::MAX),
        profile: profile(rates).ok_or("PROFILE is a row of SECONDS:RATE")?,
        frame: frame(number(size)?)?,
        flows: flows.clamp(1, 1 << 15),
        ring: number(ring)? as u64,
        offered: Mutex::default(),
        sunk: Mutex::default(),
    });
    let ports = Arc::new(ports_of(&stand));
    control::log::start(control::log::Format::Text, control::log::Level::WARN);
    let definitions = definitions
        .iter()
        .filter_map(|d| control::source::definition(d))
        .collect();
    let source = Source::read(conf, definitions)?;
    let registry = classes::registry();
    let compiled = control::compile(&source, &registry, &Options::new(workers, &*ports));
    let plan = compiled.plan.clone().ok_or_else(|| compiled.text())?;
    let runtime = Runtime::new()?;
    let socket = Socket::bind(Path::new(socket))?;
    let workers = Workers::start(workers, &ports::waiter::of_worker)?;
    let cores: Vec<usize> = (0..workers.count()).collect();
    control::pin(&workers, &cores)?;
    let common = Common {
        name: "paced".to_owned(),
        registry,
        ports: Arc::clone(&ports),
        workers,
        seed: 1.into(),
        fpm: None,
        balance: "on",
    };
    let process = Arc::new(Process::new(common, None));
    process.add("paced".to_owned(), source, plan, ports, Share::default())?;
    let records = records.clone();
    std::thread::spawn(move || {
        if let Err(e) = play(&stand, &records) {
            eprintln!("error: {records}: {e}");
        }
    });
    let serve = Serve {
        agreement: None,
        socket: Some(socket),
        metrics: None,
    };
    runtime.serve(&process, serve)?;
    process.close().map(|_| ()).map_err(|e| e.text)
}

fn ports_of(stand: &Arc<Stand>) -> ports::Directory {
    let (from, to) = (Arc::clone(stand), Arc::clone(stand));
    let input = move |request: &PortRequest| {
        let count = request.rx_queues;
        (
            (0..count)
                .map(|queue| from.receive_queue(queue, count))
                .collect(),
            Vec::new(),
        )
    };
    let output = move |request: &PortRequest| {
        let queues = (0..request.tx_queues).map(|queue| to.transmit_queue(queue));
        (Vec::new(), queues.collect())
    };
    ports::Directory::new()
        .with_port("in", info(1), input)
        .with_port("out", info(2), output)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(why) = run(&words) {
        eprintln!("error: {why}");
        std::process::exit(1);
    }
}
