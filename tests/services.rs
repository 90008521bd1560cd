//! The services of `conf/services`, all on the same traffic: packets take the expected paths, and flows that were set
//! up are recognised.

use engine::graph::Walker;
use router_tests::{Whole, conf};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::ip4;
use wire::dps;
use wire::mpls::Entry;

const DEVICES: &[(&str, &str)] = &[("DEV0", "port0"), ("DEV1", "port1"), ("DEV2", "port2")];
const GUARANTEE: &str = "RATE 640kbps BURST 3000 PACKET 300 DELAY 50ms";
/// Packets of each of the two flows.
const PACKETS: usize = 10;

/// A service and its handlers. `FLOW` stands for the flow to each output, one per line.
struct Service {
    name: &'static str,
    /// True if packets carry their deadline.
    state: bool,
    /// Labels of the two flows, if packets have some, and each label after the router.
    labels: Option<[(u32, Option<u32>); 2]>,
    /// Handler and flow for each output.
    flows: &'static [(&'static str, &'static str)],
}

const ALL: &[Service] = &[
    Service {
        name: "null_look_sort",
        state: true,
        labels: Some([(16, None), (17, None)]),
        flows: &[],
    },
    Service {
        name: "null_prefix_sort",
        state: true,
        labels: None,
        flows: &[],
    },
    Service {
        name: "null_look_fifo",
        state: false,
        labels: Some([(16, None), (17, None)]),
        flows: &[],
    },
    Service {
        name: "null_prefix_fifo",
        state: false,
        labels: None,
        flows: &[],
    },
    Service {
        name: "tag_look_fifo",
        state: false,
        labels: Some([(100, Some(200)), (101, Some(201))]),
        flows: &[("flows", "100 PORT 0"), ("flows", "101 PORT 1")],
    },
    Service {
        name: "tag_look_sort",
        state: false,
        labels: Some([(100, Some(200)), (101, Some(201))]),
        flows: &[("flows", "100 PORT 0"), ("flows", "101 PORT 1")],
    },
    Service {
        name: "tag_prefix_fifo",
        state: false,
        labels: None,
        flows: &[("flows1", "46"), ("flows2", "10")],
    },
    Service {
        name: "tag_prefix_sort",
        state: false,
        labels: None,
        flows: &[("flows1", "46"), ("flows2", "10")],
    },
    Service {
        name: "match_look_fifo",
        state: false,
        labels: None,
        flows: &[
            ("flows", "10.0.0.1 1 10.1.0.1 9 udp PORT 0"),
            ("flows", "10.0.0.1 1 10.2.0.1 9 udp PORT 1"),
        ],
    },
    Service {
        name: "match_look_sort",
        state: false,
        labels: None,
        flows: &[
            ("flows", "10.0.0.1 1 10.1.0.1 9 udp PORT 0"),
            ("flows", "10.0.0.1 1 10.2.0.1 9 udp PORT 1"),
        ],
    },
    Service {
        name: "match_prefix_fifo",
        state: false,
        labels: None,
        flows: &[
            ("flows1", "10.0.0.1 1 10.1.0.1 9 udp"),
            ("flows2", "10.0.0.1 1 10.2.0.1 9 udp"),
        ],
    },
    Service {
        name: "match_prefix_sort",
        state: false,
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

/// State that a packet of the core-stateless network carries; the time of a hop is its mark.
fn state(output: usize, payload: u16) -> [u8; dps::LEN] {
    let mut bytes = [0; dps::LEN];
    let state = dps::State {
        payload,
        hop: 7_000_000 + output as u32,
        lead: 3_000_000,
    };
    state.write(&mut bytes);
    bytes
}

fn frame(service: &Service, output: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let kind: u16 = if service.labels.is_some() {
        0x8847
    } else {
        0x0800
    };
    if service.state {
        frame.extend(dps::ETHERTYPE.to_be_bytes());
        frame.extend(state(output, kind));
    } else {
        frame.extend(kind.to_be_bytes());
    }
    if let Some(labels) = service.labels {
        let entry = Entry {
            label: labels[output].0,
            exp: 5,
            bottom: true,
            ttl: 64,
        };
        frame.extend(entry.word().to_be_bytes());
    }
    frame.extend(packet(output));
    frame
}

/// Checks the headers of a frame that left.
fn check(service: &Service, output: usize, frame: &[u8]) {
    let label = service.labels.and_then(|labels| labels[output].1);
    let kind: u16 = if label.is_some() { 0x8847 } else { 0x0800 };
    let mut at = 14;
    if service.state {
        assert_eq!(frame[12..14], dps::ETHERTYPE.to_be_bytes());
        let state = dps::State::read(&frame[14..]).expect("a state");
        assert_eq!(
            (state.payload, state.hop),
            (kind, 7_000_000 + output as u32)
        );
        // 3 ms, a hop, and the extra time allowed to this router, 1.15 ms; it has used at most 20.
        assert!(state.lead > 0 && state.lead < 11_200_000, "{}", state.lead);
        at += dps::LEN;
    } else {
        assert_eq!(frame[12..14], kind.to_be_bytes());
    }
    if let Some(label) = label {
        let entry = Entry::read(frame, at).expect("a label");
        assert_eq!((entry.label, entry.exp, entry.ttl), (label, 5, 63));
        at += 4;
    }
    assert_eq!(frame[0..6], [2, 0, 0, 0, output as u8 + 1, 2]);
    assert_eq!(frame[at + 16..at + 20], [10, output as u8 + 1, 0, 1]);
    let ttl = if label.is_some() { 64 } else { 63 };
    assert_eq!(frame[at + 8], ttl, "{}", service.name);
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
            let mut frames: Vec<_> = (0..2 * PACKETS).map(|n| frame(service, n % 2)).collect();
            // Half of them have a priority tag (802.1Q, 6.9).
            let tagged = frames.iter_mut().take(PACKETS);
            tagged.for_each(|frame| _ = frame.splice(12..12, [0x81, 0, 0xe0, 0]));
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

#[test]
fn an_edge_writes_states_takes_them_off_and_believes_nobody_outside() {
    let text = std::fs::read_to_string(conf("core-stateless-edge.click"))
        .expect("it is part of the project");
    for walker in [Walker::Sweep, Walker::Strict] {
        let devices = [("OUTSIDE", "port0"), ("CORE", "port1")];
        let mut router = Whole::new(&text, &devices, walker);
        let granted = router.handler(
            "flows.add",
            &format!("10.0.0.1 1 10.1.0.1 9 udp {GUARANTEE} HOPS 5"),
        );
        assert!(granted.starts_with("reserved"));
        let framed = |kind: u16, state: &[u8], output| {
            let mut frame = vec![2; 12];
            frame.extend(kind.to_be_bytes());
            frame.extend(state);
            frame.extend(packet(output));
            frame
        };
        // The flow that was set up, another one, and one with forged state.
        let forged = state(0, 0x0800);
        let mut from_outside = [
            framed(0x0800, &[], 0),
            framed(0x0800, &[], 1),
            framed(0x88b5, &forged, 1),
        ];
        // A priority tag changes nothing.
        from_outside
            .iter_mut()
            .for_each(|frame| _ = frame.splice(12..12, [0x81, 0, 0x60, 0]));
        router.receive(0, from_outside.iter().map(Vec::as_slice));
        let from_core = [framed(0x88b5, &forged, 0), framed(0x0800, &[], 1)];
        router.receive(1, from_core.iter().map(Vec::as_slice));
        router.settle();
        router.advance(Duration::from_millis(20));
        let inwards = router.sent(1);
        let states: Vec<_> = inwards
            .iter()
            .map(|frame| dps::State::read(&frame[14..]).expect("a state"))
            .collect();
        assert_eq!(states.len(), 2);
        // The first packet has 300 bytes at the rate that was reserved for each hop.
        assert!(
            states[0].hop > 0 && states[0].lead > 0 && (states[1].hop, states[1].lead) == (0, 0)
        );
        assert_eq!(router.handler("forged.count", ""), "1");
        let outwards = router.sent(0);
        assert_eq!(outwards.len(), 1);
        assert_eq!(
            (&outwards[0][12..14], outwards[0].len()),
            (&[8, 0][..], 14 + packet(0).len())
        );
        router.check();
    }
}
