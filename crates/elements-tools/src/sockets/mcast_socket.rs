//! Sends packets to a multicast group over UDP, and receives the group's packets.
//!
//! ```click
//! FromDevice(eth0, CORES 0) -> McastSocket(239.192.7.1, 7701, 127.0.0.1) -> Discard;
//! ```
//!
//! A packet of the input is sent to the group as the payload of a datagram. The payload of each datagram to the group
//! leaves by the output as a packet. So routers and virtual machines on one network are connected as by a shared
//! link. The input pushes or pulls. The element never blocks: if the socket's buffer is full, up to 1024 packets wait
//! here.
//!
//! With `SOURCEIP`, the group is joined only on the interface with this address, and datagrams that this element has
//! sent are dropped (`own`). Without it the system's routes choose the interface, and sent packets are also received,
//! unless `LOOP` is false.
//!
//! Drops: `full` if 1024 packets wait already; `refused` if the system refuses a packet, because it is too long
//! or has no route.
//!
//! Arguments:
//!
//! - `MCASTIP`, `MCASTPORT`: the group and its UDP port.
//! - `SOURCEIP`: address of this host that packets are sent from. Default is the system's choice.
//! - `SOURCEPORT`: port that packets are sent from. Default is the system's choice. Elements that send from one
//!   address must have different ports; otherwise each takes the others' packets for its own.
//!
//! Keyword arguments:
//!
//! - `LOOP`: true if this host gets copies of sent packets (IP_MULTICAST_LOOP). Default true.
//! - `SNAPLEN`: maximum length of a received packet; longer ones are truncated. Default 2048.
//! - `SNDBUF`, `RCVBUF`: bytes of the sockets' buffers. Default is the system's.
//! - `TIMESTAMP`: true if received packets get the time as their timestamp. Default true.
//! - `HEADROOM`: minimum number of free bytes before a received packet. Default 28.

use super::exchange::{Exchange, Link, ReceivedPacket, Settings};
use super::io_error_text;
use crate::prelude::*;
use arguments::service::Port;
use engine::external::{self, External};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

type Udp = Port<{ wire::proto::UDP }>;

const INTERFACE: &str = "make SOURCEIP an address of this host whose interface is up, or add a route for \
                         multicast";

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupAddress {
    group: SocketAddrV4,
    /// Unspecified where the system chooses.
    source: SocketAddrV4,
    back: bool,
    settings: Settings,
}

pub(crate) struct Config {
    place: GroupAddress,
    /// Opened before the start; over a hot swap it stays with the element that has the same arguments.
    sockets: Arc<OnceLock<Sockets>>,
}

/// Two sockets, as packets must be sent from another address than the group's.
struct Sockets {
    receiver: UdpSocket,
    sender: UdpSocket,
    group: SocketAddr,
    /// The sender's address, where it is known.
    source_address: Option<SocketAddr>,
}

pub(crate) struct McastSocket {
    sockets: Group,
    exchange: Exchange,
}

struct Group(Arc<OnceLock<Sockets>>);

impl GroupAddress {
    fn open(&self) -> Result<Sockets, String> {
        let group = self.group;
        let receive = format!("receive packets to {group}");
        let receiver = io_error_text(self.receiver(), receive, INTERFACE)?;
        let send = format!("send from {} to {group}", self.source);
        let sender = io_error_text(
            self.sender(),
            send,
            "make SOURCEIP an address of this host, and SOURCEPORT a port that no program uses",
        )?;
        let own = sender.local_addr().ok();
        Ok(Sockets {
            receiver,
            source_address: own.filter(|_| !self.source.ip().is_unspecified()),
            sender,
            group: group.into(),
        })
    }

    fn receiver(&self) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        self.settings.apply(&socket)?;
        // Other programs of this host listen to the same group.
        socket.set_reuse_address(true)?;
        socket.bind(&self.group.into())?;
        socket.join_multicast_v4(self.group.ip(), self.source.ip())?;
        // Packets of interfaces that only other programs have joined are excluded.
        socket.set_multicast_all_v4(false)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }

    fn sender(&self) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        self.settings.apply(&socket)?;
        // With a specific address, a port in use is a mistake: packets would be confused.
        socket.set_reuse_address(self.source.ip().is_unspecified())?;
        socket.bind(&self.source.into())?;
        if !self.source.ip().is_unspecified() {
            socket.set_multicast_if_v4(self.source.ip())?;
        }
        socket.set_multicast_loop_v4(self.back)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }
}

impl Link for Group {
    fn send(&mut self, packet: &Packet) -> io::Result<usize> {
        let sockets = self.0.get().ok_or(ErrorKind::NotConnected)?;
        sockets.sender.send_to(packet.data(), sockets.group)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<ReceivedPacket> {
        let sockets = self.0.get().ok_or(ErrorKind::WouldBlock)?;
        let (len, from) = sockets.receiver.recv_from(buffer)?;
        let wanted = sockets.source_address != Some(from);
        Ok(ReceivedPacket { len, wanted })
    }
}

impl Element for McastSocket {
    const CONTRACT: Contract = Contract::new("McastSocket", manual!())
        .ports(Ports::coded(&["in?"], &["out?"], "a/h").apart())
        .drops(&["full", "refused", "own"])
        .copies(Copies::One)
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>(), &external::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let group: Ipv4Addr = args.required("MCASTIP", "the group");
        let port = args.required::<Udp>("MCASTPORT", "the group's UDP port").0;
        let source = args.optional(
            "SOURCEIP",
            Ipv4Addr::UNSPECIFIED,
            "address of this host that packets are sent from",
        );
        let source_port: Udp =
            args.optional("SOURCEPORT", Port(0), "port that packets are sent from");
        if !group.is_multicast() && !group.is_unspecified() {
            args.error_in_whole(
                format!("MCASTIP must be a multicast address, not {group}"),
                "write one of 224.0.0.0 to 239.255.255.255",
            );
        }
        Config {
            place: GroupAddress {
                group: SocketAddrV4::new(group, port),
                source: SocketAddrV4::new(source, source_port.0),
                back: args.key(
                    "LOOP",
                    true,
                    "true if this host gets copies of sent packets",
                ),
                settings: Settings::parse(args),
            },
            sockets: Arc::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> McastSocket {
        McastSocket {
            sockets: Group(Arc::clone(&config.sockets)),
            exchange: Exchange::new(&config.place.settings, init),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        self.exchange.process(batch, &mut self.sockets, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        self.exchange.task(&mut self.sockets, cx)
    }

    fn held(&self) -> usize {
        self.exchange.held()
    }

    fn inherit(config: &mut Config, old: &Config) {
        if config.place == old.place {
            config.sockets = Arc::clone(&old.sockets);
        }
    }

    fn take(&mut self, old: McastSocket) {
        self.exchange.take(old.exchange);
    }

    const HANDLERS: &'static [Handler<McastSocket>] = &[
        Handler::sum("sent", "packets sent", |e| e.exchange.sent),
        Handler::sum("received", "packets received, its own included", |e| {
            e.exchange.received
        }),
    ];
}

impl Resources for McastSocket {
    fn initialize(config: &Config) -> Result<(), String> {
        if config.sockets.get().is_none() {
            let _ = config.sockets.set(config.place.open()?);
        }
        Ok(())
    }
}

impl External for McastSocket {
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        if self.exchange.receives() {
            fds.extend(self.sockets.0.get().map(|s| s.receiver.as_raw_fd()));
        }
    }

    fn must_poll(&self) -> bool {
        self.exchange.must_poll()
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    /// A port for each test of each process, because all sockets of a host receive a group's datagrams.
    fn port(test: u16) -> u16 {
        20_000 + (std::process::id() % 5000) as u16 * 8 + test
    }

    /// A group on the loopback interface.
    fn link(test: u16, more: &str) -> String {
        let port = port(test);
        format!(
            "in :: Null -> m :: McastSocket(239.192.7.2, {port}, 127.0.0.1{more}) -> out :: Collect"
        )
    }

    /// Runs until `n` packets are there.
    fn wait_for(bench: &mut Bench, n: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for _ in 0..10_000_000 {
            bench.run();
            all.extend(bench.take("out"));
            if all.len() >= n {
                return all;
            }
            std::thread::yield_now();
        }
        panic!("{} packets have come, not {n}", all.len());
    }

    fn wait_for_drop(bench: &mut Bench, n: u64) {
        testkit::wait_until("its own packets to come back", || {
            bench.run();
            bench.drops("m", "own") >= n
        });
    }

    #[test]
    fn two_routers_of_a_group_hear_each_other_and_not_themselves() {
        for make in [Bench::new, Bench::strict] {
            let mut a = make(crate::with_basics(), &link(1, ""));
            let mut b = make(crate::with_basics(), &link(1, ", HEADROOM 200"));
            a.push("in", &[b"from a".to_vec(), b"again".to_vec()]);
            b.push("in", &[b"from b"]);
            assert_eq!(wait_for(&mut b, 2), [b"from a".to_vec(), b"again".to_vec()]);
            assert_eq!(wait_for(&mut a, 1), [b"from b"]);
            wait_for_drop(&mut a, 2);
            wait_for_drop(&mut b, 1);
            assert_eq!(
                (a.read("m.sent"), a.read("m.received")),
                ("2".into(), "3".into())
            );
            assert!(a.take("out").is_empty() && b.take("out").is_empty());
        }
    }

    #[test]
    fn a_pulled_packet_is_sent_and_long_ones_are_cut() {
        let mut a = Bench::new(
            crate::with_basics(),
            &format!(
                "q :: Queue -> m :: McastSocket(239.192.7.2, {}, 127.0.0.1)",
                port(2)
            ),
        );
        let mut b = Bench::new(crate::with_basics(), &link(2, ", SNAPLEN 4, HEADROOM 300"));
        let mut c = Bench::new(crate::with_basics(), &link(2, ", SNAPLEN 60000"));
        let long = vec![7; 2000];
        a.push("q", &[b"abcdef".to_vec(), long.clone()]);
        a.run();
        assert_eq!(a.read("m.sent"), "2");
        assert_eq!(wait_for(&mut b, 2), [b"abcd".to_vec(), vec![7; 4]]);
        assert_eq!(wait_for(&mut c, 2), [b"abcdef".to_vec(), long]);
    }

    #[test]
    fn packets_refused_by_the_system_are_dropped_by_name() {
        let mut bench = Bench::new(crate::with_basics(), &link(3, ""));
        let mut long = engine::packet::Packet::large(65_535).expect("a large buffer is free");
        long.put(65_535).expect("it has room").fill(0);
        let mut batch = engine::packet::Batch::new();
        batch.push(long);
        bench.push_packets("in", 0, batch);
        bench.run();
        assert_eq!(bench.drops("m", "refused"), 1);
    }

    #[test]
    fn received_packets_have_headroom_and_a_timestamp() {
        for (stamped, more) in [(true, ""), (false, ", TIMESTAMP false")] {
            let mut a = Bench::new(crate::with_basics(), &link(4, ""));
            let mut b = Bench::new(
                crate::with_basics(),
                &link(4, &format!(", HEADROOM 301{more}")),
            );
            a.push("in", &[b"x"]);
            let came = loop {
                b.run();
                if let Some(packet) = b.take_packets("out").pop() {
                    break packet;
                }
            };
            assert_eq!((came.headroom, came.cold.timestamp != 0), (301, stamped));
        }
    }

    #[test]
    fn socket_and_port_survive_a_reload() {
        let text = link(5, &format!(", {}", port(6)));
        let mut a = Bench::new(crate::with_basics(), &text);
        let mut b = Bench::new(crate::with_basics(), &link(5, ""));
        a.reload(&format!("{text}; Idle -> Discard"))
            .expect("it fits");
        a.push("in", &[b"x"]);
        assert_eq!(wait_for(&mut b, 1), [b"x"]);
    }

    #[test]
    fn wrong_addresses_are_reported_with_remedies() {
        let errors = testkit::errors(crate::with_basics(), "McastSocket(10.0.0.1, 1234)");
        assert!(errors.contains("must be a multicast address"), "{errors}");
        let errors = testkit::errors(
            crate::with_basics(),
            "McastSocket(239.0.0.1, 1, SNAPLEN 70000)",
        );
        assert!(errors.contains("make them smaller"), "{errors}");
        let refused = std::panic::catch_unwind(|| {
            Bench::new(
                crate::with_basics(),
                "McastSocket(239.0.0.1, 1234, 192.0.2.77)",
            );
        });
        let told = refused.expect_err("no host has this address");
        let told = told.downcast::<String>().expect("a text");
        assert!(
            told.contains("cannot receive") && told.contains("SOURCEIP"),
            "{told}"
        );
    }
}
