//! Names that stand for addresses, and detection of addresses that have changed.

use super::{Options, Registry};
use arguments::{Kind, Names};
use engine::plan::Plan;
use engine::port::{PortDirectory, PortInfo};
use lang::Router;

/// Suffixes of a device's name that stand for its address and MTU.
const OF_DEVICES: [(Kind, &[&str]); 2] =
    [(Kind::Ether, &[":eth", ":ether"]), (Kind::Mtu, &[":mtu"])];

/// Value of a name that stands for a device's address or MTU.
fn text_of(kind: Kind, info: &PortInfo) -> String {
    match kind {
        Kind::Mtu => info.mtu.to_string(),
        _ => wire::EtherAddr(info.mac).to_string(),
    }
}

/// Open devices whose address or MTU has changed since elements were configured, with old and new value: an interface
/// was changed or came back different. A new address of a device whose link is down counts once the link is up, so that
/// announcements of it are not lost.
pub fn readdressed<'p>(
    plan: &'p Plan,
    ports: &dyn PortDirectory,
) -> Vec<(&'p str, String, String)> {
    let mut changed = Vec::new();
    for device in &plan.addressed {
        let parent = || vlan_parent(device).and_then(|port| ports.get(port));
        let Some(open) = ports.get(device).or_else(parent) else {
            continue;
        };
        let info = open.port.info();
        for (kind, _) in OF_DEVICES {
            let now = text_of(kind, &info);
            if kind == Kind::Ether && !open.port.link_up() {
                continue;
            }
            if let Some(known) = plan.names.get(device, kind).filter(|known| *known != now) {
                changed.push((device.as_str(), known.to_owned(), now));
            }
        }
    }
    changed
}

/// Extension: each argument of an element of the class defines names of addresses (AddressInfo) or ports (PortInfo).
/// They are valid in the surrounding compound element.
pub struct GivesNames(pub fn(&mut Names, &str));

/// Collects the names of addresses: those that elements define, and those of devices for their own addresses and MTUs.
/// Also returns these devices.
pub(super) fn of(router: &Router, registry: &Registry, options: &Options) -> (Names, Vec<String>) {
    let mut names = options.names.clone();
    let mut addressed = Vec::new();
    for element in &router.elements {
        let class = registry.get(&element.class);
        let gives = class.and_then(|class| class.extension::<GivesNames>());
        names.enter(&element.name);
        for range in lang::args::split(&element.config.text) {
            if let Some(gives) = gives {
                (gives.0)(&mut names, &element.config.text[range]);
            }
        }
    }
    names.enter("");
    let text = router.elements.iter().map(|e| e.config.text.as_str());
    for word in
        text.flat_map(|t| t.split(|c: char| !(c.is_ascii_alphanumeric() || "_-./:@".contains(c))))
    {
        let of_device = OF_DEVICES.iter().find_map(|(kind, suffixes)| {
            let mut devices = suffixes
                .iter()
                .filter_map(|suffix| word.strip_suffix(suffix));
            Some((*kind, devices.next()?))
        });
        let Some((kind, device)) = of_device else {
            continue;
        };
        if names.get(word, kind).is_some() {
            continue;
        }
        let text = match probe_or_parent(options.ports, device) {
            Ok(info) => text_of(kind, &info),
            // Checking a file needs no real device, so a stand-in address is used; the element that uses the missing
            // device reports it.
            Err(_) if !options.devices_must_exist => text_of(kind, &PortInfo::of_process("", 1)),
            Err(_) => continue,
        };
        names.insert_default(device, kind, text);
        addressed.push(device.to_owned());
    }
    (names, addressed)
}

/// Description of a device, or of the port of a VLAN sub-interface `PORT.ID`, which has the same address.
fn probe_or_parent(ports: &dyn PortDirectory, device: &str) -> Result<PortInfo, String> {
    ports
        .probe(device)
        .or_else(|why| match vlan_parent(device) {
            Some(port) => probe_or_parent(ports, port),
            None => Err(why),
        })
}

/// Name of the port of a VLAN sub-interface `PORT.ID`.
fn vlan_parent(device: &str) -> Option<&str> {
    let (port, tag) = device.rsplit_once('.')?;
    tag.parse::<wire::vlan::Tag>().is_ok().then_some(port)
}
