//! The routers of a process: `[[router]]`. Fields are described in docs/routers.md.

use super::reader::{Fields, Reader, Word};
use crate::isolated::{GATE, Isolation};
use crate::source::{Source, definition};
use engine::plan::Plan;
use lang::{Diagnostic, Span};
use ports::Directory;
use router::worker::share::{PRIORITIES, Share};
use std::collections::BTreeMap;
use std::path::Path;

/// A router of a process, as its file describes it.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its graph, with its definitions.
    pub source: Source,
    /// Its network namespace; `None` = that of the process.
    pub netns: Option<String>,
    /// Its share of the workers.
    pub share: Share,
    /// What it has as a process of its own, if it is one.
    pub isolation: Option<Isolation>,
    /// Where the file names its graph.
    pub place: Span,
}

impl Section {
    /// Workers that run its own graph, in a process that has so many.
    pub(crate) fn own_workers(&self, of_process: usize) -> usize {
        match &self.isolation {
            Some(isolation) => isolation.workers.into(),
            None => of_process,
        }
    }
}

/// Tickets at most: so many routers may share a worker evenly with room for shares between.
const TICKETS_MAX: u32 = 1_000_000;

/// MiB that an isolated router may have, and what it has if nothing is said.
const MEMORY: std::ops::RangeInclusive<u32> = 64..=1 << 20;
const MEMORY_USUAL: u32 = 1024;

/// Reads the sections. Graphs are looked for from `folder`; if only one router is wanted, those of others are not read.
/// Mistakes are noted.
pub(super) fn read(
    mut reader: Reader,
    top: &mut Fields,
    folder: &Path,
    only: Option<&str>,
) -> (Reader, Vec<Section>) {
    let mut names: BTreeMap<String, Span> = BTreeMap::new();
    let mut sections = Vec::new();
    for fields in top.tables(&mut reader, "router", "[[router]]") {
        let section = section(&mut reader, fields, (folder, only), &mut names);
        sections.extend(section);
    }
    (reader, sections)
}

fn section(
    r: &mut Reader,
    mut fields: Fields,
    (folder, only): (&Path, Option<&str>),
    names: &mut BTreeMap<String, Span>,
) -> Option<Section> {
    let name = fields.needed(
        r,
        "name",
        "write name = \"...\": commands name the router by it",
    );
    let help = "write graph = \"edge.click\", a file in the Click language; its path is relative to this file";
    let graph = fields.needed(r, "graph", help);
    let netns = fields.word(r, "netns");
    let definitions = fields.pairs(r, "definitions");
    let tickets = fields.value::<u32>(r, "share");
    let priority = fields.value::<u8>(r, "priority");
    let isolation = isolation(r, &mut fields);
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
    if let Some((_, place)) = tickets.filter(|(n, _)| !(1..=TICKETS_MAX).contains(n)) {
        let wrong = "there is no such share".to_owned();
        let help = format!(
            "write a number from 1 to {TICKETS_MAX}; shares are in proportion to each other"
        );
        r.wrong("router-share", place, wrong, &help);
    }
    if let Some((_, place)) = priority.filter(|(n, _)| *n >= PRIORITIES) {
        let wrong = "there is no such priority".to_owned();
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
    let source = match is_wanted {
        true => Source::read_at(&path, definitions),
        false => Ok(Source::default()),
    };
    let source = match source {
        Ok(source) => source,
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
            tickets: tickets.map_or(1, |(n, _)| n),
            priority: priority.map_or(0, |(n, _)| n),
        },
        isolation,
        place: graph.span,
    })
}

/// What an isolated router has; `None` for one that shares the process.
fn isolation(r: &mut Reader, fields: &mut Fields) -> Option<Isolation> {
    let kind = fields.word(r, "isolation");
    let user = fields.word(r, "user");
    let memory = fields.value::<u32>(r, "memory");
    let cores = fields.word(r, "cores");
    let workers = fields.value::<u8>(r, "workers");
    match kind.as_ref().map_or("shared", |word| &word.text) {
        "process" => {}
        "shared" => {
            let given = [
                user.map(|word| word.span),
                memory.map(|(_, span)| span),
                cores.map(|word| word.span),
                workers.map(|(_, span)| span),
            ];
            for span in given.into_iter().flatten() {
                let wrong = "this is for a router that is a process of its own".to_owned();
                let help = "add isolation = \"process\", or leave it out";
                r.wrong("router-isolation", span, wrong, help);
            }
            return None;
        }
        other => {
            let wrong = format!("there is no isolation `{other}`");
            let help = "write \"shared\" or \"process\"; a virtual machine is given packets by a port `vhost:` (docs/cards.md)";
            r.wrong("router-isolation", kind?.span, wrong, help);
            return None;
        }
    }
    let Some(user) = user else {
        let wrong = "a router that is a process of its own needs a user".to_owned();
        let help = "write user = \"...\", and make the user with `useradd --system`: it has its rights, and nobody else's";
        r.wrong("router-isolation", kind?.span, wrong, help);
        return None;
    };
    if user.text == "root" {
        let wrong = "an isolated router cannot be root".to_owned();
        let help = "name another user; `useradd --system` makes one";
        r.wrong("router-isolation", user.span, wrong, help);
    }
    if let Some((_, span)) = memory.filter(|(mib, _)| !MEMORY.contains(mib)) {
        let wrong = "there is no such bound of memory".to_owned();
        let help = format!("write MiB, from {} to {}", MEMORY.start(), MEMORY.end());
        r.wrong("router-isolation", span, wrong, &help);
    }
    if let Some((_, span)) = workers.filter(|(n, _)| !(1..=64).contains(n)) {
        let wrong = "there is no such number of workers".to_owned();
        r.wrong(
            "router-isolation",
            span,
            wrong,
            "write a number from 1 to 64",
        );
    }
    Some(Isolation {
        user: user.text,
        memory: u64::from(memory.map_or(MEMORY_USUAL, |(mib, _)| mib)) << 20,
        cores: cores.map(|word| word.text),
        workers: workers.map_or(1, |(n, _)| n.clamp(1, 64)),
    })
}

/// Names stand in paths of the API, where `..` means another place, in words of commands, where `-x` means an option, and in
/// labels of metrics.
pub(super) fn is_name(r: &mut Reader, name: &Word) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let begins = name
        .text
        .starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if name.text.ends_with(GATE) {
        let wrong = format!("`{}` is the gate of an isolated router", name.text);
        let help = "choose another end for the name";
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

/// A mistake for each port that a router uses and one before it, too: a port belongs to one router. TAP interfaces in
/// different namespaces are different ports.
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
                let help = "give each ports of its own, by `definitions` if the graph is the same; or share the port among \
                            them: [[port]]";
                let mistake = Diagnostic::error("router-port", wrong);
                mistakes.push(mistake.at(section.place).help(help));
            }
        }
    }
    mistakes
}
