//! Keys, tables and limits that change while packets flow, and mistakes in a table.

use super::*;

#[test]
fn keys_change_without_loss_and_are_never_shown() {
    let mut bench = router("aes128gcm16", TUNNEL4);
    let secret = "a7".repeat(20);
    let (before, _) = sealed(&mut bench, &[four(1)], &[]);
    let sa =
        |way| format!("sa {way} spi 0x1002 reqid 1 suite aes128gcm16 {TUNNEL4} ENC_KEY {secret}");
    bench.write("t.add", &sa("in"));
    bench.write("t.add", &sa("out"));
    let again = sa("out").replace("0x1002", "0x1003");
    let told = bench.try_write("t.add", &again).expect_err("keys are new");
    assert!(told.contains("0x1002 has the same key"), "{told}");
    bench.write("t.add", &sa("out"));
    let (after, _) = sealed(&mut bench, &[four(2)], &[]);
    assert_eq!(
        (&before[0][20..24], &after[0][20..24]),
        (&[0, 0, 16, 1][..], &[0, 0, 16, 2][..])
    );
    bench.push("got4", &[&before[0], &after[0]]);
    assert_eq!(bench.take("out4"), [four(1), four(2)]);
    let shown = bench.read("t.sas") + &bench.read("t.policies") + &bench.read("t.config");
    assert!(
        !shown.contains("a7a7a7") && !shown.contains("5a5a5a"),
        "{shown}"
    );
    assert_eq!(bench.read("t.count"), "4");
    bench.write("t.remove", "out 0x1001");
    bench.write("t.remove", "in 0x1001");
    assert!(bench.try_write("t.remove", "in 0x1001").is_err());
    let wrong = bench.try_write(
        "t.add",
        &format!("sa in spi 3000 reqid 1 suite aes128gcm16 ENC_KEY {secret}zz"),
    );
    assert!(!wrong.unwrap_err().contains("a7a7"));
    let wrong = bench.try_write(
        "t.add",
        &format!("sa in spi 3000 reqid 1 suite aes128gcm16 {secret}"),
    );
    assert!(!wrong.unwrap_err().contains("a7a7"));
    for place in [
        "",
        "window",
        "udp",
        "tunnel",
        "suite aes128gcm16 pad",
        "ENC_KEY",
    ] {
        let line = format!("sa in spi 3000 reqid 1 {place} {secret}{secret}");
        let wrong = bench.try_write("t.add", &line).unwrap_err();
        assert!(!wrong.contains("a7a7"), "{wrong}");
    }
    let (on, _) = sealed(&mut bench, &[four(3)], &[]);
    bench.push("got4", &[&on[0], &before[0]]);
    assert_eq!(
        (bench.take("out4"), bench.drops("d", "no_sa")),
        (vec![four(3)], 1)
    );
    // The new association is removed: there is none, and nothing leaves unencrypted.
    bench.write("t.clear", "");
    bench.push("in4", &[four(4)]);
    assert_eq!(
        (bench.take("sealed4").len(), bench.drops("e", "no_sa")),
        (0, 1)
    );
}

#[test]
fn a_reload_keeps_numbers_and_windows() {
    let mut bench = router("aes128gcm16", TUNNEL4);
    let (on, _) = sealed(&mut bench, &[four(1), four(2)], &[]);
    bench.push("got4", &on[..1]);
    bench.write(
        "t.add",
        &format!(
            "sa in spi 0x3000 reqid 7 suite null-sha1 AUTH_KEY {}",
            "01".repeat(20)
        ),
    );
    let changed = text("aes128gcm16", TUNNEL4).replace("10.4.0.0/16", "10.5.0.0/16");
    bench.reload(&changed).expect("it is right");
    assert_eq!(bench.read("t.count"), "3");
    let (more, _) = sealed(&mut bench, &[four(3)], &[]);
    assert_eq!(more[0][24..28], [0, 0, 0, 3]);
    bench.push("got4", &[&on[0], &on[1], &more[0]]);
    assert_eq!(bench.take("out4").len(), 3);
    assert_eq!(bench.drops("d", "replayed"), 1);
    // Another key makes another association; those no longer in the text are removed.
    let other = changed.replace("5a5a", "6b6b");
    bench.reload(&other).expect("it is right");
    let (again, _) = sealed(&mut bench, &[four(3)], &[]);
    assert_eq!(again[0][24..28], [0, 0, 0, 1]);
}

#[test]
fn limits_of_packets_and_time_end_an_association() {
    let mut bench = router(
        "aes128gcm16",
        &format!("{TUNNEL4} hard_packets 3 soft_packets 2"),
    );
    for n in 0..5 {
        bench.push("in4", &[four(n)]);
    }
    assert_eq!(
        (bench.take("sealed4").len(), bench.drops("e", "expired")),
        (3, 2)
    );
    assert!(bench.read("t.sas").contains(" expired\n"));
    let mut bench = router("aes128gcm16", &format!("{TUNNEL4} hard_seconds 60"));
    let (on, _) = sealed(&mut bench, &[four(1)], &[]);
    bench.advance(std::time::Duration::from_secs(61));
    bench.push("in4", &[four(1)]);
    bench.push("got4", &on);
    assert_eq!(
        (bench.drops("e", "expired"), bench.drops("d", "expired")),
        (1, 1)
    );
}

#[test]
fn fragments_are_not_for_transport_mode_and_too_long_packets_for_nobody() {
    let mut bench = router("aes128gcm16", "");
    let whole = ip4()
        .src("10.1.0.1")
        .dst("10.2.0.2")
        .udp(5, 6)
        .payload_len(100);
    bench.push("in4", &whole.fragments(60));
    assert!(bench.drops("e", "fragment") >= 2);
    let mut bench = router("aes128gcm16", TUNNEL4);
    bench.push("in4", &[four(2020)]);
    assert_eq!(bench.drops("e", "too_long"), 1);
    let (on, _) = sealed(&mut bench, &[four(1000)], &[]);
    let cut =
        "got4 :: CheckIPHeader -> f :: IPFragmenter(576) -> r :: IPReassembler -> out :: Collect";
    let mut between = Bench::new(crate::with_basics(), cut);
    between.push("got4", &on);
    assert_eq!(between.take("out"), on);
}

#[test]
fn mistakes_are_told() {
    let wrong = |lines: &str| errors(crate::with_basics(), &format!("t :: IPsecTable({lines})"));
    assert!(wrong("sa out spi 0x1001 reqid 1 suite aes128").contains("aes128gcm16"));
    assert!(wrong("sa up").contains("direction"));
    assert!(wrong("policy in src 10.0.0.0/8 dst ::/0 bypass").contains("family"));
    assert!(wrong("policy in src 10.0.0.0/8 dst 10.0.0.0/8").contains("protect"));
    let key = "77".repeat(20);
    let twice = format!("sa in spi 300 reqid 1 suite aes128gcm16 ENC_KEY {key}");
    let told = wrong(&format!("{twice}, {twice}"));
    assert!(
        told.contains("two associations") && !told.contains("7777"),
        "{told}"
    );
    let of =
        |spi: u32, suite: &str| format!("sa out spi {spi} reqid 1 suite {suite} ENC_KEY {key}");
    let [one, other] = [300, 301].map(|spi| of(spi, "aes128gcm16"));
    let told = wrong(&format!("{one}, {other}"));
    assert!(told.contains("0x12c has the same key"), "{told}");
    assert!(!told.contains("7777"), "{told}");
    let told = errors(crate::with_basics(), "Idle -> IPsecEncap -> Discard");
    assert!(told.contains("TABLE"), "{told}");
}
