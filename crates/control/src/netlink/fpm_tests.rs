use std::time::{Duration, Instant};

use forwarding::{Member, Prefix, Routes};

use super::*;
use crate::netlink::model::Link;

/// Messages of zebra 8.4.4 after it had connected: routes of interfaces 3 (10.0.0.1/24) and 5 (10.0.1.1/24), 50.0.0.0/8
/// via 10.0.0.2, 51.0.0.0/8 via that and 10.0.1.2, 52.0.0.0/8 blackhole, 53.0.0.0/8 reject, 60.0.0.0/8 via 10.0.0.3,
/// and some of IPv6.
const ALL: &[u8] = include_bytes!("../../../../fuzz/seeds/fpm/frr-all");
/// Messages of later changes: 51.0.0.0/8 lost its second hop, 50.0.0.0/8 was removed, and interface 3 went down.
const CHANGES: &[u8] = include_bytes!("../../../../fuzz/seeds/fpm/frr-changes");

struct Bench {
    model: Model,
    session: Session,
    v4: Routes<4>,
    v6: Routes<16>,
    now: Instant,
}

const STALE: Duration = Duration::from_secs(60);

impl Bench {
    fn new() -> Bench {
        let (mut model, now) = (Model::new(true), Instant::now());
        for (index, number) in [(3, 3), (5, 4)] {
            let link = Link {
                number: Some(number),
                up: true,
                carrier: true,
            };
            model.link(index, Some(link));
        }
        Bench {
            session: Session::new(STALE, now),
            model,
            v4: Routes::new().expect("address space"),
            v6: Routes::new().expect("address space"),
            now,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, BadFrame> {
        self.session.free_space()[..bytes.len()].copy_from_slice(bytes);
        let count = self.session.process(&mut self.model, bytes.len(), self.now);
        self.flush();
        count
    }

    fn flush(&mut self) {
        self.model.flush(&self.v4, &self.v6).expect("room");
    }

    fn reconnect(&mut self) {
        self.session = Session::new(STALE, self.now);
        self.flush();
    }

    /// Ports and gateways of an IPv4 prefix.
    fn way(&self, first: u8) -> Option<Vec<(u16, String)>> {
        let id = self.v4.get(&Prefix::new([first, 0, 0, 0], 8))?;
        let gateway = |m: &Member| m.gateway.map_or("".to_owned(), |ip| ip.to_string());
        let members = self.v4.members(id);
        Some(members.iter().map(|m| (m.port, gateway(m))).collect())
    }
}

fn hop(port: u16, gateway: &str) -> (u16, String) {
    (port, gateway.to_owned())
}

#[test]
fn messages_of_zebra_become_routes() {
    let mut bench = Bench::new();
    assert_eq!(bench.send(ALL), Ok(25));
    let two = vec![hop(3, "10.0.0.2"), hop(4, "10.0.1.2")];
    assert_eq!(bench.way(51), Some(two));
    assert_eq!(bench.way(50), Some(vec![hop(3, "10.0.0.2")]));
    assert_eq!(bench.way(52), Some(vec![hop(2, "")]), "dropped");
    assert_eq!(bench.way(53), Some(vec![hop(1, "")]), "the kernel answers");
    assert_eq!(bench.model.len(), (7, 3), "fe80::/64 is not a route");
    // A change is a frame of two messages: a deletion and an addition.
    assert_eq!(bench.send(CHANGES), Ok(11));
    for gone in [50, 51, 60] {
        assert_eq!(bench.way(gone), None);
    }
    assert_eq!(bench.model.len(), (3, 0));
}

#[test]
fn stream_may_be_cut_anywhere() {
    for piece in [1, 3, 4, 5, 59, 1000] {
        let mut bench = Bench::new();
        let taken = ALL.chunks(piece).map(|piece| bench.send(piece).unwrap());
        assert_eq!(taken.sum::<usize>(), 25);
        assert_eq!(bench.model.len(), (7, 3));
    }
}

#[test]
fn reconnected_daemon_keeps_its_routes_and_unsent_ones_are_removed_later() {
    let mut bench = Bench::new();
    bench.send(ALL).unwrap();
    bench.now += STALE;
    assert!(bench.session.tick(&mut bench.model, bench.now));
    bench.reconnect();
    let before = bench.way(51);
    assert_eq!(bench.v4.len(), 7);
    // The daemon renumbers next hops: 23 (0x17) is the gateway 10.0.0.3 now, and 60.0.0.0/8 is its only route.
    let frame = |at: usize| {
        let length = |bytes: &[u8]| usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let start = (0..at).fold(0, |start, _| start + length(&ALL[start..]));
        ALL[start..start + length(&ALL[start..])].to_vec()
    };
    let (mut nexthop, mut route) = (frame(7), frame(20));
    let is_8 = |at: &usize| nexthop[*at..*at + 4] == [8, 0, 0, 0];
    let id = (24..nexthop.len() - 3).find(is_8).expect("object 8");
    nexthop[id] = 23;
    let last = route.len() - 4;
    route[last] = 23;
    bench.send(&nexthop).unwrap();
    bench.send(&route).unwrap();
    assert_eq!(bench.way(60), Some(vec![hop(3, "10.0.0.3")]));
    assert_eq!(bench.way(51), before);
    assert_eq!(bench.way(50), Some(vec![hop(3, "10.0.0.2")]));
    bench.now += STALE - COMPLETE_PAUSE;
    assert!(!bench.session.tick(&mut bench.model, bench.now));
    bench.now += COMPLETE_PAUSE;
    assert!(bench.session.tick(&mut bench.model, bench.now));
    assert!(!bench.session.tick(&mut bench.model, bench.now), "once");
    bench.flush();
    assert_eq!(bench.model.len(), (1, 0));
    assert_eq!(bench.way(60), Some(vec![hop(3, "10.0.0.3")]));
    bench.v4.apply(&[]).expect("room"); // when it looks which groups no worker carries any more
    assert_eq!(bench.v4.groups_len(), 2, "exceptions and one way");
}

#[test]
fn busy_daemons_routes_count_as_complete_after_a_time() {
    let mut bench = Bench::new();
    bench.send(ALL).expect("frames");
    for _ in 0..239 {
        bench.now += COMPLETE_PAUSE / 2;
        bench.send(&[]).unwrap();
        assert!(!bench.session.tick(&mut bench.model, bench.now));
    }
    bench.now += COMPLETE_PAUSE / 2;
    bench.send(&[]).unwrap();
    assert!(bench.session.tick(&mut bench.model, bench.now));
}

#[test]
fn data_that_is_not_fpm_ends_the_connection() {
    let bad: [(&[u8], BadFrame); 4] = [
        (&[2, 1, 0, 4], BadFrame::Version(2)),
        (&[1, 2, 0, 4], BadFrame::Kind(2)),
        (&[1, 1, 0, 3], BadFrame::Length(3)),
        (&[1, 1, 0, 6, 0, 0], BadFrame::Message(BadHeader::TooShort)),
    ];
    for (bytes, why) in bad {
        assert_eq!(Bench::new().send(bytes), Err(why), "{why}");
    }
    // A frame without a message is valid, and half a header is not yet a frame.
    assert_eq!(Bench::new().send(&[1, 1, 0, 4, 1, 1]), Ok(0));
}

#[test]
fn changed_next_hop_leaves_work_for_flush() {
    use wire::netlink::{NLM_F_REPLACE, NewHop, Target, Writer};
    let mut bench = Bench::new();
    bench.send(ALL).expect("frames");
    assert!(!bench.model.is_behind());
    let mut bytes = [0; 256];
    let mut writer = Writer::new(&mut bytes);
    let hop = NewHop {
        interface: 5,
        gateway: None,
        weight: 1,
        flags: 0,
    };
    let target = Target::Hops(&[hop]);
    writer.nexthop(NLM_F_REPLACE, 0, 77, &target).expect("room");
    let length = HEADER_BYTES + writer.bytes().len();
    let mut frame = vec![1, 1, 0, length as u8];
    frame.extend_from_slice(writer.bytes());
    bench.session.free_space()[..length].copy_from_slice(&frame);
    assert_eq!(
        bench.session.process(&mut bench.model, length, bench.now),
        Ok(1)
    );
    assert_eq!(bench.model.pending(), 0);
    assert!(bench.model.is_behind());
    bench.flush();
    assert!(!bench.model.is_behind());
}

#[test]
fn reconnections_keep_no_more_objects_than_routes_need() {
    let mut bench = Bench::new();
    bench.send(ALL).expect("frames");
    let once = bench.model.objects_len();
    for _ in 0..100 {
        bench.reconnect();
        bench.send(ALL).expect("frames");
    }
    assert!(bench.model.objects_len() <= 2 * once);
    bench.now += STALE + COMPLETE_PAUSE;
    assert!(bench.session.tick(&mut bench.model, bench.now));
    assert_eq!(bench.model.objects_len(), once);
}

/// Runs turns until a condition holds.
fn until(fpm: &mut Fpm, model: &mut Model, counts: &Counts, holds: impl Fn(&Model) -> bool) {
    let begun = Instant::now();
    while !holds(model) {
        assert!(begun.elapsed() < Duration::from_secs(20), "never");
        fpm.process_pending(model, counts);
    }
}

#[test]
fn a_second_daemon_is_refused_while_the_first_lives_and_taken_when_it_has_gone() {
    use std::io::Write;
    let listen = Listen {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        users: vec![us()],
        from: None,
        stale: STALE,
    };
    let mut fpm = Fpm::open(listen).expect("a port");
    let address = fpm.listener.local_addr().expect("an address");
    let connect = || TcpStream::connect(address).expect("it listens");
    let (mut model, counts) = (Bench::new().model, Counts::default());
    let count = |name: &str| {
        let list = counts.list();
        list.iter()
            .find(|count| count.1 == name)
            .expect("it counts")
            .3
    };
    let mut first = connect();
    first.write_all(ALL).expect("room");
    until(&mut fpm, &mut model, &counts, |model| model.len() == (7, 3));
    // The second daemon gets no messages, so it only notices the end of the connection.
    let mut second = connect();
    until(&mut fpm, &mut model, &counts, |_| count("fpm_refused") == 1);
    assert_eq!(second.read(&mut [0; 1]).ok(), Some(0));
    assert_eq!((count("fpm_connected"), count("fpm_connections")), (1, 1));
    // The first daemon sends its last message, disconnects and reconnects, all before the next check.
    first.write_all(CHANGES).expect("room");
    drop(first);
    let mut third = connect();
    until(&mut fpm, &mut model, &counts, |_| {
        count("fpm_connections") == 2
    });
    assert_eq!(count("fpm_denied"), 0);
    assert_eq!(model.len(), (3, 0));
    third.write_all(ALL).expect("room");
    until(&mut fpm, &mut model, &counts, |model| model.len() == (7, 3));
    assert_eq!((count("fpm_connected"), count("fpm_refused")), (1, 1));
}

/// User that runs the tests.
fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A listener that admits these users, with its model and counters, and a function that connects to it.
fn listening(users: Vec<u32>) -> (Fpm, Model, Counts, impl Fn() -> TcpStream) {
    let listen = Listen {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        users,
        from: None,
        stale: STALE,
    };
    let fpm = Fpm::open(listen).expect("a port");
    let address = fpm.listener.local_addr().expect("an address");
    let connect = move || TcpStream::connect(address).expect("it listens");
    (fpm, Bench::new().model, Counts::default(), connect)
}

fn of(counts: &Counts, name: &str) -> u64 {
    let list = counts.list();
    let found = list.into_iter().find(|count| count.1 == name);
    found.expect("it counts").3
}

#[test]
fn other_users_cannot_connect_or_take_a_place() {
    use std::io::Write;
    let (mut fpm, mut model, counts, connect) = listening(vec![us() + 1]);
    let mut stranger = connect();
    stranger.write_all(ALL).expect("room");
    until(&mut fpm, &mut model, &counts, |_| {
        of(&counts, "fpm_denied") == 1
    });
    assert_eq!((model.len(), of(&counts, "fpm_connected")), ((0, 0), 0));
    fpm.listen.users.push(us());
    let mut daemon = connect();
    daemon.write_all(ALL).expect("room");
    until(&mut fpm, &mut model, &counts, |model| model.len() == (7, 3));
    // However many connect: none is accepted, and the log is bounded.
    fpm.listen.users.clear();
    for n in 2..200 {
        drop(connect());
        until(&mut fpm, &mut model, &counts, |_| {
            of(&counts, "fpm_denied") == n
        });
    }
    assert_eq!(of(&counts, "fpm_connected"), 1);
    assert!(fpm.lines.left_out > 100);
}

#[test]
fn silent_connection_changes_nothing_and_yields_its_place() {
    use std::io::Write;
    let (mut fpm, mut model, counts, connect) = listening(vec![us()]);
    let mut daemon = connect();
    daemon.write_all(ALL).expect("room");
    until(&mut fpm, &mut model, &counts, |model| model.len() == (7, 3));
    drop(daemon);
    until(&mut fpm, &mut model, &counts, |_| {
        of(&counts, "fpm_connected") == 0
    });
    // Neither silence nor empty frames mean that routes are removed.
    let mut silent = connect();
    silent.write_all(&[1, 1, 0, 4]).expect("room");
    until(&mut fpm, &mut model, &counts, |_| {
        of(&counts, "fpm_connections") == 2
    });
    assert!(fpm.next_due().is_none());
    let (_, _, session) = fpm.peer.as_mut().expect("it is connected");
    assert!(!session.tick(&mut model, Instant::now() + STALE + COMPLETE_DELAY_MAX));
    assert_eq!(model.len(), (7, 3));
    let mut daemon = connect();
    daemon.write_all(CHANGES).expect("room");
    until(&mut fpm, &mut model, &counts, |model| model.len() == (3, 0));
    assert_eq!(of(&counts, "fpm_refused"), 0);
}
