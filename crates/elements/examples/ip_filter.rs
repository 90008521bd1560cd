//! Measures IPFilter as a whole: `cargo run --release -p elements --example ip_filter MODE RULES [N [SEED]]`.
//!
//! RULES is a ClassBench filter set; beside it, with the same stem, lie `.trace` and `.expected`. With N,
//! a set of N rules is grown from it, and the trace is one packet per rule. MODE `check` compares the
//! rule that every packet leaves by with `.expected`, or with the rules one by one. `filter` feeds the
//! packets to a router of IPFilter and Discard, where the rules allow and deny in turn, and `null` to one
//! with Null in IPFilter's place. Under `valgrind --tool=callgrind --toggle-collect='*feed*'` only the
//! feeding is counted: the difference of the two, divided by the packets printed, is what IPFilter takes.
#![allow(clippy::print_stdout)]

#[path = "../../tables/examples/classbench/mod.rs"]
mod classbench;
#[path = "../../tables/examples/sample/mod.rs"]
mod sample;

use std::io::Read;
use std::net::Ipv4Addr;

use classbench::{FiveTuple, Sample};
use engine::packet::{Batch, Packet};
use tables::classify::Key;
use testkit::Bench;

/// Packets of a batch.
const BURST: usize = 32;
/// Outputs of a router that shows which rule was the first.
const OUTPUTS: usize = 200;

#[inline(never)]
fn feed(bench: &mut Bench, node: usize, batches: &mut [Batch]) {
    for batch in batches {
        bench.graph().inject(node, 0, batch);
    }
}

/// A rule as a pattern. A `port` pattern tests only TCP and UDP; ports for any protocol are tested by their bytes.
fn pattern(rule: &FiveTuple) -> String {
    let net = |(address, len): (u32, u8)| format!("{}/{len}", Ipv4Addr::from(address));
    let mut text = format!("src net {} and dst net {}", net(rule.src), net(rule.dst));
    let proto = match rule.protocol {
        (6, 255) => "tcp",
        (17, 255) => "udp",
        _ => "",
    };
    let sides = [("src", 0, rule.src_port), ("dst", 2, rule.dst_port)];
    for (side, at, (lo, hi)) in sides {
        text += &match (lo, hi, proto) {
            (0, u16::MAX, _) => continue,
            (_, _, "") => format!(" and transp[{at}:2] {lo}-{hi}"),
            _ => format!(" and {side} {proto} port {lo}-{hi}"),
        };
    }
    if rule.protocol.1 != 0 {
        text += &format!(" and ip proto {}", rule.protocol.0);
    }
    text
}

/// An IPv4 packet whose transport header consists of the ports, followed by a number.
fn packet(key: &Key, number: usize) -> Packet {
    let mut bytes = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, key[3] as u8, 0, 0];
    key[..3].iter().for_each(|w| bytes.extend(w.to_be_bytes()));
    bytes.extend((number as u64).to_be_bytes());
    let mut packet = Packet::from_bytes(&bytes).expect("it fits");
    packet.set_network_offset(0);
    packet
}

fn batches(keys: &[Key]) -> Vec<Batch> {
    let numbered: Vec<(usize, &Key)> = keys.iter().enumerate().collect();
    let each = numbered.chunks(BURST);
    each.map(|some| some.iter().map(|(n, key)| packet(key, *n)).collect())
        .collect()
}

/// A router of IPFilter with an action for every rule.
fn filter(rules: &[FiveTuple], action: impl Fn(usize) -> String, behind: &str) -> Bench {
    let each = rules.iter().enumerate();
    let rules: Vec<String> = each
        .map(|(n, rule)| format!("{} {}", action(n), pattern(rule)))
        .collect();
    let text = format!("f :: IPFilter({}); {behind}", rules.join(",\n"));
    Bench::new(elements::CLASSES, &text)
}

/// The number of the rule by which each packet leaves: one router returns its lower digits, another the higher ones.
fn matched(rules: &[FiveTuple], keys: &[Key]) -> Vec<Option<u32>> {
    let mut found = vec![None; keys.len()];
    for unit in [1, OUTPUTS] {
        let outputs = rules.len().div_ceil(unit).min(OUTPUTS);
        let behind: String = (0..outputs)
            .map(|n| format!("f[{n}] -> c{n} :: Collect; "))
            .collect();
        let mut bench = filter(rules, |n| (n / unit % OUTPUTS).to_string(), &behind);
        let node = bench.graph().plan().find("f").expect("it is there");
        feed(&mut bench, node, &mut batches(keys));
        for digit in 0..outputs {
            for packet in bench.take(&format!("c{digit}")) {
                let number = packet.last_chunk().expect("it was put there");
                let sum: &mut Option<u32> = &mut found[u64::from_be_bytes(*number) as usize];
                *sum = Some(sum.unwrap_or(0) + (digit * unit) as u32);
            }
        }
    }
    found
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = args.next().expect("check, filter or null");
    let sample = Sample::from_args(args).unwrap_or_else(|e| panic!("{e}"));
    let (rules, keys) = (&sample.rules, &sample.keys);
    let mut bench = match mode.as_str() {
        "check" => {
            assert_eq!(matched(rules, keys), sample.expected());
            println!("{} rules, {} packets, all right", rules.len(), keys.len());
            return;
        }
        "filter" => {
            let action = |n: usize| ["allow", "deny"][n % 2].to_owned();
            filter(rules, action, "f -> Discard")
        }
        _ => Bench::new(elements::CLASSES, "f :: Null -> Discard"),
    };
    let node = bench.graph().plan().find("f").expect("it is there");
    let mut batches = batches(keys);
    println!("{} rules, {} packets", rules.len(), keys.len());
    // The process that counts sends a byte to start.
    let _ = std::io::stdin().read(&mut [0]);
    feed(&mut bench, node, &mut batches);
}
