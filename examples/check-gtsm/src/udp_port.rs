//! `udp:LOCAL,REMOTE`: a port whose frames cross a network in UDP datagrams, one frame in each. LOCAL and REMOTE are
//! addresses with ports, such as `udp:192.0.2.1:7000,192.0.2.2:7000`. QEMU's `-netdev dgram` does the same.
//!
//! Everybody who can send datagrams from REMOTE can send frames to the router.

use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{
    Port, PortCounter, PortInfo, PortRequest, RxQueue, TxOutcome, TxQueue, offer_each,
};
use ports::scheme::{Parts, PortContext, Scheme};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum length of a datagram in bytes.
const DATAGRAM: usize = 65_535;

/// The kind of port.
pub(crate) struct Udp;

/// The addresses of a port: local, remote.
fn addresses(rest: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let parse = |text: &str| text.trim().parse().ok();
    let pair = rest.split_once(',');
    let pair = pair.and_then(|(local, remote)| Some((parse(local)?, parse(remote)?)));
    pair.ok_or_else(|| {
        format!("udp:{rest}: write two addresses with ports: udp:192.0.2.1:7000,192.0.2.2:7000")
    })
}

/// Description of the port: one queue each way.
fn info() -> PortInfo {
    PortInfo::of_process("udp", 1)
}

impl Scheme for Udp {
    fn name_syntax(&self) -> &'static str {
        "udp:LOCAL,REMOTE"
    }

    fn probe(&self, rest: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        addresses(rest)?;
        Ok(info())
    }

    fn open(
        &self,
        rest: &str,
        request: &PortRequest,
        _: &PortContext<'_>,
    ) -> Result<Parts, String> {
        let (local, remote) = addresses(rest)?;
        let connect = || {
            let socket = UdpSocket::bind(local)?;
            // The kernel then drops datagrams of all others.
            socket.connect(remote)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket: Result<UdpSocket, std::io::Error> = connect();
        let socket = socket.map_err(|e| format!("cannot open udp:{rest}: {e}"))?;
        let tunnel = Arc::new(Tunnel {
            socket,
            rx_no_buffer: AtomicU64::new(0),
            tx_errors: AtomicU64::new(0),
        });
        let mut parts = Parts {
            port: Arc::clone(&tunnel) as Arc<dyn Port>,
            rx: Vec::new(),
            tx: Vec::new(),
        };
        if request.rx_queues > 0 {
            parts.rx.push(Box::new(Rx {
                tunnel: Arc::clone(&tunnel),
                datagram: vec![0; DATAGRAM],
            }));
        }
        if request.tx_queues > 0 {
            parts.tx.push(Box::new(Tx { tunnel }));
        }
        Ok(parts)
    }
}

/// An open port: the socket, and the counters.
struct Tunnel {
    socket: UdpSocket,
    /// Frames for which there was no buffer, or none large enough.
    rx_no_buffer: AtomicU64,
    tx_errors: AtomicU64,
}

impl Port for Tunnel {
    fn info(&self) -> PortInfo {
        info()
    }

    fn link_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<PortCounter> {
        vec![
            ("rx_no_buffer", None, self.rx_no_buffer.load(Relaxed)),
            ("tx_errors", None, self.tx_errors.load(Relaxed)),
        ]
    }
}

struct Rx {
    tunnel: Arc<Tunnel>,
    datagram: Vec<u8>,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let mut received = 0;
        while received < max {
            // The queue is empty, or the system reports that a frame sent before found nobody.
            let Ok(len) = self.tunnel.socket.recv(&mut self.datagram) else {
                break;
            };
            let Some(mut packet) = Packet::from_bytes(&self.datagram[..len]) else {
                self.tunnel.rx_no_buffer.fetch_add(1, Relaxed);
                continue;
            };
            packet.arrived(PacketType::of_frame);
            into.push(packet);
            received += 1;
        }
        received
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.tunnel.socket.as_raw_fd())
    }
}

struct Tx {
    tunnel: Arc<Tunnel>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        offer_each(batch, refused, |packet| {
            match self.tunnel.socket.send(packet.data()) {
                Ok(_) => TxOutcome::Sent,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => TxOutcome::NoRoom,
                Err(_) => {
                    self.tunnel.tx_errors.fetch_add(1, Relaxed);
                    TxOutcome::Refused
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::port::PortDirectory;
    use ports::Directory;

    /// An address of this machine that no other program uses: each process has its own of the 127.0.0.0/8.
    fn address(host: u8) -> SocketAddr {
        let [.., high, low] = std::process::id().to_be_bytes();
        SocketAddr::from(([127, high, low, host], 7000))
    }

    #[test]
    fn frames_cross_in_order_and_those_of_others_do_not() {
        ports::scheme::add(&[&Udp]);
        let directory = Directory::new();
        let [a, b] = [1, 2].map(address);
        let request = PortRequest {
            rx_queues: 1,
            tx_queues: 1,
            ..PortRequest::default()
        };
        let open = |name: String| directory.open(&name, &request);
        let near = open(format!("udp:{a},{b}")).expect("the addresses are free");
        let far = open(format!("udp:{b},{a}")).expect("the addresses are free");
        let stranger = UdpSocket::bind(address(4)).expect("no other program uses it");
        stranger.send_to(&[9; 60], b).expect("the socket is there");

        let mut batch = Batch::new();
        let frames: Vec<Vec<u8>> = (1..=3).map(|n| vec![n; 60 + usize::from(n)]).collect();
        batch.extend(frames.iter().filter_map(|frame| Packet::from_bytes(frame)));
        let mut tx = near.tx[0].take().expect("nobody has it");
        assert_eq!(tx.transmit(&mut batch, &mut Batch::new()), 3);

        let mut rx = far.rx[0].take().expect("nobody has it");
        let mut received = Batch::new();
        assert_eq!(rx.receive(&mut received, 2), 2);
        assert_eq!(rx.receive(&mut received, 32), 1);
        let received: Vec<Vec<u8>> = received.iter().map(|p| p.data().to_vec()).collect();
        assert_eq!(received, frames);
    }

    #[test]
    fn wrong_addresses_and_used_ones_are_refused() {
        ports::scheme::add(&[&Udp]);
        let directory = Directory::new();
        for wrong in ["udp:", "udp:127.0.0.1:7000", "udp:127.0.0.1,127.0.0.1:7000"] {
            let error = directory.probe(wrong).expect_err("it has no two addresses");
            assert!(error.contains("write two addresses"), "{error}");
        }
        let used = address(3);
        let _socket = UdpSocket::bind(used).expect("no other program uses it");
        let name = format!("udp:{used},127.0.0.1:9");
        let opened = directory.open(&name, &PortRequest::default());
        let error = opened.err().expect("the address is used");
        assert!(error.contains(&format!("cannot open {name}")), "{error}");
    }
}
