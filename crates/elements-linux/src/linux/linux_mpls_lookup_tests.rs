use forwarding::{EXCEPTION, Kernel, LOCAL, LabelHop};
use std::net::IpAddr;
use std::sync::Arc;
use testkit::{Bench, ip4, ip6, mpls_below};
use wire::mpls::Labels;

const TEXT: &str = "m :: LinuxMPLSLookup(eth0, eth1);
    m[0] -> four :: Collect; m[1] -> six :: Collect; m[2] -> kernel :: Collect;
    m[3] -> eth0 :: Collect; m[4] -> eth1 :: Collect";

fn bench() -> (Bench, Arc<Kernel>) {
    let mut bench = Bench::new(crate::with_basics(), TEXT);
    let kernel = bench.router_wide::<Kernel>();
    (bench, kernel)
}

fn hop(labels: &[u32], gateway: Option<&str>, port: u16) -> LabelHop {
    LabelHop {
        labels: Labels::new(labels.iter().copied()).expect("room"),
        gateway: gateway.map(|text| text.parse().expect("an address")),
        port,
        weight: 1,
    }
}

/// Gives labels 100 to 105 a route each.
fn route(kernel: &Kernel) {
    let number = |name| kernel.interface(name).expect("room").number();
    let (eth0, eth1) = (number("eth0"), number("eth1"));
    let labels = kernel.labels().expect("an element uses them");
    let all = [
        (100, hop(&[200], Some("10.0.1.2"), eth1)),
        (101, hop(&[300, 200], Some("fe80::9"), eth0)),
        (102, hop(&[], Some("10.0.1.2"), eth1)),
        (103, hop(&[], None, LOCAL)),
        (104, hop(&[7], Some("10.0.9.9"), number("tunnel"))),
        (105, hop(&[], None, EXCEPTION)),
    ];
    for (label, hop) in all {
        labels.set(label, Some(vec![hop]));
    }
}

#[test]
fn packets_are_switched_as_the_kernels_routes_say() {
    let (mut bench, kernel) = bench();
    route(&kernel);
    let (four, six) = (ip4().ttl(50).bytes(), ip6().ttl(50).bytes());
    let of = |label: u32| mpls_below(&[label], 9, &four);
    let unknown = of(77);
    let [tunnel, odd] = [104, 105].map(of);
    bench.push(
        "m",
        &[
            of(100),
            of(101),
            of(102),
            of(103),
            mpls_below(&[103], 9, &six),
            of(0),
            mpls_below(&[103, 100], 9, &four),
            tunnel.clone(),
            odd.clone(),
            unknown.clone(),
        ],
    );
    let of_eth1 = bench.take_packets("eth1");
    let lower = |packet: &[u8], ttl: u8| {
        let mut packet = packet.to_vec();
        let mut ip = wire::Ipv4::new_unchecked(&mut packet[..]);
        ip.patch_ttl(ttl);
        packet
    };
    let bytes: Vec<_> = of_eth1.iter().map(|p| p.bytes.clone()).collect();
    assert_eq!(
        bytes,
        [
            mpls_below(&[200], 8, &four),
            lower(&four, 8),
            mpls_below(&[200], 8, &four)
        ]
    );
    assert!(of_eth1.iter().all(|p| p.anno.dst4() == [10, 0, 1, 2]));
    let of_eth0 = bench.take_packets("eth0");
    assert_eq!(of_eth0[0].bytes, mpls_below(&[300, 200], 8, &four));
    let gateway: IpAddr = "fe80::9".parse().expect("an address");
    let via = of_eth0[0].anno.via6().expect("a gateway").to_be_bytes();
    assert_eq!(IpAddr::from(via), gateway);
    assert_eq!(bench.take("four"), [lower(&four, 9), lower(&four, 9)]);
    assert_eq!(bench.take("six").len(), 1);
    // The kernel gets them unchanged.
    assert_eq!(bench.take("kernel"), [tunnel, odd, unknown]);
}

#[test]
fn unswitchable_packets_are_dropped_by_name() {
    let (mut bench, kernel) = bench();
    route(&kernel);
    let packet = ip4().bytes();
    let mut endless = mpls_below(&[100], 9, &packet);
    endless[2] &= !1;
    endless.truncate(4);
    bench.push("m", &[mpls_below(&[100], 1, &packet), endless]);
    assert_eq!(bench.drops("m", "expired"), 1);
    assert_eq!(bench.drops("m", "bad_stack"), 1);
}

#[test]
fn handlers_name_interfaces() {
    let (mut bench, kernel) = bench();
    route(&kernel);
    let table = bench.read("m.table");
    let expected = "0 pop - local\n2 pop - local\n100 swap 200 10.0.1.2 eth1\n\
                    101 swap 300/200 fe80::9 eth0\n102 pop 10.0.1.2 eth1\n103 pop - local\n\
                    104 swap 7 10.0.9.9 tunnel\n105 pop - kernel\n";
    assert_eq!(table, expected);
    assert_eq!(bench.read("m.length"), "8");
    let lookup = |bench: &mut Bench, label| bench.try_read("m.lookup", label);
    assert_eq!(
        lookup(&mut bench, "102"),
        Ok("pop 10.0.1.2 eth1".to_owned())
    );
    assert_eq!(lookup(&mut bench, "999"), Ok("-1".to_owned()));
    kernel.labels().expect("used").set(102, None);
    assert_eq!(lookup(&mut bench, "102"), Ok("-1".to_owned()));
}

#[test]
fn frames_tell_what_follows_and_fit() {
    let text = "m :: LinuxMPLSLookup(eth1); m[0], m[1], m[2] -> Discard;
        m[3] -> e :: LinuxMPLSEtherEncap(eth1) -> out :: Collect; e[1] -> lost :: Collect";
    let mut bench = Bench::new(crate::with_basics(), text);
    let kernel = bench.router_wide::<Kernel>();
    route(&kernel);
    let eth1 = kernel.interface("eth1").expect("room");
    let packet = |len: usize| ip4().udp(1, 2).payload_len(len - 28).bytes();
    let swapped = mpls_below(&[100], 9, &packet(1496));
    bench.push("m", std::slice::from_ref(&swapped));
    assert_eq!(bench.drops("e", "down"), 1);
    eth1.set_state(true, [2, 0, 0, 0, 0, 1], 1500);
    let mac = [2, 0, 0, 0, 0, 2];
    eth1.set_neighbour(
        IpAddr::from([10, 0, 1, 2]),
        forwarding::Neighbour::Permanent(mac),
    );
    let all = [
        swapped,
        mpls_below(&[100], 9, &packet(1497)),
        mpls_below(&[102], 9, &packet(1500)),
        mpls_below(&[102], 9, &ip6().bytes()),
        mpls_below(&[102], 9, b"\x15no IP"),
    ];
    bench.push("m", &all);
    let out = bench.take("out");
    let types: Vec<[u8; 2]> = out.iter().map(|f| [f[12], f[13]]).collect();
    assert_eq!(types, [[0x88, 0x47], [0x08, 0x00], [0x86, 0xdd]]);
    assert!(out.iter().all(|frame| frame[..6] == mac));
    assert_eq!(bench.drops("e", "too_long"), 1);
    assert_eq!(bench.drops("e", "not_ip"), 1);
}

#[test]
fn a_packet_of_this_router_has_its_frame_back_without_labels() {
    let text =
        "s :: MarkMACHeader -> Strip(14) -> m :: LinuxMPLSLookup(eth0); m[0], m[1] -> Unstrip(14) -> out :: Collect;
        m[2] -> Unstrip(14) -> kernel :: Collect; m[3] -> Discard";
    let mut bench = Bench::new(crate::with_basics(), text);
    let kernel = bench.router_wide::<Kernel>();
    route(&kernel);
    let (from, to) = ("02:00:00:00:00:09", "02:00:00:00:00:01");
    let plain = [
        ip4().ttl(9).ether(from, to).bytes(),
        ip6().ttl(9).ether(from, to).bytes(),
    ];
    let labelled = |labels: &[u32], frame: &[u8]| {
        let (head, packet) = frame.split_at(14);
        let mut head = head.to_vec();
        head[12..].copy_from_slice(&[0x88, 0x47]);
        [head, mpls_below(labels, 9, packet)].concat()
    };
    let [four, six] = &plain;
    bench.push("s", &[labelled(&[103], four), labelled(&[103, 2], six)]);
    let mut out = bench.take("out");
    out.sort_by_key(|frame| frame[12..14].to_vec());
    assert_eq!(out, plain);
    // The kernel gets its own unchanged.
    let odd = labelled(&[105], four);
    bench.push("s", std::slice::from_ref(&odd));
    assert_eq!(bench.take("kernel"), [odd]);
}
