use crate::ip4::tests::{Random, edited, ip, make, with_options};
use engine::packet::Packet;
use testkit::Bench;
use wire::ipv4::{DF, MF};
use wire::ipv4_options::{LSRR, NOP, RR};
use wire::{Ipv4, ipv4_options};

fn bench(mtu: usize, more: &str) -> Bench {
    let text = format!(
        "c :: CheckIPHeader -> f :: IPFragmenter({mtu}{more}) -> out :: Collect;
         f[1] -> df :: Collect"
    );
    Bench::new(crate::CLASSES, &text)
}

fn cut(mtu: usize, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut bench = bench(mtu, "");
    bench.push("c", &[packet]);
    assert_eq!(bench.all_drops(), []);
    bench.take("out")
}

/// The joined payload of fragments, each of which is checked.
fn join(fragments: &[Vec<u8>], mtu: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    for (i, fragment) in fragments.iter().enumerate() {
        let ip = Ipv4::new_checked(fragment).unwrap();
        assert!(ip.verify_checksum());
        assert!(fragment.len() <= mtu && ip.total_len() == fragment.len());
        assert_eq!(ip.fragment_offset(), payload.len());
        assert_eq!(ip.more_fragments(), i + 1 < fragments.len());
        payload.extend(ip.payload());
    }
    payload
}

#[test]
fn fragments_obey_the_mtu_and_carry_the_whole_payload_at_every_length() {
    let mut random = Random(1);
    for _ in 0..400 {
        let len = random.below(1900);
        let mtu = 68 + random.below(600);
        let payload = random.bytes(len);
        let packet = ip([1, 1, 1, 1], [2, 2, 2, 2], &payload);
        let out = cut(mtu, &packet);
        if packet.len() <= mtu {
            assert_eq!(out, [packet]);
        } else {
            assert!(out.len() > 1);
            assert_eq!(join(&out, mtu), payload);
            let full = (mtu - 20) & !7;
            assert_eq!(out.len(), len.div_ceil(full), "no more than needed");
        }
    }
}

#[test]
fn long_packets_without_their_header_are_dropped_by_name() {
    let mut bench = Bench::new(crate::CLASSES, "f :: IPFragmenter(100) -> out :: Collect");
    let behind_its_end = |len: usize| {
        let mut packet = Packet::from_bytes(&vec![0x45; len]).unwrap();
        packet.set_network_offset(len + 1);
        packet
    };
    let batch = [99, 100, 101, 200].map(behind_its_end).into_iter();
    bench.push_packets("f", 0, batch.collect());
    assert_eq!(bench.take("out"), [vec![0x45; 99], vec![0x45; 100]]);
    assert_eq!(bench.drops("f", "no_header"), 2);
}

#[test]
fn fragments_have_the_headroom_that_was_asked_for() {
    let mut roomy = bench(100, ", HEADROOM 60");
    roomy.push("c", &[ip([1, 1, 1, 1], [2, 2, 2, 2], &[7; 200])]);
    let out = roomy.take_packets("out");
    assert_eq!(out.len(), 3);
    assert!(out.iter().all(|p| p.headroom == 60));
    let mut full = bench(100, ", HEADROOM 60000");
    full.push("c", &[ip([1, 1, 1, 1], [2, 2, 2, 2], &[7; 200])]);
    assert_eq!(full.drops("f", "no_buffer"), 1);
    assert!(full.take("out").is_empty());
}

#[test]
fn only_copied_options_are_on_every_fragment() {
    let options = [RR, 7, 4, 0, 0, 0, 0, NOP, LSRR, 7, 8, 9, 9, 9, 9];
    let payload = vec![7; 200];
    let out = cut(100, &with_options(&options, &payload));
    assert_eq!(join(&out, 100), payload);
    assert_eq!(out[0][20..35], options);
    for fragment in &out[1..] {
        let ip = Ipv4::new_checked(fragment).unwrap();
        let kinds: Vec<u8> = ip.options().map(|o| o.unwrap().bytes[0]).collect();
        assert_eq!(kinds, [LSRR]);
        assert_eq!(ip.header_len(), 28);
        assert!(ipv4_options::is_copied(LSRR));
    }
}

#[test]
fn fragments_are_cut_again_with_the_right_offsets() {
    let payload: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    let packet = ip([1, 1, 1, 1], [2, 2, 2, 2], &payload);
    let again: Vec<_> = cut(600, &packet).iter().flat_map(|f| cut(100, f)).collect();
    assert_eq!(join(&again, 100), payload);
}

#[test]
fn a_packet_that_must_not_be_cut_leaves_by_output_1_as_it_is() {
    let packet = edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &[0; 200]), |ip| {
        ip.set_fragment_word(DF);
    });
    let mut stubborn = bench(100, "");
    stubborn.push("c", &[&packet]);
    assert_eq!(stubborn.take("df"), std::slice::from_ref(&packet));
    let mut relaxed = bench(100, ", HONOR_DF false");
    relaxed.push("c", &[&packet]);
    let out = relaxed.take("out");
    assert_eq!(out.len(), 3);
    let ident = Ipv4::new_checked(&out[0]).unwrap().ident();
    for fragment in &out {
        let ip = Ipv4::new_checked(fragment).unwrap();
        assert!(!ip.dont_fragment() && ip.ident() == ident && ip.verify_checksum());
    }
}

#[test]
fn order_and_annotations_are_kept() {
    let mut bench = Bench::new(
        crate::CLASSES,
        "p :: Paint(3) -> c :: CheckIPHeader(4) -> f :: IPFragmenter(68) -> out :: Collect",
    );
    let small = |n| [b"MAC!", &ip([1, 1, 1, 1], [n, 2, 2, 2], b"")[..]].concat();
    let long = [b"MAC!", &ip([1, 1, 1, 1], [2, 2, 2, 2], &[9; 90])[..]].concat();
    bench.push("p", &[small(1), long, small(3)]);
    let out = bench.take_packets("out");
    assert_eq!(out.len(), 4);
    assert_eq!((&out[0].bytes, &out[3].bytes), (&small(1), &small(3)));
    for packet in &out[1..3] {
        assert_eq!(packet.anno.paint, 3);
        assert_eq!(packet.anno.dst4(), [2, 2, 2, 2]);
        assert_eq!(
            (packet.network_offset, &packet.bytes[..4]),
            (4, &b"MAC!"[..])
        );
    }
    assert_eq!(
        (bench.read("f.fragments"), bench.read("f.made")),
        ("2".into(), "1".into())
    );
}

#[test]
fn every_header_length_leaves_room_for_data_at_the_least_mtu() {
    for words in 0..=10 {
        let options = vec![NOP; words * 4];
        let payload = vec![5; 300];
        let packet = make([1, 1, 1, 1], [2, 2, 2, 2], &options, &payload);
        assert_eq!(join(&cut(68, &packet), 68), payload);
    }
}

#[test]
fn the_last_piece_of_a_middle_fragment_says_that_more_follow() {
    let middle = edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &[1; 160]), |ip| {
        ip.set_fragment_word(MF | 100);
    });
    let out = cut(100, &middle);
    let words: Vec<u16> = out
        .iter()
        .map(|f| Ipv4::new_checked(f).unwrap().fragment_word())
        .collect();
    assert_eq!(words, [MF | 100, MF | 110]);
}

#[test]
fn an_mtu_that_no_header_fits_is_refused_and_one_that_this_header_does_not_fit_drops_it() {
    let long = crate::ip4::tests::with_options(&[1; 20], &[7; 40]);
    let text = "c :: CheckIPHeader -> f :: IPFragmenter(47) -> Discard";
    let mut bench = Bench::new(crate::CLASSES, text);
    bench.push("c", &[long]);
    assert_eq!(bench.drops("f", "mtu"), 1);
    let errors = testkit::errors(crate::CLASSES, "Idle -> IPFragmenter(27) -> Discard");
    assert!(errors.contains("MTU must lie between 28"), "{errors}");
}

#[test]
fn the_mtu_can_be_an_interfaces() {
    let text = "c :: CheckIPHeader -> f :: IPFragmenter(INTERFACE eth0) -> out :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    let kernel = bench.router_wide::<forwarding::Kernel>();
    let eth0 = kernel.interface("eth0").expect("room");
    for (mtu, pieces) in [(1500, 1), (600, 2), (1500, 1)] {
        eth0.set_state(true, [2, 0, 0, 0, 0, 1], mtu);
        bench.push("c", &[ip([10, 0, 0, 9], [10, 0, 1, 9], &[7; 1000])]);
        assert_eq!(join(&bench.take("out"), mtu), [7; 1000]);
        assert_eq!(bench.read("f.mtu"), mtu.to_string());
        let made = bench
            .read("f.fragments")
            .parse::<usize>()
            .expect("a number");
        assert_eq!(made, if pieces == 1 && mtu == 1500 { made } else { 2 });
    }
}
