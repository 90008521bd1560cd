//! Exchanges packets with another program over a TCP, UDP or Unix socket.
//!
//! ```click
//! FromDevice(eth0, CORES 0) -> s :: Socket(UDP, 127.0.0.1, 7702, 127.0.0.1) -> Discard;
//! ```
//!
//! Packets of the input are sent through the socket; received data leaves by the output. The input pushes or
//! pulls. The element never blocks: if the socket's buffer is full, up to 1024 packets wait here.
//!
//! A server listens at the address. It has one TCP or Unix connection at a time; it sends datagrams to the
//! sender of the last received datagram. A client connects to the address before the router starts; a UDP
//! client of address 0.0.0.0 sends each packet to its destination annotation. Streams do not keep packet
//! boundaries: the data that has arrived becomes a packet of at most `SNAPLEN` bytes.
//!
//! Drops: `full` if 1024 packets wait already; `refused` if the system refuses the packet or there is no
//! connection; `denied` if the sender may not send to this server.
//!
//! Arguments:
//!
//! - `TYPE`: `TCP`, `UDP`, `UNIX` or `UNIX_DGRAM`.
//! - `IP`, `PORTNUMBER`: address of the server. For the Unix types use `FILENAME` instead: the server's file.
//! - `LOCALIP`, `LOCALPORTNUMBER`: address of the client; for the Unix types `LOCALFILENAME`. If given, this
//!   element is a client.
//!
//! Keyword arguments:
//!
//! - `CLIENT`: true if this element is a client. Default false, but true without outputs.
//! - `NODELAY`: true if TCP sends small packets at once. Default true.
//! - `SNAPLEN`: maximum length of a received packet; longer datagrams are truncated. Default 2048.
//! - `SNDBUF`, `RCVBUF`: bytes of the socket's buffers. Default is the system's.
//! - `TIMESTAMP`: true if received packets get the time as their timestamp. Default true.
//! - `HEADROOM`: minimum number of free bytes before a received packet. Default 28.
//! - `ALLOW`, `DENY`: routing tables such as RadixIPLookup, for servers of TCP and UDP. An address with a route in
//!   ALLOW may send. Of the others, an address with a route in DENY may not.
//! - `VERBOSE`: true to log connections that open and close. Default false.
//! - `PROPER`: accepted for compatibility with Click.

use super::access_tables::{AccessTables, Lists};
use super::endpoint::{Address, Bound, Role, Wire};
use super::exchange::{Exchange, Link, ReceivedPacket, Settings};
use crate::prelude::*;
use arguments::service::Port;
use elements::stderr_messages::complain;
use engine::external::{self, External};
use socket2::{SockAddr, Socket as Descriptor};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

pub(crate) struct Config {
    role: Role,
    lists: Lists,
    verbose: bool,
    /// Opened before the start; over a hot swap it stays with the element that has the same arguments.
    bound: Arc<OnceLock<Bound>>,
}

pub(crate) struct Socket {
    line: Line,
    exchange: Exchange,
}

/// The socket, and the address of the other end.
struct Line {
    name: String,
    config: Arc<Config>,
    guard: AccessTables,
    /// The connection that a server has accepted.
    accepted: Option<Descriptor>,
    /// Sender of the last datagram to a server.
    peer: Option<SockAddr>,
    /// The connection of a client has ended.
    client_gone: bool,
}

impl Line {
    fn log(&self, what: &str) {
        if self.config.verbose {
            complain(&format!("{}: {what}", self.name));
        }
    }

    fn lets_in(&self, from: &SockAddr) -> bool {
        let address = from.as_socket_ipv4();
        address.is_none_or(|from| self.guard.lets_in(*from.ip()))
    }

    fn accept(&mut self, listener: &Descriptor) {
        let Ok((socket, from)) = listener.accept() else {
            return;
        };
        if !self.lets_in(&from) {
            let from = from.as_socket().map(|a| a.to_string()).unwrap_or_default();
            return self.log(&format!("denied connection from {from}"));
        }
        if self.config.role.ready(&socket).is_ok() {
            let from = from.as_socket().map(|a| a.to_string());
            let from = from.unwrap_or_else(|| "local client".to_owned());
            self.log(&format!("opened connection from {from}"));
            self.accepted = Some(socket);
        }
    }

    /// The stream has ended, or is broken.
    fn close(&mut self) {
        self.log("closed connection");
        self.client_gone = true;
        self.accepted = None;
    }

    /// The socket that packets of a stream go by.
    fn stream<'a>(&'a self, bound: &'a Bound) -> Option<&'a Descriptor> {
        match &bound.wire {
            Wire::Listens(_) => self.accepted.as_ref(),
            Wire::Connected(socket) => Some(socket).filter(|_| !self.client_gone),
            Wire::Serves(socket) | Wire::Annotated(socket, _) => Some(socket),
        }
    }

    /// Ends a stream whose socket gives an error.
    fn check_result<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        let waits =
            |e: &io::Error| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
        if self.config.role.stream && result.as_ref().is_err_and(|e| !waits(e)) {
            self.close();
        }
        result
    }
}

impl Link for Line {
    fn send(&mut self, packet: &Packet) -> io::Result<usize> {
        let config = Arc::clone(&self.config);
        let bound = config.bound.get().ok_or(ErrorKind::NotConnected)?;
        let mut socket = self.stream(bound).ok_or(ErrorKind::NotConnected)?;
        let sent = match &bound.wire {
            Wire::Listens(_) | Wire::Connected(_) => match socket.write(packet.data()) {
                // An earlier datagram was refused. This is reported once, and does not concern the present one.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => socket.write(packet.data()),
                sent => sent,
            },
            Wire::Serves(_) => {
                let peer = self.peer.as_ref().ok_or(ErrorKind::NotConnected)?;
                socket.send_to(packet.data(), peer)
            }
            Wire::Annotated(_, port) => {
                let to = SocketAddrV4::new(packet.anno().dst4().into(), *port);
                socket.send_to(packet.data(), &to.into())
            }
        };
        self.check_result(sent)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<ReceivedPacket> {
        let config = Arc::clone(&self.config);
        let bound = config.bound.get().ok_or(ErrorKind::WouldBlock)?;
        let mut socket = self.stream(bound).ok_or(ErrorKind::WouldBlock)?;
        let peer = match bound.wire {
            Wire::Serves(_) => Some(socket.peek_sender()?),
            _ => None,
        };
        let read = socket.read(buffer);
        let wanted = peer.as_ref().is_none_or(|from| self.lets_in(from));
        if peer.is_some() && wanted {
            self.peer = peer;
        }
        let len = self.check_result(read)?;
        if len == 0 && config.role.stream {
            self.close();
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(ReceivedPacket { len, wanted })
    }

    fn maintain_link(&mut self) -> bool {
        let config = Arc::clone(&self.config);
        match config.bound.get().map(|b| &b.wire) {
            Some(Wire::Listens(listener)) => {
                if self.accepted.is_none() {
                    self.accept(listener);
                }
                self.accepted.is_some()
            }
            Some(Wire::Serves(_)) => self.peer.is_some(),
            Some(Wire::Connected(_)) => !self.client_gone,
            Some(Wire::Annotated(..)) => true,
            None => false,
        }
    }
}

/// The kind of socket, and its addresses: where it serves or goes to, and where it comes from.
fn addresses(args: &mut Args) -> (bool, Address, Option<Address>) {
    let kind: String = args.required("TYPE", "TCP, UDP, UNIX or UNIX_DGRAM");
    let (stream, file) = match kind.to_ascii_uppercase().as_str() {
        "TCP" => (true, false),
        "UDP" => (false, false),
        "UNIX" => (true, true),
        "UNIX_DGRAM" => (false, true),
        _ => {
            if !kind.is_empty() {
                args.error_in_whole(
                    format!("unknown socket type `{kind}`"),
                    "write TCP, UDP, UNIX or UNIX_DGRAM",
                );
            }
            (true, false)
        }
    };
    if file {
        let address = args.required("FILENAME", "the server's file");
        let local = args.maybe("LOCALFILENAME", "the client's file");
        return (stream, Address::File(address), local.map(Address::File));
    }
    let ip = args.required("IP", "the server's address");
    let port = match stream {
        true => args.required::<Tcp>("PORTNUMBER", SERVER).0,
        false => args.required::<Udp>("PORTNUMBER", SERVER).0,
    };
    let local: Option<Ipv4Addr> = args.maybe("LOCALIP", "the client's address");
    let local_port = match stream {
        true => args.optional::<Tcp>("LOCALPORTNUMBER", Port(0), CLIENT).0,
        false => args.optional::<Udp>("LOCALPORTNUMBER", Port(0), CLIENT).0,
    };
    let local = local.map(|ip| Address::Ip(SocketAddrV4::new(ip, local_port)));
    (stream, Address::Ip(SocketAddrV4::new(ip, port)), local)
}

type Tcp = Port<{ wire::proto::TCP }>;
type Udp = Port<{ wire::proto::UDP }>;

const SERVER: &str = "the server's port";
const CLIENT: &str = "the client's port";

impl Element for Socket {
    const CONTRACT: Contract = Contract::new("Socket", manual!())
        .ports(Ports::coded(&["in?"], &["out?"], "a/h").apart())
        .drops(&["full", "refused", "denied"])
        .copies(Copies::One)
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>(), &external::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (stream, address, local) = addresses(args);
        let client: Option<bool> = args.key_maybe("CLIENT", "true if this is a client");
        let client = client.unwrap_or(local.is_some() || args.outputs() == 0);
        Config {
            role: Role {
                stream,
                client,
                address,
                local,
                nodelay: args.key("NODELAY", true, "true if TCP sends small packets at once"),
                settings: Settings::parse(args),
            },
            lists: Lists::parse(args),
            verbose: {
                let _: bool = args.key("PROPER", false, "accepted for compatibility with Click");
                args.key("VERBOSE", false, "true to log connections")
            },
            bound: Arc::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> Socket {
        Socket {
            line: Line {
                name: init.name.to_owned(),
                config: Arc::clone(config),
                guard: AccessTables::new(&config.lists, init),
                accepted: None,
                peer: None,
                client_gone: false,
            },
            exchange: Exchange::new(&config.role.settings, init),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        self.exchange.process(batch, &mut self.line, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        self.exchange.task(&mut self.line, cx)
    }

    fn held(&self) -> usize {
        self.exchange.held()
    }

    fn inherit(config: &mut Config, old: &Config) {
        if config.role == old.role {
            config.bound = Arc::clone(&old.bound);
        }
    }

    fn take(&mut self, old: Socket) {
        if Arc::ptr_eq(&self.line.config.bound, &old.line.config.bound) {
            let (line, old) = (&mut self.line, old.line);
            (line.accepted, line.peer, line.client_gone) =
                (old.accepted, old.peer, old.client_gone);
        }
        self.exchange.take(old.exchange);
    }

    const HANDLERS: &'static [Handler<Socket>] = &[
        Handler::sum("sent", "packets sent", |e| e.exchange.sent),
        Handler::sum("received", "packets received", |e| e.exchange.received),
    ];
}

impl Resources for Socket {
    fn initialize(config: &Config) -> Result<(), String> {
        if config.bound.get().is_none() {
            let _ = config.bound.set(config.role.open()?);
        }
        Ok(())
    }
}

impl External for Socket {
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        let Some(bound) = self.line.config.bound.get() else {
            return;
        };
        match (self.line.stream(bound), &bound.wire) {
            (Some(socket), _) if self.exchange.receives() => fds.push(socket.as_raw_fd()),
            (None, Wire::Listens(listener)) => fds.push(listener.as_raw_fd()),
            _ => {}
        }
    }

    fn must_poll(&self) -> bool {
        self.exchange.must_poll()
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
