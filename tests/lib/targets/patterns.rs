//! Patterns of IPFilter, IPClassifier and Classifier: any text is accepted or refused with a reason. An accepted one
//! decides about any packet, and twice in the same way.

use testkit::Bench;

/// Longer patterns are only slower.
const LINE_BYTES_MAX: usize = 2 << 10;

/// Reads lines as patterns; the first byte chooses the class, and the last lines are packets.
pub fn run(data: &[u8]) {
    let mut choices = super::Choices(data);
    let class = ["IPFilter", "IPClassifier", "Classifier"][usize::from(choices.byte() % 3)];
    let count = 1 + choices.byte() % 24;
    let mut patterns = Vec::new();
    for _ in 0..count {
        let mut line = choices.line();
        let end = line.floor_char_boundary(LINE_BYTES_MAX);
        line.truncate(end);
        patterns.push(match class {
            "Classifier" => line.replace(|c: char| !"0123456789abcdef/%!?- ".contains(c), "-"),
            _ => lang::args::quote(&line),
        });
    }
    let outputs = if class == "IPFilter" {
        255
    } else {
        patterns.len()
    };
    let edges: String = (0..outputs).map(|n| format!("c[{n}] -> out; ")).collect();
    let text = format!(
        "out :: Discard; m :: MarkIPHeader -> c :: {class}({}); {edges}",
        patterns.join(", ")
    );
    let lists = classes::all();
    if testkit::plan(lists, &text, 1, &engine::port::NoPorts, None).is_err() {
        return;
    }
    let mut bench = Bench::new(lists, &text);
    let mut packet = choices.bytes(64).to_vec();
    if let Some(first) = packet.first_mut() {
        *first = 0x45;
    }
    let lens = [0, 1, 19, 20, 22, packet.len()];
    let packets: Vec<&[u8]> = lens
        .iter()
        .map(|&n| &packet[..n.min(packet.len())])
        .collect();
    bench.push("m", &packets);
    let dropped: u64 = bench.all_drops().iter().map(|d| d.2).sum();
    let passed: u64 = bench.read("out.count").trim().parse().unwrap_or(0);
    assert_eq!(dropped + passed, packets.len() as u64, "{text}");
}
