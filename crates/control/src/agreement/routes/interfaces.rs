//! Interfaces in the namespace of routes: a TAP interface for each external port of each server.
//!
//! Every server that has the namespace makes them, so that daemons and routes that name them are ready when the server
//! begins to lead. An interface has a carrier while its server exchanges frames with this leader.

use super::frames::discard;
use crate::description::cluster::Description;
use ports::{Namespace, Tap, TapSetup};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use sync::Lock;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};

/// Pause between attempts, and between looks for interfaces that were deleted.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause between looks whether connections have let go of removed interfaces.
const STEP: Duration = Duration::from_millis(5);

/// Interfaces of one server, in the order of its ports.
pub(super) struct OfServer {
    setups: Vec<TapSetup>,
    taps: Vec<Arc<Tap>>,
    /// Number of the latest connection for these interfaces; `None` if they are removed.
    latest: watch::Sender<Option<u64>>,
}

impl OfServer {
    /// Ends all connections so far. Returns the number of the next one; `None` if the interfaces are removed.
    fn end_connections(&self) -> Option<u64> {
        let mut number = None;
        self.latest.send_if_modified(|latest| {
            number = latest.map(|latest| latest + 1);
            *latest = number;
            number.is_some()
        });
        number
    }

    /// Ends all connections, and admits no other one.
    fn remove(&self) {
        self.latest.send_replace(None);
    }
}

/// Interfaces by server, as connections find them.
pub(super) type Shared = Arc<Lock<BTreeMap<String, Arc<OfServer>>>>;

/// All interfaces of the described namespace.
#[derive(Default)]
pub(super) struct Interfaces {
    by_server: Shared,
    /// Namespace and description of these.
    of: Option<(Arc<Namespace>, Arc<Description>)>,
    /// Task that makes interfaces.
    making: Option<JoinHandle<Result<(), String>>>,
    /// Reason why some are not there.
    error: Option<String>,
    look_at: Option<Instant>,
}

impl Interfaces {
    /// Interfaces for connections.
    pub(super) fn shared(&self) -> Shared {
        Arc::clone(&self.by_server)
    }

    /// Reason why some interfaces are not there; a sentence. `None` also before the first attempt has ended.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// True until [`follow`](Self::follow) takes the result of the task that makes interfaces.
    pub(super) fn is_making(&self) -> bool {
        self.making.is_some()
    }

    /// Starts a task that makes the described interfaces, and removes all others. The kernel takes some time for each
    /// interface. While the task runs, further calls change nothing.
    pub(super) async fn follow(
        &mut self,
        namespace: Option<&Arc<Namespace>>,
        described: Option<&Arc<Description>>,
    ) {
        self.take_result().await;
        if self.is_making() {
            return;
        }
        let of = namespace.zip(described.filter(|of| of.interfaces));
        let Some((namespace, described)) = of else {
            clear(&self.by_server);
            (self.of, self.error, self.look_at) = (None, None, None);
            return;
        };
        let same = self.of.as_ref().is_some_and(|(in_namespace, of)| {
            Arc::ptr_eq(in_namespace, namespace) && Arc::ptr_eq(of, described)
        });
        let now = Instant::now();
        if same && self.look_at.is_some_and(|at| now < at) {
            return;
        }
        self.look_at = Some(now + PAUSE);
        let moved = self
            .of
            .as_ref()
            .is_some_and(|(of, _)| !Arc::ptr_eq(of, namespace));
        if moved {
            // Interfaces in another namespace are others, whatever their names.
            clear(&self.by_server);
        }
        self.of = Some((Arc::clone(namespace), Arc::clone(described)));
        let (namespace, wanted) = (Arc::clone(namespace), wanted(described));
        let by_server = self.shared();
        let make = move || make(&by_server, &namespace, wanted);
        self.making = Some(tokio::task::spawn_blocking(make));
    }

    /// Takes the result of the task that makes interfaces, if the task has ended.
    async fn take_result(&mut self) {
        let Some(made) = self.making.take_if(|making| making.is_finished()) else {
            return;
        };
        let error = made.await.unwrap_or_else(|e| Err(e.to_string())).err();
        if let Some(why) = error.as_ref().filter(|_| error != self.error) {
            warn!("interfaces for routing daemons are missing: {why}");
        }
        self.error = error;
    }
}

/// Removes all interfaces, and ends their connections.
fn clear(by_server: &Shared) {
    let removed = std::mem::take(&mut *by_server.lock());
    removed.values().for_each(|server| server.remove());
}

/// Settings of all interfaces, by server.
fn wanted(of: &Description) -> BTreeMap<String, Vec<TapSetup>> {
    let servers = of.servers.iter().enumerate();
    let servers = servers.map(|(number, server)| {
        let ports = server.ports.iter().enumerate();
        let setups = ports.map(|(port, described)| {
            let global = described.v6;
            let local = global.map(|_| (described.link_local, 64));
            TapSetup {
                name: of.interface(number, port),
                mtu: described.mtu.into(),
                v4: described.v4,
                v6: global.into_iter().chain(local).collect(),
            }
        });
        (server.name.clone(), setups.collect())
    });
    servers.collect()
}

/// Makes the interfaces that are wanted. Those with the same settings stay.
fn make(
    by_server: &Shared,
    namespace: &Namespace,
    wanted: BTreeMap<String, Vec<TapSetup>>,
) -> Result<(), String> {
    let mut removed = Vec::new();
    by_server.lock().retain(|name, server| {
        let there = server.taps.iter().all(|tap| !tap.is_gone());
        let stays = there && wanted.get(name) == Some(&server.setups);
        if !stays {
            removed.push(Arc::downgrade(server));
            server.remove();
        }
        stays
    });
    // An interface that a connection still holds would keep its former addresses.
    let until = Instant::now() + PAUSE;
    while removed.iter().any(|server| server.strong_count() > 0) && Instant::now() < until {
        std::thread::sleep(STEP);
    }
    let mut done = Ok(());
    for (name, setups) in wanted {
        if by_server.lock().contains_key(&name) {
            continue;
        }
        let taps = setups.iter().map(|setup| setup.make(namespace));
        match taps.collect::<Result<Vec<_>, String>>() {
            Ok(taps) => {
                let server = OfServer {
                    setups,
                    taps,
                    latest: watch::Sender::new(Some(0)),
                };
                by_server.lock().insert(name, Arc::new(server));
            }
            Err(why) => done = Err(why),
        }
    }
    done
}

/// A connection's hold of a server's interfaces. They lose their carriers when it ends.
pub(super) struct Attached {
    server: Arc<OfServer>,
    number: u64,
}

impl Attached {
    /// Gives the interfaces the Ethernet addresses of the ports, and carriers. Earlier connections end.
    ///
    /// # Errors
    ///
    /// The server has other ports than the leader's description, or the kernel refuses an address; a sentence.
    pub(super) fn new(server: Arc<OfServer>, addresses: &[[u8; 6]]) -> Result<Attached, String> {
        if addresses.len() != server.taps.len() {
            return Err(format!(
                "the server has {} external ports, and {} in the leader's description",
                addresses.len(),
                server.taps.len()
            ));
        }
        let number = server.end_connections();
        let number = number.ok_or("the leader's interfaces are being replaced")?;
        let attached = Attached { server, number };
        for (tap, address) in attached.server.taps.iter().zip(addresses) {
            discard(&**tap);
            // A port without an address of its own has zeros.
            let mut set = Ok(());
            if *address != [0; 6] {
                set = tap.set_mac(*address);
            }
            set.and_then(|()| tap.set_carrier(true))
                .map_err(|e| format!("cannot set up interface {}: {e}", tap.name()))?;
        }
        Ok(attached)
    }

    /// The interfaces, in the order of the server's ports.
    pub(super) fn taps(&self) -> &[Arc<Tap>] {
        &self.server.taps
    }

    /// True if this is the latest connection, and the interfaces are not removed.
    fn is_current(&self) -> bool {
        *self.server.latest.borrow() == Some(self.number)
    }

    /// Waits until the interfaces have another connection, or are removed.
    pub(super) async fn replaced(&self) {
        let mut latest = self.server.latest.subscribe();
        // Its sender is held here, so another number is the only end.
        let _ = latest.wait_for(|latest| *latest != Some(self.number)).await;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.is_current() {
            return;
        }
        for tap in &self.server.taps {
            if let Err(e) = tap.set_carrier(false) {
                info!(interface = tap.name(), "it keeps its carrier: {e}");
            }
        }
    }
}

#[cfg(test)]
#[path = "interfaces_tests.rs"]
mod tests;
