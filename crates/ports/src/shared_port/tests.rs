use super::*;
use engine::packet::{Batch, Packet};
use engine::port::{Port, RxQueue, TxQueue};

const HERE: [u8; 6] = [2, 0, 0, 0, 0, 7];

fn request(queues: usize) -> PortRequest {
    PortRequest {
        rx_queues: queues,
        tx_queues: queues,
        descriptors: 0,
        promiscuous: false,
    }
}

fn share(router: &str, vlan: &[u16], by: Selector) -> ShareOf {
    ShareOf {
        router: router.to_owned(),
        vlan: vlan.iter().map(|&id| id.into()).collect(),
        by: vec![by],
        broadcast: true,
        rate: None,
        queue: 64,
        tickets: 1,
    }
}

fn port(shares: Vec<ShareOf>) -> SharingSpec {
    SharingSpec {
        ports: vec![PortOf {
            name: "wan".to_owned(),
            device: "eth0".to_owned(),
            shares,
        }],
        links: Vec::new(),
    }
}

fn link(queue: usize) -> SharingSpec {
    let routers = ["red", "blue"].map(str::to_owned);
    SharingSpec {
        ports: Vec::new(),
        links: vec![LinkOf {
            name: "up".to_owned(),
            routers,
            queue,
        }],
    }
}

fn shared_ports(sharing: &SharingSpec) -> SharedPorts {
    let shared_ports = SharedPorts::new(1);
    shared_ports.commit(sharing);
    shared_ports
}

type Queues = (Box<dyn RxQueue>, Box<dyn TxQueue>, Arc<dyn Port>);

/// Opens the port that has this name in a router.
fn open(shared_ports: &SharedPorts, router: &str, name: &str) -> Queues {
    let device = |_: &str| Ok(crate::memory::info());
    let shared_part = shared_ports.find(router, name).expect("it has a part");
    let shared_part = shared_part.expect("it is no port of its own");
    let mut parts = shared_part.open(&request(1), device).expect("it opens");
    (parts.rx.remove(0), parts.tx.remove(0), parts.port)
}

fn frame(to: [u8; 6], tags: &[u16], number: u8) -> Vec<u8> {
    let mut frame = [&to[..], &[2, 9, 9, 9, 9, 9]].concat();
    for tag in tags {
        frame.extend([0x81, 0, (tag >> 8) as u8, *tag as u8]);
    }
    frame.extend([8, 0, number]);
    frame.resize(60, 0);
    frame
}

fn send(tx: &mut Box<dyn TxQueue>, frames: &[Vec<u8>]) -> usize {
    let packets = frames
        .iter()
        .map(|f| Packet::from_bytes(f).expect("memory"));
    let mut batch: Batch = packets.collect();
    tx.transmit(&mut batch, &mut Batch::new())
}

fn take(rx: &mut Box<dyn RxQueue>) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    rx.receive(&mut batch, 1000);
    batch.iter().map(|packet| packet.data().to_vec()).collect()
}

fn count(port: &Arc<dyn Port>, name: &str) -> u64 {
    let all = port.counters().into_iter();
    all.filter(|(n, ..)| *n == name)
        .map(|(.., value)| value)
        .sum()
}

#[test]
fn a_link_hands_over_the_same_buffers_and_has_a_bound_for_loops() {
    let shared_ports = shared_ports(&link(16));
    assert!(
        shared_ports.find("green", "up").is_err(),
        "it has no end there"
    );
    let (mut red_rx, mut red, red_port) = open(&shared_ports, "red", "up");
    assert!(!red_port.link_up());
    assert_eq!(send(&mut red, &[frame(HERE, &[], 1)]), 0);
    assert_eq!(count(&red_port, "no_router"), 1);
    let (mut blue_rx, mut blue, blue_port) = open(&shared_ports, "blue", "up");
    assert!(red_port.link_up() && blue_port.link_up());
    let mut batch: Batch = [Packet::from_bytes(&frame(HERE, &[], 2)).expect("memory")]
        .into_iter()
        .collect();
    let place = batch.iter().next().map(|p| p.data().as_ptr());
    for crossing in 1..=300 {
        let (tx, rx) = if crossing % 2 == 1 {
            (&mut red, &mut blue_rx)
        } else {
            (&mut blue, &mut red_rx)
        };
        tx.transmit(&mut batch, &mut Batch::new());
        rx.receive(&mut batch, 10);
        assert_eq!(batch.is_empty(), crossing > 255, "{crossing}");
        assert!(batch.is_empty() || batch.iter().next().map(|p| p.data().as_ptr()) == place);
    }
    assert_eq!(count(&red_port, "loop") + count(&blue_port, "loop"), 1);
    // A share holds no more than its limit, and packets for a closed port are lost.
    let many: Vec<_> = (0..20).map(|n| frame(HERE, &[], n)).collect();
    assert_eq!(send(&mut red, &many), 16);
    drop((blue_rx, blue, blue_port));
    assert!(!red_port.link_up());
    let (mut blue_rx, ..) = open(&shared_ports, "blue", "up");
    assert!(take(&mut blue_rx).is_empty());
    assert_eq!(send(&mut red, &many[..3]), 3);
    assert_eq!(take(&mut blue_rx), many[..3]);
}

#[test]
fn link_that_is_used_one_way_is_up_at_both_ends() {
    let shared_ports = shared_ports(&link(16));
    let device = |_: &str| Ok(crate::memory::info());
    let open = |router: &str, rx_queues, tx_queues| {
        let shared_part = shared_ports.find(router, "up").expect("it has a part");
        let request = PortRequest {
            rx_queues,
            tx_queues,
            ..request(1)
        };
        let shared_part = shared_part.expect("it is no port of its own");
        shared_part.open(&request, device).expect("it opens")
    };
    let mut sends = open("red", 0, 1);
    assert!(!sends.port.link_up());
    let mut receives = open("blue", 1, 0);
    assert!(sends.port.link_up() && receives.port.link_up());
    assert_eq!(send(&mut sends.tx[0], &[frame(HERE, &[], 1)]), 1);
    assert_eq!(take(&mut receives.rx[0]), [frame(HERE, &[], 1)]);
    drop(sends);
    assert!(!receives.port.link_up());
}

#[test]
fn frames_are_classified_by_tags_that_routers_do_not_see() {
    let shared_ports = shared_ports(&port(vec![
        share("red", &[100], Selector::Remaining),
        share("blue", &[200, 7], Selector::Mac(HERE)),
    ]));
    assert!(
        matches!(shared_ports.find("wan", "wan"), Ok(None)),
        "its own router has the device"
    );
    assert!(shared_ports.find("green", "wan").is_err());
    assert!(shared_ports.find("red", "shares:wan").is_err());
    let (mut all_rx, mut all, whole) = open(&shared_ports, "wan", "shares:wan");
    let (mut red_rx, mut red, red_port) = open(&shared_ports, "red", "wan");
    let received = [
        frame(HERE, &[100], 1),
        frame(HERE, &[200, 7], 2),
        frame(HERE, &[300], 3),
        frame([2, 0, 0, 0, 0, 8], &[200, 7], 4),
    ];
    assert_eq!(send(&mut all, &received), 4);
    let mut untagged = frame(HERE, &[], 1);
    untagged.truncate(56);
    assert_eq!(take(&mut red_rx), [untagged], "60 bytes with the tag");
    assert_eq!(
        (count(&whole, "unknown"), count(&whole, "rx_no_router")),
        (2, 1)
    );
    let (mut blue_rx, mut blue, blue_port) = open(&shared_ports, "blue", "wan");
    assert_eq!(blue_port.info().mac, HERE);
    assert_eq!(count(&blue_port, "rx_no_router"), 1);
    send(&mut all, &received);
    assert_eq!((take(&mut red_rx).len(), take(&mut blue_rx).len()), (1, 1));
    let to_all = frame([0xff; 6], &[200, 7], 9);
    send(&mut all, &[to_all.clone(), frame([0xff; 6], &[100], 8)]);
    assert_eq!((take(&mut red_rx).len(), take(&mut blue_rx).len()), (1, 1));
    // Packets that they send get the tags with which they would have arrived.
    send(&mut red, &[frame(HERE, &[], 5)]);
    send(&mut blue, &[frame(HERE, &[], 6)]);
    let sent = take(&mut all_rx);
    assert_eq!(sent[0][12..18], [0x81, 0, 0, 100, 8, 0]);
    assert_eq!(sent[1][12..22], [0x81, 0, 0, 200, 0x81, 0, 0, 7, 8, 0]);
    assert!(!red_port.link_up(), "the device is not open");
    drop(all_rx);
    send(&mut red, &[frame(HERE, &[], 5)]);
    assert_eq!(count(&red_port, "tx_no_router"), 1);
}

#[test]
fn overloaded_router_loses_its_excess_and_others_lose_nothing() {
    let mut bounded = share("red", &[1], Selector::Remaining);
    bounded.rate = Some(1000);
    let shared_ports = shared_ports(&port(vec![
        bounded,
        share("blue", &[2], Selector::Remaining),
        share("green", &[3], Selector::Remaining),
    ]));
    let (_rx, mut all, _) = open(&shared_ports, "wan", "shares:wan");
    let [red, blue, green] =
        ["red", "blue", "green"].map(|router| open(&shared_ports, router, "wan"));
    let burst = |vlan| vec![frame(HERE, &[vlan], 0); 1000];
    // A burst of ten milliseconds of its rate is allowed.
    send(&mut all, &burst(1)[..30]);
    let passed = 30 - count(&red.2, "rx_rate");
    assert!((10..20).contains(&passed), "{passed}");
    send(&mut all, &[burst(2), vec![frame(HERE, &[3], 1)]].concat());
    assert_eq!(
        (count(&blue.2, "rx_full"), count(&green.2, "rx_full")),
        (1000 - 64, 0)
    );
    let (mut blue_rx, mut green_rx) = (blue.0, green.0);
    assert_eq!(
        (take(&mut blue_rx).len(), take(&mut green_rx).len()),
        (64, 1)
    );
}

#[test]
fn routers_send_by_their_tickets_in_bytes() {
    let mut heavy = share("blue", &[], Selector::Mac(HERE));
    heavy.tickets = 3;
    let shared_ports = shared_ports(&port(vec![share("red", &[], Selector::Remaining), heavy]));
    let (mut all, ..) = open(&shared_ports, "wan", "shares:wan");
    let [(_, mut red, _), (_, mut blue, _)] =
        ["red", "blue"].map(|router| open(&shared_ports, router, "wan"));
    let small = frame(HERE, &[], 1);
    let large = [small.clone(), vec![0; 440]].concat();
    let (mut from_red, mut from_blue) = (0, 0);
    for _ in 0..4000 {
        send(&mut red, &vec![small.clone(); 32]);
        send(&mut blue, &vec![large.clone(); 32]);
        let mut batch = Batch::new();
        all.receive_bare(&mut batch, 16);
        let bytes = |len| {
            batch
                .iter()
                .filter(|p| p.len() == len)
                .map(Packet::len)
                .sum::<usize>()
        };
        from_red += bytes(60);
        from_blue += bytes(500);
    }
    let ratio = from_blue as f64 / from_red as f64;
    assert!((2.97..3.03).contains(&ratio), "{ratio}");
}

#[test]
fn descriptions_change_while_ports_are_in_use() {
    let both = port(vec![
        share("red", &[1], Selector::Remaining),
        share("blue", &[2], Selector::Remaining),
    ]);
    let shared_ports = shared_ports(&both);
    let (_all_rx, mut all, _) = open(&shared_ports, "wan", "shares:wan");
    let (mut red_rx, ..) = open(&shared_ports, "red", "wan");
    send(&mut all, &[frame(HERE, &[1], 1)]);
    // After the preparation it can be opened, and nothing has changed yet.
    let next = port(vec![
        share("red", &[3], Selector::Remaining),
        share("green", &[2], Selector::Remaining),
    ]);
    shared_ports.prepare(&next);
    let (mut green_rx, ..) = open(&shared_ports, "green", "wan");
    let received = [frame(HERE, &[2], 2), frame(HERE, &[3], 3)];
    send(&mut all, &received);
    assert_eq!((take(&mut red_rx).len(), take(&mut green_rx).len()), (1, 0));
    shared_ports.commit(&next);
    send(&mut all, &received);
    assert_eq!((take(&mut red_rx).len(), take(&mut green_rx).len()), (1, 1));
    assert!(shared_ports.find("blue", "wan").is_err());
    shared_ports.commit(&SharingSpec::default());
    assert!(
        matches!(shared_ports.find("red", "wan"), Ok(None)),
        "it is a port like any other"
    );
    assert_eq!(send(&mut all, &received), 2);
}

/// A device with these frames, as given to the port's router.
fn device(
    shared_ports: &SharedPorts,
    frames: &[Vec<u8>],
) -> (Parts, std::sync::mpsc::Receiver<Vec<u8>>) {
    struct Device(
        std::collections::VecDeque<Vec<u8>>,
        std::sync::mpsc::Sender<Vec<u8>>,
    );
    impl RxQueue for Device {
        fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
            let n = max.min(self.0.len());
            let each = self.0.drain(..n);
            into.extend(each.map(|f| Packet::from_bytes(&f).expect("memory")));
            n
        }
    }
    impl TxQueue for Device {
        fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
            let each = batch.drain();
            each.map(|p| self.1.send(p.data().to_vec()).expect("it is looked at"))
                .count()
        }
    }
    let (sent, looks) = std::sync::mpsc::channel();
    let queue = |frames: &[Vec<u8>]| Device(frames.to_vec().into(), sent.clone());
    let parts = Parts {
        rx: vec![Box::new(queue(frames))],
        tx: vec![Box::new(queue(&[]))],
        port: Arc::new(crate::memory::info()),
    };
    (shared_ports.opened("wan", "eth0", parts), looks)
}

#[test]
fn a_router_that_has_a_port_for_itself_polls_and_sends_by_itself_until_another_one_comes() {
    let red = || share("red", &[], Selector::Remaining);
    let shared_ports = shared_ports(&port(vec![red()]));
    let frames: Vec<_> = (0..6).map(|n| frame(HERE, &[], n)).collect();
    let (mut own, sent) = device(&shared_ports, &frames);
    let (mut gather, mut split, _) = open(&shared_ports, "wan", "shares:wan");
    // While the share does not run, the port's router gets the packets.
    let mut batch = Batch::new();
    assert_eq!(own.rx[0].receive(&mut batch, 1), 1);
    split.transmit(&mut batch, &mut Batch::new());
    let (mut rx, mut tx, _) = open(&shared_ports, "red", "wan");
    assert_eq!(
        own.rx[0].receive(&mut batch, 100),
        0,
        "it is left to the router"
    );
    assert_eq!(rx.receive(&mut batch, 2), 2);
    let came: Vec<_> = batch.drain().map(|packet| packet.data().to_vec()).collect();
    assert_eq!(came, frames[1..3]);
    assert_eq!(send(&mut tx, &frames[..1]), 1);
    assert_eq!(sent.try_recv().as_ref(), Ok(&frames[0]));
    assert!(take(&mut gather).is_empty());
    // Another router has a share now, so all frames are classified again.
    shared_ports.commit(&port(vec![red(), share("blue", &[7], Selector::Remaining)]));
    assert!(take(&mut rx).is_empty());
    assert_eq!(own.rx[0].receive(&mut batch, 2), 2);
    split.transmit(&mut batch, &mut Batch::new());
    assert_eq!(take(&mut rx), frames[3..5]);
    assert_eq!(send(&mut tx, &frames[..1]), 1);
    assert_eq!(take(&mut gather), frames[..1]);
    // After the reverse change, waiting packets come first.
    assert_eq!(own.rx[0].receive(&mut batch, 1), 1);
    split.transmit(&mut batch, &mut Batch::new());
    shared_ports.commit(&port(vec![red()]));
    assert_eq!(take(&mut rx), frames[5..]);
    assert_eq!(own.rx[0].receive(&mut batch, 1), 0);
    // A closed device delivers nothing to any caller.
    drop(own);
    assert!(take(&mut rx).is_empty());
}

#[test]
fn nothing_is_kept_of_a_router_that_is_gone_though_nothing_comes() {
    let shares = || {
        vec![
            share("red", &[1], Selector::Remaining),
            share("blue", &[2], Selector::Remaining),
        ]
    };
    let shared_ports = shared_ports(&port(shares()));
    let (mut own, _sent) = device(&shared_ports, &[frame(HERE, &[2], 1)]);
    let (mut gather, mut split, _) = open(&shared_ports, "wan", "shares:wan");
    let (blue, kept) = (open(&shared_ports, "blue", "wan"), {
        let key = ("blue".to_owned(), "wan".to_owned());
        Arc::downgrade(&shared_ports.all.lock().shares[&key])
    });
    let mut batch = Batch::new();
    assert_eq!(own.rx[0].receive(&mut batch, 1), 1);
    split.transmit(&mut batch, &mut Batch::new());
    drop(blue);
    shared_ports.remove_router("blue");
    assert!(take(&mut gather).is_empty());
    assert!(kept.upgrade().is_none());
    // The shared port is dropped too, once it is no longer described.
    let port = Arc::downgrade(&shared_ports.all.lock().ports["wan"]);
    shared_ports.commit(&SharingSpec::default());
    drop((own, gather, split));
    assert!(port.upgrade().is_none());
}

#[test]
fn closing_a_port_drops_its_packets_and_removal_frees_it() {
    let shared_ports = shared_ports(&port(vec![share("red", &[], Selector::Remaining)]));
    let (gather, split, whole) = open(&shared_ports, "wan", "shares:wan");
    let (red_rx, mut red, red_port) = open(&shared_ports, "red", "wan");
    assert_eq!(send(&mut red, &[frame(HERE, &[], 1)]), 1);
    // The whole port closes before it has seen the packet of the share.
    drop(gather);
    let (mut gather, again, _) = open(&shared_ports, "wan", "shares:wan");
    assert!(take(&mut gather).is_empty());
    assert_eq!(send(&mut red, &[frame(HERE, &[], 2)]), 1);
    assert_eq!(take(&mut gather).len(), 1, "and it sends as before");

    let all = |shared_ports: &SharedPorts| {
        let all = shared_ports.all.lock();
        let of = ("red".to_owned(), "wan".to_owned());
        (
            Arc::downgrade(&all.ports["wan"]),
            Arc::clone(&all.shares[&of]),
        )
    };
    let (shared, its) = all(&shared_ports);
    drop((gather, split, again, whole, red_rx, red, red_port));
    // A router may send while the port closes.
    its.ask_to_send(0);
    drop(its);
    shared_ports.commit(&SharingSpec::default());
    assert_eq!(shared.strong_count(), 0);
}
