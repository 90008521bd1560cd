//! DPDK devices: `net_null0,size=64` and other virtual ones, PCI addresses, and `vhost:`.
//!
//! Frames arrive in the mempool's buffers and leave in them; one C call moves a burst. A device is
//! attached when it is first looked at, since only its driver knows its queues.

mod buffers;
mod card;
mod device_access;
mod eal;
mod flow;
mod hotplug;
mod sys;
mod vhost;

use crate::counts::Count;
use crate::events::Events;
use crate::scheme::{Parts, PortContext, Resource, Scheme};
use card::Card;
use device_access::QueueAccess;
use engine::packet::Batch;
use engine::packet::anno::PacketType;
use engine::port::{Directed, Match, Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use hotplug::Watcher;
use std::sync::Arc;
use sys::{Device, Facts};
use vhost::Socket;

pub use eal::DpdkSizes;
pub(crate) use vhost::Vhost;

/// The kind of port: PCI addresses, virtual devices such as `net_null0`, and `dpdk:ARGS`.
#[derive(Default)]
pub(crate) struct Devices(pub(crate) DpdkSizes);

impl Scheme for Devices {
    fn name_syntax(&self) -> &'static str {
        "dpdk:DEVICE"
    }

    fn strip_scheme<'n>(&self, name: &'n str) -> Option<&'n str> {
        if name.starts_with("net_") || is_pci(name) {
            return Some(name);
        }
        name.strip_prefix("dpdk:")
    }

    fn resource(&self, devargs: &str) -> Resource {
        let name = name_of(devargs).to_owned();
        match is_pci(&name) {
            true => Resource::Card(name),
            false => Resource::Dpdk(name),
        }
    }

    fn probe(&self, devargs: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        probe(devargs, self.0)
    }

    fn open(
        &self,
        devargs: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        open(devargs, request, self.0, site.events())
    }
}

/// An open port.
struct Dpdk {
    card: Arc<Card>,
    info: PortInfo,
    _watcher: Option<Watcher>,
}

impl Port for Dpdk {
    fn info(&self) -> PortInfo {
        self.card.info(&self.info)
    }

    fn link_up(&self) -> bool {
        self.card.link_up()
    }

    fn set_mac(&self, mac: [u8; 6]) -> Result<(), String> {
        self.card.set_mac(mac)
    }

    fn set_mtu(&self, mtu: usize) -> Result<(), String> {
        self.card.set_mtu(mtu)
    }

    fn set_promiscuous(&self, promiscuous: bool) {
        self.card.set_promiscuous(promiscuous);
    }

    fn set_rss(&self, key: &[u8; 40], queues: &[u16]) -> Result<(), String> {
        self.card.set_rss(key, queues)
    }

    fn redirection_table(&self) -> Vec<u16> {
        self.card.redirection_table()
    }

    fn hash_key(&self) -> Option<[u8; 40]> {
        self.card.hash_key()
    }

    fn hash_changes(&self) -> Option<u64> {
        Some(self.card.hash_changes())
    }

    fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
        self.card.direct(rules, all);
    }

    fn directed(&self) -> Option<Directed> {
        self.card.directed()
    }

    fn counters(&self) -> Vec<PortCounter> {
        self.card.counters()
    }
}

struct Rx {
    card: Arc<Card>,
    access: QueueAccess,
    queue: u16,
    /// True if packets arrive in the sender's buffers, with the hash that the sender has noted.
    hands_over: bool,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        self.burst(into, max);
        let late = into.iter_mut().skip(before);
        late.for_each(|packet| packet.arrived(PacketType::of_frame));
        self.check(into, before)
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        if self.hands_over {
            return self.receive(into, max);
        }
        let before = into.len();
        self.burst(into, max);
        self.check(into, before)
    }

    fn fill(&self) -> Option<f64> {
        let waiting = self
            .access
            .with_device(|device| device.waiting(self.queue))??;
        // A driver may return an error code, which is greater than the number of descriptors.
        let fill = waiting as f64 / f64::from(self.card.descriptors().max(1));
        Some(fill).filter(|fill| *fill <= 1.0)
    }

    /// The number of descriptors, as the count of a driver may be too low.
    fn waiting(&self) -> Option<usize> {
        Some(usize::from(self.card.descriptors()))
    }
}

impl Rx {
    #[inline]
    fn burst(&self, into: &mut Batch, max: usize) {
        sys::register_thread();
        let queue = self.queue;
        self.access
            .with_device(|device| device.receive(queue, into, max));
    }

    /// Returns the number of packets after the first `before`. Frames of several buffers are dropped first.
    #[inline]
    fn check(&self, into: &mut Batch, before: usize) -> usize {
        match into.count_arrived() {
            true => into.len() - before,
            false => self.drop_segmented(into, before),
        }
    }

    /// Drops frames of several segments, which are longer than a packet buffer.
    #[cold]
    fn drop_segmented(&self, into: &mut Batch, before: usize) -> usize {
        let mut late = into.split_off(before);
        let received = late.len();
        into.extend(late.drain().filter(|packet| packet.segments() == 1));
        let kept = into.len() - before;
        self.card.too_long.add_shared((received - kept) as u64);
        kept
    }
}

struct Tx {
    card: Arc<Card>,
    access: QueueAccess,
    queue: u16,
}

impl TxQueue for Tx {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        sys::register_thread();
        let queue = self.queue;
        let sent = self.access.with_device(|device| device.send(queue, batch));
        sent.unwrap_or_else(|| self.refuse_all(batch, refused))
    }
}

impl Tx {
    /// Drops all packets while the card is away, as old frames must not wait for it.
    #[cold]
    fn refuse_all(&self, batch: &mut Batch, refused: &mut Batch) -> usize {
        self.card.not_there.add_shared(batch.len() as u64);
        refused.append(batch);
        0
    }
}

/// Attaches a device and returns its description.
///
/// # Errors
/// DPDK cannot start or knows no such device; a sentence.
pub(crate) fn probe(devargs: &str, sizes: DpdkSizes) -> Result<PortInfo, String> {
    let remarks = eal::start(sizes)?;
    let (device, facts) = attach(devargs)?;
    Ok(PortInfo {
        driver: format!("dpdk {}", facts.driver),
        max_rx_queues: facts.rx_queues,
        max_tx_queues: facts.tx_queues,
        mac: device.mac(),
        mtu: device.mtu(),
        node: device.node(),
        super_frames: false,
        remarks,
    })
}

fn attach(devargs: &str) -> Result<(Device, Facts), String> {
    let refused = [
        (
            "memif",
            "DPDK's memif believes all that its peer writes: write memif:role=...,socket=PATH,id=N instead, which \
                does not",
        ),
        (
            "af_xdp",
            "DPDK's AF_XDP takes all frames away from the kernel: write af_xdp:INTERFACE instead, which leaves the \
                kernel its own",
        ),
    ];
    for (driver, why) in refused {
        let of = |prefix| devargs.strip_prefix(prefix);
        let rest = of("net_").or_else(|| of("eth_"));
        if rest.is_some_and(|rest| rest.starts_with(driver)) {
            return Err(format!("{devargs}: {why}"));
        }
    }
    let attached = Device::probe(devargs).and_then(|device| Ok((device, device.facts()?)));
    attached.map_err(|e| {
        // A driver's error number seldom tells the reason: -1 reads as "Operation not permitted".
        let name = name_of(devargs);
        match is_pci(name).then(|| machine::doctor::why_not(&machine::Machine::here(), name)) {
            Some(Some(why)) => format!("DPDK cannot take {devargs}: {why}"),
            Some(None) => format!(
                "DPDK cannot take {devargs}: it has no driver for this card, or the card does not start ({e}); EAL's \
                 lines above may say more"
            ),
            None => format!(
                "DPDK cannot take {devargs}: {e}; the name is a PCI address whose device is bound to vfio-pci, or a \
                 virtual device such as net_null0,size=64"
            ),
        }
    })
}

/// Opens a device.
///
/// # Errors
/// As [`probe`], or the driver refuses the queues; a sentence.
pub(crate) fn open(
    devargs: &str,
    request: &PortRequest,
    sizes: DpdkSizes,
    events: &Events,
) -> Result<Parts, String> {
    let info = probe(devargs, sizes)?;
    let card = match Socket::of(devargs) {
        None => Card::open(devargs, request)?,
        Some(socket) => {
            socket.check().map_err(|why| format!("{devargs}: {why}"))?;
            socket.open(|| Card::open(devargs, request))?
        }
    };
    let card = Arc::new(card);
    let rx = (0..request.rx_queues as u16).map(|queue| {
        Box::new(Rx {
            access: card.access.queue_access(),
            queue,
            hands_over: card.driver() == "net_ring",
            card: Arc::clone(&card),
        }) as Box<dyn RxQueue>
    });
    let tx = (0..request.tx_queues as u16).map(|queue| {
        Box::new(Tx {
            access: card.access.queue_access(),
            queue,
            card: Arc::clone(&card),
        }) as Box<dyn TxQueue>
    });
    let (rx, tx) = (rx.collect(), tx.collect());
    let name = name_of(devargs);
    let watcher = is_pci(name)
        .then(|| Watcher::start(&card, name, events))
        .transpose()?;
    let port = Dpdk {
        card,
        info,
        _watcher: watcher,
    };
    Ok(Parts {
        port: Arc::new(port),
        rx,
        tx,
    })
}

/// Name of a device: the part of its devargs before the first comma.
fn name_of(devargs: &str) -> &str {
    devargs.split(',').next().unwrap_or(devargs)
}

/// True if a name is a PCI address: `[0000:]01:00.0`.
fn is_pci(name: &str) -> bool {
    let name = name_of(name);
    let Some((rest, function)) = name.split_once('.') else {
        return false;
    };
    let hex = |text: &str, len| text.len() == len && text.chars().all(|c| c.is_ascii_hexdigit());
    let parts: Vec<&str> = rest.split(':').collect();
    hex(function, 1)
        && match parts.as_slice() {
            [bus, device] => hex(bus, 2) && hex(device, 2),
            [domain, bus, device] => hex(domain, 4) && hex(bus, 2) && hex(device, 2),
            _ => false,
        }
}
