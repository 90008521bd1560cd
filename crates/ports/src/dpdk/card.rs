//! An open device, which may be unplugged and come back while its port is open.

use super::device_access::DeviceAccess;
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
const DESCRIPTORS_DEFAULT: u16 = 1024;

/// A device that EAL has probed. It is removed from EAL when this value is dropped.
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

/// Description of an unplugged device, and the sum of its counters over all times when it was present.
#[derive(Default)]
struct UnpluggedState {
    mac: [u8; 6],
    mtu: usize,
    table: Vec<u16>,
    former_counts: BTreeMap<&'static str, u64>,
}

/// Address and MTU that were set on the device while its port was open; they are set again when the device comes back.
#[derive(Clone, Copy, Default)]
struct SetValues {
    mac: Option<[u8; 6]>,
    mtu: Option<usize>,
}

/// An open device. The last queue or port that is dropped removes it from EAL.
pub(super) struct Card {
    devargs: String,
    request: Lock<PortRequest>,
    driver: String,
    pub(super) access: Arc<DeviceAccess>,
    present: Lock<Option<Present>>,
    last: Lock<UnpluggedState>,
    /// Descriptors of a receive queue.
    descriptors: AtomicU16,
    pub(super) too_long: Count,
    /// Number of frames that were to be sent while the device was away.
    pub(super) not_there: Count,
    set_values: Lock<SetValues>,
    /// Lock for removal of the device from EAL, and its return.
    attach_lock: Lock<()>,
    /// The hash key of the device, once it was set.
    hash_key: Lock<Option<[u8; 40]>>,
    key_changes: AtomicU64,
}

/// Attaches and starts a device. Also returns the number of descriptors of a receive queue. `None` as `mtu` keeps the
/// driver's MTU.
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
        0 => DESCRIPTORS_DEFAULT,
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
            access: Arc::new(DeviceAccess::to(present.device)),
            present: Lock::new(Some(present)),
            last: Lock::default(),
            descriptors: AtomicU16::new(descriptors),
            too_long: Count::default(),
            not_there: Count::default(),
            set_values: Lock::default(),
            attach_lock: Lock::default(),
            hash_key: Lock::default(),
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
    pub(super) fn detach(&self) -> bool {
        let _moving = self.attach_lock.lock();
        self.take_away()
    }

    fn take_away(&self) -> bool {
        let Some((device, facts)) = self.with_present(|p| (p.device, p.facts.reta)) else {
            return true;
        };
        if !self.access.revoke() {
            return false;
        }
        let last = UnpluggedState {
            mac: device.mac(),
            mtu: device.mtu(),
            table: device.reta(facts),
            former_counts: self.counted(),
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

    /// Attaches and starts the device again.
    ///
    /// # Errors
    /// The device cannot be attached or started; a sentence.
    pub(super) fn reattach(&self) -> Result<(), String> {
        let _moving = self.attach_lock.lock();
        match self.is_there() {
            true => Ok(()),
            false => self.take_up(),
        }
    }

    fn take_up(&self) -> Result<(), String> {
        let given = *self.set_values.lock();
        let mtu = given.mtu.or(crate::mtu());
        let (present, descriptors) = start(&self.devargs, &self.request.lock(), mtu)?;
        let (device, table) = (present.device, self.last.lock().table.clone());
        // The same card accepted this address before; if it does not now, `info` shows it.
        let _ = given.mac.map(|mac| device.set_mac(mac));
        let key = self.hash_key.lock().take();
        if let Some(key) = key {
            let spread = device.set_reta(&table);
            let hashed = spread.and_then(|()| device.set_hash_key(&present.facts, &key));
            *self.hash_key.lock() = hashed.is_ok().then_some(key);
            self.key_changes.fetch_add(1, Release);
        }
        self.descriptors.store(descriptors, Relaxed);
        *self.present.lock() = Some(present);
        self.access.open(device);
        Ok(())
    }

    /// Runs `job` on the device if it is present.
    fn with_present<T>(&self, job: impl FnOnce(&Present) -> T) -> Option<T> {
        self.present.lock().as_ref().map(job)
    }

    pub(super) fn descriptors(&self) -> u16 {
        self.descriptors.load(Relaxed)
    }

    /// Returns `info` with the Ethernet address and the MTU that the device has now, or had when it was last present.
    pub(super) fn info(&self, info: &PortInfo) -> PortInfo {
        let now = self.with_present(|p| (p.device.mac(), p.device.mtu()));
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
        self.with_present(|p| p.device.link_up()).unwrap_or(false)
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
        *self.hash_key.lock() = Some(*key);
        // A worker that sees the new count also sees the new key.
        self.key_changes.fetch_add(1, Release);
        Ok(())
    }

    /// Sets the card's Ethernet address, also for the time after it is plugged in again.
    pub(super) fn set_mac(&self, mac: [u8; 6]) -> Result<(), String> {
        let set = self.with_present(|p| p.device.set_mac(mac));
        let set = set.ok_or_else(|| self.unplugged())?;
        set.map_err(|why| format!("dpdk {} refuses the address: {why}", self.driver))?;
        self.set_values.lock().mac = Some(mac);
        Ok(())
    }

    /// Sets the card's MTU, also for the time after it is plugged in again. The card restarts: most drivers change the
    /// MTU of a stopped device only, and net_vmxnet3 restarts a running one under its pollers.
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
        let _moving = self.attach_lock.lock();
        let mtu_max = self.with_present(|p| p.facts.max_mtu);
        let mtu_max = mtu_max.ok_or_else(|| self.unplugged())?;
        if mtu > mtu_max {
            return Err(format!(
                "dpdk {} takes {mtu_max} bytes at most",
                self.driver
            ));
        }
        if !self.take_away() {
            return Err("this kernel has no membarrier".into());
        }
        let before = self.set_values.lock().mtu.replace(mtu);
        let done = self.take_up();
        if done.is_err() {
            self.set_values.lock().mtu = before;
            // Probe the device again, as if it had been plugged in.
            super::hotplug::look_at(super::name_of(&self.devargs));
        }
        done
    }

    fn unplugged(&self) -> String {
        format!("{} is unplugged", self.devargs)
    }

    /// Switches promiscuous mode on or off, also for the time after the card is plugged in again.
    pub(super) fn set_promiscuous(&self, promiscuous: bool) {
        let mut request = self.request.lock();
        if request.promiscuous != promiscuous {
            request.promiscuous = promiscuous;
            self.with_present(|p| p.device.set_promiscuous(promiscuous));
        }
    }

    pub(super) fn redirection_table(&self) -> Vec<u16> {
        let now = self.with_present(|p| p.device.reta(p.facts.reta));
        now.unwrap_or_else(|| self.last.lock().table.clone())
    }

    pub(super) fn hash_key(&self) -> Option<[u8; 40]> {
        *self.hash_key.lock()
    }

    pub(super) fn hash_changes(&self) -> u64 {
        self.key_changes.load(Acquire)
    }

    pub(super) fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
        self.with_present(|p| p.rules.as_ref().map(|own| own.direct(rules, all)));
    }

    pub(super) fn directed(&self) -> Option<Directed> {
        self.with_present(|p| p.rules.as_ref().map(Rules::directed))?
    }

    /// Sum of the device's counters over all times when it was present.
    fn counted(&self) -> BTreeMap<&'static str, u64> {
        let present = self.present.lock();
        let mut all = self.last.lock().former_counts.clone();
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
