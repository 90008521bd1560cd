use crate::Directory;
use engine::packet::{Batch, Packet};
use engine::port::{OpenPort, PortDirectory, PortRequest};
use std::time::Duration;

fn request(rx_queues: usize, tx_queues: usize) -> PortRequest {
    PortRequest {
        rx_queues,
        tx_queues,
        descriptors: 0,
        promiscuous: false,
    }
}

fn receive_all(port: &OpenPort) -> Vec<Vec<u8>> {
    let mut rx = port.rx[0].take().unwrap();
    let mut frames = Vec::new();
    let mut batch = Batch::new();
    while !rx.ended() {
        rx.receive(&mut batch, 7);
        assert!(batch.len() <= 7);
        frames.extend(batch.drain().map(|p| p.data().to_vec()));
    }
    port.rx[0].put_back(rx);
    frames
}

#[test]
fn a_memory_port_carries_frames_both_ways_by_queue() {
    let directory = Directory::new();
    let far = directory.memory("x");
    assert!(far.inject(1, b"before it was opened"));
    let port = directory.open("mem:x", &request(2, 2)).unwrap();
    let (mut waiter, _waker) = crate::waiter::Waiter::new().unwrap();
    let mut rx = port.rx[1].take().unwrap();
    waiter.add(rx.wait_fd().unwrap()).unwrap();
    assert_eq!(
        waiter.wait(Duration::from_secs(60)),
        crate::waiter::WakeReason::Ready
    );
    let mut batch = Batch::new();
    assert_eq!(rx.receive(&mut batch, 32), 1);
    assert_eq!(
        waiter.wait(Duration::ZERO),
        crate::waiter::WakeReason::Timeout
    );
    let mut tx = port.tx[1].take().unwrap();
    assert_eq!(tx.transmit(&mut batch, &mut Batch::new()), 1);
    let sent = far.collect();
    assert_eq!(
        (sent[0].queue, sent[0].frame.as_slice()),
        (1, &b"before it was opened"[..])
    );
    assert_eq!(rx.receive(&mut batch, 32), 0);
    assert!(!rx.ended());
    far.end();
    assert!(rx.ended());
}

#[test]
fn a_memory_port_is_bounded_and_its_link_can_fail() {
    let directory = Directory::new();
    let far = directory.memory("x");
    far.limit(2, 1);
    let port = directory.open("mem:x", &request(1, 1)).unwrap();
    assert_eq!(far.inject_all(0, [&b"1"[..], b"2", b"3"]), 2);
    let (mut rx, mut tx) = (port.rx[0].take().unwrap(), port.tx[0].take().unwrap());
    let mut batch = Batch::new();
    rx.receive(&mut batch, 32);
    assert_eq!(tx.transmit(&mut batch, &mut Batch::new()), 1);
    assert_eq!(
        (batch.len(), tx.transmit(&mut batch, &mut Batch::new())),
        (1, 0)
    );
    far.set_link(false);
    assert!(!port.port.link_up());
    let mut refused = Batch::new();
    assert_eq!(tx.transmit(&mut batch, &mut refused), 0);
    assert_eq!((batch.len(), refused.len()), (0, 1));
    assert!(!far.inject(0, b"lost"));
    assert!(port.port.counters().contains(&("link_down", None, 2)));
    assert!(port.port.counters().contains(&("rx_full", None, 1)));
}

#[test]
fn frames_written_to_a_capture_file_are_read_back_with_their_times() {
    let path = std::env::temp_dir().join(format!("ashlar-ports-{}.pcap", std::process::id()));
    let name = format!("pcap:{}", path.display());
    let directory = Directory::new();
    let port = directory.open(&name, &request(0, 1)).unwrap();
    let mut tx = port.tx[0].take().unwrap();
    let mut batch = Batch::new();
    for i in 0..100u8 {
        let mut packet = Packet::from_bytes(&[i; 60]).unwrap();
        packet.cold_mut().timestamp = 5_000_000_000 + u64::from(i);
        batch.push(packet);
    }
    assert_eq!(tx.transmit(&mut batch, &mut Batch::new()), 100);
    drop((tx, port));
    directory.close(&name);
    let port = directory.open(&name, &request(1, 0)).unwrap();
    let mut rx = port.rx[0].take().unwrap();
    assert_eq!(rx.receive(&mut batch, 1000), 100);
    assert_eq!(rx.receive(&mut batch, 1000), 0);
    assert!(rx.ended());
    for (i, packet) in batch.iter().enumerate() {
        assert_eq!(packet.data(), [i as u8; 60]);
        assert_eq!(packet.cold().timestamp, 5_000_000_000 + i as u64);
    }
    assert_eq!(directory.events(), Vec::<String>::new());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_damaged_capture_ends_with_a_sentence() {
    let path = std::env::temp_dir().join(format!("ashlar-bad-{}.pcap", std::process::id()));
    let mut writer = crate::pcap::format::Writer::new(Vec::new()).unwrap();
    writer.write(1, &[9; 60]).unwrap();
    let mut bytes = writer.into_inner();
    bytes.extend([0; 7]);
    std::fs::write(&path, bytes).unwrap();
    let directory = Directory::new();
    let port = directory
        .open(&format!("pcap:{}", path.display()), &request(1, 0))
        .unwrap();
    assert_eq!(receive_all(&port), [[9; 60]]);
    let events = directory.events();
    assert!(events[0].contains("middle of a record"), "{events:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_port_is_opened_once_and_never_with_more_queues_than_it_has() {
    let directory = Directory::new();
    let first = directory.open("null:64", &request(2, 1)).unwrap();
    let again = directory.open("null:64", &request(1, 1)).unwrap();
    let mut rx = first.rx[0].take().unwrap();
    assert!(again.rx[0].take().is_none());
    let mut batch = Batch::new();
    assert_eq!(rx.receive(&mut batch, 32), 32);
    assert_eq!(batch.bytes(), 64 * 32);
    let error = directory.open("null:64", &request(3, 1)).err().unwrap();
    assert!(error.contains("2 receive queues, 3 are asked"), "{error}");
    assert_eq!(directory.names(), ["null:64"]);
    directory.close("null:64");
    assert!(directory.get("null:64").is_none());
}

#[test]
fn wrong_names_are_refused_with_a_reason() {
    let directory = Directory::new();
    for (name, r, reason) in [
        ("null:7", request(1, 1), "frame length from 42"),
        ("pcap:", request(1, 0), "needs a file"),
        (
            "pcap:/nowhere/x.pcap",
            request(1, 0),
            "cannot read /nowhere/x.pcap",
        ),
        (
            "pcap:/nowhere/x.pcap",
            request(0, 1),
            "cannot write /nowhere/x.pcap",
        ),
        ("pcap:/tmp/x.pcap", request(1, 1), "pcap:IN,OUT"),
        (
            "pcap:/tmp/x.pcap",
            request(2, 0),
            "1 receive queues, 2 are asked",
        ),
        ("no-such-interface", request(1, 1), "there is no interface"),
    ] {
        let error = directory.open(name, &r).err().unwrap();
        assert!(error.contains(reason), "{name}: {error}");
    }
}

#[test]
fn fill_level_passes_through_port_wrappers() {
    let directory = Directory::new();
    let far = directory.memory("x");
    far.limit(4, 4);
    let port = directory.open("fault:seed=1/pace:1M/mem:x", &request(1, 1));
    let port = port.unwrap();
    assert_eq!(far.inject_all(0, [&b"1"[..], b"2", b"3"]), 3);
    let rx = port.rx[0].take().unwrap();
    assert_eq!(rx.fill(), Some(0.75));
    let ring = directory.open("ring:x", &request(1, 1)).unwrap();
    let (mut rx, mut tx) = (ring.rx[0].take().unwrap(), ring.tx[0].take().unwrap());
    let mut batch: Batch = (0..256)
        .map(|_| Packet::from_bytes(b"x").unwrap())
        .collect();
    assert_eq!(
        (tx.transmit(&mut batch, &mut Batch::new()), rx.fill()),
        (256, Some(0.25))
    );
    rx.receive(&mut batch, 256);
    assert_eq!(rx.fill(), Some(0.0));
}

#[test]
fn a_ring_port_carries_packets_between_workers_and_wakes_sleepers() {
    let directory = Directory::new();
    let port = directory.open("ring:x", &request(1, 1)).unwrap();
    let (rx, tx) = (port.rx[0].clone(), port.tx[0].clone());
    let sender = std::thread::spawn(move || {
        let mut tx = tx.take().unwrap();
        let mut batch = Batch::new();
        let mut next = 0u32;
        while next < 20_000 || !batch.is_empty() {
            while batch.len() < 32 && next < 20_000 {
                batch.push(Packet::from_bytes(&next.to_be_bytes()).unwrap());
                next += 1;
            }
            if tx.transmit(&mut batch, &mut Batch::new()) == 0 {
                std::thread::yield_now();
            }
        }
    });
    let mut rx = rx.take().unwrap();
    let (mut waiter, _waker) = crate::waiter::Waiter::new().unwrap();
    waiter.add(rx.wait_fd().unwrap()).unwrap();
    let (mut batch, mut expected) = (Batch::new(), 0u32);
    while expected < 20_000 {
        if rx.receive(&mut batch, 32) == 0 {
            let woken = waiter.wait(Duration::from_secs(30));
            assert_eq!(woken, crate::waiter::WakeReason::Ready, "after {expected}");
        }
        for packet in batch.drain() {
            assert_eq!(packet.data(), expected.to_be_bytes());
            expected += 1;
        }
    }
    sender.join().unwrap();
}

#[test]
fn faults_are_counted_and_the_same_for_the_same_seed() {
    let run = |seed: u32| {
        let directory = Directory::new();
        let name = format!("fault:loss=0.2,dup=0.1,corrupt=0.1,seed={seed}/mem:x");
        let far = directory.memory("x");
        let port = directory.open(&name, &request(1, 1)).unwrap();
        let frames: Vec<[u8; 60]> = (0..1000u32).map(|i| [i as u8; 60]).collect();
        far.inject_all(0, frames.iter().map(|f| &f[..]));
        let (mut rx, mut tx) = (port.rx[0].take().unwrap(), port.tx[0].take().unwrap());
        let mut batch = Batch::new();
        let mut received = 0;
        while far.waiting(0) > 0 {
            received += rx.receive(&mut batch, 32);
        }
        assert_eq!(received, batch.len());
        tx.transmit(&mut batch, &mut Batch::new());
        let sent: Vec<_> = far.collect().into_iter().map(|s| s.frame).collect();
        let count = |name| {
            port.port
                .counters()
                .iter()
                .find(|c| c.0 == name)
                .map(|c| c.2 as usize)
                .unwrap()
        };
        let (lost, doubled) = (count("fault_lost"), count("fault_doubled"));
        assert!(lost > 200 && doubled > 100 && count("fault_damaged") > 100);
        assert_eq!(sent.len(), 1000 + doubled - lost);
        sent
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_recording_holds_the_frames_that_crossed() {
    let file = std::env::temp_dir().join(format!("ashlar-record-{}.pcap", std::process::id()));
    let directory = Directory::new();
    let name = format!("record:{}/mem:x", file.display());
    let far = directory.memory("x");
    far.limit(10, 1);
    let port = directory.open(&name, &request(1, 1)).unwrap();
    far.inject_all(0, [&b"in 1"[..], b"in 2"]);
    let (mut rx, mut tx) = (port.rx[0].take().unwrap(), port.tx[0].take().unwrap());
    let mut batch = Batch::new();
    rx.receive(&mut batch, 32);
    // The far end has room for one frame: only that one crosses.
    assert_eq!(tx.transmit(&mut batch, &mut Batch::new()), 1);
    drop((rx, tx, port));
    directory.close(&name);
    let recorded = directory
        .open(&format!("pcap:{}", file.display()), &request(1, 0))
        .unwrap();
    assert_eq!(receive_all(&recorded), [b"in 1", b"in 2", b"in 1"]);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn wrong_wrappers_are_refused_with_a_reason() {
    let directory = Directory::new();
    for (name, reason) in [
        ("fault:loss=2/null:", "loss=2"),
        ("fault:loss=0.1", "names no port"),
        ("fault:speed=1/null:", "speed=1"),
        ("pace:fast/null:", "no rate"),
        ("record:/tmp/x/null:", "names no port"),
        (
            "record:/nowhere/x.pcap/null:",
            "cannot write /nowhere/x.pcap",
        ),
        ("pace:1k/null:7", "frame length"),
    ] {
        let error = directory.open(name, &request(1, 1)).err().unwrap();
        assert!(error.contains(reason), "{name}: {error}");
    }
    let error = directory.open("ring:x", &request(2, 1)).err().unwrap();
    assert!(error.contains("give both sides as many"), "{error}");
}

#[test]
fn a_paced_port_gives_no_more_than_its_burst_at_once() {
    let directory = Directory::new();
    let port = directory.open("pace:1M/null:64", &request(1, 1)).unwrap();
    let mut rx = port.rx[0].take().unwrap();
    let mut batch = Batch::new();
    let start = std::time::Instant::now();
    let mut received = 0;
    while received < 10_000 {
        received += rx.receive(&mut batch, 1000);
        batch.clear();
    }
    assert!(start.elapsed() >= Duration::from_millis(9));
}

#[test]
fn embedded_port_is_found_by_name_and_opened_on_request() {
    let memory = crate::memory::Memory::default();
    let (info, far) = (crate::memory::info(), memory.clone());
    let directory = Directory::new().with_port("stand", info.clone(), move |request| {
        let parts = crate::memory::open(&memory, request);
        (parts.rx, parts.tx)
    });
    assert_eq!(directory.probe("stand"), Ok(info));
    assert!(directory.probe("stand2").is_err());
    let port = directory.open("stand", &request(2, 1)).unwrap();
    assert_eq!((port.rx.len(), port.tx.len()), (2, 1));
    assert!(far.inject(1, b"by its second queue"));
    let mut batch = Batch::new();
    assert_eq!(port.rx[1].take().unwrap().receive(&mut batch, 32), 1);
    assert_eq!(
        port.tx[0]
            .take()
            .unwrap()
            .transmit(&mut batch, &mut Batch::new()),
        1
    );
    assert_eq!(far.collect()[0].frame, b"by its second queue");
}

#[test]
fn a_port_that_turns_out_to_have_fewer_queues_than_asked_for_is_not_opened() {
    let memory = crate::memory::Memory::default();
    let info = crate::memory::info();
    let directory = Directory::new().with_port("stand", info, move |_| {
        let parts = crate::memory::open(&memory, &request(1, 1));
        (parts.rx, parts.tx)
    });
    let error = directory.open("stand", &request(2, 1)).err().unwrap();
    assert!(
        error.contains("open with 1 receive queues, 2 are asked"),
        "{error}"
    );
    assert!(directory.get("stand").is_none());
}

#[test]
fn frames_that_a_port_refuses_are_neither_recorded_nor_kept() {
    let path = std::env::temp_dir().join(format!("ashlar-refused-{}.pcap", std::process::id()));
    let directory = Directory::new();
    let far = directory.memory("x");
    let name = format!("record:{}/fault:seed=1/mem:x", path.display());
    let port = directory.open(&name, &request(0, 1)).unwrap();
    let mut tx = port.tx[0].take().unwrap();
    far.limit(512, 1);
    let frames = |values: &[u8]| -> Batch {
        let packets = values.iter().map(|&value| Packet::from_bytes(&[value; 60]));
        packets.map(Option::unwrap).collect()
    };
    let (mut batch, mut refused) = (frames(&[1, 2, 3]), Batch::new());
    assert_eq!(tx.transmit(&mut batch, &mut refused), 1);
    far.set_link(false);
    assert_eq!(tx.transmit(&mut batch, &mut refused), 0);
    far.set_link(true);
    far.limit(512, 512);
    batch.append(&mut frames(&[4]));
    assert_eq!(tx.transmit(&mut batch, &mut refused), 1);
    let values = |batch: &Batch| -> Vec<u8> { batch.iter().map(|p| p.data()[0]).collect() };
    assert_eq!((values(&batch), values(&refused)), (vec![], vec![2, 3]));
    drop((tx, port));
    directory.close(&name);
    let port = directory
        .open(&format!("pcap:{}", path.display()), &request(1, 0))
        .unwrap();
    let recorded: Vec<u8> = receive_all(&port).iter().map(|frame| frame[0]).collect();
    assert_eq!(recorded, [1, 4]);
    std::fs::remove_file(path).unwrap();
}
