//! Kinds of ports. A kind is a value that describes and opens all ports of one scheme: the text before the first colon
//! of a port's name.

use crate::events::Events;
use crate::netns::Namespace;
use engine::port::{Port, PortInfo, PortRequest, RxQueue, TxQueue};
use std::sync::Arc;
use sync::Lock;

/// A kind of port.
pub trait Scheme: Sync {
    /// Form of the names, for error texts, such as `ring:NAME`. The text before the colon is the scheme.
    fn name_syntax(&self) -> &'static str;

    /// The part of a port's name that the other functions get as `rest`: the text behind the scheme's colon. `None` if
    /// the name belongs to another scheme.
    fn strip_scheme<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (scheme, _) = self.name_syntax().split_once(':')?;
        name.strip_prefix(scheme)?.strip_prefix(':')
    }

    /// The inner port's name, for a kind of port around another port (`pace:RATE/PORT`).
    fn inner_name<'n>(&self, rest: &'n str) -> Option<&'n str> {
        let _ = rest;
        None
    }

    /// Resource of the machine that the port uses. A port around another one uses the resource of the inner port.
    fn resource(&self, rest: &str) -> Resource {
        let _ = rest;
        Resource::Other
    }

    /// True if the port keeps annotations with the packets sent to it, as a file keeps timestamps.
    fn keeps_annotations(&self) -> bool {
        false
    }

    /// True if the receive queues are the transmit queues of the program at the other end.
    fn is_shared_memory(&self) -> bool {
        false
    }

    /// Describes the port without opening it.
    ///
    /// # Errors
    /// There is no such port, or the name is wrong; a sentence with cause and remedy.
    fn probe(&self, rest: &str, site: &PortContext<'_>) -> Result<PortInfo, String>;

    /// Opens the port with the queues of `request`: at most as many as [`probe`](Self::probe) reported.
    ///
    /// # Errors
    /// The port cannot be opened; a sentence with cause and remedy.
    fn open(
        &self,
        rest: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String>;
}

/// An opened port, as its kind returns it to the directory.
pub struct Parts {
    /// The control side.
    pub port: Arc<dyn Port>,
    /// Receive queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Transmit queues.
    pub tx: Vec<Box<dyn TxQueue>>,
}

/// Resource of the machine that a port uses. Only one router at a time has a resource, whatever names are used for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// No resource: the port is within the router (`null:`), or is shared out among routers.
    Nothing,
    /// A card, by its PCI address.
    Card(String),
    /// Another DPDK device, by its name.
    Dpdk(String),
    /// A Linux interface, by AF_PACKET.
    Interface(String),
    /// A Linux interface, by AF_XDP.
    Xdp(String),
    /// A TAP interface that the port makes in the router's namespace, by its name.
    Tap(String),
    /// An interface that the port makes for itself.
    Tun,
    /// Another resource that the port's name identifies: a file, a socket.
    Other,
}

impl Resource {
    /// Identity of the resource of the port `name`, the same for all names of one resource; TAP interfaces in different
    /// namespaces differ. `None` if the port uses no resource.
    pub(crate) fn identity(&self, name: &str, namespace: Option<&str>) -> Option<String> {
        match self {
            Resource::Nothing => None,
            Resource::Card(address) if address.matches(':').count() == 1 => {
                Some(format!("0000:{address}"))
            }
            Resource::Card(name)
            | Resource::Dpdk(name)
            | Resource::Interface(name)
            | Resource::Xdp(name) => Some(name.clone()),
            Resource::Tap(tap) => Some(format!("tap:{tap} in {}", namespace.unwrap_or_default())),
            Resource::Tun | Resource::Other => Some(name.to_owned()),
        }
    }
}

/// Surroundings of a port: what a kind of port may use of the directory that opens it.
pub struct PortContext<'a> {
    pub(crate) events: &'a Events,
    pub(crate) namespace: Option<&'a Arc<Namespace>>,
    pub(crate) inner: &'a dyn Inner,
}

/// Ports by name, for a port around another one.
pub(crate) trait Inner {
    fn probe(&self, name: &str) -> Result<PortInfo, String>;
    fn open(&self, name: &str, request: &PortRequest) -> Result<Parts, String>;
}

impl PortContext<'_> {
    /// Port events. An open port keeps a clone to report events to the operator.
    pub fn events(&self) -> &Events {
        self.events
    }

    /// The router's network namespace, if it differs from that in which the process was started.
    pub fn namespace(&self) -> Option<&Arc<Namespace>> {
        self.namespace
    }

    /// Describes an inner port.
    ///
    /// # Errors
    /// As [`Scheme::probe`] of the inner port.
    pub fn probe(&self, name: &str) -> Result<PortInfo, String> {
        self.inner.probe(name)
    }

    /// Opens an inner port.
    ///
    /// # Errors
    /// As [`Scheme::open`] of the inner port.
    pub fn open(&self, name: &str, request: &PortRequest) -> Result<Parts, String> {
        self.inner.open(name, request)
    }
}

/// Kinds of ports that the program adds to the crate's own.
static ADDED: Lock<Vec<&'static dyn Scheme>> = Lock::new(Vec::new());

/// Adds kinds of ports, for all directories of the process. A kind with the scheme of one of the crate's own takes its
/// place. Call it before a port is opened.
pub fn add(schemes: &[&'static dyn Scheme]) {
    ADDED.lock().extend(schemes);
}

/// The kinds of ports that the program has added.
pub(crate) fn added() -> Vec<&'static dyn Scheme> {
    ADDED.lock().clone()
}
