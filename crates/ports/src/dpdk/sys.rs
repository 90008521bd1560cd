//! Calls into DPDK, wrapped so that code above needs no `unsafe`.
#![allow(unsafe_code)]

use dpdk_sys as c;
use engine::packet::Batch;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::zeroed;
use std::ptr;
use std::sync::OnceLock;
use sync::Lock;

/// Ethernet header and checksum of a frame, in bytes.
const ETHERNET_OVERHEAD: usize = 18;

/// DPDK's text for an error number, of either sign.
pub(super) fn reason(code: c_int) -> String {
    // SAFETY: the result is a terminated string that lives until the next call on this thread.
    unsafe { CStr::from_ptr(c::rte_strerror(code.abs())) }
        .to_string_lossy()
        .into_owned()
}

/// Reason of this thread's last failed call, for calls that return no error number.
pub(super) fn last_reason() -> String {
    // SAFETY: reads this thread's error number.
    reason(unsafe { c::ashlar_errno() })
}

fn check(code: c_int) -> Result<(), String> {
    if code < 0 { Err(reason(code)) } else { Ok(()) }
}

/// DPDK's own name and version.
pub(super) fn version() -> String {
    // SAFETY: the result is a static terminated string.
    unsafe { CStr::from_ptr(c::rte_version()) }
        .to_string_lossy()
        .into_owned()
}

/// Starts EAL. Once per process, on a thread that may be tied to a core.
pub(super) fn start(args: &[String]) -> Result<(), String> {
    let args: Result<Vec<CString>, _> = args.iter().map(|a| CString::new(a.as_str())).collect();
    let args = args.map_err(|_| "an argument contains a zero byte".to_string())?;
    let mut pointers: Vec<*mut c_char> = args.iter().map(|a| a.as_ptr().cast_mut()).collect();
    pointers.push(ptr::null_mut());
    // SAFETY: argc and argv are as `main` gets them. EAL may keep pointers into argv, so both
    // arrays are leaked.
    let code = unsafe { c::rte_eal_init(args.len() as c_int, pointers.as_mut_ptr()) };
    std::mem::forget((args, pointers));
    if code < 0 { Err(last_reason()) } else { Ok(()) }
}

/// Function given to [`on_removal`].
static REMOVAL: OnceLock<fn(&str)> = OnceLock::new();
/// Devices that are to be unplugged and not yet reported.
static LEAVING: Lock<Vec<String>> = Lock::new(Vec::new());

/// Registers `tell`, which EAL's interrupt thread calls with the name of a device that is about to be unplugged. `tell`
/// must not block. The kernel waits until the device is [removed](Device::remove), and repeats the request.
pub(super) fn on_removal(tell: fn(&str)) {
    if REMOVAL.set(tell).is_ok() {
        // SAFETY: a function that lives as long as the process; no name means all devices.
        unsafe {
            c::rte_dev_event_callback_register(ptr::null(), Some(device_event), ptr::null_mut());
        }
    }
}

unsafe extern "C" fn device_event(
    name: *const c_char,
    event: c::rte_dev_event_type,
    _: *mut c_void,
) {
    if event != c::RTE_DEV_EVENT_REMOVE || name.is_null() {
        return;
    }
    // SAFETY: EAL gives a terminated string.
    let name = unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned();
    let mut leaving = LEAVING.lock();
    leaving.push(name);
    // EAL cannot remove a device within this callback, so an alarm reports the removal in a later call.
    // SAFETY: the function lives as long as the process.
    unsafe { c::rte_eal_alarm_set(1, Some(tell_leaving), ptr::null_mut()) };
}

unsafe extern "C" fn tell_leaving(_: *mut c_void) {
    let names = std::mem::take(&mut *LEAVING.lock());
    if let Some(tell) = REMOVAL.get() {
        names.iter().for_each(|name| tell(name));
    }
}

/// This thread's registration, which gives it a cache of free buffers.
struct Registered(bool);

impl Drop for Registered {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread has registered and not unregistered yet.
            unsafe { c::rte_thread_unregister() };
        }
    }
}

thread_local! {
    // SAFETY: registers the calling thread; a failure (too many threads) only costs the cache.
    static REGISTERED: Registered = Registered(unsafe { c::rte_thread_register() } == 0);
}

/// Registers this thread, once.
#[inline]
pub(super) fn register_thread() {
    // A thread that is ending needs no registration.
    let _ = REGISTERED.try_with(|_| ());
}

/// A name that lasts as long as the process. Drivers have a limited number of them.
fn intern(name: &str) -> &'static str {
    static NAMES: Lock<BTreeSet<&'static str>> = Lock::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let name = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}

/// Properties of a device.
pub(super) struct Facts {
    pub(super) driver: String,
    pub(super) rx_queues: usize,
    pub(super) tx_queues: usize,
    pub(super) rss: u64,
    /// Number of entries of the indirection table.
    pub(super) reta: usize,
    /// The largest MTU.
    pub(super) max_mtu: usize,
    device: *mut c::rte_device,
}

/// A device that EAL knows, by port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device(u16);

impl Device {
    /// Makes EAL probe a device, unless it knows it; `devargs` is `NAME[,OPTION=VALUE...]`.
    pub(super) fn probe(devargs: &str) -> Result<Device, String> {
        let name = super::name_of(devargs);
        let zero = |_| "the name contains a zero byte".to_string();
        let (name, args) = (
            CString::new(name).map_err(zero)?,
            CString::new(devargs).map_err(zero)?,
        );
        let mut port = 0;
        // SAFETY: terminated strings and a place for the result; EAL runs.
        unsafe {
            if c::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut port) != 0 {
                check(c::rte_dev_probe(args.as_ptr()))?;
                check(c::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut port))?;
            }
        }
        Ok(Device(port))
    }

    pub(super) fn facts(self) -> Result<Facts, String> {
        // SAFETY: all-zero bytes are valid; DPDK fills them; the driver's name is a static string.
        unsafe {
            let mut info: c::rte_eth_dev_info = zeroed();
            check(c::rte_eth_dev_info_get(self.0, &mut info))?;
            let driver = if info.driver_name.is_null() {
                String::new()
            } else {
                CStr::from_ptr(info.driver_name)
                    .to_string_lossy()
                    .into_owned()
            };
            Ok(Facts {
                driver,
                rx_queues: info.max_rx_queues.into(),
                tx_queues: info.max_tx_queues.into(),
                rss: info.flow_type_rss_offloads & c::ASHLAR_RSS,
                reta: info.reta_size.into(),
                // Some drivers report only the longest frame (net_e1000_em), others no limit.
                max_mtu: match info.max_rx_pktlen as usize {
                    0 => info.max_mtu.into(),
                    longest => longest
                        .saturating_sub(ETHERNET_OVERHEAD)
                        .min(info.max_mtu.into()),
                },
                device: info.device,
            })
        }
    }

    /// Device with EAL's port number.
    pub(super) fn of(number: u16) -> Device {
        Device(number)
    }

    /// EAL's port number of the device.
    pub(super) fn number(self) -> u16 {
        self.0
    }

    pub(super) fn mac(self) -> [u8; 6] {
        // SAFETY: a place for the result.
        unsafe {
            let mut address: c::rte_ether_addr = zeroed();
            c::rte_eth_macaddr_get(self.0, &mut address);
            address.addr_bytes
        }
    }

    /// Sets the Ethernet address of the device; the driver may refuse.
    pub(super) fn set_mac(self, mac: [u8; 6]) -> Result<(), String> {
        let mut address = c::rte_ether_addr { addr_bytes: mac };
        // SAFETY: a function of an existing device, which copies the address.
        check(unsafe { c::rte_eth_dev_default_mac_addr_set(self.0, &mut address) })
    }

    pub(super) fn mtu(self) -> usize {
        let mut mtu = 1500;
        // SAFETY: a place for the result.
        unsafe { c::rte_eth_dev_get_mtu(self.0, &mut mtu) };
        mtu.into()
    }

    /// NUMA node, if known.
    pub(super) fn node(self) -> Option<u32> {
        // SAFETY: plain argument.
        u32::try_from(unsafe { c::rte_eth_dev_socket_id(self.0) }).ok()
    }

    pub(super) fn link_up(self) -> bool {
        // SAFETY: all-zero bytes are valid; DPDK fills them.
        unsafe {
            let mut link: c::rte_eth_link = zeroed();
            c::rte_eth_link_get_nowait(self.0, &mut link) == 0 && link.link_status() == 1
        }
    }

    /// Configures the queues and starts the device. Returns the number of descriptors of a receive queue.
    pub(super) fn start(
        self,
        facts: &Facts,
        queues: (u16, u16),
        descriptors: u16,
        mtu: Option<usize>,
        promiscuous: bool,
    ) -> Result<u16, String> {
        let (mut rx, mut tx) = (descriptors, descriptors);
        // SAFETY: all-zero bytes are a valid default configuration; the pool was made before.
        unsafe {
            let mut conf: c::rte_eth_conf = zeroed();
            if queues.0 > 1 && facts.rss != 0 {
                conf.rxmode.mq_mode = c::RTE_ETH_MQ_RX_RSS;
                conf.rx_adv_conf.rss_conf.rss_hf = facts.rss;
            }
            if let Some(mtu) = mtu {
                conf.rxmode.mtu = mtu as u32;
            }
            check(c::rte_eth_dev_configure(self.0, queues.0, queues.1, &conf))?;
            check(c::rte_eth_dev_adjust_nb_rx_tx_desc(
                self.0, &mut rx, &mut tx,
            ))?;
            let node = c::rte_eth_dev_socket_id(self.0) as u32;
            let pool = super::buffers::sys::pool();
            for queue in 0..queues.0 {
                let default = ptr::null();
                check(c::rte_eth_rx_queue_setup(
                    self.0, queue, rx, node, default, pool,
                ))?;
            }
            for queue in 0..queues.1 {
                let default = ptr::null();
                check(c::rte_eth_tx_queue_setup(self.0, queue, tx, node, default))?;
            }
            check(c::rte_eth_dev_start(self.0))?;
        }
        self.set_promiscuous(promiscuous);
        Ok(rx)
    }

    /// Makes the device receive frames for all groups and, if `promiscuous`, for other stations. Virtual devices often
    /// cannot, and need not.
    pub(super) fn set_promiscuous(self, promiscuous: bool) {
        // SAFETY: functions of an existing device, which makes the setting itself.
        unsafe {
            c::rte_eth_allmulticast_enable(self.0);
            match promiscuous {
                true => c::rte_eth_promiscuous_enable(self.0),
                false => c::rte_eth_promiscuous_disable(self.0),
            };
        }
    }

    /// Stops the device and removes it from EAL. No queue of it may be used after that.
    pub(super) fn remove(self, facts: &Facts) {
        // SAFETY: the caller holds the last handle; `device` belongs to this port.
        unsafe {
            c::rte_eth_dev_stop(self.0);
            c::rte_dev_remove(facts.device);
        }
    }

    /// The functions that move bursts, and their queues: what DPDK's inline functions call, here without a C function
    /// around them. Burst callbacks are not called: this process registers none, and no other process can attach.
    #[inline]
    fn fast_path(self) -> &'static c::rte_eth_fp_ops {
        // SAFETY: DPDK's own table, one entry for each port number. It changes while a device starts or stops,
        // and neither happens while a queue of it is used.
        unsafe { &(*ptr::addr_of!(c::rte_eth_fp_ops))[usize::from(self.0)] }
    }

    /// Receives a burst from a queue, which only this thread may use.
    #[inline]
    pub(super) fn receive(self, queue: u16, into: &mut Batch, max: usize) -> usize {
        // SAFETY: the device has started with this queue. DPDK writes as many valid mbufs of our pool as it returns.
        // The caller removes those with several segments before anything reads beyond the first segment.
        unsafe {
            into.fill_raw(max, |place, max| {
                let ops = self.fast_path();
                let queue = *ops.rxq.data.add(queue.into());
                let burst = ops.rx_pkt_burst;
                burst.map_or(0, |burst| burst(queue, place.cast(), max as u16).into())
            })
        }
    }

    /// Number of descriptors of a receive queue in which packets wait, if the driver reports it. Only this thread may
    /// use the queue meanwhile.
    pub(super) fn waiting(self, queue: u16) -> Option<usize> {
        let ops = self.fast_path();
        let count = ops.rx_queue_count?;
        // SAFETY: the device has started with this queue; the driver reads its descriptors.
        let waiting = unsafe { count(*ops.rxq.data.add(queue.into())) };
        Some(waiting as usize)
    }

    /// Sends a burst to a queue, which only this thread may use.
    #[inline]
    pub(super) fn send(self, queue: u16, batch: &mut Batch) -> usize {
        // SAFETY: the device has started with this queue. DPDK owns the mbufs that it counts; all packets are mbufs
        // of its pool, since that was made before any packet.
        unsafe {
            batch.send_raw(|first, n| {
                let n = n.min(usize::from(u16::MAX)) as u16;
                let ops = self.fast_path();
                let queue = *ops.txq.data.add(queue.into());
                let burst = ops.tx_pkt_burst;
                burst.map_or(0, |burst| burst(queue, first.cast(), n).into())
            })
        }
    }

    /// Sets the key by which flows are hashed.
    pub(super) fn set_hash_key(self, facts: &Facts, key: &[u8; 40]) -> Result<(), String> {
        let mut key = *key;
        let mut conf = c::rte_eth_rss_conf {
            rss_key: key.as_mut_ptr(),
            rss_key_len: key.len() as u8,
            rss_hf: facts.rss,
        };
        // SAFETY: the key has the given length, and DPDK copies it before it returns.
        check(unsafe { c::rte_eth_dev_rss_hash_update(self.0, &mut conf) })
    }

    /// Sets the queue of each entry of the indirection table, which has `queues.len()` entries.
    pub(super) fn set_reta(self, queues: &[u16]) -> Result<(), String> {
        let mut groups = reta_groups(queues);
        // SAFETY: there is a group for every 64 entries of the given number.
        check(unsafe {
            c::rte_eth_dev_rss_reta_update(self.0, groups.as_mut_ptr(), queues.len() as u16)
        })
    }

    /// The queues of the indirection table, which has `size` entries; none if the driver does not tell.
    pub(super) fn reta(self, size: usize) -> Vec<u16> {
        let mut groups = reta_groups(&vec![0; size]);
        // SAFETY: as above; DPDK fills them.
        let done = check(unsafe {
            c::rte_eth_dev_rss_reta_query(self.0, groups.as_mut_ptr(), size as u16)
        });
        let queues = groups.iter().flat_map(|group| group.reta).take(size);
        match done {
            Ok(()) => queues.collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Names of the counters that only this driver has.
    pub(super) fn own_names(self) -> Vec<&'static str> {
        // SAFETY: without an array DPDK returns the number, and it fills no more than requested; all-zero bytes are
        // valid names, and terminated.
        let names = unsafe {
            let n = c::rte_eth_xstats_get_names(self.0, ptr::null_mut(), 0);
            let mut names: Vec<c::rte_eth_xstat_name> = Vec::new();
            names.resize_with(usize::try_from(n).unwrap_or(0), || zeroed());
            c::rte_eth_xstats_get_names(self.0, names.as_mut_ptr(), names.len() as u32);
            names
        };
        let text = |name: &c::rte_eth_xstat_name| {
            let bytes = name.name.iter().map(|&b| b as u8).take_while(|&b| b != 0);
            intern(&String::from_utf8_lossy(&bytes.collect::<Vec<_>>()))
        };
        names.iter().map(text).collect()
    }

    /// Values of the named counters, in the order of the names; `None` if the driver now has other counters.
    pub(super) fn own_counters(self, names: &[&'static str]) -> Vec<(&'static str, u64)> {
        // SAFETY: all-zero bytes are valid; DPDK fills up to as many as there is room for.
        let values = unsafe {
            let mut values: Vec<c::rte_eth_xstat> = Vec::new();
            values.resize_with(names.len(), || zeroed());
            let n = c::rte_eth_xstats_get(self.0, values.as_mut_ptr(), names.len() as u32);
            values.truncate(match usize::try_from(n) {
                Ok(n) if n == names.len() => n,
                _ => 0,
            });
            values
        };
        let named = values.iter().map(|v| (names.get(v.id as usize), v.value));
        named
            .filter_map(|(name, value)| Some((*name?, value)))
            .collect()
    }

    /// The counters that every driver has.
    pub(super) fn counters(self) -> [(&'static str, u64); 4] {
        // SAFETY: all-zero bytes are valid; DPDK fills them.
        let s = unsafe {
            let mut stats: c::rte_eth_stats = zeroed();
            c::rte_eth_stats_get(self.0, &mut stats);
            stats
        };
        [
            ("rx_missed", s.imissed),
            ("rx_errors", s.ierrors),
            ("rx_no_buffer", s.rx_nombuf),
            ("tx_errors", s.oerrors),
        ]
    }
}

/// Entries of an indirection table in DPDK's form, all of them valid.
fn reta_groups(queues: &[u16]) -> Vec<c::rte_eth_rss_reta_entry64> {
    let groups = queues.chunks(64).map(|chunk| {
        let mut reta = [0; 64];
        reta[..chunk.len()].copy_from_slice(chunk);
        let mask = u64::MAX >> (64 - chunk.len());
        c::rte_eth_rss_reta_entry64 { mask, reta }
    });
    groups.collect()
}

// SAFETY: the pointer names a device of EAL's list; it is only handed back to EAL.
unsafe impl Send for Facts {}
// SAFETY: as above; nothing is read through it here.
unsafe impl Sync for Facts {}
