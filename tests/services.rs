//! The services of `conf/services`, all on the same traffic: packets take their ways, and flows that are set up are told.

use engine::graph::Walker;
use router_tests::{Whole, conf};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::ip4;
use wire::mpls::Entry;

const DEVICES: &[(&str, &str)] = &[("DEV0", "port0"), ("DEV1", "port1"), ("DEV2", "port2")];
const GUARANTEE: &str = "RATE 640kbps BURST 3000 PACKET 300 DELAY 50ms";
/// Packets of each of the two flows.
const PACKETS: usize = 10;

/// A service and its handlers: `FLOW` stands for the flow to each output, of which each line names one.
struct Service {
    name: &'static str,
    /// Labels of the two flows where packets have some, and what the label is that leaves.
    labels: Option<[(u32, Option<u32>); 2]>,
    /// Handler and flow for each output.
    flows: &'static [(&'static str, &'static str)],
}

const ALL: &[Service] = &[
    Service {
        name: "null_look_fifo",
        labels: Some([(16, None), (17, None)]),
        flows: &[],
    },
    Service {
        name: "null_prefix_fifo",
        labels: None,
        flows: &[],
    },
    Service {
        name: "tag_look_fifo",
        labels: Some([(100, Some(200)), (101, Some(201))]),
        flows: &[("flows", "100 PORT 0"), ("flows", "101 PORT 1")],
    },
    Service {
        name: "tag_look_sort",
        labels: Some([(100, Some(200)), (101, Some(201))]),
        flows: &[("flows", "100 PORT 0"), ("flows", "101 PORT 1")],
    },
    Service {
        name: "tag_prefix_fifo",
        labels: None,
        flows: &[("flows1", "46"), ("flows2", "10")],
    },
    Service {
        name: "tag_prefix_sort",
        labels: None,
        flows: &[("flows1", "46"), ("flows2", "10")],
    },
    Service {
        name: "match_look_fifo",
        labels: None,
        flows: &[
            ("flows", "10.0.0.1 1 10.1.0.1 9 udp PORT 0"),
            ("flows", "10.0.0.1 1 10.2.0.1 9 udp PORT 1"),
        ],
    },
    Service {
        name: "match_look_sort",
        labels: None,
        flows: &[
            ("flows", "10.0.0.1 1 10.1.0.1 9 udp PORT 0"),
            ("flows", "10.0.0.1 1 10.2.0.1 9 udp PORT 1"),
        ],
    },
    Service {
        name: "match_prefix_fifo",
        labels: None,
        flows: &[
            ("flows1", "10.0.0.1 1 10.1.0.1 9 udp"),
            ("flows2", "10.0.0.1 1 10.2.0.1 9 udp"),
        ],
    },
    Service {
        name: "match_prefix_sort",
        labels: None,
        flows: &[
            ("flows1", "10.0.0.1 1 10.1.0.1 9 udp"),
            ("flows2", "10.0.0.1 1 10.2.0.1 9 udp"),
        ],
    },
];

/// A packet of the flow to an output.
fn packet(output: usize) -> Vec<u8> {
    let tos = [46 << 2, 10 << 2][output];
    let dst = format!("10.{}.0.1", output + 1);
    ip4()
        .src("10.0.0.1")
        .dst(dst)
        .tos(tos)
        .udp(1, 9)
        .payload([0; 72])
        .bytes()
}

fn frame(service: &Service, output: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let Some(labels) = service.labels else {
        frame.extend([0x08, 0x00]);
        frame.extend(packet(output));
        return frame;
    };
    let entry = Entry {
        label: labels[output].0,
        exp: 5,
        bottom: true,
        ttl: 64,
    };
    frame.extend([0x88, 0x47]);
    frame.extend(entry.word().to_be_bytes());
    frame.extend(packet(output));
    frame
}

/// What a frame that left carries.
fn check(service: &Service, output: usize, frame: &[u8]) {
    let label = service.labels.and_then(|labels| labels[output].1);
    let packet_at = match label {
        Some(label) => {
            assert_eq!(frame[12..14], [0x88, 0x47]);
            let entry = Entry::read(frame, 14).expect("a label");
            assert_eq!((entry.label, entry.exp, entry.ttl), (label, 5, 63));
            18
        }
        None => {
            assert_eq!(frame[12..14], [0x08, 0x00]);
            14
        }
    };
    assert_eq!(frame[0..6], [2, 0, 0, 0, output as u8 + 1, 2]);
    assert_eq!(
        frame[packet_at + 16..packet_at + 20],
        [10, output as u8 + 1, 0, 1]
    );
    let ttl = if label.is_some() { 64 } else { 63 };
    assert_eq!(frame[packet_at + 8], ttl, "{}", service.name);
}

#[test]
fn each_service_takes_packets_their_way_and_tells_its_flows() {
    for service in ALL {
        let file = conf(&format!("services/{}.click", service.name));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for walker in [Walker::Sweep, Walker::Strict] {
            let mut router = Whole::new(&text, DEVICES, walker);
            let sorts = service.name.ends_with("sort");
            for (element, flow) in service.flows {
                let wants = if sorts { GUARANTEE } else { "" };
                let answer = router.handler(&format!("{element}.add"), &format!("{flow} {wants}"));
                assert_eq!(answer.starts_with("reserved"), sorts, "{answer}");
            }
            let frames: Vec<_> = (0..2 * PACKETS).map(|n| frame(service, n % 2)).collect();
            router.receive(0, frames.iter().map(Vec::as_slice));
            router.settle();
            router.advance(Duration::from_millis(20));
            for output in 0..2 {
                let sent = router.sent(output + 1);
                assert_eq!(sent.len(), PACKETS, "{} {output}", service.name);
                sent.iter().for_each(|frame| check(service, output, frame));
            }
            for (element, _) in service.flows {
                let flows = router.handler(&format!("{element}.flows"), "");
                assert!(flows.contains(&format!("packets {PACKETS} ")), "{flows}");
            }
            router.check();
        }
    }
}

#[test]
fn every_file_of_the_folder_is_tested() {
    let files = std::fs::read_dir(conf("services")).expect("it is part of the project");
    let names = files.map(|file| file.expect("a file").file_name());
    let there: BTreeSet<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let tested = ALL.iter().map(|service| format!("{}.click", service.name));
    assert_eq!(there, tested.collect());
}
