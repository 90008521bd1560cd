//! Linux interfaces on real traffic: two hosts in network namespaces with all offloads on, and the
//! `bridge` example between them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::Namespace;

/// Hosts `a` and `b` in one subnet, and a namespace `r` between them with the ends `r0` and `r1`.
struct Net {
    a: Namespace,
    r: Namespace,
    b: Namespace,
}

impl Net {
    fn new() -> Net {
        let net = Net {
            a: Namespace::new("ash-a"),
            r: Namespace::new("ash-r"),
            b: Namespace::new("ash-b"),
        };
        net.wire("a", 1, "r0");
        net.wire("b", 2, "r1");
        net
    }

    fn namespace(&self, letter: &str) -> &Namespace {
        match letter {
            "a" => &self.a,
            "r" => &self.r,
            "b" => &self.b,
            _ => panic!("there is no namespace {letter}"),
        }
    }

    /// Makes the link between a host and the middle namespace.
    fn wire(&self, host: &str, number: u32, end: &str) {
        let (space, router) = (self.namespace(host), self.r.name());
        space.ip(&format!(
            "link add eth0 numtxqueues 2 numrxqueues 2 type veth peer name {end} netns {router} \
             numtxqueues 2 numrxqueues 2"
        ));
        space.ip(&format!("addr add 10.99.0.{number}/24 dev eth0"));
        space.ip(&format!("addr add fd99::{number}/64 dev eth0 nodad"));
        space.ip(&format!("link set eth0 address 02:99:00:00:00:0{number}"));
        space.ip("link set eth0 up");
        self.r.ip(&format!("link set {end} up"));
    }

    fn command(&self, ns: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        // No command takes that long, unless it waits for something that never comes.
        let space = self.namespace(ns).name();
        command.args(["netns", "exec", space, "timeout", "120", program]);
        command
    }

    fn python(&self, ns: &str, script: &str) -> Child {
        let mut command = self.command(ns, "python3");
        command
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn bridge(&self, a: &str, b: &str, queues: usize) -> Bridge {
        let exe = std::env::current_exe().unwrap();
        let program = exe
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .join("examples/bridge");
        assert!(
            program.exists(),
            "build it: cargo build -p ports --examples"
        );
        let mut command = self.command("r", program.to_str().unwrap());
        command.args([a, b, &queues.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Bridge { child, output }
    }
}

struct Bridge {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Bridge {
    /// Waits until a port has reported `event`.
    fn wait(&mut self, event: &str) {
        let start = Instant::now();
        loop {
            self.child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
            let lines = (&mut self.output).lines().map(Result::unwrap);
            let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            if lines.iter().any(|line| line.contains(event)) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{lines:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the bridge. Returns its output.
    fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let lines = (&mut self.output).lines().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success());
        lines
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sum of a counter over ports and queues.
fn counter(lines: &[String], name: &str) -> u64 {
    lines
        .iter()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words.get(1) == Some(&name))
        .map(|words| words.last().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// Receives one TCP connection's bytes and prints length and digest.
fn server(family: &str, bind: &str) -> String {
    format!(
        "import socket,hashlib\n\
         s=socket.socket(socket.{family});s.setsockopt(1,2,1);s.bind(('{bind}',9000));s.listen()\n\
         print('listening',flush=True)\n\
         c,_=s.accept();h=hashlib.sha256();n=0\n\
         while True:\n  d=c.recv(1<<20)\n  if not d: break\n  h.update(d);n+=len(d)\n\
         print(n,h.hexdigest(),flush=True)"
    )
}

fn client(family: &str, to: &str, bytes: usize) -> String {
    format!(
        "import socket,hashlib,random\n\
         d=random.Random(7).randbytes({bytes})\n\
         s=socket.socket(socket.{family});s.settimeout(60);s.connect(('{to}',9000));s.sendall(d)\n\
         s.close();print(len(d),hashlib.sha256(d).hexdigest())"
    )
}

fn last_line(child: Child) -> String {
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .last()
        .unwrap()
        .to_string()
}

fn transfer(net: &Net, family: &str, from: &str, to: (&str, &str), bytes: usize) {
    let mut server = net.python(to.0, &server(family, to.1));
    let mut line = String::new();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let sent = last_line(net.python(from, &client(family, to.1, bytes)));
    line.clear();
    output.read_line(&mut line).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(line.trim(), sent);
}

#[test]
fn tcp_crosses_with_offloads_on_byte_for_byte() {
    let net = Net::new();
    let bridge = net.bridge("r0", "r1", 2);
    transfer(&net, "AF_INET", "a", ("b", "10.99.0.2"), 20_000_000);
    transfer(&net, "AF_INET", "b", ("a", "10.99.0.1"), 5_000_000);
    transfer(&net, "AF_INET6", "a", ("b", "fd99::2"), 20_000_000);
    let lines = bridge.end();
    for name in [
        "gso_unknown",
        "bad_offload",
        "too_long",
        "tx_too_long",
        "tx_errors",
    ] {
        assert_eq!(counter(&lines, name), 0, "{name}: {lines:?}");
    }
    // The peer's own counters show wrong checksums, which retransmissions would hide.
    let mut snmp = net.command("b", "cat");
    let out = snmp.arg("/proc/net/snmp").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|l| l.starts_with("Tcp:"))
        .map(|l| l.split_whitespace().collect())
        .collect();
    let column = rows[0]
        .iter()
        .position(|name| *name == "InCsumErrors")
        .unwrap();
    assert_eq!(rows[1][column], "0");
}

#[test]
fn udp_gso_is_cut_into_the_datagrams_that_were_sent() {
    let net = Net::new();
    let bridge = net.bridge("r0", "r1", 1);
    let receiver = "import socket\n\
        s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.bind(('10.99.0.2',9000));s.settimeout(20)\n\
        print('listening',flush=True)\n\
        got=[s.recv(9000) for _ in range(11)]\n\
        print([len(g) for g in got], b''.join(got)==bytes(i%251 for i in range(10500)))";
    let mut server = net.python("b", receiver);
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let sender = "import socket\n\
        s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.setsockopt(17,103,1000)\n\
        s.sendto(bytes(i%251 for i in range(10500)),('10.99.0.2',9000));print()";
    last_line(net.python("a", sender));
    line.clear();
    output.read_line(&mut line).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(line.trim(), format!("[{}500] True", "1000, ".repeat(10)));
    bridge.end();
}

#[test]
fn vlan_tags_cross() {
    let net = Net::new();
    let bridge = net.bridge("r0", "r1", 1);
    // The kernel removes tags on both hops; the far end finds them in the auxiliary data. The sender's own frame has
    // Ethertype 0x88b5 and priority 5 of VLAN 100.
    let receiver = "import socket,struct\n\
        s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW,socket.htons(3))\n\
        s.bind(('eth0',3));s.setsockopt(263,8,1);s.settimeout(20)\n\
        print('listening',flush=True)\n\
        d=b''\n\
        while d[12:14]!=b'\\x88\\xb5': d,aux,_,_=s.recvmsg(2000,200)\n\
        tci,tpid=struct.unpack('HH',aux[0][2][16:20])\n\
        print(hex(tci),hex(tpid),len(d),d[12:14].hex(),d[14:16])";
    let mut server = net.python("b", receiver);
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let sender = "import socket\n\
        s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW,0);s.bind(('eth0',0))\n\
        f=bytes.fromhex('029900000002029900000001'+'8100a064'+'88b5')+b'hi'*30\n\
        s.send(f);print()";
    last_line(net.python("a", sender));
    line.clear();
    output.read_line(&mut line).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(line.trim(), "0xa064 0x8100 74 88b5 b'hi'");
    bridge.end();
}

#[test]
fn recreated_interface_is_used_again() {
    let net = Net::new();
    let mut bridge = net.bridge("r0", "r1", 2);
    transfer(&net, "AF_INET", "a", ("b", "10.99.0.2"), 100_000);
    net.r.ip("link set r1 down");
    // A change that ends before the port checks its interface again is not reported.
    bridge.wait("event r1: the link is down");
    net.r.ip("link set r1 up");
    transfer(&net, "AF_INET", "a", ("b", "10.99.0.2"), 100_000);
    net.r.ip("link del r1");
    bridge.wait("event r1: the interface is gone");
    net.wire("b", 2, "r1");
    transfer(&net, "AF_INET", "a", ("b", "10.99.0.2"), 100_000);
    assert!(counter(&bridge.end(), "link_changes") >= 3);
}

#[test]
fn frames_that_the_router_sends_do_not_come_back_to_it() {
    for queues in [1, 2] {
        let net = Net::new();
        let bridge = net.bridge("r0", "r1", queues);
        // All at once: after the first answer, ping waits for the rest no longer than its interval.
        let ping = [
            "-c",
            "5",
            "-l",
            "5",
            "-i",
            "3",
            "-W",
            "3",
            "-q",
            "10.99.0.2",
        ];
        let out = net.command("a", "ping").args(ping).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(
            text.contains("5 received, 0% packet loss"),
            "{queues} queues: {text}"
        );
        bridge.end();
    }
}

#[test]
fn a_tap_port_talks_to_the_kernel() {
    let net = Net::new();
    let bridge = net.bridge("r0", "tap:t0", 2);
    net.r.ip("addr add 10.99.0.9/24 dev t0");
    transfer(&net, "AF_INET", "a", ("r", "10.99.0.9"), 3_000_000);
    transfer(&net, "AF_INET", "r", ("a", "10.99.0.1"), 3_000_000);
    let lines = bridge.end();
    assert_eq!(counter(&lines, "tx_errors"), 0, "{lines:?}");
}

/// Sends a TCP super-frame of 60,000 bytes of payload by eth0, in segments of `segment` bytes.
fn super_frame(segment: usize) -> String {
    format!(
        "
import socket, struct
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0800)
packets.setsockopt(263, 15, 1)
packets.bind(('eth0', 0x0800))
ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 60040, 1, 0, 64, 6, 0, bytes([10, 99, 0, 1]), bytes([10, 99, 0, 2]))
tcp = struct.pack('>HHIIBBHHH', 1, 2, 0, 0, 0x50, 0x10, 100, 0, 0)
vnet = struct.pack('=BBHHHH', 1, 1, 54, {segment}, 34, 16)
packets.send(vnet + b'\\xff' * 6 + bytes([2, 0, 0, 0, 0, 1, 8, 0]) + ip + tcp + bytes(60000))
"
    )
}

#[test]
fn super_frame_of_many_segments_becomes_no_more_packets_than_are_asked_for() {
    let net = Net::new();
    let space = ports::Namespace::open(net.r.name()).unwrap();
    let request = engine::port::PortRequest {
        rx_queues: 1,
        tx_queues: 0,
        descriptors: 0,
        promiscuous: true,
    };
    // Interfaces are opened in the namespace of the thread that opens them.
    let port = space
        .run(move || {
            let directory = ports::Directory::new();
            engine::port::PortDirectory::open(&directory, "r0", &request)
        })
        .unwrap();
    let mut rx = port.rx[0].take().unwrap();
    let count = |name: &str| {
        let all = port.port.counters();
        let of = all.iter().filter(|(n, ..)| *n == name);
        of.map(|(.., value)| value).sum::<u64>()
    };
    // Others may also send on the wire: the first segment has the number 0.
    for (segment, packets) in [(1448, 42), (100, 600), (44, 1364), (1, 0), (43, 0)] {
        assert!(
            net.python("a", &super_frame(segment))
                .wait()
                .unwrap()
                .success()
        );
        let before = count("gso_too_many");
        let mut bytes = Vec::new();
        testkit::wait_until("the super-frame", || {
            let mut batch = engine::packet::Batch::new();
            let got = rx.receive(&mut batch, 7);
            assert_eq!(got, batch.len());
            assert!(got <= 7, "{got}");
            for packet in batch.iter() {
                let data = packet.data();
                if data.get(6..12) == Some(&[2, 0, 0, 0, 0, 1]) {
                    bytes.push(data.len() - 54);
                }
            }
            bytes.len() == packets && (packets > 0 || count("gso_too_many") > before)
        });
        let total: usize = bytes.iter().sum();
        assert_eq!(total, if packets > 0 { 60_000 } else { 0 }, "{segment}");
    }
}
