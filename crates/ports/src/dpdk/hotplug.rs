//! Hot plugging: releases a card before it is unplugged, and opens it again after it is plugged in.
//!
//! The kernel asks the users of a card to release it, and waits until they have. A thread of the port does so, outside
//! the packet path. The thread then checks from time to time for a card in the same place. A card of the same model
//! gets the same driver as before.

use super::card::Card;
use super::sys as dpdk;
use crate::events::Events;
use crate::sys;
use machine::{Device, Machine};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use sync::Lock;

/// Time between two checks for a missing card.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest pause between two checks of a card that cannot be used; each pause is twice the one before.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(64);

/// Descriptors that wake the thread of a card, by the card's address.
static WAKE_FDS: Lock<BTreeMap<String, Arc<OwnedFd>>> = Lock::new(BTreeMap::new());

fn bells() -> MutexGuard<'static, BTreeMap<String, Arc<OwnedFd>>> {
    WAKE_FDS.lock()
}

/// Makes the card's thread check the state of the card at a PCI address.
pub(super) fn look_at(name: &str) {
    if let Some(bell) = bells().get(&address(name)) {
        sys::signal(bell);
    }
}

/// A PCI address in full.
fn address(name: &str) -> String {
    match name.matches(':').count() {
        1 => format!("0000:{name}"),
        _ => name.to_owned(),
    }
}

/// Thread that watches for the device until it is dropped.
pub(super) struct Watcher {
    address: String,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches the card at a PCI address.
    ///
    /// # Errors
    /// A sentence: the process has no descriptors or threads left.
    pub(super) fn start(card: &Arc<Card>, name: &str, events: &Events) -> Result<Watcher, String> {
        let address = address(name);
        let text = |e: std::io::Error| format!("cannot watch {address}: {e}");
        let bell = Arc::new(sys::eventfd().map_err(text)?);
        let stop = Arc::new(sys::eventfd().map_err(text)?);
        let watch = Watch {
            card: Arc::clone(card),
            opened_device: Machine::here().device_of(&address).ok(),
            address: address.clone(),
            events: events.clone(),
            last_message: String::new(),
            check_delay: CHECK_INTERVAL,
        };
        let (theirs, ends) = (Arc::clone(&bell), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name(format!("plug {address}"))
            .spawn(move || watch.run(&theirs, &ends))
            .map_err(text)?;
        bells().insert(address.clone(), bell);
        dpdk::on_removal(look_at);
        Ok(Watcher {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        bells().remove(&self.address);
        sys::signal(&self.stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Watch {
    card: Arc<Card>,
    address: String,
    /// Description of the PCI device when the card was opened.
    opened_device: Option<Device>,
    events: Events,
    /// Last reported reason why the card cannot be used.
    last_message: String,
    check_delay: Duration,
}

impl Watch {
    fn run(mut self, bell: &OwnedFd, stop: &OwnedFd) {
        loop {
            let limit = match self.card.is_there() {
                true => Duration::MAX,
                false => self.check_delay,
            };
            let [asked, stopped] = sys::poll([bell.as_raw_fd(), stop.as_raw_fd()], limit);
            if stopped {
                return;
            }
            if asked {
                sys::clear(bell);
            }
            match self.card.is_there() {
                true if asked => self.let_go(),
                true => {}
                false => self.check_card(),
            }
        }
    }

    fn log(&self, text: &str) {
        self.events.add(format!("{} {text}", self.address));
    }

    fn let_go(&mut self) {
        (self.last_message, self.check_delay) = (String::new(), CHECK_INTERVAL);
        match self.card.detach() {
            true => self.log(
                "is unplugged: packets to it are dropped as tx_link_down until it is back",
            ),
            false => self.log(
                "is to be unplugged, and stays until the router ends: this kernel has no membarrier",
            ),
        }
    }

    fn check_card(&mut self) {
        let machine = Machine::here();
        if !machine.has_device(&self.address) {
            (self.last_message, self.check_delay) = (String::new(), CHECK_INTERVAL);
            return;
        }
        match self.take_up(&machine) {
            Ok(()) => self.log("is back"),
            Err(why) => {
                self.check_delay = (2 * self.check_delay).min(CHECK_INTERVAL_MAX);
                if self.last_message != why {
                    self.log(&format!("is back and cannot be used: {why}"));
                    self.last_message = why;
                }
            }
        }
    }

    fn take_up(&self, machine: &Machine) -> Result<(), String> {
        let now = machine.device_of(&self.address)?;
        if !now.is_for_programs() {
            let before = self.opened_device.as_ref().filter(|b| b.model == now.model);
            let Some(driver) = before.and_then(|b| b.driver.as_deref()) else {
                return Err(format!(
                    "it is a {}, another card than the router had; `ashlar ports bind {}` gives it to the router",
                    now.model, self.address
                ));
            };
            machine.bind(&self.address, driver, false)?;
        }
        self.card.reattach()
    }
}
