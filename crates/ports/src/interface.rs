//! Linux interfaces: which of AF_PACKET and AF_XDP a bare name takes.

use crate::events::Events;
use crate::facts::Facts;
use crate::parts::Parts;
use crate::{af_packet, af_xdp};
use engine::port::{PortInfo, PortRequest};

/// Method of opening an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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

/// Description of an interface as a port.
///
/// # Errors
/// There is no such interface, or it carries no Ethernet frames.
pub(crate) fn probe(name: &str, kind: Kind) -> Result<PortInfo, String> {
    let facts = Facts::of(name)?;
    Ok(choose(name, &facts, kind, None).1)
}

/// Opens an interface.
///
/// # Errors
/// A sentence: no such interface, no permission, too many queues asked.
pub(crate) fn open(
    name: &str,
    kind: Kind,
    request: &PortRequest,
    events: &Events,
) -> Result<Parts, String> {
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
