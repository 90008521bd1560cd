//! Linux interfaces, by AF_PACKET (`af_packet:eth0`), by AF_XDP (`af_xdp:eth0`), or by the better of both (`eth0`).

use crate::events::Events;
use crate::interface_properties::Facts;
use crate::scheme::{Parts, PortContext, Resource, Scheme};
use crate::{af_packet, af_xdp};
use engine::port::{PortInfo, PortRequest};

/// Method of opening an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The best method for the interface.
    Best,
    /// AF_PACKET in any case.
    Packet,
    /// AF_XDP in any case.
    Xdp,
}

/// Chosen method of opening an interface, and the resulting description.
fn choose(
    name: &str,
    facts: &Facts,
    kind: Kind,
    request: Option<&PortRequest>,
) -> (Kind, PortInfo) {
    match kind {
        Kind::Xdp => (Kind::Xdp, af_xdp::info(name, facts)),
        Kind::Packet => (Kind::Packet, af_packet::info(name, facts)),
        Kind::Best => match facts.suits_xdp(name, request) {
            Err(why) => (Kind::Packet, by_af_packet(name, facts, &why)),
            Ok(()) => {
                let mut info = af_xdp::info(name, facts);
                // The limits are those of AF_PACKET, which is chosen if more queues are requested.
                let any = af_packet::info(name, facts);
                (info.max_rx_queues, info.max_tx_queues) = (any.max_rx_queues, any.max_tx_queues);
                info.remarks.push(format!(
                    "{name} is opened by AF_XDP, since its driver runs XDP programs and the kernel has no address on it"
                ));
                (Kind::Xdp, info)
            }
        },
    }
}

fn by_af_packet(name: &str, facts: &Facts, why: &str) -> PortInfo {
    let mut info = af_packet::info(name, facts);
    info.remarks
        .push(format!("{name} is opened by AF_PACKET, since {why}"));
    info
}

/// The kinds of port: Linux interfaces by one method.
pub(crate) struct Interface(Kind);

impl Interface {
    /// A bare interface name.
    pub(crate) const BEST: Interface = Interface(Kind::Best);
    /// AF_PACKET in any case.
    pub(crate) const PACKET: Interface = Interface(Kind::Packet);
    /// AF_XDP in any case.
    pub(crate) const XDP: Interface = Interface(Kind::Xdp);
}

impl Scheme for Interface {
    fn name_syntax(&self) -> &'static str {
        match self.0 {
            Kind::Best => "INTERFACE",
            Kind::Packet => "af_packet:INTERFACE",
            Kind::Xdp => "af_xdp:INTERFACE",
        }
    }

    fn strip_scheme<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self.name_syntax().split_once(':') {
            // Linux allows no colon in an interface's name.
            None => (!name.contains(':')).then_some(name),
            Some((scheme, _)) => name.strip_prefix(scheme)?.strip_prefix(':'),
        }
    }

    fn resource(&self, name: &str) -> Resource {
        match self.0 {
            Kind::Xdp => Resource::Xdp(name.to_owned()),
            _ => Resource::Interface(name.to_owned()),
        }
    }

    fn probe(&self, name: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        let facts = Facts::of(name)?;
        Ok(choose(name, &facts, self.0, None).1)
    }

    fn open(
        &self,
        name: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        open(name, self.0, request, site.events())
    }
}

/// Opens an interface.
///
/// # Errors
/// A sentence: no such interface, no permission, too many queues asked.
fn open(name: &str, kind: Kind, request: &PortRequest, events: &Events) -> Result<Parts, String> {
    let facts = Facts::of(name)?;
    match choose(name, &facts, kind, Some(request)) {
        (Kind::Xdp, info) => match af_xdp::open(name, info, request, events) {
            Err(why) if kind == Kind::Best => {
                let why = format!("AF_XDP failed: {why}");
                let info = by_af_packet(name, &facts, &why);
                af_packet::open(name, info, request, events)
            }
            opened => opened,
        },
        (_, info) => af_packet::open(name, info, request, events),
    }
}
