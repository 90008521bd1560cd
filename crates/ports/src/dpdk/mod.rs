//! DPDK devices: `net_null0,size=64` and other virtual ones, PCI addresses, `memif:` and `af_xdp:`.
//!
//! Frames arrive in the mempool's buffers and leave in them; one C call moves a burst. A device is
//! attached when it is first looked at, since only its driver knows its queues.

mod eal;
mod flow;
mod sys;

use crate::counts::Count;
use crate::directory::Parts;
use crate::memif::Memif;
use crate::napi::{By, Napi};
use engine::packet::Batch;
use engine::port::{Directed, Match, Port, PortCounter, PortInfo, PortRequest, RxQueue, TxQueue};
use flow::Rules;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use sys::{Device, Facts};

pub use eal::DpdkSizes;

/// Descriptors per queue unless the request says otherwise.
const DESCRIPTORS: u16 = 1024;

/// An open device; the last queue or port that holds it takes it away from EAL.
struct Held {
    device: Device,
    facts: Facts,
    too_long: Count,
    /// Descriptors of a receive queue.
    descriptors: u16,
    /// Names of the driver's own counters (DPDK's xstats), once it runs.
    own_names: Vec<&'static str>,
    /// The key that the device hashes by, once it was told.
    key: Mutex<Option<[u8; 40]>>,
    key_changes: AtomicU64,
    /// What the driver sorts by rules, if it can.
    rules: Option<Rules>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.rules = None;
        self.device.remove(&self.facts);
    }
}

struct Dpdk {
    held: Arc<Held>,
    info: PortInfo,
    _napi: Option<Napi>,
}

impl Port for Dpdk {
    fn info(&self) -> PortInfo {
        let device = self.held.device;
        PortInfo {
            mac: device.mac(),
            mtu: device.mtu(),
            ..self.info.clone()
        }
    }

    fn link_up(&self) -> bool {
        self.held.device.link_up()
    }

    fn set_rss(&self, key: &[u8; 40], queues: &[u16]) -> Result<(), String> {
        let (device, facts) = (self.held.device, &self.held.facts);
        if facts.rss == 0 || facts.reta == 0 || queues.is_empty() {
            return Err(format!("{} does not hash flows", self.info.driver));
        }
        let refused =
            |what: &str, why: String| format!("{} refuses {what}: {why}", self.info.driver);
        let table: Vec<u16> = queues.iter().copied().cycle().take(facts.reta).collect();
        let before = device.reta(facts.reta);
        let set = device.set_reta(&table);
        set.map_err(|why| refused("the indirection table", why))?;
        if self.hash_key() == Some(*key) {
            return Ok(());
        }
        let set = device.set_hash_key(facts, key);
        set.map_err(|why| {
            // As it was, as far as that is known.
            let _ = device.set_reta(&before);
            refused("the key", why)
        })?;
        *self.held.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(*key);
        // Who finds it changed finds the key, too.
        self.held.key_changes.fetch_add(1, Release);
        Ok(())
    }

    fn spreading(&self) -> Vec<u16> {
        self.held.device.reta(self.held.facts.reta)
    }

    fn hash_key(&self) -> Option<[u8; 40]> {
        *self.held.key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash_changes(&self) -> Option<u64> {
        Some(self.held.key_changes.load(Acquire))
    }

    fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
        if let Some(own) = &self.held.rules {
            own.direct(rules, all);
        }
    }

    fn directed(&self) -> Option<Directed> {
        self.held.rules.as_ref().map(Rules::directed)
    }

    fn counters(&self) -> Vec<PortCounter> {
        let (device, own) = (self.held.device, &self.held.own_names);
        let mut all = vec![("too_long", None, self.held.too_long.get())];
        let general = device.counters();
        let known = |name: &str| general.iter().any(|(n, _)| *n == name);
        let own = device.own_counters(own);
        let own = own.into_iter().filter(|(name, _)| !known(name));
        let each = general.into_iter().chain(own);
        all.extend(each.map(|(name, value)| (name, None, value)));
        all
    }
}

struct Rx {
    held: Arc<Held>,
    device: Device,
    queue: u16,
    /// Packets come in the buffers that somebody else has sent, with the hash that he has noted.
    hands_over: bool,
}

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let before = into.len();
        self.burst(into, max);
        let late = into.iter_mut().skip(before);
        late.for_each(|packet| packet.arrived(crate::link_type));
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
        let waiting = self.device.waiting(self.queue)?;
        // Drivers may say that something went wrong by a number that is none of packets.
        let fill = waiting as f64 / f64::from(self.held.descriptors.max(1));
        Some(fill).filter(|fill| *fill <= 1.0)
    }

    /// What drivers count may be too few.
    fn waiting(&self) -> Option<usize> {
        Some(usize::from(self.held.descriptors))
    }
}

impl Rx {
    #[inline]
    fn burst(&self, into: &mut Batch, max: usize) {
        sys::register_thread();
        self.device.receive(self.queue, into, max);
    }

    /// Returns how many packets have come behind the first `before`, once each of them is whole.
    #[inline]
    fn check(&self, into: &mut Batch, before: usize) -> usize {
        match into.count_arrived() {
            true => into.len() - before,
            false => self.take_out_long(into, before),
        }
    }

    /// Drops frames of several segments, which are longer than a packet buffer.
    #[cold]
    fn take_out_long(&self, into: &mut Batch, before: usize) -> usize {
        let mut late = into.split_off(before);
        let came = late.len();
        into.extend(late.drain().filter(|packet| packet.segments() == 1));
        let kept = into.len() - before;
        self.held.too_long.add_shared((came - kept) as u64);
        kept
    }
}

struct Tx {
    _held: Arc<Held>,
    device: Device,
    queue: u16,
}

impl TxQueue for Tx {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        sys::register_thread();
        self.device.send(self.queue, batch)
    }
}

/// Attaches a device and says what it offers.
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
        remarks,
    })
}

fn attach(devargs: &str) -> Result<(Device, Facts), String> {
    let probe = || Device::probe(devargs);
    let probed = match Memif::of(devargs) {
        None => probe(),
        Some(memif) => {
            memif.check().map_err(|why| format!("{devargs}: {why}"))?;
            memif.probe(probe)
        }
    };
    let attached = probed.and_then(|device| Ok((device, device.facts()?)));
    attached.map_err(|e| {
        // What a driver's failure has for a number is seldom its reason: -1 reads as "Operation not permitted".
        let name = devargs.split(',').next().unwrap_or(devargs);
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

/// Opens a device; `remarks` go into what the port says of itself.
///
/// # Errors
/// As [`probe`], or the driver refuses the queues; a sentence.
pub(crate) fn open(
    devargs: &str,
    remarks: Vec<String>,
    request: &PortRequest,
    sizes: DpdkSizes,
) -> Result<Parts, String> {
    let mut info = probe(devargs, sizes)?;
    info.remarks.extend(remarks);
    let (device, facts) = attach(devargs)?;
    // Drivers want a queue each way, used or not.
    let queues = (
        request.rx_queues.max(1) as u16,
        request.tx_queues.max(1) as u16,
    );
    let descriptors = match request.descriptors {
        0 => DESCRIPTORS,
        n => n.min(usize::from(u16::MAX)) as u16,
    };
    let mut held = Held {
        device,
        facts,
        too_long: Count::default(),
        descriptors,
        own_names: Vec::new(),
        key: Mutex::default(),
        key_changes: AtomicU64::new(0),
        rules: None,
    };
    let mtu = crate::mtu().map(|mtu| mtu.min(held.facts.max_mtu));
    held.descriptors = held
        .device
        .start(&held.facts, queues, descriptors, mtu, request.promiscuous)
        .map_err(|e| format!("{devargs} cannot start with {queues:?} queues: {e}"))?;
    held.own_names = device.own_names();
    held.rules = Rules::new(device);
    let held = Arc::new(held);
    let rx = (0..request.rx_queues as u16).map(|queue| {
        Box::new(Rx {
            held: Arc::clone(&held),
            device,
            queue,
            hands_over: held.facts.driver == "net_ring",
        }) as Box<dyn RxQueue>
    });
    let tx = (0..request.tx_queues as u16).map(|queue| {
        Box::new(Tx {
            _held: Arc::clone(&held),
            device,
            queue,
        }) as Box<dyn TxQueue>
    });
    let (rx, tx) = (rx.collect(), tx.collect());
    let napi = busy_polled(devargs).and_then(|interface| {
        let arranged = Napi::arrange(interface, By::Worker);
        arranged.map_err(|why| info.remarks.push(why)).ok()
    });
    let port = Dpdk {
        held,
        info,
        _napi: napi,
    };
    Ok(Parts {
        port: Arc::new(port),
        rx,
        tx,
    })
}

/// The interface whose receive work a driver's polls do.
fn busy_polled(devargs: &str) -> Option<&str> {
    let words = devargs.strip_prefix("net_af_xdp")?.split(',');
    let value = |word: &'static str| {
        words
            .clone()
            .find_map(move |w| w.strip_prefix(word)?.strip_prefix('='))
    };
    (value("busy_budget") != Some("0")).then(|| value("iface"))?
}

/// Whether a name is a PCI address: `[0000:]01:00.0`.
pub(crate) fn is_pci(name: &str) -> bool {
    let name = name.split(',').next().unwrap_or(name);
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
