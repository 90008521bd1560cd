use std::time::Duration;
use testkit::{Bench, arp_reply, errors};
use wire::{Icmp, Ipv4, ether, proto};

const TEXT: &str =
    "lb :: BalancePool(r1 2:0:0:0:0:1 10.255.0.11, r2 2:0:0:0:0:2 10.255.0.12, SETTLE 0);
    health :: BalanceHealth(lb, 2:0:0:0:1:3, 10.255.0.1) -> back :: Collect";

const STEP: Duration = Duration::from_millis(10);

/// Runs `intervals` intervals, in which back ends answer as `answers` says.
fn run(bench: &mut Bench, intervals: usize, answers: impl Fn(u8) -> bool) {
    for _ in 0..intervals {
        bench.advance(STEP);
        for mut frame in bench.take("back") {
            let backend = frame[5];
            if !answers(backend) {
                continue;
            }
            if frame[12..14] == ether::ARP.to_be_bytes() {
                let ip = format!("10.255.0.1{backend}");
                let reply = arp_reply(
                    format!("2:0:0:0:0:{backend}"),
                    ip,
                    "2:0:0:0:1:3",
                    "10.255.0.1",
                );
                bench.push_at("health", 0, &[reply]);
            } else if frame[23] == proto::ICMP {
                frame[..12].rotate_left(6);
                frame[26..34].rotate_left(4);
                Icmp::new_unchecked(&mut frame[34..]).answer_echo();
                bench.push_at("health", 0, &[frame]);
            } else {
                // A router decrements the TTL, too.
                Ipv4::new_unchecked(&mut frame[14..]).dec_ttl();
                bench.push_at("health", 0, &[frame]);
            }
        }
    }
}

fn states(bench: &mut Bench) -> String {
    let lines = bench.read("lb.backends");
    lines
        .lines()
        .map(|line| line.split(' ').nth(2).unwrap_or_default().to_owned() + " ")
        .collect()
}

#[test]
fn a_back_end_that_does_not_forward_is_taken_out_within_50_ms_and_comes_back() {
    for kind in ["echo", "arp", "icmp"] {
        let mut bench = Bench::new(
            crate::with_basics(),
            &TEXT.replace("10.255.0.1)", &format!("10.255.0.1, KIND {kind})")),
        );
        run(&mut bench, 100, |_| true);
        assert_eq!(states(&mut bench), "up up ");
        run(&mut bench, 5, |of| of != 2);
        assert_eq!(states(&mut bench), "up down ", "{kind}");
        let journal = bench.read("lb.journal");
        assert!(
            journal.contains(" r2 down silent, ") && journal.contains(" buckets moved at once"),
            "{journal}"
        );
        assert!(
            bench
                .read("health.backends")
                .contains("r2 down silent missing ")
        );
        run(&mut bench, 9, |_| true);
        assert_eq!(states(&mut bench), "up down ");
        run(&mut bench, 2, |_| true);
        assert_eq!(states(&mut bench), "up up ");
        let samples = bench.read("health.metrics");
        let changes = "balancer_backend_changes_total 2 backend=r2\n";
        assert!(samples.contains(changes), "{samples}");
    }
}

#[test]
fn packets_that_are_no_probes_of_this_balancer_change_nothing() {
    let mut bench = Bench::new(crate::with_basics(), TEXT);
    run(&mut bench, 10, |of| of == 1);
    bench.advance(STEP);
    let probe = bench.take("back").remove(1);
    let changed = |at: usize, value: u8| {
        let mut frame = probe.clone();
        frame[at] = value;
        frame
    };
    bench.push(
        "health",
        &[
            probe.clone(),
            changed(50, 1),
            b"short".to_vec(),
            arp_reply("2:0:0:0:0:9", "10.255.0.12", "2:0:0:0:1:3", "10.255.0.1"),
        ],
    );
    assert_eq!(bench.drops("health", "ttl"), 1);
    assert_eq!(bench.drops("health", "malformed"), 2);
    assert_eq!(bench.drops("health", "unknown"), 1);
    assert_eq!(states(&mut bench), "up down ");
}

#[test]
fn health_goes_on_over_a_reload_and_a_new_back_end_waits_until_it_has_answered() {
    let mut bench = Bench::new(crate::with_basics(), TEXT);
    run(&mut bench, 10, |of| of == 1);
    let more = TEXT.replace("r1 2:", "r7 2:0:0:0:0:7 10.255.0.17, r1 2:");
    bench.reload(&more).expect("it is right");
    assert_eq!(states(&mut bench), "down up down ");
    assert!(bench.read("health.backends").contains("r7 down new "));
    run(&mut bench, 9, |of| of != 7);
    assert_eq!(states(&mut bench), "down up down ");
    run(&mut bench, 3, |of| of != 7);
    assert_eq!(states(&mut bench), "down up up ");
    run(&mut bench, 11, |_| true);
    assert_eq!(states(&mut bench), "up up up ");
}

#[test]
fn new_back_ends_in_the_place_of_all_others_are_up_at_once() {
    let mut bench = Bench::new(crate::with_basics(), TEXT);
    run(&mut bench, 10, |_| true);
    let others = TEXT.replace("r1 2:", "r5 2:").replace("r2 2:", "r6 2:");
    bench.reload(&others).expect("it is right");
    assert_eq!(states(&mut bench), "up up ");
}

#[test]
fn back_ends_that_are_silent_all_at_once_keep_their_buckets() {
    let mut bench = Bench::new(crate::with_basics(), TEXT);
    run(&mut bench, 100, |_| true);
    let before = bench.read("lb.owners");
    run(&mut bench, 5, |_| false);
    assert_eq!(states(&mut bench), "down down ");
    assert_eq!(bench.read("lb.owners"), before);
    let journal = bench.read("lb.journal");
    assert!(
        journal.contains(" r1 down silent, 0 buckets moved at once\n"),
        "{journal}"
    );
    assert!(
        journal.ends_with(" no back end is up: all keep their buckets\n"),
        "{journal}"
    );
}

#[test]
fn mistakes_are_told() {
    for (what, told) in [
        ("INTERVAL 1us", "INTERVAL must be from 1 ms"),
        ("KIND snmp", "there is no KIND `snmp`"),
        ("MISSES 1", "MISSES"),
    ] {
        let all = errors(
            crate::with_basics(),
            &TEXT.replace("10.255.0.1)", &format!("10.255.0.1, {what})")),
        );
        assert!(all.contains(told), "{all}");
    }
}
