//! Flows of a FlowTable: any bytes set them up and end them, between packets, time and reloads.
//!
//! The first byte chooses a table. A record is a byte for the action, and its parameters.

use super::Choices;
use crate::whole::Whole;
use arguments::units::{self, Bandwidth};
use engine::graph::Walker;
use engine::packet::{Packet, pool};
use std::time::Duration;
use testkit::{ip4, ip6};

/// Small tables, so that entries and rates run out: capacity, bytes a second of each link, and whether flows are
/// policed.
const TABLES: [(&str, usize, u64, bool); 6] = [
    (
        "BY match, CAPACITY 6, K 2, BUCKETS 4, LINK 8Mbps, IDLE 3s, EXCESS 2, OTHER 1",
        6,
        1_000_000,
        true,
    ),
    // The same shape: its flows stay as they are.
    (
        "BY match, CAPACITY 6, K 2, BUCKETS 4, LINK 16Mbps, RESERVABLE 8Mbps, OVERHEAD 38, BIN 0s, OTHER 1",
        6,
        2_000_000,
        true,
    ),
    // Another shape: the flows move.
    (
        "BY match, CAPACITY 3, LINK 8Mbps, MTU 65535, OTHER 1",
        3,
        1_000_000,
        true,
    ),
    ("BY match, CAPACITY 9, K 1, BUCKETS 2", 9, 0, true),
    (
        "BY dscp, CAPACITY 5, LINK 80Mbps, POLICE false, OTHER 1",
        5,
        10_000_000,
        false,
    ),
    (
        "BY vlan, CAPACITY 4, LINK 1Gbps, BIN 10s, IDLE 1ms, EXCESS 1",
        4,
        125_000_000,
        true,
    ),
];

fn router(table: &str) -> String {
    format!(
        "in :: MarkIPHeader -> flows :: FlowTable({table}) -> q :: DeadlineQueue(8, WIDTH 1ms) \
         -> Unqueue -> out :: Collect;
         flows[1] -> other :: Collect; flows[2] -> excess :: Collect;"
    )
}

/// A table under test.
struct Flows {
    router: Whole,
    table: usize,
    /// True if every flow has sent only what its own setup allows.
    plain: bool,
}

impl Flows {
    fn read(&mut self, handler: &str) -> String {
        self.router.handler(&format!("flows.{handler}"), "")
    }

    fn length(&mut self) -> usize {
        self.read("length").parse().expect("a number")
    }

    /// The greatest bound of all flows, in nanoseconds.
    fn bound(&mut self) -> u64 {
        let flows = self.read("flows");
        let words: Vec<&str> = flows.split_ascii_whitespace().collect();
        let bounds = words.windows(2).filter(|pair| pair[0] == "bound");
        let bounds = bounds.map(|pair| {
            let time: Duration = units::parse(pair[1]).expect("what is shown can be read");
            u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
        });
        bounds.max().unwrap_or(0)
    }

    /// Checks the invariants.
    fn check(&mut self) {
        let (_, capacity, link, _) = TABLES[self.table];
        assert!(self.length() <= capacity);
        let reserved = self.read("reserved");
        let outputs = reserved.lines().map(|line| {
            let (_, sum) = line.split_once(' ').expect("an output and a bandwidth");
            units::parse::<Bandwidth>(sum).expect("a bandwidth").0
        });
        let outputs: Vec<u64> = outputs.collect();
        // After a reload a table may have flows of a faster link.
        assert!(!self.plain || outputs.iter().all(|sum| *sum <= link));
        let flows = self.read("flows");
        let of_flows = flows.lines().filter_map(|line| {
            let (_, behind) = line.split_once(" reserved ")?;
            let sum = behind.split(' ').next()?;
            Some(units::parse::<Bandwidth>(sum).expect("a bandwidth").0)
        });
        assert_eq!(
            of_flows.sum::<u64>(),
            outputs.iter().sum::<u64>(),
            "{flows}"
        );
    }

    fn add(&mut self, text: &str) {
        let (before, length) = (self.read("flows"), self.length());
        let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        let would = (lines == 1).then(|| self.router.try_handler("flows.admit", text));
        match self.router.try_handler("flows.add", text) {
            Ok(answer) => {
                assert_eq!(answer.lines().count(), lines);
                // Flows that already existed are changed.
                let new = self.length() == length + lines;
                self.plain &= new;
                if let Some(would) = would.filter(|_| new) {
                    assert_eq!(would.as_deref(), Ok(&*answer));
                }
            }
            Err(_) => assert_eq!(self.read("flows"), before, "{text}"),
        }
    }

    fn packet(&mut self, packet: Option<Packet>) {
        let plan = self.router.graph().plan().clone();
        self.router.push("in", packet.into_iter().collect());
        self.router.settle();
        let (_, _, _, police) = TABLES[self.table];
        let latest = self.router.graph().now().0.saturating_add(self.bound());
        for seen in testkit::collected(&plan, "out") {
            let deadline = seen.cold.deadline();
            assert!(
                !police || !self.plain || deadline <= latest,
                "{deadline} is after {latest}"
            );
        }
    }
}

/// Sets flows up, and feeds them.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut choices = Choices(&data[..data.len().min(4 << 10)]);
    let table = usize::from(choices.byte()) % TABLES.len();
    let mut flows = Flows {
        router: Whole::new(&router(TABLES[table].0), &[], Walker::Sweep),
        table,
        plain: true,
    };
    while !choices.is_empty() {
        let what = choices.byte();
        match what % 8 {
            0 => {
                let text = text(&mut choices);
                flows.add(&text);
            }
            1 => {
                let (text, before) = (text(&mut choices), flows.length());
                if flows.router.try_handler("flows.remove", &text).is_err() {
                    assert_eq!(flows.length(), before, "{text}");
                }
            }
            2 => {
                let ends = choices.byte();
                let (own, other) = (ends & 3, ends >> 2 & 3);
                let length = usize::from(choices.byte()) * 6;
                let packet = match ends & 16 {
                    0 => ip4()
                        .src(&*format!("10.0.0.{own}"))
                        .dst(&*format!("10.0.9.{other}")),
                    _ => ip6()
                        .src(&*format!("fd00::{own}"))
                        .dst(&*format!("fd00::9:{other}")),
                };
                let packet = packet.udp(1000, 2000).payload(vec![0; length]).bytes();
                let mut packet = Packet::from_bytes(&packet);
                if let Some(packet) = &mut packet {
                    packet.set_vlan_tci((ends & 7).into());
                }
                flows.packet(packet);
            }
            3 => {
                let length = choices.byte();
                let packet = Packet::from_bytes(choices.bytes(length.into()));
                flows.packet(packet);
            }
            4 => flows
                .router
                .advance(Duration::from_micros(u64::from(what) * 10)),
            5 => flows
                .router
                .advance(Duration::from_millis(u64::from(what) * 20)),
            6 => {
                let table = usize::from(choices.byte()) % TABLES.len();
                let text = router(TABLES[table].0);
                flows = Flows {
                    router: flows.router.reload(&text, &[]),
                    table,
                    plain: false,
                };
            }
            _ => flows.check(),
        }
    }
    flows.check();
    flows.router.check();
    drop(flows);
    assert_eq!(pool::balance(), before, "buffers were leaked");
}

/// Any text, or a flow that packets may belong to, with its parameters.
fn text(choices: &mut Choices<'_>) -> String {
    let length = choices.byte();
    let bytes = choices.bytes(length.into());
    // `@` and a byte: a flow whose packets are sent, so that the fuzzer need not guess addresses.
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('@');
    let mut whole = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let ends = part.bytes().next().unwrap_or(0);
        let (own, other) = (ends & 3, ends >> 2 & 3);
        let flow = match ends & 16 {
            0 => format!("10.0.0.{own} 1000 10.0.9.{other} 2000 udp"),
            _ => format!("fd00::{own} 1000 fd00::9:{other} 2000 udp"),
        };
        whole += &flow;
        let mut rest = part.chars();
        rest.next();
        whole += rest.as_str();
    }
    whole
}
