//! Common part of the rewriting classes' tests: packets in the form of Click's summary dumps, `T SRC SPORT DST DPORT
//! DATA`.

use std::time::Duration;
use testkit::{Bench, ip4};
use wire::{FlowKey, Icmp, Ipv4, Tcp, Udp, proto, tcp};

/// A packet from `T|U SRC SPORT DST DPORT [FLAGS [DATA]]` or `I SRC DST IDENT` (`R` for a reply).
pub(crate) fn packet(line: &str) -> Vec<u8> {
    let w: Vec<&str> = line.split_whitespace().collect();
    let port = |i: usize| w[i].parse::<u16>().unwrap();
    let data = w.get(6).unwrap_or(&"");
    match w[0] {
        "I" => ip4().src(w[1]).dst(w[2]).icmp_echo(port(3), 1).bytes(),
        "R" => ip4()
            .src(w[1])
            .dst(w[2])
            .icmp_echo_reply(port(3), 1)
            .bytes(),
        "U" => ip4()
            .src(w[1])
            .dst(w[3])
            .udp(port(2), port(4))
            .payload(data)
            .bytes(),
        _ => {
            let flags = w.get(5).unwrap_or(&"A").bytes().map(|f| match f {
                b'F' => tcp::FIN,
                b'S' => tcp::SYN,
                b'R' => tcp::RST,
                _ => tcp::ACK,
            });
            let built = ip4().src(w[1]).dst(w[3]).tcp(port(2), port(4));
            built.tcp_flags(flags.sum()).payload(data).bytes()
        }
    }
}

/// Addresses and ports of a packet, whose checksums must hold.
pub(crate) fn show(bytes: &[u8]) -> String {
    let ip = Ipv4::new_checked(bytes).unwrap();
    assert!(ip.verify_checksum(), "{bytes:x?}");
    let (payload, pseudo) = (ip.payload(), ip.pseudo(ip.payload().len()));
    let ends = FlowKey::of_ip4(bytes).unwrap();
    match ip.protocol() {
        proto::TCP => assert!(Tcp::new_checked(payload).unwrap().verify_checksum(pseudo)),
        proto::UDP => assert!(Udp::new_checked(payload).unwrap().verify_checksum(pseudo)),
        proto::ICMP => {
            assert!(wire::checksum::verify(payload));
            let ident = Icmp::new_checked(payload).unwrap().ident();
            return format!("{} {} {ident}", ip.src(), ip.dst());
        }
        _ => {}
    }
    format!(
        "{} {} {} {}",
        ends.src, ends.src_port, ends.dst, ends.dst_port
    )
}

/// Test bench: a rewriter `rw` between header checks and the collectors `out0`, `out1` ...
pub(crate) fn bench(rewriter: &str, inputs: usize, outputs: usize) -> Bench {
    Bench::new(crate::CLASSES, &config(rewriter, inputs, outputs))
}

/// The configuration of [`bench`].
pub(crate) fn config(rewriter: &str, inputs: usize, outputs: usize) -> String {
    let mut text = format!("{rewriter};\n");
    for i in 0..inputs {
        text += &format!("in{i} :: CheckIPHeader -> [{i}]rw;\n");
    }
    for o in 0..outputs {
        text += &format!("rw[{o}] -> out{o} :: Collect;\n");
    }
    text
}

/// Sends one packet. Returns its output and its fields, or `-` if it was dropped.
pub(crate) fn send(bench: &mut Bench, input: usize, line: &str) -> String {
    bench.push(&format!("in{input}"), &[packet(line)]);
    for output in ["out0", "out1"] {
        if bench.graph().plan().find(output).is_none() {
            continue;
        }
        if let Some(bytes) = bench.take(output).first() {
            return format!("{output} {}", show(bytes));
        }
    }
    "-".to_owned()
}

/// Advances the clock by `s` seconds.
pub(crate) fn seconds(bench: &mut Bench, s: f64) {
    bench.advance(Duration::from_secs_f64(s));
}

/// A rewriter that allocates source ports in ascending order.
pub(crate) const NAT: &str = "rw :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)";
