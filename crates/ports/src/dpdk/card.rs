//! An open device, which may be unplugged and come back while its port is open.

use super::door::Door;
use super::flow::Rules;
use super::sys::{Device, Facts};
use super::{Count, attach};
use engine::port::{Directed, Match, PortCounter, PortInfo, PortRequest};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU16, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use sync::Lock;

/// Default number of descriptors per queue.
const DESCRIPTORS: u16 = 1024;

/// A device as EAL has it; taken away from EAL when this is dropped.
struct Present {
    device: Device,
    facts: Facts,
    /// Names of the driver's own counters (DPDK's xstats).
    own_names: Vec<&'static str>,
    /// Rules of the driver, if it supports any.
    rules: Option<Rules>,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.rules = None;
        self.device.remove(&self.facts);
    }
}

/// Description of a device that is away, and its counts from all times when it was present.
#[derive(Default)]
struct Last {
    mac: [u8; 6],
    mtu: usize,
    table: Vec<u16>,
    counted: BTreeMap<&'static str, u64>,
}

/// Address and MTU that were set on the device while its port was open; they are set again when the device comes back.
#[derive(Clone, Copy, Default)]
struct Given {
    mac: Option<[u8; 6]>,
    mtu: Option<usize>,
}

/// An open device; the last queue or port that holds it takes it away from EAL.
pub(super) struct Card {
    devargs: String,
    request: Lock<PortRequest>,
    driver: String,
    pub(super) door: Arc<Door>,
    present: Lock<Option<Present>>,
    last: Lock<Last>,
    /// Descriptors of a receive queue.
    descriptors: AtomicU16,
    pub(super) too_long: Count,
    /// Number of frames that were to be sent while the device was away.
    pub(super) not_there: Count,
    given: Lock<Given>,
    /// Held while the device is taken away from EAL, or given back.
    moving: Lock<()>,
    /// The hash key of the device, once it was set.
    key: Lock<Option<[u8; 40]>>,
    key_changes: AtomicU64,
}

/// Attaches a device and starts it; how many descriptors a receive queue has, too. Without an `mtu` it has its
/// driver's.
fn start(
    devargs: &str,
    request: &PortRequest,
    mtu: Option<usize>,
) -> Result<(Present, u16), String> {
    let (device, facts) = attach(devargs)?;
    let mut present = Present {
        device,
        facts,
        own_names: Vec::new(),
        rules: None,
    };
    // Drivers need a queue in each direction, used or not.
    let queues = (
        request.rx_queues.max(1) as u16,
        request.tx_queues.max(1) as u16,
    );
    let descriptors = match request.descriptors {
        0 => DESCRIPTORS,
        n => n.min(usize::from(u16::MAX)) as u16,
    };
    let facts = &present.facts;
    let mtu = mtu.map(|mtu| mtu.min(facts.max_mtu));
    let descriptors = device
        .start(facts, queues, descriptors, mtu, request.promiscuous)
        .map_err(|e| format!("{devargs} cannot start with {queues:?} queues: {e}"))?;
    present.own_names = device.own_names();
    present.rules = Rules::new(device);
    Ok((present, descriptors))
}

impl Card {
    /// Attaches and starts a device.
    ///
    /// # Errors
    /// The device cannot be attached or started; a sentence.
    pub(super) fn open(devargs: &str, request: &PortRequest) -> Result<Card, String> {
        let (present, descriptors) = start(devargs, request, crate::mtu())?;
        Ok(Card {
            devargs: devargs.to_owned(),
            request: Lock::new(request.clone()),
            driver: present.facts.driver.clone(),
            door: Arc::new(Door::to(present.device)),
            present: Lock::new(Some(present)),
            last: Lock::default(),
            descriptors: AtomicU16::new(descriptors),
            too_long: Count::default(),
            not_there: Count::default(),
            given: Lock::default(),
            moving: Lock::default(),
            key: Lock::default(),
            key_changes: AtomicU64::new(0),
        })
    }

    pub(super) fn driver(&self) -> &str {
        &self.driver
    }

    pub(super) fn is_there(&self) -> bool {
        self.present.lock().is_some()
    }

    /// Takes the device away from workers and from EAL, so that the kernel can release it. Returns false if this kernel
    /// lacks the memory barrier for this.
    pub(super) fn leave(&self) -> bool {
        let _moving = self.moving.lock();
        self.take_away()
    }

    fn take_away(&self) -> bool {
        let Some((device, facts)) = self.ask(|p| (p.device, p.facts.reta)) else {
            return true;
        };
        if !self.door.shut() {
            return false;
        }
        let last = Last {
            mac: device.mac(),
            mtu: device.mtu(),
            table: device.reta(facts),
            counted: self.counted(),
        };
        // Between the two steps, counters would be added twice.
        let mut present = self.present.lock();
        *self.last.lock() = last;
        let gone = present.take();
        drop(present);
        // The lock is released first, because a driver may take long to close the device.
        drop(gone);
        true
    }

    /// Takes the device up again.
    ///
    /// # Errors
    /// The device cannot be attached or started; a sentence.
    pub(super) fn come_back(&self) -> Result<(), String> {
        let _moving = self.moving.lock();
        match self.is_there() {
            true => Ok(()),
            false => self.take_up(),
        }
    }

    fn take_up(&self) -> Result<(), String> {
        let given = *self.given.lock();
        let mtu = given.mtu.or(crate::mtu());
        let (present, descriptors) = start(&self.devargs, &self.request.lock(), mtu)?;
        let (device, table) = (present.device, self.last.lock().table.clone());
        // The same card accepted this address before; if it does not now, `info` shows it.
        let _ = given.mac.map(|mac| device.set_mac(mac));
        let key = self.key.lock().take();
        if let Some(key) = key {
            let spread = device.set_reta(&table);
            let hashed = spread.and_then(|()| device.set_hash_key(&present.facts, &key));
            *self.key.lock() = hashed.is_ok().then_some(key);
            self.key_changes.fetch_add(1, Release);
        }
        self.descriptors.store(descriptors, Relaxed);
        *self.present.lock() = Some(present);
        self.door.open(device);
        Ok(())
    }

    /// Asks the device, if it is present.
    fn ask<T>(&self, what: impl FnOnce(&Present) -> T) -> Option<T> {
        self.present.lock().as_ref().map(what)
    }

    pub(super) fn descriptors(&self) -> u16 {
        self.descriptors.load(Relaxed)
    }

    /// Returns `info` with the Ethernet address and the MTU that the device has now, or had when it was last present.
    pub(super) fn info(&self, info: &PortInfo) -> PortInfo {
        let now = self.ask(|p| (p.device.mac(), p.device.mtu()));
        let (mac, mtu) = now.unwrap_or_else(|| {
            let last = self.last.lock();
            (last.mac, last.mtu)
        });
        PortInfo {
            mac,
            mtu,
            ..info.clone()
        }
    }

    pub(super) fn link_up(&self) -> bool {
        self.ask(|p| p.device.link_up()).unwrap_or(false)
    }

    pub(super) fn set_rss(&self, key: &[u8; 40], queues: &[u16]) -> Result<(), String> {
        let present = self.present.lock();
        let Some(Present { device, facts, .. }) = present.as_ref() else {
            return Err(self.unplugged());
        };
        if facts.rss == 0 || facts.reta == 0 || queues.is_empty() {
            return Err(format!("dpdk {} does not hash flows", self.driver));
        }
        let refused =
            |what: &str, why: String| format!("dpdk {} refuses {what}: {why}", self.driver);
        let table: Vec<u16> = queues.iter().copied().cycle().take(facts.reta).collect();
        let before = device.reta(facts.reta);
        let set = device.set_reta(&table);
        set.map_err(|why| refused("the indirection table", why))?;
        if self.hash_key() == Some(*key) {
            return Ok(());
        }
        let set = device.set_hash_key(facts, key);
        set.map_err(|why| {
            // Restore the former table, as far as it is known.
            let _ = device.set_reta(&before);
            refused("the key", why)
        })?;
        *self.key.lock() = Some(*key);
        // A worker that sees the new count also sees the new key.
        self.key_changes.fetch_add(1, Release);
        Ok(())
    }

    /// Sets the card's Ethernet address, also for the time after it is plugged in again.
    pub(super) fn set_mac(&self, mac: [u8; 6]) -> Result<(), String> {
        let set = self.ask(|p| p.device.set_mac(mac));
        let set = set.ok_or_else(|| self.unplugged())?;
        set.map_err(|why| format!("dpdk {} refuses the address: {why}", self.driver))?;
        self.given.lock().mac = Some(mac);
        Ok(())
    }

    /// Sets the card's MTU, also for when it comes back. The card restarts: most drivers change the MTU of a stopped
    /// device only, and net_vmxnet3 restarts a running one under its pollers.
    pub(super) fn set_mtu(&self, mtu: usize) -> Result<(), String> {
        if !super::is_pci(&self.devargs) {
            return Err("it is no network card".into());
        }
        let room = crate::longest_mtu();
        if mtu > room {
            return Err(format!(
                "buffers hold packets of {room} bytes; start the router with larger --frame-bytes"
            ));
        }
        let _moving = self.moving.lock();
        let most = self.ask(|p| p.facts.max_mtu);
        let most = most.ok_or_else(|| self.unplugged())?;
        if mtu > most {
            return Err(format!("dpdk {} takes {most} bytes at most", self.driver));
        }
        if !self.take_away() {
            return Err("this kernel has no membarrier".into());
        }
        let before = self.given.lock().mtu.replace(mtu);
        let done = self.take_up();
        if done.is_err() {
            self.given.lock().mtu = before;
            // Probe the device again, as if it had been plugged in.
            super::plug::look_at(super::name_of(&self.devargs));
        }
        done
    }

    fn unplugged(&self) -> String {
        format!("{} is unplugged", self.devargs)
    }

    /// Switches the reception of frames for other stations on or off, also for when the card comes back.
    pub(super) fn set_promiscuous(&self, promiscuous: bool) {
        let mut request = self.request.lock();
        if request.promiscuous != promiscuous {
            request.promiscuous = promiscuous;
            self.ask(|p| p.device.set_promiscuous(promiscuous));
        }
    }

    pub(super) fn spreading(&self) -> Vec<u16> {
        let now = self.ask(|p| p.device.reta(p.facts.reta));
        now.unwrap_or_else(|| self.last.lock().table.clone())
    }

    pub(super) fn hash_key(&self) -> Option<[u8; 40]> {
        *self.key.lock()
    }

    pub(super) fn hash_changes(&self) -> u64 {
        self.key_changes.load(Acquire)
    }

    pub(super) fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
        self.ask(|p| p.rules.as_ref().map(|own| own.direct(rules, all)));
    }

    pub(super) fn directed(&self) -> Option<Directed> {
        self.ask(|p| p.rules.as_ref().map(Rules::directed))?
    }

    /// Counts of the device from all times that it was present.
    fn counted(&self) -> BTreeMap<&'static str, u64> {
        let present = self.present.lock();
        let mut all = self.last.lock().counted.clone();
        let now = present
            .as_ref()
            .map(|p| (p.device.counters(), p.device.own_counters(&p.own_names)));
        if let Some((general, own)) = now {
            let known = |name: &str| general.iter().any(|(n, _)| *n == name);
            let own = own.into_iter().filter(|(name, _)| !known(name));
            for (name, value) in general.into_iter().chain(own) {
                *all.entry(name).or_default() += value;
            }
        }
        all
    }

    pub(super) fn counters(&self) -> Vec<PortCounter> {
        let own = [
            ("too_long", self.too_long.get()),
            ("tx_link_down", self.not_there.get()),
        ];
        let all = own.into_iter().chain(self.counted());
        all.map(|(name, value)| (name, None, value)).collect()
    }
}
