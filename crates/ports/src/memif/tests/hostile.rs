//! Ports whose other end breaks the rules.

use super::*;

/// The other end of a port, controlled by a test.
struct Peer {
    _socket: OwnedFd,
    rings: Rings,
}

const QUEUES: Queues = Queues {
    rx: 1,
    tx: 1,
    ring: 6,
};

fn peer(
    folder: &Folder,
    port: impl FnOnce() -> OpenPort,
    port_is_server: bool,
) -> (Peer, OpenPort) {
    let path = folder.0.join("m.sock");
    let address = SocketAddrUnix::new(&path).unwrap();
    let words = config::read(&format!("socket={}", path.display())).unwrap();
    let stop = sys::eventfd().unwrap();
    let (socket, port) = if port_is_server {
        let port = port();
        let socket = seqpacket().unwrap();
        connect(&socket, &address).unwrap();
        (socket, port)
    } else {
        let listener = seqpacket().unwrap();
        bind(&listener, &address).unwrap();
        listen(&listener, 1).unwrap();
        let port = port();
        let [came] = sys::poll([listener.as_raw_fd()], LONG);
        assert!(came);
        std::fs::remove_file(&path).unwrap();
        (accept(&listener).unwrap(), port)
    };
    let talk = Connection {
        socket: &socket,
        stop: &stop,
    };
    let rings = match port_is_server {
        true => session::client(&talk, &words, QUEUES, &mut ClientMemory::default()),
        false => session::server(&talk, &words, QUEUES),
    };
    let peer = Peer {
        _socket: socket,
        rings: rings.unwrap(),
    };
    wait_until("the port to connect", || port.port.link_up());
    (peer, port)
}

/// A server at the path of a client's port, controlled by a test.
struct Server {
    listener: OwnedFd,
    path: PathBuf,
}

impl Server {
    fn new(folder: &Folder) -> Server {
        let path = folder.0.join("m.sock");
        let listener = seqpacket().unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 1).unwrap();
        Server { listener, path }
    }

    /// Memory and rings for the next connection.
    fn connect(&self, queues: Queues) -> Result<Peer, String> {
        let [came] = sys::poll([self.listener.as_raw_fd()], LONG);
        assert!(came);
        let socket = accept(&self.listener).unwrap();
        let words = config::read(&format!("socket={}", self.path.display())).unwrap();
        let stop = sys::eventfd().unwrap();
        let talk = Connection {
            socket: &socket,
            stop: &stop,
        };
        let rings = session::server(&talk, &words, queues)?;
        Ok(Peer {
            _socket: socket,
            rings,
        })
    }
}

#[test]
fn frames_that_are_too_long_count_for_a_burst() {
    let (folder, directory) = (Folder::new("long"), Directory::new());
    let name = folder.port("role=client,rsize=6");
    let open = || directory.open(&name, &request(1)).unwrap();
    let (peer, port) = peer(&folder, open, false);
    let ring = &peer.rings.tx[0];
    let write = |at: usize, bytes: &[u8]| assert!(ring.memory().write(ring.place_of(at), bytes));
    // Eight frames of eight full buffers each.
    for slot in 0..64usize {
        let goes_on = u64::from(slot % 8 != 7);
        write(128 + 16 * slot, &(2048u64 << 32 | goes_on).to_le_bytes());
    }
    write(64, &64u16.to_le_bytes());
    let mut rx = port.rx[0].take().unwrap();
    let mut got = Batch::new();
    for lost in [3, 6, 8] {
        assert_eq!(rx.receive(&mut got, 3), 0);
        assert_eq!(counter(&port, "too_long"), lost);
    }
    port.rx[0].put_back(rx);
}

#[test]
fn chain_of_empty_buffers_has_an_end() {
    let (folder, directory) = (Folder::new("chain"), Directory::new());
    let name = folder.port("role=client,rsize=10");
    let open = || directory.open(&name, &request(1)).unwrap();
    let (peer, port) = peer(&folder, open, false);
    let ring = &peer.rings.tx[0];
    for slot in 0..1024usize {
        let place = ring.place_of(128 + 16 * slot);
        assert!(ring.memory().write(place, &1u64.to_le_bytes()));
    }
    assert!(
        ring.memory()
            .write(ring.place_of(64), &1024u16.to_le_bytes())
    );
    assert_eq!(receive(&port), Vec::<Vec<u8>>::new());
    let mut said = Vec::new();
    wait_until("it to be told", || {
        said.extend(directory.events());
        said.iter()
            .any(|text| text.contains("more than 512 buffers"))
    });
}

#[test]
fn server_gets_no_more_rings_than_the_port_has_queues() {
    let (folder, directory) = (Folder::new("many"), Directory::new());
    let server = Server::new(&folder);
    let name = folder.port("role=client");
    let _port = directory.open(&name, &request(2)).unwrap();
    let queues = Queues { tx: 64, ..QUEUES };
    let why = server.connect(queues).err().unwrap();
    assert!(why.contains("receives by 2 rings"), "{why}");
}

#[test]
fn connections_use_the_same_memory_again() {
    let (folder, directory) = (Folder::new("same"), Directory::new());
    let server = Server::new(&folder);
    let name = folder.port("role=client");
    let port = directory.open(&name, &request(1)).unwrap();
    // The other end keeps all memory that it ever got.
    let mut peers = Vec::new();
    for number in 0..12u64 {
        let peer = server.connect(QUEUES).unwrap();
        wait_until("the port to connect", || port.port.link_up());
        let Peer { _socket, mut rings } = peer;
        // Only some queues are used. Earlier contents of the rings are lost.
        let counts = crate::counts::Counts::new(["", ""]);
        if number % 3 < 2 {
            let sent = rings.tx[0].send(
                &mut batch(&frames(number as usize, 3)),
                &mut Batch::new(),
                &counts,
            );
            assert_eq!((sent, receive(&port)), (Ok(3), frames(number as usize, 3)));
        }
        if number % 3 > 0 {
            assert_eq!(send(&port, &frames(9, 2)), 2);
            let mut got = Batch::new();
            let budget = &mut super::super::ring::Budget::of(7);
            assert_eq!(rings.rx[0].receive(&mut got, budget, &counts), Ok(2));
        }
        drop(_socket);
        wait_until("the port to see it", || !port.port.link_up());
        peers.push(rings);
    }
    let places: Vec<_> = peers.iter().map(|rings| rings.rx[0].memory()).collect();
    let end = places[0].bytes() - 8;
    for (number, place) in places.iter().enumerate() {
        assert!(place.write(end, &(number as u64).to_le_bytes()));
    }
    let mut seen = std::collections::BTreeSet::new();
    for place in places {
        let mut bytes = [0; 8];
        assert!(place.read(end, &mut bytes));
        seen.insert(bytes);
    }
    // One more than the number of queues.
    assert!(seen.len() <= 3, "{seen:?}");
}

#[test]
fn doorbell_that_rings_for_ever_is_heard_a_few_times() {
    let pair = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::NONBLOCK,
        None,
    );
    let (ours, theirs) = pair.unwrap();
    (0..8).for_each(|_| doorbells::send_wake_up(&theirs));
    doorbells::drain(&ours);
    assert_eq!(sys::poll([ours.as_raw_fd()], Duration::ZERO), [true]);
    doorbells::drain(&ours);
    assert_eq!(sys::poll([ours.as_raw_fd()], Duration::ZERO), [false]);
}

/// Pseudo-random numbers, the same in each run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
}

/// Writes something somewhere.
fn spoil(rings: &Rings, random: &mut Random) {
    let memory = [&rings.rx[0], &rings.tx[0]][random.next() as usize & 1].memory();
    // Mostly near the rings, which are at the beginning.
    let end = match random.next() % 8 {
        0 => memory.bytes(),
        _ => 2400,
    };
    let at = random.next() as usize % end;
    let value = match random.next() % 3 {
        0 => random.next(),
        1 => random.next() % 70,
        _ => u64::MAX << (random.next() % 64),
    };
    memory.write(at, &value.to_le_bytes()[..1 + random.next() as usize % 8]);
}

/// The peer writes random bytes into the memory, also while the port reads and writes there. The port continues, and a
/// violation of the rules ends the connection under a name.
#[test]
fn peer_that_writes_random_bytes_does_no_harm() {
    // `make soak` tries more seeds.
    let seeds = match std::env::var_os("ASHLAR_SOAK") {
        Some(_) => 6000,
        None => 60,
    };
    for port_is_server in [true, false] {
        let mut mistakes = 0;
        for seed in 0..seeds {
            let (folder, directory) = (Folder::new("hostile"), Directory::new());
            let role = if port_is_server { "server" } else { "client" };
            let name = folder.port(&format!("role={role}"));
            let open = || directory.open(&name, &request(1)).unwrap();
            let (peer, port) = peer(&folder, open, port_is_server);
            let done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut random = Random(seed);
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        spoil(&peer.rings, &mut random);
                    }
                });
                let (mut rx, mut tx) = (port.rx[0].take().unwrap(), port.tx[0].take().unwrap());
                let mut got = Batch::new();
                let out = frames(seed as usize, 8);
                let mut random = Random(!seed);
                for _ in 0..300 {
                    (0..20).for_each(|_| spoil(&peer.rings, &mut random));
                    rx.receive(&mut got, 32);
                    got.clear();
                    rx.wait_fd();
                    tx.transmit(&mut batch(&out), &mut Batch::new());
                }
                done.store(true, std::sync::atomic::Ordering::Relaxed);
                if rx.fill().is_none() {
                    mistakes += 1;
                    let mut said = Vec::new();
                    wait_until("it to be counted and said", || {
                        said.extend(directory.events());
                        let is_said = |text: &String| text.contains("and is disconnected");
                        counter(&port, "peer_mistakes") > 0 && said.iter().any(is_said)
                    });
                }
                port.rx[0].put_back(rx);
                port.tx[0].put_back(tx);
            });
        }
        assert!(mistakes > 10, "{mistakes}");
    }
}

/// Breaks each rule separately.
#[test]
fn protocol_violation_ends_the_connection_and_is_named() {
    /// A write of the peer, given the place of the ring from which the port receives.
    type Spoil = fn(&dyn Fn(usize, u64));
    let server: [(Spoil, &str); 4] = [
        (|write| write(6, 65), "index of a ring"),
        (
            |write| {
                write(128, 60 << 32 | 9 << 16);
                write(6, 1)
            },
            "outside of its memory",
        ),
        (
            |write| {
                write(128, u64::MAX << 32);
                write(6, 1)
            },
            "outside of its memory",
        ),
        (
            |write| {
                write(128, 60 << 32 | 1);
                write(6, 1)
            },
            "has no end",
        ),
    ];
    let client: [(Spoil, &str); 3] = [
        (|write| write(64, 65), "index of a ring"),
        (
            |write| {
                write(128, 2049 << 32);
                write(64, 1)
            },
            "beyond its end",
        ),
        (
            |write| {
                write(128, 60 << 32 | 1);
                write(64, 1)
            },
            "has no end",
        ),
    ];
    let all = server
        .map(|case| (true, case))
        .into_iter()
        .chain(client.map(|case| (false, case)));
    for (port_is_server, (spoil, why)) in all {
        let (folder, directory) = (Folder::new("rules"), Directory::new());
        let role = if port_is_server { "server" } else { "client" };
        let name = folder.port(&format!("role={role},rsize=6"));
        let open = || directory.open(&name, &request(1)).unwrap();
        let (peer, port) = peer(&folder, open, port_is_server);
        let ring = &peer.rings.tx[0];
        spoil(&|at, value| {
            let bytes = value.to_le_bytes();
            let width = if at < 128 { 2 } else { 8 };
            assert!(ring.memory().write(ring.place_of(at), &bytes[..width]));
        });
        assert_eq!(receive(&port), Vec::<Vec<u8>>::new());
        wait_until(why, || {
            counter(&port, "peer_mistakes") == 1 && !port.port.link_up()
        });
        let mut said = Vec::new();
        wait_until(why, || {
            said.extend(directory.events());
            said.iter().any(|text| text.contains(why))
        });
    }
}
