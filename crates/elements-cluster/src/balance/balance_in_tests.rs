//! Tests of BalanceIn.

use std::collections::HashMap;
use std::time::Duration;
use testkit::{Bench, arp_request, errors, ip4, ip6};

const OUTER: &str = "2:0:0:0:9:9";
const FRONT: &str = "2:0:0:0:1:1";

fn text(pool: &str, rest: &str) -> String {
    format!(
        "lb :: BalancePool(r1 2:0:0:0:0:1, r2 2:0:0:0:0:2, r3 2:0:0:0:0:3, SETTLE 0, IDLE 50ms, {pool});
        out :: BalanceOut(FRONT {FRONT}, BACK 2:0:0:0:1:3); out -> Discard; out[1] -> Discard;
        in :: BalanceIn(lb, {FRONT}, OUT out{rest}) -> back :: Collect; in[1] -> rest :: Collect"
    )
}

fn bench(pool: &str) -> Bench {
    let mut bench = Bench::new(crate::with_basics(), &text(pool, ""));
    bench.advance(Duration::from_millis(40));
    bench
}

fn packet(n: u32) -> Vec<u8> {
    let src = std::net::Ipv4Addr::from(0x0a00_0000 | n);
    ip4()
        .ether(OUTER, FRONT)
        .src(src)
        .dst("198.51.100.1")
        .udp(1000, 53)
        .bytes()
}

/// The last byte of the back end's address of each frame that left.
fn backends(bench: &mut Bench) -> Vec<u8> {
    bench.take("back").iter().map(|frame| frame[5]).collect()
}

#[test]
fn only_the_destination_of_a_frame_changes() {
    let mut bench = bench("KEY flow");
    bench.push("in", &[packet(1)]);
    let mut left = bench.take("back").remove(0);
    assert!(left.starts_with(&[2, 0, 0, 0, 0]) && (1..=3).contains(&left[5]));
    left[..6].copy_from_slice(&packet(1)[..6]);
    assert_eq!(left, packet(1));
}

/// 802.1Q, 6.9: a tag with VLAN 0 names no VLAN.
#[test]
fn a_priority_tag_is_removed_and_no_other_tag() {
    for pool in ["KEY flow", "ALGORITHM round-robin", "CLASSES 46=r1"] {
        let mut bench = bench(pool);
        let tagged = |vlan: u8| {
            let frame = packet(1);
            [&frame[..12], &[0x81, 0, 0xa0, vlan], &frame[12..]].concat()
        };
        bench.push("in", &[tagged(0), packet(1), tagged(7)]);
        let left = bench.take("back");
        assert_eq!(left.len(), 2, "{pool}");
        assert!(left.iter().all(|frame| frame[6..] == packet(1)[6..]));
        let ask = arp_request(OUTER, "10.0.1.9", "10.0.1.1");
        let tagged_ask = [&ask[..12], &[0x81, 0, 0xa0, 0], &ask[12..]].concat();
        bench.push("in", &[tagged_ask]);
        assert_eq!(bench.take("rest"), [tagged(7), ask]);
    }
}

#[test]
fn flows_keep_their_back_end_and_are_spread_by_weight() {
    let mut bench = bench("KEY symmetric");
    let packets: Vec<Vec<u8>> = (0..3000).map(packet).collect();
    bench.push("in", &packets);
    let first = backends(&mut bench);
    bench.push("in", &packets);
    assert_eq!(backends(&mut bench), first);
    for backend in 1..=3 {
        let share = first.iter().filter(|of| **of == backend).count();
        assert!(share.abs_diff(1000) < 110, "{backend}: {share}");
    }
}

#[test]
fn a_drained_back_end_loses_flows_only_in_their_silence() {
    let mut bench = bench("DEADLINE 10s");
    let packets: Vec<Vec<u8>> = (0..300).map(packet).collect();
    bench.push("in", &packets);
    let before = backends(&mut bench);
    bench.write("lb.drain", "r2");
    for _ in 0..20 {
        bench.advance(Duration::from_millis(20));
        bench.push("in", &packets);
        assert_eq!(backends(&mut bench), before, "no flow is silent");
    }
    bench.advance(Duration::from_millis(100));
    bench.push("in", &packets);
    let after = backends(&mut bench);
    let fits = |(was, is): (&u8, &u8)| if *was == 2 { *is != 2 } else { was == is };
    assert!(before.iter().zip(&after).all(fits));
}

#[test]
fn packets_in_turn_reach_all_back_ends_alike() {
    let mut bench = bench("ALGORITHM round-robin");
    bench.push("in", &(0..9).map(|_| packet(7)).collect::<Vec<_>>());
    assert_eq!(backends(&mut bench), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

#[test]
fn flows_leave_a_back_end_with_more_load_in_their_silence() {
    let mut bench = bench("ALGORITHM least-loaded");
    let all: Vec<Vec<u8>> = (0..3000).map(packet).collect();
    bench.push("in", &all);
    let first = backends(&mut bench);
    let packets: Vec<Vec<u8>> = all
        .into_iter()
        .zip(first)
        .filter(|(_, of)| *of == 1)
        .map(|(packet, _)| packet)
        .collect();
    for _ in 0..120 {
        bench.advance(Duration::from_millis(200));
        bench.push("in", &packets);
    }
    let now: Vec<u8> = backends(&mut bench).split_off(119 * packets.len());
    for backend in 1..=3 {
        let share = now.iter().filter(|of| **of == backend).count() * 3;
        assert!(
            share.abs_diff(packets.len()) * 4 < packets.len(),
            "{backend}: {share}"
        );
    }
}

#[test]
fn the_router_itself_is_the_one_that_speaks_for_it() {
    let mut bench = bench("OWN 10.0.1.1/24 fd00::1, SPEAKER r3 r1");
    let own = |n: u16| {
        let of = ip4().ether(OUTER, FRONT).src("10.0.1.9").dst("10.0.1.1");
        of.udp(n, 179).bytes()
    };
    let six = ip6().ether(OUTER, FRONT).dst("fd00::1").tcp(5, 179).bytes();
    let hello = ip4()
        .ether(OUTER, "1:0:5e:0:0:5")
        .dst("224.0.0.5")
        .proto(89)
        .payload_len(40)
        .bytes();
    bench.push("in", &[own(1), own(2), own(3), six.clone(), hello.clone()]);
    assert_eq!(backends(&mut bench), [3; 5]);
    bench.write("lb.drain", "r3");
    bench.push("in", &[own(1), six, hello]);
    assert_eq!(backends(&mut bench), [1; 3]);
}

#[test]
fn packets_to_owned_networks_reach_their_back_end_and_the_inside_is_unreachable() {
    let mut bench =
        bench("OWNS r1 203.0.113.0/26 r2 203.0.113.64/26 2001:db8::/64, INSIDE 10.255.0.0/24");
    let to = |dst: &str| ip4().ether(OUTER, FRONT).dst(dst).udp(1, 2).bytes();
    let six = ip6()
        .ether(OUTER, FRONT)
        .dst("2001:db8::9")
        .udp(1, 2)
        .bytes();
    bench.push(
        "in",
        &[to("203.0.113.5"), to("203.0.113.70"), six, to("10.255.0.1")],
    );
    assert_eq!(backends(&mut bench), [1, 2, 2]);
    assert_eq!(bench.drops("in", "inside"), 1);
}

#[test]
fn classes_have_back_ends_of_their_own() {
    let mut bench = bench("CLASSES 46+34=r2 10=r1+r3");
    let of = |dscp: u8, n: u32| {
        let src = std::net::Ipv4Addr::from(0x0a00_0000 | n);
        ip4()
            .ether(OUTER, FRONT)
            .src(src)
            .tos(dscp << 2 | 1)
            .udp(1, 2)
            .bytes()
    };
    bench.push(
        "in",
        &(0..50)
            .map(|n| of(if n % 2 == 0 { 46 } else { 34 }, n))
            .collect::<Vec<_>>(),
    );
    assert_eq!(backends(&mut bench), [2; 50]);
    bench.push("in", &(0..50).map(|n| of(10, n)).collect::<Vec<_>>());
    let mut some: HashMap<u8, usize> = HashMap::new();
    backends(&mut bench)
        .into_iter()
        .for_each(|of| *some.entry(of).or_default() += 1);
    assert!(some.len() == 2 && !some.contains_key(&2), "{some:?}");
}

#[test]
fn outside_frames_cannot_spoof_back_ends_or_the_balancer() {
    let mut bench = bench("KEY flow");
    for (count, src) in (1..).zip([
        "2:0:0:0:0:2",
        FRONT,
        "2:0:0:0:1:3",
        "1:0:5e:0:0:1",
        "0:0:0:0:0:0",
    ]) {
        bench.push("in", &[ip4().ether(src, FRONT).udp(1, 2).bytes()]);
        assert_eq!(bench.drops("in", "spoofed"), count, "{src}");
    }
    assert_eq!(bench.read("out.stations"), "");
}

#[test]
fn other_frames_are_dropped_by_name() {
    let mut bench = bench("KEY flow");
    bench.push(
        "in",
        &[
            ip4().ether(OUTER, "2:0:0:0:7:7").udp(1, 2).bytes(),
            arp_request(OUTER, "10.0.0.1", "10.0.0.2"),
            [&packet(1)[..30]].concat(),
            vec![0; 5],
        ],
    );
    assert_eq!(bench.drops("in", "other"), 1);
    assert_eq!(bench.take("rest").len(), 1);
    assert_eq!(bench.drops("in", "malformed"), 2);
    assert!(bench.take("back").is_empty());
}

#[test]
fn frames_of_a_vlan_priority_have_a_class() {
    let text = format!(
        "lb :: BalancePool(r1 2:0:0:0:0:1, r2 2:0:0:0:0:2, r3 2:0:0:0:0:3, SETTLE 0, CLASSES 46=r1 pcp5+pcp6=r2);
        in :: HostEtherFilter({FRONT}) -> p :: PCPSwitch(MAP 0 0 0 0 0 1 1 0, ANNO true)
            -> BalanceIn(lb, {FRONT}) -> back :: Collect;
        p[1] -> BalanceIn(lb, {FRONT}, CLASS 2) -> back"
    );
    let mut bench = Bench::new(crate::with_basics(), &text);
    bench.advance(Duration::from_millis(40));
    let of = |priority: u8, dscp: u8| {
        let tagged = ip4().ether(OUTER, FRONT).vlan(0);
        let mut frame = tagged.tos(dscp << 2).udp(1, 2).bytes();
        frame[14] = priority << 5;
        frame
    };
    // The priority takes precedence over the DSCP, and the tag is removed.
    bench.push("in", &[of(5, 0), of(6, 46), of(0, 46), of(7, 46)]);
    let left = bench.take("back");
    let mut backends: Vec<u8> = left.iter().map(|frame| frame[5]).collect();
    backends.sort_unstable();
    assert_eq!(backends, [1, 1, 2, 2]);
    assert!(left.iter().all(|frame| frame[12..14] == [8, 0]));
}

#[test]
fn several_back_ports_share_the_flows_and_keep_each_in_order() {
    let text = "lb :: BalancePool(r1 2:0:0:0:0:1, r2 2:0:0:0:0:2);
        in :: BalanceIn(lb) -> b0 :: Collect; in[1] -> b1 :: Collect; in[2] -> b2 :: Collect; in[3] -> Discard";
    let mut bench = Bench::new(crate::with_basics(), text);
    let packets: Vec<Vec<u8>> = (0..900).map(packet).collect();
    bench.push("in", &packets);
    let first = ["b0", "b1", "b2"].map(|port| bench.take(port));
    bench.push("in", &packets);
    let second = ["b0", "b1", "b2"].map(|port| bench.take(port));
    assert_eq!(first, second);
    assert!(first.iter().all(|port| port.len().abs_diff(300) < 60));
}

#[test]
fn mistakes_are_told() {
    let all = errors(
        crate::with_basics(),
        "in :: BalanceIn(nobody); in -> Discard",
    );
    assert!(all.contains("`nobody` is no BalancePool"), "{all}");
    let all = errors(crate::with_basics(), &text("KEY flow", ", FRONT 99"));
    assert!(all.contains("FRONT"), "{all}");
    let all = errors(
        crate::with_basics(),
        &text("CLASSES 46=r1 pcp5=r2", ", CLASS 3"),
    );
    assert!(all.contains("there is no CLASS 3"), "{all}");
    assert!(all.contains("has classes 1 to 2"), "{all}");
    let all = errors(crate::with_basics(), &text("KEY flow", ", CLASS 1"));
    assert!(all.contains("give the BalancePool CLASSES"), "{all}");
    let all = errors(
        crate::with_basics(),
        "out :: BalanceOut(FRONT x); out -> Discard",
    );
    assert!(all.contains("FRONT"), "{all}");
}
