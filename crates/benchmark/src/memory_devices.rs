//! Ports that replace the ports named by a configuration and lead to a test stand.

use crate::offered_load::Source;
use crate::test_stand::{BenchState, End, Sink};
use engine::packet::anno::PacketType;
use engine::packet::{Batch, Packet};
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest, RxQueue, Slot, TxQueue};
use std::collections::BTreeMap;
use std::sync::Arc;
use sync::Lock;
use wire::EtherAddr;

const MAX_QUEUES: usize = 64;

/// Ethernet address of the receiving port, as its hosts see it.
pub const ROUTER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
/// The Ethernet address of all hosts.
pub const HOSTS: EtherAddr = EtherAddr([2, 0, 0, 0, 1, 0]);

/// Devices of a configuration, replaced by memory: one delivers the offered packets, and one receives them. The
/// others are links whose hosts only answer address resolution.
pub struct MemoryDevices {
    stand: Arc<BenchState>,
    from: String,
    to: String,
    open: Lock<BTreeMap<String, OpenPort>>,
    /// Devices in the order of their first use.
    names: Lock<Vec<String>>,
}

impl MemoryDevices {
    /// Replaces ports: `from` receives the offered packets, and `to` should send them.
    pub fn new(stand: &Arc<BenchState>, from: &str, to: &str) -> MemoryDevices {
        MemoryDevices {
            stand: Arc::clone(stand),
            from: from.to_owned(),
            to: to.to_owned(),
            open: Lock::default(),
            names: Lock::new(vec![from.to_owned()]),
        }
    }

    fn info(&self, name: &str) -> PortInfo {
        let mut names = self.names.lock();
        let at = names.iter().position(|n| n == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        let mut mac = ROUTER.0;
        mac[5] = mac[5].wrapping_add(at as u8);
        PortInfo {
            mac,
            ..PortInfo::of_process("bench", MAX_QUEUES)
        }
    }
}

impl PortDirectory for MemoryDevices {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        Ok(self.info(name))
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String> {
        let mut open = self.open.lock();
        if let Some(open) = open.get(name) {
            return Ok(open.clone());
        }
        let end = End::new(HOSTS);
        let count = request.rx_queues;
        let rx = (0..count).map(|n| {
            let source = (name == self.from).then(|| self.stand.source((n, count)));
            let end = (n == 0).then(|| Arc::clone(&end));
            Slot::new(Box::new(Rx { source, end }) as Box<dyn RxQueue>)
        });
        let tx = (0..request.tx_queues).map(|_| {
            let sink = self.stand.sink(&end, name == self.to);
            Slot::new(Box::new(Tx(sink)) as Box<dyn TxQueue>)
        });
        let port = OpenPort {
            name: name.to_owned(),
            port: Arc::new(self.info(name)),
            rx: rx.collect(),
            tx: tx.collect(),
        };
        open.insert(name.to_owned(), port.clone());
        Ok(port)
    }

    fn get(&self, name: &str) -> Option<OpenPort> {
        self.open.lock().get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.open.lock().keys().cloned().collect()
    }

    fn close(&self, name: &str) {
        self.open.lock().remove(name);
    }
}

struct Rx {
    source: Option<Source>,
    /// Hosts whose answers arrive at this queue.
    end: Option<Arc<End>>,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let mut n = 0;
        for frame in self.end.iter().flat_map(|end| end.answers(max)) {
            if let Some(mut packet) = Packet::from_bytes(&frame) {
                packet.set_mac_here();
                packet.anno_mut().packet_type = PacketType::Host;
                into.push(packet);
                n += 1;
            }
        }
        match &mut self.source {
            Some(source) => n + source.fill(into, max - n),
            None => n,
        }
    }
}

struct Tx(Sink);

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        let n = batch.len();
        self.0.consume(batch);
        n
    }
}
