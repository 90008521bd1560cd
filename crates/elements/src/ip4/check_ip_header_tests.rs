use crate::ip4::tests::{ip, sum};
use testkit::Bench;

const ALONE: &str = "c :: CheckIPHeader -> out :: Collect";
const ROUTER: &str = "c :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24) -> out :: Collect";

#[test]
fn a_good_packet_is_marked_and_loses_its_padding() {
    let mut bench = Bench::new(crate::CLASSES, "c :: CheckIPHeader(2) -> out :: Collect");
    let packet = ip([10, 0, 0, 9], [10, 0, 1, 9], b"data");
    let framed = [b"LL", &packet[..], b"padding"].concat();
    bench.push("c", &[framed]);
    let out = &bench.take_packets("out")[0];
    assert_eq!(out.bytes, [b"LL", &packet[..]].concat());
    assert_eq!(out.network_offset, 2);
    assert_eq!(out.anno.dst4(), [10, 0, 1, 9]);
}

#[test]
fn each_fault_is_dropped_under_its_name() {
    let fault = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = ip([10, 0, 0, 9], [10, 0, 1, 9], b"data");
        edit(&mut packet);
        let mut bench = Bench::new(crate::CLASSES, ALONE);
        bench.push("c", &[packet]);
        assert!(bench.take("out").is_empty());
        assert_eq!(bench.read("c.drops"), "1");
        bench.all_drops().remove(0).1
    };
    assert_eq!(fault(&|p| p.truncate(19)), "too_short");
    assert_eq!(fault(&|p| p[0] = 0x65), "bad_version");
    assert_eq!(fault(&|p| p[0] = 0x44), "bad_header_length");
    assert_eq!(fault(&|p| p[10] ^= 1), "bad_checksum");
    assert_eq!(
        fault(&|p| {
            p[3] = 19;
            sum(p);
        }),
        "bad_length"
    );
    assert_eq!(fault(&|p| p.truncate(23)), "truncated");
}

#[test]
fn checksums_are_believed_when_told_so() {
    let mut packet = ip([10, 0, 0, 9], [10, 0, 1, 9], b"data");
    packet[10] ^= 1;
    let text = "c :: CheckIPHeader(CHECKSUM false) -> out :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    bench.push("c", &[packet]);
    assert_eq!(bench.take("out").len(), 1);
}

#[test]
fn bad_packets_leave_by_output_1_and_short_ones_by_output_2() {
    let text = "c :: CheckIPHeader -> out :: Collect;
        c[1] -> bad :: Collect; c[2] -> short :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    let packet = ip([10, 0, 0, 9], [10, 0, 1, 9], b"data");
    bench.push("c", &[&packet[..23], &packet[..19]]);
    assert_eq!(bench.take("bad"), [&packet[..19]]);
    let short = &bench.take_packets("short")[0];
    assert_eq!(short.bytes, &packet[..23]);
    assert_eq!(short.anno.dst4(), [10, 0, 1, 9]);
}

#[test]
fn martians_are_dropped_where_interfaces_are_given() {
    let drop = |src, dst| {
        let mut bench = Bench::new(crate::CLASSES, ROUTER);
        bench.push("c", &[ip(src, dst, b"")]);
        bench.all_drops().pop().map(|d| d.1)
    };
    let host = [192, 0, 2, 1];
    assert_eq!(drop(host, [10, 0, 1, 9]), None);
    for source in [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
        [10, 0, 0, 255],
        [10, 0, 1, 255],
        [10, 0, 1, 0],
    ] {
        assert_eq!(drop(source, host).as_deref(), Some("bad_source"));
    }
    for destination in [[0, 0, 0, 0], [127, 0, 0, 1], [240, 0, 0, 1]] {
        assert_eq!(drop(host, destination).as_deref(), Some("bad_destination"));
    }
    for fine in [[255, 255, 255, 255], [224, 0, 0, 5], [10, 0, 0, 255]] {
        assert_eq!(drop(host, fine), None);
    }
    // To the router itself: a host without an address may request one.
    assert_eq!(drop([0, 0, 0, 0], [10, 0, 0, 1]), None);
    assert_eq!(
        drop([127, 0, 0, 1], [10, 0, 0, 1]).as_deref(),
        Some("bad_source")
    );
}

#[test]
fn clicks_driver_looks_at_the_list_alone() {
    let mut bench = Bench::click(crate::CLASSES, ROUTER);
    bench.push("c", &[ip([127, 0, 0, 1], [0, 0, 0, 0], b"")]);
    assert_eq!(bench.take("out").len(), 1);
    bench.push("c", &[ip([10, 0, 0, 255], [192, 0, 2, 1], b"")]);
    bench.push("c", &[ip([10, 0, 0, 255], [10, 0, 1, 1], b"")]);
    assert_eq!(
        (bench.take("out").len(), bench.drops("c", "bad_source")),
        (1, 1)
    );
    assert_eq!(
        bench.read("c.drop_details"),
        "0\ttiny packet\n0\tbad IP version\n0\tbad IP header length\n0\tbad IP length\n\
         0\tbad IP checksum\n1\tbad source address\n"
    );
}

#[test]
fn addresses_are_not_looked_at_unless_asked_for() {
    let mut bench = Bench::new(crate::CLASSES, ALONE);
    bench.push("c", &[ip([224, 0, 0, 1], [127, 0, 0, 1], b"")]);
    assert_eq!(bench.take("out").len(), 1);
}

#[test]
fn a_wrong_interface_is_an_error_in_words() {
    let errors = testkit::errors(
        crate::CLASSES,
        "Idle -> CheckIPHeader(INTERFACES 10.0.0.1/24 eth0) -> Discard",
    );
    assert!(
        errors.contains("INTERFACES must be addresses of interfaces")
            && errors.contains("not `eth0`"),
        "{errors}"
    );
}

#[test]
fn a_list_holds_exactly_the_added_addresses() {
    let address = |n: u32| std::net::Ipv4Addr::from_bits(n.wrapping_mul(0x0101_4321));
    let mut listed = super::Listed::default();
    assert!(!listed.contains(address(0)));
    listed.extend((0..20).map(address));
    for n in 0..2000 {
        assert_eq!(listed.contains(address(n)), n < 20, "{n}");
    }
}
