//! Commands for the tables of elements: `ashlar ipsec` and `ashlar flow`.

use crate::common::{Folder, Running, ashlar, complained, said, until};

/// Packets that no policy allows to leave.
const IPSEC: &str = "ipsec :: IPsecTable(
        sa in spi 0x2001 reqid 1 suite aes128gcm16 ENC_KEY 7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b,
        policy out src 10.1.0.0/16 dst 10.2.0.0/16 protect 1);
    RatedSource(x, 100) -> IPEncap(udp, 10.9.0.1, 10.2.0.1) -> seal :: IPsecEncap(TABLE ipsec) -> Discard;";

#[test]
fn ipsec_is_shown_without_keys() {
    let folder = Folder::new();
    let router = Running::start(&folder, IPSEC, &[]);
    until("the packet", || router.count("seal.packets") > 0);
    let asked = ashlar()
        .args(["ipsec", "show", "--socket", &router.socket])
        .output()
        .expect("the program starts");
    let shown = said(&asked);
    for part in [
        "ipsec: ciphers by ",
        "in spi 0x2001 reqid 1 suite aes128gcm16 number 0 packets 0 ",
        "policy out src 10.1.0.0/16 dst 10.2.0.0/16 protect 1\n",
        "seal: policy ",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    let all = router.tell(&["show", "flatconfig"]) + &router.tell(&["show", "ipsec"]);
    assert!(!all.contains("7b7b"), "{all}");
    router.tell(&["stop"]);
    let (_, log) = router.end();
    assert!(!log.contains("7b7b"), "{log}");
}

/// Packets of no flow, through a table with room for guarantees.
const FLOWS: &str = "RatedSource(x, 100) \
    -> UDPIPEncap(10.0.0.1, 1, 10.1.0.1, 9) -> flows :: FlowTable(LINK 100Mbps, BIN 0)
    -> Discard;";

#[test]
fn flows_are_set_up_shown_and_ended() {
    let folder = Folder::new();
    let router = Running::start(&folder, FLOWS, &[]);
    let flow = ["10.0.0.1", "1", "10.1.0.1", "9", "udp"];
    let run = |words: &[&str]| {
        let mut asked = ashlar();
        asked.arg("flow").args(words);
        asked.args(["--socket", &router.socket]);
        asked.output().expect("the program starts")
    };
    let ask = |command: &str, wants: &[&str]| run(&[&[command], &flow[..], wants].concat());
    // 1500 bytes take 12 ms at 1 Mbit/s, a packet being sent 0.12, and the sum is rounded up. No packet takes less than
    // the 3.2 us of 40 bytes on the link.
    let promised = "reserved 1Mbps bound 12.120003ms jitter 12.116803ms\n";
    let wants = ["RATE", "1Mbps", "BURST", "1500"];
    assert_eq!(said(&ask("admit", &wants)), promised);
    assert_eq!(router.tell(&["show", "flows.length"]).trim(), "0");
    assert_eq!(said(&ask("add", &wants)), promised);
    until("a packet of the flow", || {
        let shown = said(&run(&["show"]));
        shown.contains(
            "flows:\n  10.0.0.1 1 10.1.0.1 9 udp PORT 0 reserved 1Mbps bound 12.120003ms jitter 12.116803ms packets ",
        ) && !shown.contains("packets 0 ")
    });
    let shown = said(&run(&["show", "--json"]));
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["flows"]["reserved"], serde_json::json!(["0 1Mbps"]));
    let refused = complained(&ask("add", &["RATE", "1Gbps", "BURST", "1500"]), 1);
    assert!(refused.contains("not reserved"), "{refused}");
    let shown = said(&run(&["show", "--table", "flows"]));
    assert!(shown.contains("  refused for rate 1\n"), "{shown}");
    assert_eq!(said(&ask("remove", &[])), "");
    assert_eq!(router.tell(&["show", "flows.length"]).trim(), "0");
    let gone = complained(&ask("remove", &[]), 1);
    assert!(gone.contains("there is no flow"), "{gone}");
    let wrong = complained(&ask("add", &["--table", "other"]), 1);
    assert!(
        wrong.contains("there is no FlowTable `other`; there is flows"),
        "{wrong}"
    );
    router.tell(&["stop"]);
    router.end();
}
