//! Shared ports, and links between two routers of one process.
//!
//! In a router's graph the name of a shared port means the router's share of it, and the name of a link its end. So the
//! same graph serves a whole port, a share of a port, and a link. A change of several routers may have to be undone, so
//! a change takes two steps. [`SharedPorts::prepare`] makes new parts, so that routers can be planned and opened.
//! [`SharedPorts::commit`] makes the new parts valid, and removes parts that are no longer described.

mod lane;
mod link;
mod select;
mod share;
mod spec;
#[cfg(test)]
mod tests;

use crate::scheme::Parts;
use engine::port::{PortInfo, PortRequest};
use link::{End, Link};
pub use select::{Kind, Selector, Tunnel};
use share::{Share, Shared};
pub use spec::{LinkOf, PortOf, ShareOf, SharingSpec};
use std::collections::BTreeMap;
use std::sync::Arc;
use sync::Lock;

/// Prefix of the name that stands for all shares of a port, in the graph of the port's own router.
pub const SHARES: &str = "shares:";

/// The shared ports and links of a process.
pub struct SharedPorts {
    workers: usize,
    all: Lock<All>,
}

#[derive(Default)]
struct All {
    ports: BTreeMap<String, Arc<Shared>>,
    shares: BTreeMap<(String, String), Arc<Share>>,
    links: BTreeMap<String, (LinkOf, Arc<Link>)>,
    /// Description in force, and the description of the change that is under way.
    valid: SharingSpec,
    prepared: SharingSpec,
}

/// The device of a shared port: a port by its name, or the end of a link.
pub(crate) enum Device {
    Named(String),
    Link(End),
}

impl Device {
    fn probe(&self, named: impl Fn(&str) -> Result<PortInfo, String>) -> Result<PortInfo, String> {
        match self {
            Device::Named(name) => named(name),
            Device::Link(end) => Ok(end.probe()),
        }
    }
}

/// Meaning of a name in a router's graph.
pub(crate) enum SharedPart {
    Share(Arc<Share>, Device),
    Shares(Arc<Shared>),
    Link(End),
}

impl SharedPorts {
    /// Makes an empty directory, without shared ports or links, for this number of workers.
    pub fn new(workers: usize) -> SharedPorts {
        SharedPorts {
            workers,
            all: Lock::default(),
        }
    }

    /// The valid description.
    pub fn spec(&self) -> SharingSpec {
        self.all.lock().valid.clone()
    }

    /// Makes the new parts of this description.
    pub fn prepare(&self, next: &SharingSpec) {
        let all = &mut *self.all.lock();
        all.prepared = next.clone();
        for of in &next.ports {
            let new = || Shared::new(of.device.clone(), self.workers);
            let port = all.ports.entry(of.name.clone());
            let port = port.or_insert_with(new);
            for share in &of.shares {
                let key = (share.router.clone(), of.name.clone());
                let new = || Share::new(port, share.clone());
                all.shares.entry(key).or_insert_with(new);
            }
        }
        for of in &next.links {
            let new = || (of.clone(), Arc::new(Link::new(self.workers, of.queue)));
            all.links.entry(of.name.clone()).or_insert_with(new);
        }
    }

    /// Makes this description the valid one.
    pub fn commit(&self, next: &SharingSpec) {
        self.prepare(next);
        let all = &mut *self.all.lock();
        for of in &next.ports {
            let share = |of_share: &ShareOf| {
                let key = (of_share.router.clone(), of.name.clone());
                Some((Arc::clone(all.shares.get(&key)?), of_share.clone()))
            };
            let shares: Vec<_> = of.shares.iter().filter_map(share).collect();
            if let Some(port) = all.ports.get(&of.name) {
                port.set_shares(&of.device, &shares);
            }
        }
        let described = |name: &str| next.ports.iter().find(|of| of.name == name);
        for (_, port) in all
            .ports
            .extract_if(.., |name, _| described(name).is_none())
        {
            port.set_shares("", &[]);
        }
        all.shares.retain(|(router, name), _| {
            described(name).is_some_and(|of| of.shares.iter().any(|s| s.router == *router))
        });
        for (of, _) in all.links.values_mut() {
            if let Some(now) = next.links.iter().find(|now| now.name == of.name) {
                *of = now.clone();
            }
        }
        all.links
            .retain(|name, _| next.links.iter().any(|of| of.name == *name));
        all.valid = next.clone();
    }

    /// The part of a shared port or link that a name means in a router's graph; `None` for a port of its own.
    ///
    /// # Errors
    /// A sentence: the router has no part of it.
    pub(crate) fn find(&self, router: &str, name: &str) -> Result<Option<SharedPart>, String> {
        let all = self.all.lock();
        if let Some(of) = name.strip_prefix(SHARES) {
            let port = all.ports.get(of).filter(|_| of == router);
            let port =
                port.ok_or_else(|| format!("{name} is for the router of that shared port only"))?;
            return Ok(Some(SharedPart::Shares(Arc::clone(port))));
        }
        if all.prepared.links.iter().any(|of| of.name == name) {
            return Ok(all.end(router, name)?.map(SharedPart::Link));
        }
        let is_it = |of: &&PortOf| of.name == name && name != router;
        let Some(of) = all.prepared.ports.iter().find(is_it) else {
            return Ok(None);
        };
        let key = (router.to_owned(), name.to_owned());
        let is_described = of.shares.iter().any(|share| share.router == router);
        let share = all.shares.get(&key).filter(|_| is_described);
        let share = share.ok_or_else(|| {
            format!("{name} is a shared port, and {router} has no share of it: add a [[port.share]] with its name")
        })?;
        let device = match all.end(name, &of.device)? {
            Some(end) => Device::Link(end),
            None => Device::Named(of.device.clone()),
        };
        Ok(Some(SharedPart::Share(Arc::clone(share), device)))
    }

    /// Drops all state of a removed router.
    pub fn remove_router(&self, router: &str) {
        let now = self.spec();
        let without = now.clone().without(router);
        if without != now {
            self.commit(&without);
        }
    }

    /// Called when the port's router has opened its device. Returns the parts that the router uses instead.
    pub(crate) fn opened(&self, router: &str, device: &str, parts: Parts) -> Parts {
        let shared = self.all.lock().ports.get(router).cloned();
        match shared.filter(|shared| shared.device_name() == device) {
            Some(shared) => shared.opened(parts),
            None => parts,
        }
    }
}

impl All {
    /// A router's end of a link; `None` if there is no link of this name. The error is a sentence.
    fn end(&self, router: &str, name: &str) -> Result<Option<End>, String> {
        let Some(of) = self.prepared.links.iter().find(|of| of.name == name) else {
            return Ok(None);
        };
        let side = of.routers.iter().position(|end| end == router);
        let side = side.ok_or_else(|| {
            let [one, other] = &of.routers;
            format!("the link {name} joins {one} and {other}, and not {router}")
        })?;
        let link = self.links.get(name).map(|(_, link)| Arc::clone(link));
        Ok(link.map(|link| End { link, side }))
    }
}

impl SharedPart {
    /// Description of the port; `device` describes a device.
    pub(crate) fn probe(
        &self,
        device: impl Fn(&str) -> Result<PortInfo, String>,
    ) -> Result<PortInfo, String> {
        match self {
            SharedPart::Share(share, of) => Ok(share.probe(of.probe(device)?)),
            SharedPart::Shares(port) => Ok(port.probe()),
            SharedPart::Link(end) => Ok(end.probe()),
        }
    }

    pub(crate) fn open(
        &self,
        request: &PortRequest,
        device: impl Fn(&str) -> Result<PortInfo, String>,
    ) -> Result<Parts, String> {
        Ok(match self {
            SharedPart::Share(share, _) => share.open(request, self.probe(device)?),
            SharedPart::Shares(port) => port.open(request),
            SharedPart::Link(end) => end.open(request),
        })
    }
}
