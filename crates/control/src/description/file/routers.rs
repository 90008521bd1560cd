//! The routers of a process: `[[router]]`. Fields are described in docs/routers.md.

use super::isolation::{self, Kind};
use super::{GATE, Isolation};
use crate::description::balancer;
use crate::description::reader::{Fields, Reader, Word};
use crate::description::source::{Source, definition};
use engine::plan::Plan;
use lang::args::quote;
use lang::{Diagnostic, Span};
use ports::Directory;
use ports::shared_port::SharingSpec;
use router::worker::share::{Group, PRIORITIES, Share};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A router of a process, as its file describes it.
#[derive(Clone, Debug)]
pub struct Section {
    /// Name of the router.
    pub name: String,
    /// Graph of the router, with its definitions.
    pub source: Source,
    /// Network namespace; `None` = that of the process.
    pub netns: Option<String>,
    /// Share of the workers.
    pub share: Share,
    /// Isolation settings; `None` for a router in the common process.
    pub isolation: Option<Isolation>,
    /// Folder with the device sockets of a virtual machine, if this router is its gate.
    pub machine: Option<PathBuf>,
    /// Position in the file of the graph's name.
    pub place: Span,
}

impl Section {
    /// Network namespace of the router; `usual` is the default in the process. An isolated router does not use the
    /// default.
    pub fn netns_in(&self, usual: Option<&str>) -> Option<String> {
        let usual = usual.filter(|_| self.isolation.is_none());
        self.netns.as_deref().or(usual).map(str::to_owned)
    }
}

/// Maximum number of tickets of a router. So up to this many routers can share a worker evenly.
const TICKETS_MAX: u32 = 1_000_000;

/// Parses the sections of routers. Paths of graphs are relative to `folder`. If `only` is given, other graphs are not
/// read. Errors are recorded.
pub(super) fn read(
    mut reader: Reader,
    top: &mut Fields,
    folder: &Path,
    only: Option<&str>,
) -> (Reader, Vec<Section>) {
    let mut names: BTreeMap<String, Span> = BTreeMap::new();
    let mut sections = Vec::new();
    let groups = groups(&mut reader, top);
    for fields in top.tables(&mut reader, "router", "[[router]]") {
        let section = section(&mut reader, fields, (folder, only), &groups, &mut names);
        sections.extend(section);
    }
    what_is_not_its_own(&mut reader, &sections);
    (reader, sections)
}

/// Checks that no two isolated routers share a user or network namespace, whose resources are open to all of its
/// processes.
fn what_is_not_its_own(reader: &mut Reader, sections: &[Section]) {
    let isolated = |section: &&Section| section.isolation.is_some();
    for (at, section) in sections.iter().enumerate() {
        let others = || {
            sections
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
        };
        let Some(isolation) = &section.isolation else {
            continue;
        };
        let earlier = || sections[..at].iter().filter(isolated);
        let mut users = earlier().filter_map(|s| Some((s, s.isolation.as_ref()?)));
        if let Some((other, _)) = users.find(|(_, of)| of.user == isolation.user) {
            let wrong = format!(
                "the isolated routers `{}` and `{}` have the same user `{}`",
                other.name, section.name, isolation.user
            );
            let help = "name a user for each: processes of one user can control each other";
            reader.wrong("router-isolation", section.place, wrong, help);
        }
        // The later one of two isolated routers gets the error.
        let shares = |(other, of): &(usize, &Section)| {
            let is_told = of.isolation.is_none() || *other < at;
            is_told && section.netns.is_some() && of.netns == section.netns
        };
        if let Some((_, other)) = others().find(shares) {
            let wrong = format!(
                "the isolated router `{}` has the network namespace of `{}`",
                section.name, other.name
            );
            let help = "make one for it with `ashlar netns NAME --user USER`: it may change all interfaces there";
            reader.wrong("router-isolation", section.place, wrong, help);
        }
    }
}

/// Parses the sections of a balancer, and adds its router. Errors are recorded.
pub(super) fn read_balancer(
    r: &mut Reader,
    top: &mut Fields,
    routers: &mut Vec<Section>,
) -> Option<balancer::Description> {
    if !top.has("balancer") && !top.has("backend") {
        return None;
    }
    let span = top.span;
    let description = balancer::file::read(r, top)?;
    if routers.iter().any(|router| router.name == description.name) {
        let wrong = format!(
            "a router and the balancer are called `{}`",
            description.name
        );
        r.wrong("router-twice", span, wrong, "give each a name of its own");
        return None;
    }
    routers.push(Section {
        name: description.name.clone(),
        source: Source {
            name: format!("balancer {}", description.name),
            text: balancer::generate::text(&description).into(),
            ..Source::default()
        },
        netns: None,
        share: Share::default(),
        isolation: None,
        machine: None,
        place: span,
    });
    Some(description)
}

fn section(
    r: &mut Reader,
    mut fields: Fields,
    (folder, only): (&Path, Option<&str>),
    groups: &BTreeMap<String, Group>,
    names: &mut BTreeMap<String, Span>,
) -> Option<Section> {
    let name = fields.needed(
        r,
        "name",
        "write name = \"...\": commands name the router by it",
    );
    let kind = isolation::read(r, &mut fields);
    let (isolation, machine) = match kind {
        Kind::Shared => (None, None),
        Kind::Process(isolation) => (Some(isolation), None),
        Kind::Machine(sockets) => (None, Some(sockets)),
    };
    let help = "write graph = \"edge.click\", a file in the Click language; its path is relative to this file";
    let graph = match &machine {
        None => fields.needed(r, "graph", help),
        // `machine` has named the folder of the sockets.
        Some(sockets) => Some(sockets.clone()),
    };
    let netns = fields.word(r, "netns");
    let definitions = fields.pairs(r, "definitions");
    let tickets = fields.value::<u32>(r, "share");
    let priority = fields.value::<u8>(r, "priority");
    let group = fields.word(r, "group");
    let (buffers, routes) = (fields.value(r, "buffers"), fields.value(r, "routes"));
    fields.end(r);
    let name = name.filter(|name| is_name(r, name));
    if let Some(name) = &name {
        match names.get(&name.text) {
            Some(_) => {
                let wrong = format!("there are two routers `{}`", name.text);
                r.wrong(
                    "router-twice",
                    name.span,
                    wrong,
                    "give each a name of its own",
                );
            }
            None => _ = names.insert(name.text.clone(), name.span),
        }
    }
    let tickets = checked(r, tickets);
    let is_shared = isolation.is_none() && machine.is_none();
    let [buffers, routes] = [buffers, routes].map(|most| bound(r, most, is_shared));
    let group = group.and_then(|group| {
        let found = groups.get(&group.text).copied();
        if found.is_none() {
            let wrong = format!("there is no group `{}`", group.text);
            let help = "describe it: [[group]] with a name and a share";
            r.wrong("router-group", group.span, wrong, help);
        }
        found
    });
    if let Some((_, place)) = priority.filter(|(n, _)| *n >= PRIORITIES) {
        let wrong = "`priority` is out of range".to_owned();
        let help = "write a number from 0 to 7; a router with a greater one goes first";
        r.wrong("router-priority", place, wrong, help);
    }
    if let Some(netns) = netns.as_ref().filter(|netns| netns.text.is_empty()) {
        let wrong = "`netns` is empty".to_owned();
        let help = "name a namespace of `ip netns`, or leave it out: then it is the process's";
        r.wrong("file-value", netns.span, wrong, help);
    }
    let definitions = definitions.into_iter().filter_map(|pair| defined(r, pair));
    let definitions: Vec<_> = definitions.collect();
    let graph = graph?;
    let path = folder.join(&graph.text);
    let is_wanted = only.is_none_or(|only| name.as_ref().is_some_and(|name| name.text == only));
    let source = match is_wanted && machine.is_none() {
        true => Source::read_at(&path, definitions),
        false => Ok(Source::default()),
    };
    let source = match source {
        Ok(source) => Source { routes, ..source },
        Err(why) => {
            let help = "its path is relative to this file";
            r.wrong("router-graph", graph.span, why, help);
            return None;
        }
    };
    Some(Section {
        name: name?.text,
        source,
        netns: netns.map(|netns| netns.text),
        share: Share {
            tickets,
            priority: priority.map_or(0, |(n, _)| n),
            group,
            buffers,
        },
        isolation,
        machine: machine.map(|sockets| PathBuf::from(sockets.text)),
        place: graph.span,
    })
}

/// Writes the graphs of virtual machines' gates. They connect shared ports and links with the machine's devices of the
/// same names.
pub(super) fn make_gates(r: &mut Reader, routers: &mut [Section], sharing: &SharingSpec) {
    for router in routers {
        let Some(sockets) = &router.machine else {
            continue;
        };
        let name = &router.name;
        let shared = sharing.ports.iter();
        let shared = shared.filter(|port| port.shares.iter().any(|share| share.router == *name));
        let links = sharing.links.iter();
        let links = links.filter(|link| link.routers.contains(name));
        let ports = shared
            .map(|port| &port.name)
            .chain(links.map(|link| &link.name));
        let mut text = String::new();
        for port in ports {
            let socket = sockets.join(format!("{port}.sock"));
            let (here, there) = (quote(port), quote(&format!("vhost:{}", socket.display())));
            for (from, to) in [(&here, &there), (&there, &here)] {
                let _ = writeln!(text, "FromDevice({from}, PROMISC true) -> ToDevice({to});");
            }
        }
        if text.is_empty() {
            let wrong = format!("the virtual machine `{name}` has no card");
            let help = "give it a share of a port, or a link: for each it has a card, with a socket of the same name";
            r.wrong("router-isolation", router.place, wrong, help);
        }
        router.source = Source {
            name: format!("gate of the virtual machine {name}"),
            text: text.into(),
            ..Source::default()
        };
    }
}

/// Parses the groups, by name.
fn groups(r: &mut Reader, top: &mut Fields) -> BTreeMap<String, Group> {
    let mut groups = BTreeMap::new();
    for mut fields in top.tables(r, "group", "[[group]]") {
        let help = "write name = \"...\": routers name their group by it";
        let name = fields.needed(r, "name", help);
        let tickets = fields.value::<u32>(r, "share");
        fields.end(r);
        let tickets = checked(r, tickets);
        let Some(name) = name else {
            continue;
        };
        let group = Group {
            number: groups.len() as u32,
            tickets,
        };
        match groups.entry(name.text) {
            Entry::Vacant(free) => _ = free.insert(group),
            Entry::Occupied(taken) => {
                let wrong = format!("there are two groups `{}`", taken.key());
                r.wrong(
                    "group-twice",
                    name.span,
                    wrong,
                    "give each a name of its own",
                );
            }
        }
    }
    groups
}

/// Optional limit for a router in the common process. Errors are recorded.
fn bound(r: &mut Reader, limit: Option<(u32, Span)>, is_shared: bool) -> Option<u32> {
    let (limit, place) = limit?;
    if !is_shared {
        let wrong = "this is for a router that shares the process".to_owned();
        let help = "leave it out: `memory` bounds a router that is a process of its own, and its machine a virtual one";
        r.wrong("router-bound", place, wrong, help);
    } else if limit == 0 {
        let wrong = "a limit cannot be 0".to_owned();
        let help = "write a greater number, or leave the field out for no limit";
        r.wrong("router-bound", place, wrong, help);
    }
    Some(limit)
}

/// Optional number of tickets; 1 by default. Errors are recorded.
fn checked(r: &mut Reader, tickets: Option<(u32, Span)>) -> u32 {
    let (n, place) = match tickets {
        None => return 1,
        Some((n, _)) if (1..=TICKETS_MAX).contains(&n) => return n,
        Some(wrong) => wrong,
    };
    let help =
        format!("write a number from 1 to {TICKETS_MAX}; shares are in proportion to each other");
    r.wrong(
        "router-share",
        place,
        format!("there is no share {n}"),
        &help,
    );
    1
}

/// True if a name is valid in API paths (not `..`), as a command argument (not an option such as `-x`), and in metric
/// labels.
pub(super) fn is_name(r: &mut Reader, name: &Word) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let begins = name
        .text
        .starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if name.text.ends_with(GATE) {
        let wrong = format!("`{}` is the gate of an isolated router", name.text);
        let help = "choose a name with another suffix";
        r.wrong("router-name", name.span, wrong, help);
        return false;
    }
    let good = begins && name.text.chars().all(fits) && name.text.len() <= 64;
    if !good {
        let wrong = format!("`{}` is no name of a router, port or link", name.text);
        let help =
            "take at most 64 letters, digits, `_`, `-` and `.`; the first is none of the last two";
        r.wrong("router-name", name.span, wrong, help);
    }
    good
}

fn defined(r: &mut Reader, (name, value): (Word, Word)) -> Option<(String, String)> {
    let pair = definition(&format!("{}={}", name.text, value.text));
    if pair.is_none() {
        let wrong = format!("`{}` is no name of a variable", name.text);
        let help = "take letters, digits and `_`, without the `$`";
        r.wrong("router-definition", name.span, wrong, help);
    }
    pair
}

/// Errors for ports that two routers use. TAP interfaces in different namespaces are different ports.
pub fn twice_used(routers: &[(&Section, &Plan, &Directory)]) -> Vec<Diagnostic> {
    let mut used: BTreeMap<String, &str> = BTreeMap::new();
    let mut mistakes = Vec::new();
    for (section, plan, directory) in routers {
        let netns = section.netns.as_deref();
        for device in &plan.devices {
            let Some(port) = directory.identity(&device.name, netns) else {
                continue;
            };
            let other = *used.entry(port).or_insert(&section.name);
            if other != section.name {
                let wrong = format!(
                    "router `{}` uses the port {}, and so does router `{other}`",
                    section.name, device.name
                );
                let help = "give each ports of its own, by `definitions` if the graph is the same; or share the port \
                            among them: [[port]]";
                let mistake = Diagnostic::error("router-port", wrong);
                mistakes.push(mistake.at(section.place).help(help));
            }
        }
    }
    mistakes
}
