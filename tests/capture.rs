//! A capture through `conf/pcap-router.click`, from file to files: every packet is accounted for, and
//! each flow leaves with the same packets in the same order on both walkers and with two workers.
#![allow(clippy::print_stdout)]

use engine::clock::{Clock, Time};
use engine::graph::Walker;
use engine::graph::single;
use engine::plan::Plan;
use engine::port::PortDirectory;
use ports::Directory;
use ports::pcap::format::Writer;
use router_tests::{Books, conf, run};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use testkit::recorded_inputs;
use wire::{FlowKey, ether};

/// The router's addresses in the configuration: packets from them belong to no received flow.
const OWN: [&str; 2] = ["192.0.2.1", "2001:db8::1"];

fn text() -> String {
    fs::read_to_string(conf("pcap-router.click")).expect("conf/ is there")
}

fn plan(text: &str, folder: &Path, workers: usize, ports: &dyn PortDirectory) -> Arc<Plan> {
    let path = |name: &str| folder.join(name).display().to_string();
    let definitions = [
        ("IN", path("in")),
        ("OUT0", path("low")),
        ("OUT1", path("high")),
    ];
    let definitions = definitions
        .each_ref()
        .map(|(name, file)| (*name, file.as_str()));
    router_tests::plan(text, &definitions, workers, ports, None)
}

/// A folder that is removed when it is dropped, with the frames as file `in`.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, frames: &[Vec<u8>]) -> Folder {
        let folder = std::env::temp_dir().join(format!("ashlar-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = BufWriter::new(File::create(folder.join("in")).expect("a file"));
        let mut writer = Writer::new(file).expect("a header");
        for (i, frame) in frames.iter().enumerate() {
            writer.write(1 + i as u64, frame).expect("a frame");
        }
        writer.flush().expect("the file is written");
        Folder(folder)
    }

    /// Files written by the router.
    fn written(&self) -> [Vec<Vec<u8>>; 2] {
        ["low", "high"].map(|name| {
            let file = fs::read(self.0.join(name)).expect("the router wrote it");
            recorded_inputs::capture_frames(&file)
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The packets of every flow, in order, by file and flow.
type Flows = BTreeMap<(usize, String), Vec<Vec<u8>>>;

fn flows(written: &[Vec<Vec<u8>>; 2]) -> Flows {
    let mut flows = Flows::new();
    for (file, frames) in written.iter().enumerate() {
        for frame in frames {
            let (_, at) = ether::network(frame).expect("a frame with an Ethernet header");
            let key = FlowKey::of_ip(&frame[at..]).expect("an IP packet");
            if !OWN.contains(&&*key.src().to_string()) {
                let flow = flows.entry((file, format!("{key:?}"))).or_default();
                flow.push(timeless(frame, at));
            }
        }
    }
    flows
}

/// A frame without its IPv4 options, which may hold the time of day, and without their checksum.
fn timeless(frame: &[u8], at: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let header = usize::from(frame[at] & 15) * 4;
    if frame[at] >> 4 == 4 && header > 20 {
        frame[at + 20..at + header].fill(0);
        frame[at + 10..at + 12].fill(0);
    }
    frame
}

/// Checks that all `came` frames are accounted for: sent, or dropped under a name.
fn account(books: &Books, came: usize, sent: usize) {
    books.check();
    let dropped: u64 = books.accounts.iter().map(|a| a.dropped()).sum();
    let made: u64 = books.accounts.iter().map(|a| a.made).sum();
    let read: u64 = books
        .accounts
        .iter()
        .filter(|a| a.class == "FromDevice")
        .map(|a| a.left)
        .sum();
    assert_eq!(read, came as u64, "every frame of the file was read");
    assert_eq!(books.held(), 0);
    assert_eq!(books.ended_at("ToDevice"), sent as u64);
    assert_eq!(
        came as u64 + made,
        sent as u64 + dropped,
        "{:?}",
        books.drops()
    );
    println!(
        "{came} in + {made} made = {sent} out + {dropped} dropped: {:?}",
        books.drops()
    );
}

/// Runs from file to files on the test's own thread.
fn on_walker(frames: &[Vec<u8>], walker: Walker) -> Flows {
    let folder = Folder::new(&format!("capture-{walker:?}-{}", frames.len()), frames);
    let before = engine::packet::pool::balance();
    let ports = Arc::new(Directory::new());
    let plan = plan(&text(), &folder.0, 1, &*ports);
    let clock = Clock::at(Time(1_000_000_000));
    let mut graph = single(&plan, ports, walker, clock, 1).expect("the files can be opened");
    while !graph.finished() {
        graph.turn();
    }
    let books = Books::of(&graph, &[]);
    drop(graph);
    assert_eq!(
        engine::packet::pool::balance(),
        before,
        "buffers were leaked"
    );
    let written = folder.written();
    account(&books, frames.len(), written[0].len() + written[1].len());
    flows(&written)
}

/// The queue in which a device would put a frame, by its addresses. These do not change on the path, whereas ports
/// may be read from bytes that CheckIPHeader cuts off.
fn queue(frame: &[u8], queues: usize) -> usize {
    let key = ether::network(frame).and_then(|(_, at)| FlowKey::of_ip(&frame[at..]));
    let mut hash = DefaultHasher::new();
    key.map(|key| (key.src(), key.dst())).hash(&mut hash);
    hash.finish() as usize % queues
}

/// Runs on separate workers, in memory, with a queue for each worker.
fn on_workers(frames: &[Vec<u8>], workers: usize) -> Flows {
    let folder = Folder::new(&format!("capture-{workers}-{}", frames.len()), frames);
    let directory = Arc::new(Directory::new());
    let memory = |name: &str| {
        let far = directory.memory(&folder.0.join(name).display().to_string());
        far.limit(usize::MAX, usize::MAX);
        far
    };
    let far = ["in", "low", "high"].map(memory);
    for frame in frames {
        assert!(far[0].inject(queue(frame, workers), frame));
    }
    far[0].end();
    let plan = plan(
        &text().replace("pcap:", "mem:"),
        &folder.0,
        workers,
        &*directory,
    );
    let mut router = run(&plan, directory);
    assert!(router.wait_ended(Duration::from_secs(60)), "the input ends");
    let books = Books::of_router(&router);
    let busy = router.stats().expect("workers answer");
    let node = plan.find("kind").expect("the Classifier");
    assert!(
        busy.iter().all(|stats| stats[node].packets > 0),
        "all have work"
    );
    router.stop();
    let written = [&far[1], &far[2]].map(|far| {
        let sent = far.collect().into_iter();
        sent.map(|sent| sent.frame).collect::<Vec<_>>()
    });
    account(&books, frames.len(), written[0].len() + written[1].len());
    flows(&written)
}

/// Panics with the first flow that differs.
fn same(a: &Flows, b: &Flows) {
    for key in a.keys().chain(b.keys()) {
        let [a, b] = [a, b].map(|flows| flows.get(key).map_or(&[][..], Vec::as_slice));
        assert!(a == b, "{key:?}: {a:02x?} is not {b:02x?}");
    }
}

fn compare(frames: &[Vec<u8>]) {
    let sweep = on_walker(frames, Walker::Sweep);
    println!("{} flows left", sweep.len());
    assert!(sweep.len() > 100);
    same(&sweep, &on_walker(frames, Walker::Strict));
    same(&sweep, &on_workers(frames, 2));
}

#[test]
fn a_made_capture_leaves_flow_by_flow_on_walkers_and_workers() {
    compare(&testkit::traffic::mix(21, 30_000));
}

#[test]
fn a_capture_of_shared_data_leaves_flow_by_flow_on_walkers_and_workers() {
    let frames = recorded_inputs::frames("pcap/ndpi-mix-zeropay.pcap.zst");
    compare(&frames);
}
