use testkit::{Bench, ip4, ip6};

const ENDS: (&str, &str) = ("02:00:00:00:00:01", "02:00:00:00:00:02");

fn udp4(src: &str, port: u16) -> Vec<u8> {
    let packet = ip4().src(src).dst("10.0.0.2").udp(port, 53);
    packet.ether(ENDS.0, ENDS.1).bytes()
}

fn sorted(bench: &mut Bench, frames: &[Vec<u8>]) -> Vec<u16> {
    bench.push("b", frames);
    bench.take_packets("out").iter().map(|p| p.bucket).collect()
}

/// Buckets of these frames by hash alone.
fn by_hash(frames: &[Vec<u8>]) -> Vec<u16> {
    let mut bench = Bench::new(crate::CLASSES, "b :: BucketByHash -> out :: Collect");
    sorted(&mut bench, frames)
}

#[test]
fn matching_packets_get_the_rules_bucket_and_others_that_of_their_hash() {
    let text =
        "b :: BucketByFlow(udp/10.0.0.1/1000/10.0.0.2/53=3, \"tcp 2001:db8::1 1 2001:db8::2 2=4\")
        -> out :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    let six = ip6().src("2001:db8::1").dst("2001:db8::2").tcp(1, 2);
    let inside = ip4().src("10.0.0.1").dst("10.0.0.2").udp(1000, 53).bytes();
    let tunnel = ip4().src("1.1.1.1").dst("2.2.2.2").proto(4).payload(inside);
    let others = [udp4("10.0.0.1", 1001), udp4("10.0.0.9", 1000), vec![1; 9]];
    let mut frames = vec![
        udp4("10.0.0.1", 1000),
        six.ether(ENDS.0, ENDS.1).bytes(),
        tunnel.ether(ENDS.0, ENDS.1).bytes(),
    ];
    frames.extend(others.clone());
    let got = sorted(&mut bench, &frames);
    assert_eq!(got[..3], [3, 4, 3]);
    assert_eq!(got[3..], by_hash(&others));
    assert_eq!(bench.read("b.matched"), "3");
    let rules = "tcp 2001:db8::1 1 2001:db8::2 2 4\nudp 10.0.0.1 1000 10.0.0.2 53 3";
    assert_eq!(bench.read("b.rules").trim(), rules);
}

#[test]
fn any_bytes_of_the_header_can_be_chosen() {
    let text =
        "b :: BucketByFlow(0800/10.0.0.0/0035=9, FIELDS 12/2 26/4%ffffff00 36/2) -> out :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    let frames = [udp4("10.0.0.77", 1), udp4("10.0.1.77", 1), vec![8; 37]];
    let got = sorted(&mut bench, &frames);
    assert_eq!(got[0], 9);
    assert_eq!(got[1..], by_hash(&frames)[1..]);
    assert_eq!(bench.read("b.rules").trim(), "0800 0a000000 0035 9");
}

#[test]
fn rules_change_one_by_one_and_all_at_once() {
    let mut bench = Bench::new(
        crate::CLASSES,
        "b :: BucketByFlow(RULES 4) -> out :: Collect",
    );
    let rule = |n: u16, bucket: u16| format!("udp 10.0.0.1 {n} 10.0.0.2 53 {bucket}");
    let frame = |n: u16| udp4("10.0.0.1", n);
    bench.write("b.add", &rule(1, 11));
    assert_eq!(sorted(&mut bench, &[frame(1)]), [11]);
    bench.write("b.add", &[rule(1, 12), rule(2, 13)].join("\n"));
    assert_eq!(sorted(&mut bench, &[frame(1), frame(2)]), [12, 13]);
    let many: Vec<String> = (2..7).map(|n| rule(n, 1)).collect();
    let refused = bench.try_write("b.add", &many.join("\n"));
    assert!(refused.is_err_and(|e| e.contains("RULES makes room")));
    assert_eq!(bench.read("b.length"), "2", "all of them or none");
    bench.write("b.remove", "udp 10.0.0.1 1 10.0.0.2 53");
    assert_eq!(sorted(&mut bench, &[frame(1)]), by_hash(&[frame(1)]));
    bench.write("b.replace", &[rule(2, 14), rule(5, 15)].join("\n"));
    assert_eq!(sorted(&mut bench, &[frame(2), frame(5)]), [14, 15]);
    assert_eq!(bench.read("b.length"), "2");
    for wrong in [
        "udp 10.0.0.1 1 10.0.0.2 53 256",
        "udp 10.0.0.1 1 ::1 53 2",
        "x",
        "1 2 3 4 5 6",
    ] {
        assert!(bench.try_write("b.add", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_table_holds_what_it_was_made_for() {
    let mut bench = Bench::new(
        crate::CLASSES,
        "b :: BucketByFlow(RULES 10000) -> out :: Collect",
    );
    let rule = |n: u32| format!("udp 10.{}.{}.1 7 10.0.0.2 53 {}", n >> 8, n & 255, n % 200);
    let all: Vec<String> = (0..10_000).map(rule).collect();
    bench.write("b.add", &all.join("\n"));
    assert_eq!(bench.read("b.length"), "10000");
    assert!(bench.try_write("b.add", &rule(10_000)).is_err());
    let frames: Vec<Vec<u8>> = (0..10_000u32)
        .step_by(7)
        .map(|n| udp4(&format!("10.{}.{}.1", n >> 8, n & 255), 7))
        .collect();
    let wanted: Vec<u16> = (0..10_000u16).step_by(7).map(|n| n % 200).collect();
    assert_eq!(sorted(&mut bench, &frames), wanted);
}

#[test]
fn mistakes_are_told() {
    for (arguments, wrong) in [
        ("FIELDS 12", "OFFSET/LENGTH"),
        ("FIELDS 0/16 16/16 32/16 48/16", "48 are the most"),
        ("FIELDS 12/2%ff", "no mask of 2 bytes"),
        ("FIELDS 3000/2", "the first 2000"),
        ("RULES 0", "RULES must lie between"),
        ("udp/1.1.1.1/1/1.1.1.2/2", "a rule and a bucket"),
        ("08=1, FIELDS 12/2", "no value of 2 bytes"),
        (
            "0800/1=1, FIELDS 12/2",
            "has 2 values, but there are 1 fields",
        ),
    ] {
        let text = format!("Idle -> BucketByFlow({arguments}) -> Discard");
        let errors = testkit::errors(crate::CLASSES, &text);
        assert!(errors.contains(wrong), "{errors}");
    }
}
