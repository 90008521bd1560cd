//! Gates of isolated routers: the parameters of an isolated router's process, and the graph that forwards packets to
//! this process and back.

use crate::description::file::{GATE, Isolation, Section};
use crate::description::source::Source;
use crate::host::user::User;
use engine::plan::Plan;
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest};
use lang::args::quote;
use machine::Machine;
use ports::{Directory, Resource};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Parameters of a router that runs in its own process.
#[derive(Clone, Debug)]
pub struct Isolated {
    /// Name of the router.
    pub name: String,
    /// Graph of the router itself, without its gate.
    pub source: Source,
    pub(crate) user_name: String,
    pub(crate) user: User,
    /// Folder of the router.
    pub(crate) folder: PathBuf,
    /// Copy of the graph for the router's process, with saved settings in the same folder.
    pub(crate) graph: PathBuf,
    /// File for the router's process with the values of the graph's variables, which may be secret.
    pub(crate) definitions: PathBuf,
    pub(crate) isolation: Isolation,
    pub(crate) netns: Option<String>,
    /// Shared ports and links between the router and its gate.
    pub(crate) links: Vec<SharedMemoryLink>,
}

/// A shared port or link of an isolated router: shared memory between the router's process and its gate.
#[derive(Clone, Debug)]
pub(crate) struct SharedMemoryLink {
    /// Name of the port in both processes.
    pub(crate) name: String,
    /// Device in the router's process.
    pub(crate) inside: String,
    /// Device of the gate.
    pub(crate) outside: String,
}

/// Port directory for planning an isolated router in its gate's process. DPDK devices are not opened for a description,
/// because then the router's own process could not open them.
pub(crate) struct Outside<'a>(pub(crate) &'a Directory);

impl PortDirectory for Outside<'_> {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        match self.0.resource(name) {
            Resource::Card(_) | Resource::Dpdk(_) if self.0.is_of_machine(name) => {
                Ok(PortInfo::of_process("dpdk", usize::from(u8::MAX)))
            }
            _ => self.0.probe(name),
        }
    }

    fn keeps_annotations(&self, name: &str) -> bool {
        self.0.keeps_annotations(name)
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String> {
        self.0.open(name, request)
    }

    fn get(&self, name: &str) -> Option<OpenPort> {
        self.0.get(name)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn close(&self, name: &str) {
        self.0.close(name);
    }
}

/// Reasons why the process of an isolated router, with this plan and user, cannot open cards of the plan.
pub(crate) fn cards_of_others(plan: &Plan, user: &User, ports: &Directory) -> Vec<String> {
    let machine = Machine::here();
    let of_machine = plan
        .devices
        .iter()
        .filter(|device| ports.is_of_machine(&device.name));
    let cards = of_machine.filter_map(|device| match ports.resource(&device.name) {
        Resource::Card(address) => Some(address),
        _ => None,
    });
    cards
        .filter_map(|card| machine.is_given_to(&card, user.id).err())
        .collect()
}

/// Parameters of an isolated router, whose own graph has this plan, and the graph of its gate. The router's folder is a
/// subfolder of `folder`.
///
/// # Errors
///
/// The router is not isolated, or its configuration does not fit its isolation; a message.
pub(crate) fn plan(
    section: &Section,
    user: User,
    plan: &Plan,
    (ports, folder): (&Directory, &Path),
) -> Result<(Isolated, Source), String> {
    let isolation = section.isolation.as_ref().ok_or("it is not isolated")?;
    let own = folder.join(&section.name);
    let (mut text, mut links) = (String::new(), Vec::new());
    for device in &plan.devices {
        if ports.is_of_machine(&device.name) {
            // A virtual machine opens its own devices.
            continue;
        }
        let socket = own.join(format!("{}.sock", device.name));
        let socket = socket.display();
        let about = ports.probe(&device.name)?;
        let mac = wire::EtherAddr(about.mac).to_string().to_lowercase();
        let inside = format!(
            "memif:role=server,socket={socket},mac={mac},mtu={}",
            about.mtu
        );
        let outside = format!(
            "memif:role=client,socket={socket},peer={},rings={}",
            user.id, isolation.workers
        );
        let (here, there) = (quote(&device.name), quote(&outside));
        links.push(SharedMemoryLink {
            name: device.name.clone(),
            inside,
            outside,
        });
        if device.request.rx_queues > 0 {
            let _ = writeln!(
                text,
                "FromDevice({here}, PROMISC true) -> ToDevice({there});"
            );
        }
        if device.request.tx_queues > 0 {
            let _ = writeln!(text, "FromDevice({there}) -> ToDevice({here});");
        }
    }
    if text.is_empty() {
        // The router has no shared ports.
        text.push_str("Idle -> Discard;\n");
    }
    let gate = Source {
        name: format!("{}{GATE}", section.name),
        text: text.into(),
        ..Source::default()
    };
    let isolated = Isolated {
        name: section.name.clone(),
        source: section.source.clone(),
        user_name: isolation.user.clone(),
        user,
        graph: folder.join(format!("{}.click", section.name)),
        definitions: folder.join(format!("{}.definitions", section.name)),
        folder: own,
        isolation: isolation.clone(),
        netns: section.netns.clone(),
        links,
    };
    Ok((isolated, gate))
}
