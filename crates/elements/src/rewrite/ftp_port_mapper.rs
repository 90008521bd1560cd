//! Makes FTP work through a rewriter: rewrites the address and port in PORT commands.
//!
//! Put it before the TCPRewriter of the control connections. When a client announces the address where it waits for
//! data (`PORT 10,0,0,2,3,9`, RFC 959, 4.1.2), FTPPortMapper makes a mapping for the data connection, as if its first
//! packet came to an input of the data rewriter. It changes the command to the mapping's address and port, and gives
//! the TCPRewriter the shift of later sequence numbers.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> FTPPortMapper(nat, nat, 0)
//!     -> nat :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `CONTROL_REWRITER`: the TCPRewriter of control connections.
//! - `DATA_REWRITER`: the rewriter of data connections; may be the same element.
//! - `DATA_REWRITER_INPUT`: the input of the data rewriter whose specification makes the mappings.
//!
//! Keyword arguments:
//!
//! - `CONTROL_PORT`: the port of servers for control connections. Default 21. Packets to other ports are not
//!   examined.
//!
//! A command is found only if it is at the start of a segment and completely in it, with its end of line, CR LF. The
//! data connection is assumed to come from the port below the server's control port. All packets leave by output 0;
//! their own addresses and ports are not changed. There is one copy, on the worker of the rewriters.
//!
//! A mapping opens a port of a client to a server, and anyone who makes a client send some text could choose it (a
//! web page in a browser, for example). So some commands pass unchanged, without a mapping, and are counted under a
//! name by the handler `refused`. The command is not whole (`incomplete`), is not a PORT command of RFC 959
//! (`malformed`), names another host than its sender (`other_host`) or a port below 1024 (`low_port`), or there is no
//! mapping for it (`no_mapping`). With `ashlar click` any host and port may be named, to servers at any port, by a
//! line that ends by LF alone, as in Click.

use super::config::{self, KEYWORDS, kind_of};
use super::rewriter::{self, Joined};
use crate::prelude::*;
use nat::key::{Key, Kind, key, locate_transport};
use nat::spec::MappingResult;
use wire::{Ipv4, Tcp, proto};

pub(super) struct Config {
    /// Flow-set owner, name and kind of the control connections' rewriter.
    control: (String, String, Kind),
    data: config::Config,
    data_name: String,
    input: usize,
    port: u16,
}

pub(super) struct FTPPortMapper {
    control: Joined,
    data: Joined,
    input: usize,
    port: u16,
    /// True if PORT commands are accepted as in Click: for any host and port, to any port, and after LF without CR.
    lenient: bool,
    ports: u64,
    refused: [u64; REASONS.len()],
}

/// Reason why a PORT command is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Incomplete,
    Malformed,
    OtherHost,
    LowPort,
    NoMapping,
}

/// Names of the drop reasons.
const REASONS: [&str; 5] = [
    "incomplete",
    "malformed",
    "other_host",
    "low_port",
    "no_mapping",
];

/// First port on which a client may listen for data connections; lower ports belong to services.
const PORTS_FROM: u16 = 1024;

impl Element for FTPPortMapper {
    const CONTRACT: Contract = Contract::new("FTPPortMapper", manual!())
        .ports(Ports::coded(&["in"], &["out"], "h/h"))
        .needs(&[Facts::IP4])
        .copies(Copies::Owner);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let control: String = args.required(
            "CONTROL_REWRITER",
            "the TCPRewriter or IPRewriter of control connections",
        );
        let data: String = args.required("DATA_REWRITER", "the rewriter of data connections");
        let input = args.required("DATA_REWRITER_INPUT", "its input that makes mappings");
        let (control_name, control) =
            peer(args, &control, &[Kind::Tcp, Kind::Ip], "CONTROL_REWRITER");
        let kinds = [Kind::Ip, Kind::Tcp, Kind::Udp];
        let (data_name, data) = peer(args, &data, &kinds, "DATA_REWRITER");
        if data.specs.len() <= input && !data.specs.is_empty() {
            args.error_in_whole(
                format!("DATA_REWRITER_INPUT: '{data_name}' has no input {input}"),
                "name an input of the data rewriter, from 0 on",
            );
        }
        Config {
            control: (control.owner, control_name, control.kind),
            data,
            data_name,
            input,
            port: args.key("CONTROL_PORT", 21, "port of FTP servers"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> FTPPortMapper {
        let (owner, name, kind) = &config.control;
        let set = rewriter::flow_set(owner, init.shared);
        let space = set.borrow_mut().space(name);
        FTPPortMapper {
            control: Joined {
                set,
                space,
                inputs: Vec::new(),
                kind: *kind,
                bucket_of: None,
            },
            data: config.data.join(&config.data_name, init.shared),
            input: config.input,
            port: config.port,
            lenient: init.as_click(),
            ports: 0,
            refused: [0; REASONS.len()],
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        self.control_packet(packet, cx);
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<FTPPortMapper>] = &[
        counter!("ports", "PORT commands that were changed", ports),
        Handler::text(
            "refused",
            "PORT commands that were not: a line for each reason, its name and how many",
            |e, _| {
                let lines = REASONS.iter().zip(e.refused);
                Ok(lines
                    .map(|(name, count)| format!("{name} {count}\n"))
                    .collect())
            },
        ),
    ];
}

/// Name and configuration of the rewriter `name`, which must be of one of `kinds`. Errors are recorded in `args`.
fn peer(args: &mut Args, name: &str, kinds: &[Kind], what: &str) -> (String, config::Config) {
    let found = args.peer(name).and_then(|p| Some((p, kind_of(p.class())?)));
    if let Some((peer, kind)) = found.filter(|(_, kind)| kinds.contains(kind)) {
        let config = config::Config::parse(kind, &mut peer.args(KEYWORDS));
        return (peer.name().to_owned(), config);
    }
    if !args.element().is_empty() {
        let wanted = if !kinds.contains(&Kind::Udp) {
            "a TCPRewriter or IPRewriter"
        } else {
            "an IPRewriter-like element"
        };
        args.error_in_whole(
            format!("{what}: '{name}' is not {wanted}"),
            "see the manual page",
        );
    }
    (String::new(), config::Config::placeholder(kinds[0]))
}

/// Protocol number of a TCP flow in a rewriter's keys: IPRewriter distinguishes protocols.
fn number_in(kind: Kind) -> u8 {
    if kind == Kind::Ip { proto::TCP } else { 0 }
}

impl FTPPortMapper {
    /// Rewrites the PORT command in a control packet. `None` if the packet has none, or the command is rejected.
    fn control_packet(&mut self, packet: &mut Packet, cx: &mut Cx) -> Option<()> {
        let datagram = crate::ip4::datagram(packet);
        let at = locate_transport(datagram).filter(|p| p.first && p.protocol == proto::TCP)?;
        let whole = !Ipv4::new_unchecked(datagram).more_fragments();
        let segment = Tcp::new_checked(datagram.get(at.at..)?).ok()?;
        let ends = key(Kind::Tcp, datagram, at, 0);
        let ends = ends.filter(|ends| self.lenient || ends.dport == self.port)?;
        let found = port_command(segment.payload(), self.lenient)?;
        let allowed = match found {
            _ if !whole => Err(Refused::Incomplete),
            Ok(found) if self.lenient => Ok(found),
            Ok((client, _, _)) if client != ends.src => Err(Refused::OtherHost),
            Ok((_, port, _)) if port < PORTS_FROM => Err(Refused::LowPort),
            found => found,
        };
        let (client, port, used) = self.count(allowed)?;
        let connection = self.connection(&ends, cx.now());
        self.count(connection.ok_or(Refused::NoMapping))?;
        let (start, old_end) = (at.at + segment.header_len(), datagram.len());
        let after = segment.seq().wrapping_add((old_end - start) as u32);
        let to = self.data_mapping(&ends, (client, port), cx);
        let to = self.count(to.ok_or(Refused::NoMapping))?;
        let [a, b, c, d] = to.src.to_be_bytes();
        let [high, low] = to.sport.to_be_bytes();
        // The word stays as it was written, in small or capital letters.
        let word = String::from_utf8_lossy(&segment.payload()[..4]);
        let command = format!("{word} {a},{b},{c},{d},{high},{low}");
        let by = command.len() as isize - used as isize;
        replace(packet, start, used, command.as_bytes())?;
        finish(packet, at.at);
        self.ports += 1;
        self.add_shift(&ends, after, by as i32, cx.now());
        Some(())
    }

    /// Counts a rejected command under its reason. Returns the accepted command.
    fn count<T>(&mut self, command: Result<T, Refused>) -> Option<T> {
        command
            .inspect_err(|&reason| self.refused[reason as usize] += 1)
            .ok()
    }

    /// Rewritten source of the client's data connection.
    fn data_mapping(&self, ends: &Key, (src, sport): (u32, u16), cx: &mut Cx) -> Option<Key> {
        let key = Key {
            src,
            sport,
            dport: ends.dport.checked_sub(1)?,
            space: self.data.space,
            proto: number_in(self.data.kind),
            ..*ends
        };
        let mut set = self.data.set.borrow_mut();
        let now = cx.now();
        let (made, _) = self
            .data
            .find_or_make(&mut set, key, key, (self.input, 0), now, || cx.random());
        match made {
            MappingResult::Mapping(end) => Some(set.rewritten(end)),
            _ => None,
        }
    }

    /// The control connection's mapping. Without one, as for a connection's first packet, commands stay as they are.
    fn connection(&self, ends: &Key, now: Time) -> Option<()> {
        let key = Key {
            space: self.control.space,
            proto: number_in(self.control.kind),
            ..*ends
        };
        self.control.set.borrow_mut().find(&key, now).map(|_| ())
    }

    /// Adds a sequence-number shift of `by` bytes, from `after` on, to the control connection's mapping.
    fn add_shift(&self, ends: &Key, after: u32, by: i32, now: Time) {
        let mut set = self.control.set.borrow_mut();
        let key = Key {
            space: self.control.space,
            proto: number_in(self.control.kind),
            ..*ends
        };
        if let Some(end) = set.find(&key, now).filter(|_| by != 0) {
            let shifts = set.get(end.flow).shifts.get_or_insert_default();
            shifts[end.side].add(after, by);
        }
    }
}

/// Content of a PORT command: address, port, and its length without the end of its line.
type Command = (u32, u16, usize);

/// Parses the PORT command at the start of `data`; `None` if there is none. If `lenient`, LF without CR ends a line.
fn port_command(data: &[u8], lenient: bool) -> Option<Result<Command, Refused>> {
    let (word, rest) = data.split_at_checked(4)?;
    if !word.eq_ignore_ascii_case(b"PORT") {
        return None;
    }
    let Some(line) = rest.iter().position(|&b| b == b'\n') else {
        return Some(Err(Refused::Incomplete));
    };
    let line = &rest[..line];
    let line = match line.strip_suffix(b"\r") {
        Some(line) => Some(line),
        None => Some(line).filter(|_| lenient),
    };
    Some(line.and_then(parameters).ok_or(Refused::Malformed))
}

/// Parses the parameters of a PORT command.
fn parameters(line: &[u8]) -> Option<Command> {
    let spaces = line.iter().take_while(|&&b| b == b' ').count();
    let text = line.get(spaces..).filter(|_| spaces > 0)?;
    let text = std::str::from_utf8(text).ok()?.trim_end_matches(' ');
    let mut numbers = [0u8; 6];
    let mut parts = text.split(',');
    for number in &mut numbers {
        let digits = parts
            .next()
            .filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
        *number = digits?.parse().ok()?;
    }
    let [a, b, c, d, high, low] = numbers;
    let address = u32::from_be_bytes([a, b, c, d]);
    let end = parts.next().is_none().then_some(4 + spaces + text.len())?;
    Some((address, u16::from_be_bytes([high, low]), end))
}

/// Replaces `used` bytes at `start` of the datagram by `new`, and truncates the packet to the datagram's length.
fn replace(packet: &mut Packet, start: usize, used: usize, new: &[u8]) -> Option<()> {
    let total = crate::ip4::datagram(packet).len();
    let before = packet.network_offset();
    packet.truncate(before + total);
    if new.len() > used {
        packet.put(new.len() - used)?;
    }
    let bytes = packet.network_mut();
    bytes.copy_within(start + used..total, start + new.len());
    bytes[start..start + new.len()].copy_from_slice(new);
    packet.truncate(before + total - used + new.len());
    Some(())
}

/// Updates the IP length and the checksums after the datagram's length has changed.
fn finish(packet: &mut Packet, at: usize) {
    let bytes = packet.network_mut();
    let total = bytes.len();
    let mut ip = Ipv4::new_unchecked(&mut bytes[..]);
    ip.patch_total_len(total as u16);
    let pseudo = ip.pseudo(total - at);
    Tcp::new_unchecked(&mut bytes[at..]).fill_checksum(pseudo);
}

#[cfg(test)]
mod tests {
    use crate::rewrite::testing::show;
    use testkit::{Bench, ip4};
    use wire::{Ipv4, Tcp};

    const TEXT: &str = "IPRewriterPatterns(pat 1.0.0.1 1024-65535# - -);
        i :: CheckIPHeader -> ftp :: FTPPortMapper(rw, rw, 0)
        -> rw :: TCPRewriter(pattern pat 0 0) -> out :: Collect";

    fn client(seq: u32, data: &str) -> Vec<u8> {
        let built = ip4().src("200.200.200.200").dst("2.0.0.2").tcp(30, 21);
        built.seq_ack(seq, 0).payload(data).bytes()
    }

    fn server(ack: u32, options: &[u8]) -> Vec<u8> {
        let built = ip4().src("2.0.0.2").dst("1.0.0.1").tcp(21, 1024);
        built.seq_ack(0, ack).tcp_options(options).bytes()
    }

    /// Sequence number, acknowledgement, data and options of a rewritten packet.
    fn go(bench: &mut Bench, packet: &[u8]) -> (u32, u32, String, Vec<u8>) {
        bench.push("i", &[packet]);
        let out = bench.take("out").pop().unwrap();
        show(&out);
        let ip = Ipv4::new_checked(&out[..]).unwrap();
        let tcp = Tcp::new_checked(ip.payload()).unwrap();
        let data = String::from_utf8_lossy(tcp.payload()).into_owned();
        (tcp.seq(), tcp.ack(), data, tcp.options().to_vec())
    }

    #[test]
    fn a_port_command_is_changed_and_the_numbers_behind_it_are_shifted() {
        let mut b = Bench::new(crate::CLASSES, TEXT);
        assert_eq!(go(&mut b, &client(0, "x")).0, 0);
        let port = client(1, "PORT 200,200,200,200,200,200\r\n");
        for _ in 0..2 {
            // A retransmitted command gets the same result.
            let (seq, _, data, _) = go(&mut b, &port);
            assert_eq!((seq, data.as_str()), (1, "PORT 1,0,0,1,4,1\r\n"));
        }
        assert_eq!(go(&mut b, &client(31, "fubar\n")).0, 19);
        for (ack, back) in [(0, 0), (1, 1), (19, 31)] {
            assert_eq!(go(&mut b, &server(ack, &[])).1, back);
        }
        let sack = |edges: &[u32]| {
            let mut o = vec![1, 1, 5, 2 + 4 * edges.len() as u8];
            o.extend(edges.iter().flat_map(|e| e.to_be_bytes()));
            o
        };
        let blocks = go(&mut b, &server(0, &sack(&[1, 10, 1, 19, 19, 21]))).3;
        assert_eq!(blocks, sack(&[1, 10, 1, 31, 31, 33]));
        let data = ip4().src("2.0.0.2").dst("1.0.0.1").tcp(20, 1025).bytes();
        b.push("i", &[data]);
        let out = b.take("out").pop().unwrap();
        assert_eq!(show(&out), "2.0.0.2 20 200.200.200.200 51400");
        assert_eq!(b.read("ftp.ports"), "2");
    }

    #[test]
    fn an_ip_rewriter_may_have_the_control_connections() {
        let mut b = Bench::new(crate::CLASSES, &TEXT.replace("TCPRewriter", "IPRewriter"));
        let port = client(1, "PORT 200,200,200,200,200,200\r\n");
        assert_eq!(go(&mut b, &port).2, "PORT 200,200,200,200,200,200\r\n");
        assert_eq!(go(&mut b, &port).2, "PORT 1,0,0,1,4,1\r\n", "as in Click");
        let small = client(1, "port 200,200,200,200,200,200\r\n");
        assert_eq!(go(&mut b, &small).2, "port 1,0,0,1,4,1\r\n", "as in Click");
        assert_eq!(go(&mut b, &client(31, "fubar\n")).0, 19);
    }

    #[test]
    fn other_commands_pass_unchanged_and_are_counted_by_name() {
        let mut b = Bench::new(crate::CLASSES, TEXT);
        let counts = |b: &mut Bench| {
            let text = b.read("ftp.refused");
            let counts = text.lines().filter_map(|line| line.split_once(' '));
            let counts = counts.filter(|(_, count)| *count != "0");
            counts
                .map(|(name, n)| format!("{name} {n}"))
                .collect::<Vec<_>>()
        };
        for line in ["PO", "", "NOOP\r\n", "XPORT 200,200,200,200,200,20\r\n"] {
            assert_eq!(go(&mut b, &client(1, line)).2, line);
        }
        assert!(counts(&mut b).is_empty());
        for (n, (line, reason)) in [
            ("PORT 9,9,9,9,200,1\r\n", "other_host 1"),
            ("PORT 200,200,200,200,200\r\n", "malformed 1"),
            ("PORT 200,200,200,200,200,256\r\n", "malformed 2"),
            ("PORT 200,200,200,200,200,+1\r\n", "malformed 3"),
            ("PORT 200,200,200,200,200,20", "incomplete 1"),
            ("PORT 200,200,200,200,200,20\r", "incomplete 2"),
            ("PORT 200,200,200,200,200,20\n", "malformed 4"),
            ("PORT 200,200,200,200,200,20\rX\n", "malformed 5"),
            ("PORT\r\n", "malformed 6"),
            ("PORT 200,200,200,200,1,1,1\r\n", "malformed 7"),
            ("PORT 200,200,200,200,0,22\r\n", "low_port 1"),
            ("PORT 200,200,200,200,3,255\r\n", "low_port 2"),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(go(&mut b, &client(1, line)).2, line);
            let counts = counts(&mut b);
            assert!(counts.contains(&reason.to_owned()), "{n}: {counts:?}");
        }
        assert_eq!(b.read("ftp.ports"), "0");
        // No port has been opened.
        b.push(
            "i",
            &[ip4().src("2.0.0.2").dst("1.0.0.1").tcp(20, 1025).bytes()],
        );
        assert_ne!(
            show(&b.take("out").pop().unwrap()),
            "2.0.0.2 20 200.200.200.200 22"
        );
    }

    #[test]
    fn only_control_connections_are_looked_at() {
        let line = "PORT 200,200,200,200,200,200\r\n";
        let to = |port| {
            let built = ip4().src("200.200.200.200").dst("2.0.0.2").tcp(30, port);
            built.seq_ack(1, 0).payload(line).bytes()
        };
        for (argument, port) in [("", 21), (", CONTROL_PORT 2121", 2121)] {
            let mut b = Bench::new(
                crate::CLASSES,
                &TEXT.replace("rw, 0", &format!("rw, 0{argument}")),
            );
            for other in [80, 22, 0, 65535] {
                assert_eq!(go(&mut b, &to(other)).2, line);
            }
            // The first packet makes the connection's mapping.
            assert_eq!(go(&mut b, &to(port)).2, line);
            assert_eq!(b.read("ftp.ports"), "0");
            assert_ne!(go(&mut b, &to(port)).2, line);
            assert_eq!(b.read("ftp.ports"), "1");
        }
    }

    #[test]
    fn as_in_click_a_command_may_name_another_host() {
        let mut b = Bench::click(crate::CLASSES, TEXT);
        go(&mut b, &client(0, "x"));
        let (_, _, data, _) = go(&mut b, &client(1, "PORT 9,9,9,9,1,1\n"));
        assert_eq!(data, "PORT 1,0,0,1,4,1\n");
    }

    #[test]
    fn a_command_may_grow() {
        let text = TEXT.replace("1.0.0.1 ", "192.168.100.100 ");
        let mut b = Bench::new(crate::CLASSES, &text);
        let small = |seq, data: &str| {
            let built = ip4().src("1.1.1.1").dst("2.0.0.2").tcp(30, 21);
            built.seq_ack(seq, 0).payload(data).bytes()
        };
        go(&mut b, &small(0, "x"));
        let data = go(&mut b, &small(1, "port 1,1,1,1,9,1\r\nNOOP\r\n")).2;
        assert_eq!(data, "port 192,168,100,100,4,1\r\nNOOP\r\n");
        assert_eq!(go(&mut b, &small(25, "y")).0, 33);
    }
}
