//! DPDK ports. EAL starts only once per process, so this file is a separate program with one test.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use engine::packet::pool;
use engine::packet::{Batch, Packet};
use engine::port::{Directed, Match, Port, PortDirectory, PortRequest};
use ports::{Directory, DpdkSizes};
use std::time::{Duration, Instant};
use wire::flow::Flow;
use wire::{FlowKey, proto};

fn request(queues: usize) -> PortRequest {
    PortRequest {
        rx_queues: queues,
        tx_queues: queues,
        descriptors: 256,
        promiscuous: true,
    }
}

#[test]
fn dpdk_ports_work_and_every_buffer_comes_home() {
    let sizes = DpdkSizes {
        buffers: 8191,
        megabytes_without_hugepages: 128,
    };
    let directory = Directory::with_dpdk_sizes(sizes);
    null_forwards(&directory);
    null_takes_key_and_table(&directory);
    rules_reach_a_driver_that_takes_them(&directory);
    drivers_that_refuse_rules_say_why(&directory);
    ring_keeps_bytes_and_order(&directory);
    capture_file_crosses(&directory);
    wrong_names_are_refused(&directory);
    assert_eq!(
        pool::heap_buffers(),
        0,
        "buffers in use after all ports are closed"
    );
}

fn null_forwards(directory: &Directory) {
    let (a, b) = ("net_null0,size=64", "net_null1,copy=1");
    let info = directory.probe(a).unwrap();
    assert_eq!(info.driver, "dpdk net_null");
    assert!(info.max_rx_queues >= 2);
    let (from, to) = (
        directory.open(a, &request(2)).unwrap(),
        directory.open(b, &request(2)).unwrap(),
    );
    assert!(from.port.link_up());
    let workers = (0..2).map(|queue| {
        let (rx, tx) = (from.rx[queue].clone(), to.tx[queue].clone());
        std::thread::spawn(move || {
            let (mut rx, mut tx) = (rx.take().unwrap(), tx.take().unwrap());
            let mut batch = Batch::with_capacity(32);
            for _ in 0..1000 {
                assert_eq!(rx.receive(&mut batch, 32), 32);
                assert!(batch.iter().all(|packet| packet.len() == 64));
                assert_eq!(tx.transmit(&mut batch, &mut Batch::new()), 32);
            }
            // Copies and new packets come from the same pool.
            assert_eq!(rx.receive(&mut batch, 3), 3);
            let copy = batch.iter().next().unwrap().copy().unwrap();
            assert_eq!(copy.len(), 64);
            drop(Packet::from_bytes(b"new").unwrap());
            // Reassembled datagrams have a pool of large buffers.
            let mut long = copy.copy_with_room(65_535).unwrap();
            assert_eq!(long.put(65_000).map(|rest| rest.len()), Some(65_000));
        })
    });
    workers
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    drop((from, to));
    directory.close(a);
    directory.close(b);
    assert_eq!(directory.names(), Vec::<String>::new());
}

/// net_null has an indirection table, which it does not use; this test does not show that a card follows it.
fn null_takes_key_and_table(directory: &Directory) {
    let name = "net_null2";
    let port = directory.open(name, &request(2)).unwrap().port;
    assert_eq!(port.hash_key(), None);
    let queues: Vec<u16> = (0..256).map(|bucket| u16::from(bucket % 5 == 0)).collect();
    port.set_rss(&[7; 40], &queues).unwrap();
    assert_eq!(port.hash_key(), Some([7; 40]));
    let table = port.redirection_table();
    assert!(table.len() >= 64, "{} entries", table.len());
    assert!(table.iter().zip(&queues).all(|(a, b)| a == b));
    // Another table with the same key, as when buckets have moved.
    port.set_rss(&[7; 40], &[1]).unwrap();
    assert!(port.redirection_table().iter().all(|queue| *queue == 1));
    assert_eq!(port.hash_key(), Some([7; 40]));
    drop(port);
    directory.close(name);
    let name = "net_ring1";
    let port = directory.open(name, &request(1)).unwrap().port;
    assert!(
        port.set_rss(&[7; 40], &[0])
            .is_err_and(|e| e.contains("does not hash"))
    );
    assert_eq!((port.hash_key(), port.redirection_table()), (None, vec![]));
    drop(port);
    directory.close(name);
}

/// Rules of every kind.
fn rules(queue: u16) -> Vec<(Match, Option<u16>)> {
    macro_rules! flow {
        ($kind:ident $src:expr, $dst:expr, $protocol:expr) => {
            Match::Flow(FlowKey::$kind(Flow {
                src: $src.parse().unwrap(),
                dst: $dst.parse().unwrap(),
                src_port: 1000,
                dst_port: 53,
                protocol: $protocol,
            }))
        };
    }
    let station = |address, vlan| Match::Station { address, vlan };
    let prefix = |text: &str, len| Match::Prefix {
        address: text.parse().unwrap(),
        len,
        is_source: false,
    };
    let all = [
        flow!(V4 "10.0.0.1", "10.0.0.2", proto::UDP),
        flow!(V6 "2001:db8::1", "2001:db8::2", proto::TCP),
        station(Some([2, 0, 0, 0, 0, 1]), None),
        station(Some([2, 0, 0, 0, 0, 1]), Some(7)),
        station(None, Some(9)),
        prefix("10.0.0.0", 8),
        prefix("2001:db8::", 32),
    ];
    all.into_iter().map(|rule| (rule, Some(queue))).collect()
}

fn settled(port: &dyn Port) -> Directed {
    let begun = Instant::now();
    loop {
        let now = port.directed().unwrap();
        if now.waiting == 0 {
            return now;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{now:?}");
        std::thread::yield_now();
    }
}

/// net_failsafe stores rules for the devices behind it, and has none yet: it accepts all rules, and receives no
/// packet. A card's handling of rules is not tested here.
fn rules_reach_a_driver_that_takes_them(directory: &Directory) {
    let name = "net_failsafe0,mac=02:00:00:00:00:01,exec(true)";
    let port = directory.open(name, &request(2)).unwrap().port;
    port.direct(&rules(1), true);
    let all = settled(&*port);
    assert_eq!((all.held, all.refused, all.why), (7, 0, None));
    port.direct(&rules(0), true);
    assert_eq!(settled(&*port).held, 7);
    let one = rules(0)[0].0;
    port.direct(&[(one, None)], false);
    assert_eq!(settled(&*port).held, 6);
    // Adds and removes as many rules as Flow Director has, repeatedly.
    let flow = |n: u32, port| {
        let flow = Flow {
            src: (0x0a00_0000 + n).into(),
            dst: [10, 0, 0, 2].into(),
            src_port: port,
            dst_port: 80,
            protocol: proto::TCP,
        };
        Match::Flow(FlowKey::V4(flow))
    };
    let begun = Instant::now();
    for turn in 1..=3 {
        let all: Vec<_> = (0..8192).map(|n| (flow(n, turn), Some(1))).collect();
        port.direct(&all, true);
        let now = settled(&*port);
        assert_eq!((now.held, now.refused), (8192, 0), "{now:?}");
    }
    println!("8192 rules three times: {:?}", begun.elapsed());
    port.direct(&[], true);
    assert_eq!(settled(&*port), Directed::default());
    drop(port);
    directory.close(name);
}

/// net_null has no rules. net_tap passes the rules that it understands to the kernel, whose answer is not
/// predictable.
fn drivers_that_refuse_rules_say_why(directory: &Directory) {
    let name = "net_null3";
    let port = directory.open(name, &request(2)).unwrap().port;
    assert_eq!(port.directed(), None);
    drop(port);
    directory.close(name);
    let name = format!("net_tap0,iface=rules{}", std::process::id() % 1_000_000);
    let Ok(port) = directory.open(&name, &request(2)) else {
        eprintln!("skipped: there are no TAP interfaces for DPDK here");
        return;
    };
    let port = port.port;
    port.direct(&rules(1), true);
    let now = settled(&*port);
    println!("net_tap: {now:?}");
    assert_eq!(now.held + now.refused, 7, "{now:?}");
    assert_eq!(now.why.is_some(), now.refused > 0, "{now:?}");
    drop(port);
    directory.close(&name);
}

fn ring_keeps_bytes_and_order(directory: &Directory) {
    let name = "net_ring0";
    let port = directory.open(name, &request(1)).unwrap();
    let (mut rx, mut tx) = (port.rx[0].take().unwrap(), port.tx[0].take().unwrap());
    let mut batch: Batch = (0..100u8)
        .map(|i| Packet::from_bytes(&[i; 60]).unwrap())
        .collect();
    batch.iter_mut().for_each(|packet| {
        packet.anno_mut().paint = 7;
        packet.set_hash(9);
        packet.set_vlan_tci(5);
    });
    assert_eq!(tx.transmit(&mut batch, &mut Batch::new()), 100);
    assert!(batch.is_empty());
    assert_eq!(pool::heap_buffers(), 100);
    assert_eq!(rx.receive(&mut batch, 64), 64);
    assert_eq!(rx.receive(&mut batch, 64), 36);
    for (i, packet) in batch.iter().enumerate() {
        assert_eq!(packet.data(), [i as u8; 60]);
        assert_eq!(
            (packet.anno().paint, packet.hash(), packet.vlan_tci()),
            (0, 0, 0),
            "annotations of another life"
        );
        assert!(packet.mac().is_some());
    }
    batch.clear();
    drop((rx, tx, port));
    directory.close(name);
}

/// Also tests frames that are longer than a buffer: net_pcap delivers them in several segments.
fn capture_file_crosses(directory: &Directory) {
    let path = std::env::temp_dir().join(format!("ashlar-eal-{}.pcap", std::process::id()));
    let mut file = Vec::new();
    let mut writer = ports::pcap::format::Writer::new(&mut file).unwrap();
    for len in [60, 5000, 1514] {
        writer.write(1, &vec![len as u8; len]).unwrap();
    }
    std::fs::write(&path, file).unwrap();
    let name = format!("net_pcap0,rx_pcap={}", path.display());
    let port = directory.open(&name, &request(1)).unwrap();
    let mut rx = port.rx[0].take().unwrap();
    let mut batch = Batch::new();
    assert_eq!(rx.receive(&mut batch, 32), 2);
    let lengths: Vec<usize> = batch.iter().map(Packet::len).collect();
    assert_eq!(lengths, [60, 1514]);
    let counters = port.port.counters();
    assert!(counters.contains(&("too_long", None, 1)));
    // A counter of the driver, of any value.
    let own = counters
        .iter()
        .filter(|(name, ..)| *name == "rx_q0_packets");
    assert_eq!(own.count(), 1, "{counters:?}");
    batch.clear();
    drop((rx, port));
    directory.close(&name);
    std::fs::remove_file(path).unwrap();
}

fn wrong_names_are_refused(directory: &Directory) {
    let error = directory.probe("net_nonsense0").unwrap_err();
    assert!(error.contains("DPDK cannot take net_nonsense0"), "{error}");
    assert!(directory.probe("0000:ff:1f.7").is_err());
}
