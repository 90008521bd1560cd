//! Directory of ports by name: resolves names to kinds of ports, and keeps the open ports.

mod lookup;

use crate::claim::{self, Claim, ClaimResult};
use crate::dpdk::DpdkSizes;
use crate::events::Events;
use crate::interface::Interface;
use crate::memory::{Memories, Memory};
use crate::netns::Namespace;
use crate::punt::{Punt, Punts};
use crate::scheme::{self, Inner, Parts, PortContext, Resource, Scheme};
use crate::shared_port::{SharedPart, SharedPorts};
use crate::tap::{Tap, Taps};
use crate::{dpdk, memif, null, pcap, ring, tap, tun, wrap};
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest, RxQueue, Slot, TxQueue};
use lookup::Lookup;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use sync::Lock;

/// Prefix of a TAP interface's name in claims.
const TAP_PREFIX: &str = "tap:";

/// Function of an embedding program that opens a port and returns its receive and transmit queues.
type PortFactory = Box<dyn Fn(&PortRequest) -> Queues + Send + Sync>;

/// Receive queues and transmit queues.
pub type Queues = (Vec<Box<dyn RxQueue>>, Vec<Box<dyn TxQueue>>);

/// Ports of an embedding program, by name.
#[derive(Default)]
struct Embedded(BTreeMap<String, (PortInfo, PortFactory)>);

impl Embedded {
    fn get(&self, name: &str) -> Result<&(PortInfo, PortFactory), String> {
        let port = self.0.get(name);
        port.ok_or_else(|| format!("there is no port {name}"))
    }
}

impl Scheme for Embedded {
    fn name_syntax(&self) -> &'static str {
        "NAME"
    }

    fn strip_scheme<'n>(&self, name: &'n str) -> Option<&'n str> {
        self.0.contains_key(name).then_some(name)
    }

    fn probe(&self, name: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        Ok(self.get(name)?.0.clone())
    }

    fn open(
        &self,
        name: &str,
        request: &PortRequest,
        _: &PortContext<'_>,
    ) -> Result<Parts, String> {
        let (info, open) = self.get(name)?;
        let (rx, tx) = open(request);
        let port = Arc::new(info.clone());
        Ok(Parts { port, rx, tx })
    }
}

/// All ports of a router, by name; the crate's page has the names. In a process with several routers each has a
/// directory, and a port belongs to one of them.
#[derive(Default)]
pub struct Directory {
    open: Lock<BTreeMap<String, OpenPort>>,
    events: Events,
    embedded: Embedded,
    memory: Memories,
    taps: Taps,
    punts: Punts,
    dpdk: dpdk::Devices,
    vhost: dpdk::Vhost,
    /// Arguments of DPDK virtual devices, by the devices' names.
    vdevs: BTreeMap<String, String>,
    /// Devices by the names that stand for them.
    names: BTreeMap<String, String>,
    namespace: Option<Arc<Namespace>>,
    /// The router's name, where there are several.
    router: Option<String>,
    /// Shared ports and links between routers of the process.
    shared_ports: Option<Arc<SharedPorts>>,
    /// Names of open ports that are a part of a shared port or a link.
    open_parts: Lock<BTreeSet<String>>,
    /// Open devices of the process's routers, by [identity](Self::identity): the router that has the device, and its
    /// number of open ports.
    open_devices: Arc<Lock<BTreeMap<String, (String, usize)>>>,
    /// True if devices that another program has claimed are refused.
    uses_claims: bool,
    /// The claims of devices, and how many open ports each is for: a device has several names, and is open by two of
    /// them while a reload goes from one to the other.
    claims: Lock<BTreeMap<String, (Option<Claim>, usize)>>,
}

impl Directory {
    /// A directory without open ports.
    pub fn new() -> Directory {
        Directory::default()
    }

    /// A directory with other sizes for DPDK ports. The first DPDK port of the process fixes the sizes.
    pub fn with_dpdk_sizes(sizes: DpdkSizes) -> Directory {
        let mut directory = Directory::default();
        directory.dpdk = dpdk::Devices(sizes);
        directory.vhost = dpdk::Vhost(sizes);
        directory
    }

    /// All kinds of ports, in the order in which they are tried for a name. A kind of port is a file of this crate and
    /// a line here, or is [added](scheme::add) by the program.
    fn schemes(&self) -> Vec<&dyn Scheme> {
        let own: [&dyn Scheme; 16] = [
            &wrap::Fault,
            &wrap::Pace,
            &wrap::Record,
            &null::Null,
            &ring::Ring,
            &pcap::Files,
            &memif::SharedMemory,
            &self.memory,
            &self.taps,
            &self.punts,
            &tun::Tun,
            &self.vhost,
            &self.dpdk,
            &Interface::PACKET,
            &Interface::XDP,
            &Interface::BEST,
        ];
        let added = scheme::added()
            .into_iter()
            .map(|added| added as &dyn Scheme);
        // Without embedded ports, an error text need not list their form.
        let embedded = (!self.embedded.0.is_empty()).then_some(&self.embedded as &dyn Scheme);
        added.chain(embedded).chain(own).collect()
    }

    /// Adds DPDK virtual devices: the text before the first comma is the name, and the rest the arguments.
    pub fn with_vdevs(mut self, vdevs: Vec<String>) -> Directory {
        let name = |devargs: &str| devargs.split(',').next().unwrap_or_default().to_owned();
        self.vdevs = vdevs.into_iter().map(|all| (name(&all), all)).collect();
        self
    }

    /// Sets names that stand for devices.
    pub fn with_names(mut self, names: BTreeMap<String, String>) -> Directory {
        self.names = names;
        self
    }

    /// Refuses Linux interfaces that another program has opened by claim.
    pub fn with_claims(mut self) -> Directory {
        self.uses_claims = true;
        self
    }

    /// Makes TAP interfaces in this network namespace, the router's.
    pub fn in_namespace(mut self, namespace: Arc<Namespace>) -> Directory {
        self.namespace = Some(namespace);
        self
    }

    /// Takes over TAP interfaces by their open queues, under the interfaces' names: queues that the previous process
    /// passed on.
    pub fn with_queues(self, inherited: BTreeMap<String, Vec<OwnedFd>>) -> Directory {
        self.taps.inherit(inherited);
        self
    }

    /// Lets routers of the process share ports and be linked.
    pub fn with_shared_ports(mut self, shared_ports: Arc<SharedPorts>) -> Directory {
        self.shared_ports = Some(shared_ports);
        self
    }

    /// Shared ports and links between routers of the process.
    pub fn shared_ports(&self) -> Option<&Arc<SharedPorts>> {
        self.shared_ports.as_ref()
    }

    /// True if the name is a port of the machine, not a share of one or a link between routers.
    pub fn is_of_machine(&self, name: &str) -> bool {
        matches!(self.shared_part(name), Ok(None))
    }

    /// The shared port or link of this name; `None` if it is a port of this router alone.
    ///
    /// # Errors
    /// The router has no part in the shared port or link of this name; a sentence.
    fn shared_part(&self, name: &str) -> Result<Option<SharedPart>, String> {
        match (&self.shared_ports, &self.router) {
            (Some(shared_ports), Some(router)) => shared_ports.find(router, name),
            _ => Ok(None),
        }
    }

    /// True if all names of open ports still denote the same ports: a port of this router alone, or a part of a shared
    /// port.
    pub fn names_are_unchanged(&self) -> bool {
        let joined = self.open_parts.lock().clone();
        let is_shared = |name: &String| !matches!(self.shared_part(name), Ok(None));
        let same = |name: &String| is_shared(name) == joined.contains(name);
        self.names().iter().all(same)
    }

    /// Identity of the port's resource: the same for all names of one resource. TAP interfaces in different namespaces
    /// differ. `None` if each router has such a port of its own, or a share of the port.
    pub fn identity(&self, name: &str, namespace: Option<&str>) -> Option<String> {
        let port = Lookup::new(self).innermost(name)?;
        let resource = port.scheme.resource(port.rest);
        resource.identity(port.name, namespace)
    }

    /// Resource of the machine that the port uses.
    pub fn resource(&self, name: &str) -> Resource {
        match Lookup::new(self).innermost(name) {
            Some(port) => port.scheme.resource(port.rest),
            None => Resource::Nothing,
        }
    }

    /// True if the port's receive queues are the transmit queues of the program at the other end.
    pub fn is_shared_memory(&self, name: &str) -> bool {
        let port = Lookup::new(self).innermost(name);
        port.is_some_and(|port| port.scheme.is_shared_memory())
    }

    /// The directory of one router of several in this process, without a port open. Its TAP interfaces are made in
    /// its own namespace.
    pub fn of_router(&self, router: &str, namespace: Option<Arc<Namespace>>) -> Directory {
        let mut own = Directory::with_dpdk_sizes(self.dpdk.0);
        own.vdevs.clone_from(&self.vdevs);
        own.names.clone_from(&self.names);
        own.namespace = namespace;
        own.taps = self.taps.of_router(router);
        own.router = Some(router.to_owned());
        own.shared_ports = self.shared_ports.clone();
        own.open_devices = Arc::clone(&self.open_devices);
        own.uses_claims = self.uses_claims;
        own
    }

    /// Key under which the queues of a TAP interface are kept while the process is replaced: its name, after the
    /// router's if there are several.
    pub fn kept_as(&self, tap: &str) -> String {
        self.taps.key(tap)
    }

    /// Identity of the port within the process, and the router that asks; `None` if there is only one router.
    fn claim(&self, name: &str) -> Option<(String, &str)> {
        let namespace = self.namespace.as_ref().map(|namespace| namespace.name());
        Some((self.identity(name, namespace)?, self.router.as_deref()?))
    }

    /// Takes a port for this router. The error is a sentence: another router has the port.
    fn take(&self, name: &str) -> Result<(), String> {
        let Some((port, router)) = self.claim(name) else {
            return Ok(());
        };
        let mut taken = self.open_devices.lock();
        let (owner, times) = taken.entry(port).or_insert((router.to_owned(), 0));
        if owner != router {
            return Err(format!(
                "router `{owner}` has {name}, and a port belongs to one router"
            ));
        }
        *times += 1;
        Ok(())
    }

    /// Claims a port's network interface, if the port has one and no other program uses it. The error is a sentence.
    fn claim_device(&self, name: &str) -> Result<(), String> {
        let device = match self.uses_claims {
            true => self.linux_interface(name),
            false => None,
        };
        let Some(device) = device else {
            return Ok(());
        };
        let mut all = self.claims.lock();
        if let Some((_, ports)) = all.get_mut(&device) {
            *ports += 1;
            return Ok(());
        }
        let claimed = match &self.namespace {
            Some(namespace) if device.starts_with(TAP_PREFIX) => {
                let device = device.clone();
                namespace.run(move || claim::device(&device))
            }
            _ => claim::device(&device),
        };
        let claim = match claimed? {
            ClaimResult::Granted(claim) => Some(claim),
            ClaimResult::AlreadyClaimed => None,
            ClaimResult::ClaimedWithoutRight(why) => {
                self.events.add(why);
                None
            }
        };
        all.insert(device, (claim, 1));
        Ok(())
    }

    /// Releases a port's claim, if no other port is for the same device.
    fn give_device_back(&self, name: &str) {
        let Some(device) = self.linux_interface(name) else {
            return;
        };
        let mut all = self.claims.lock();
        if let Some((_, ports)) = all.get_mut(&device) {
            *ports -= 1;
            if *ports == 0 {
                all.remove(&device);
            }
        }
    }

    /// The Linux interface that a name means. TAP interfaces have names of their own kind, because they may be in
    /// another namespace.
    fn linux_interface(&self, name: &str) -> Option<String> {
        match self.resource(name) {
            Resource::Interface(name) | Resource::Xdp(name) => Some(name),
            Resource::Tap(name) => Some(format!("{TAP_PREFIX}{name}")),
            _ => None,
        }
    }

    fn give_back(&self, name: &str) {
        self.give_device_back(name);
        self.release(name);
    }

    /// Releases a port that [`take`](Self::take) has taken.
    fn release(&self, name: &str) {
        let Some((port, _)) = self.claim(name) else {
            return;
        };
        let mut taken = self.open_devices.lock();
        if let Some((_, times)) = taken.get_mut(&port) {
            *times -= 1;
            if *times == 0 {
                taken.remove(&port);
            }
        }
    }

    /// Adds a port of an embedding program, such as a test stand: its description, and the function that opens it.
    pub fn with_port(
        mut self,
        name: &str,
        info: PortInfo,
        open: impl Fn(&PortRequest) -> Queues + Send + Sync + 'static,
    ) -> Directory {
        self.embedded
            .0
            .insert(name.to_owned(), (info, Box::new(open)));
        self
    }

    /// Closes the queues of [`with_queues`](Self::with_queues) that no port has taken over. Returns their names.
    pub fn close_queues_left(&self) -> Vec<String> {
        self.taps.close_inherited()
    }

    /// The router's network namespace, if it differs from that in which the process was started.
    pub fn namespace(&self) -> Option<&Arc<Namespace>> {
        self.namespace.as_ref()
    }

    /// The TAP interface of the open port `tap:NAME`.
    pub fn tap(&self, name: &str) -> Option<Arc<Tap>> {
        self.taps.get(name)
    }

    /// The program's end of the open port `punt:NAME`.
    pub fn punt(&self, name: &str) -> Option<Arc<Punt>> {
        self.punts.get(name)
    }

    /// Recreates a deleted TAP interface ([`Tap::is_gone`]).
    ///
    /// # Errors
    /// The interface cannot be made; a sentence says why.
    pub fn restore(&self, tap: &Arc<Tap>) -> Result<(), String> {
        let done = match &self.namespace {
            None => tap.restore(),
            Some(namespace) => {
                let tap = Arc::clone(tap);
                namespace.run(move || tap.restore())
            }
        };
        done.map_err(|e| tap::failed("tap", tap.name(), &e))
    }

    /// Port events since the last call, one sentence each, oldest first.
    pub fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.0.lock())
    }

    /// The far end of the in-memory port `mem:NAME`; the port need not be open yet.
    pub fn memory(&self, name: &str) -> Memory {
        self.memory.get(name)
    }
}

impl PortDirectory for Directory {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        match self.get(name) {
            Some(open) => Ok(open.port.info()),
            None => Lookup::new(self).probe(name),
        }
    }

    fn keeps_annotations(&self, name: &str) -> bool {
        Lookup::new(self).keeps_annotations(name)
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String> {
        let mut ports = self.open.lock();
        if let Some(open) = ports.get(name) {
            return check_queue_counts(name, "open with", (open.rx.len(), open.tx.len()), request)
                .map(|()| open.clone());
        }
        let info = Lookup::new(self).probe(name)?;
        check_queue_counts(
            name,
            "made for",
            (info.max_rx_queues, info.max_tx_queues),
            request,
        )?;
        self.take(name)?;
        self.claim_device(name)
            .inspect_err(|_| self.release(name))?;
        let opened = Lookup::new(self).open(name, request);
        let opened = opened.and_then(|parts| {
            // Some devices report their number of queues only once they are open. Dropping the parts here closes the
            // device.
            check_queue_counts(name, "open with", (parts.rx.len(), parts.tx.len()), request)
                .map(|()| parts)
        });
        let mut parts = opened.inspect_err(|_| self.give_back(name))?;
        if let (Some(shared_ports), Some(router)) = (&self.shared_ports, &self.router) {
            match self.shared_part(name) {
                Ok(None) => self.open_parts.lock().remove(name),
                _ => self.open_parts.lock().insert(name.to_owned()),
            };
            parts = shared_ports.opened(router, name, parts);
        }
        let open = OpenPort {
            name: name.to_string(),
            port: parts.port,
            rx: parts.rx.into_iter().map(Slot::new).collect(),
            tx: parts.tx.into_iter().map(Slot::new).collect(),
        };
        ports.insert(name.to_string(), open.clone());
        Ok(open)
    }

    fn get(&self, name: &str) -> Option<OpenPort> {
        self.open.lock().get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.open.lock().keys().cloned().collect()
    }

    fn close(&self, name: &str) {
        if self.open.lock().remove(name).is_some() {
            self.give_back(name);
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let names = self.names();
        names.iter().for_each(|name| self.close(name));
    }
}

/// Checks that a port with `has` receive and transmit queues can serve a request. The error is a sentence.
fn check_queue_counts(
    name: &str,
    how: &str,
    has: (usize, usize),
    r: &PortRequest,
) -> Result<(), String> {
    for (kind, has, asked) in [
        ("receive", has.0, r.rx_queues),
        ("transmit", has.1, r.tx_queues),
    ] {
        if asked > has {
            return Err(format!(
                "{name} is {how} {has} {kind} queues, {asked} are asked: use fewer cores (CORES) or \
                 queues (QUEUES) for it"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
