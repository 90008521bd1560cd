//! Every class on bad input: the examples of its manual page, with devices in memory, get the frames
//! of every feature at every length. Nothing panics, no buffer is lost, the books balance, and both
//! walkers give the same packets.

use engine::element::Class;
use engine::graph::Walker;
use router_tests::{Books, Feeder, Whole, every_length, features, registry, run_apart};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Environment variable of the process that runs the examples.
const CHILD: &str = "ASHLAR_TEST_EXAMPLES";

/// Classes with ports to which no packet comes here.
const WITHOUT_PACKETS: &[&str] = &[
    // Needs facts that only a kernel reports: see linux_router.rs.
    "ControlPlanePolicer",
    // Replaced by a Collect.
    "Discard",
    // Takes packets that IPsec has encrypted: see ipsec.rs.
    "IPsecDecap",
    // Neither takes packets nor makes any.
    "Idle",
    // Makes a device, of which this test has none.
    "KernelTun",
    // Same as ControlPlanePolicer.
    "LinuxARP",
    "LinuxMPLSEtherEncap",
    "LinuxND",
    // Takes labelled packets whose TTL has expired.
    "MPLSPayload",
    // Has ports for packets that its examples do not connect.
    "Script",
    // Take frames of other servers of a cluster: see vlb.rs.
    "VLBOutput",
    "VLBOutput6",
    "VLBResequencer",
];

/// The examples of a manual page.
fn examples(class: &Class) -> Vec<String> {
    let manual = class.manual();
    let blocks = manual.split("```click\n").skip(1);
    let until_end = |block: &str| block.split("```").next().unwrap_or("").to_owned();
    blocks.map(until_end).collect()
}

/// Result of a router for the frames of all features: books, and packets by sink.
struct Outcome {
    books: Books,
    sinks: BTreeMap<String, Vec<Vec<u8>>>,
}

fn run(text: &str, walker: Walker) -> Outcome {
    let before = engine::packet::pool::balance();
    let mut feeder = Feeder::new(Whole::new(text, &[], walker));
    for (_, frames) in features() {
        frames.iter().for_each(|f| every_length(f, &mut feeder));
        // The same frames again, one after the other, so that fragments meet.
        frames.iter().for_each(|f| feeder.feed(f));
    }
    let mut outcome = None;
    feeder.finish(before, |router, books| {
        let plan = std::sync::Arc::clone(router.graph().plan());
        let sinks = plan.elements.iter().filter(|e| e.class.name == "Collect");
        let take = |name: &String| {
            let packets = testkit::collected(&plan, name).into_iter();
            (name.clone(), packets.map(|c| c.bytes).collect())
        };
        outcome = Some(Outcome {
            books: books.clone(),
            sinks: sinks.map(|e| take(&e.name)).collect(),
        });
    });
    outcome.expect("the feeder has shown the books")
}

/// Runs an example on both walkers and compares what reached each sink.
fn compare(text: &str) -> BTreeSet<&'static str> {
    let [sweep, strict] = [Walker::Sweep, Walker::Strict].map(|w| run(text, w));
    for (sink, packets) in &sweep.sinks {
        let [mut a, mut b] = [packets, &strict.sinks[sink]].map(Clone::clone);
        assert_eq!(a.len(), b.len(), "{sink}");
        a.sort();
        b.sort();
        assert!(a == b, "other packets at {sink}");
    }
    sweep.books.classes_used()
}

/// Makes a folder with the captures that examples read by relative paths.
fn folder_with_captures() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ashlar-classes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder takes folders");
    let summary = "!data ip_src ip_dst ip_proto\n10.0.0.1 10.0.0.2 U\n";
    std::fs::write(folder.join("trace.txt"), summary).expect("the folder takes files");
    for name in ["trace.pcap", "a.pcap", "b.pcap"] {
        let file = std::fs::File::create(folder.join(name)).expect("the folder takes files");
        let mut writer = captures::Writer::new(file).expect("the file takes a header");
        for (time, frame) in features().iter().flat_map(|(_, frames)| frames).enumerate() {
            let written = writer.write(time as u64 * 1_000_000, frame);
            written.expect("the file takes frames");
        }
        writer.flush().expect("the file takes frames");
    }
    folder
}

#[test]
fn the_examples_of_every_class_survive_bad_input_and_agree_on_both_walkers() {
    if std::env::var_os(CHILD).is_some() {
        return try_all_examples();
    }
    let folder = folder_with_captures();
    // Examples name files without a folder, so they run in a process that is in one.
    let name = "classes::the_examples_of_every_class_survive_bad_input_and_agree_on_both_walkers";
    let tried = run_apart(name, (CHILD, ""), &folder);
    std::fs::remove_dir_all(folder).expect("the folder is this test's");
    assert!(tried.is_ok(), "{}", tried.unwrap_err());
}

/// Runs each class's examples.
fn try_all_examples() {
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for class in registry().classes() {
        let examples = examples(class);
        if examples.is_empty() && class.name != "Collect" {
            wrong.push(format!("{} has no example", class.name));
        }
        for example in examples {
            // Discarded packets are compared too.
            let text = example.replace("Discard;", "Collect;");
            let text = text.replace("FromIPSummaryDump(-", "FromIPSummaryDump(trace.txt");
            let text = text.replace("Dump(-", "Dump(written");
            match std::panic::catch_unwind(|| compare(&text)) {
                Ok(classes) => used.extend(classes),
                Err(_) => wrong.push(format!("the example of {}:\n{example}", class.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all = registry().classes().into_iter();
    let with_ports = all.filter(|c| !(c.ports.inputs.is_empty() && c.ports.outputs.is_empty()));
    let idle: Vec<_> = with_ports
        .map(|class| class.name)
        .filter(|name| !used.contains(name))
        .collect();
    assert_eq!(idle, WITHOUT_PACKETS);
}
