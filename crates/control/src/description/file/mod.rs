//! TOML files, which describe more than one graph. They describe the routers of a process (`[[router]]`, `[[group]]`,
//! `[[port]]`, `[[link]]`, `[ipsec]`; a balancer is one of them: `[balancer]`, `[[backend]]`), or the servers of a
//! cluster (`[cluster]`, `[[server]]`, `[[link]]`, `[[route]]`).
//!
//! All errors are reported together, each with its position, a description and a remedy.

mod ipsec;
mod isolation;
mod ports;
mod reread;
mod routers;

use crate::description::balancer;
use crate::description::cluster::{self, Description};
use crate::description::reader::{Fields, Reader};
use crate::description::source::Source;
use ::ports::shared_port::SharingSpec;
pub use isolation::{GATE, Isolation};
use lang::{Diagnostic, SourceMap};
pub use routers::{Section, twice_used};
use std::path::{Path, PathBuf};

/// Names of tables that only a file of routers contains.
const OF_ROUTERS: [&str; 6] = ["router", "group", "port", "ipsec", "balancer", "backend"];

/// File that describes the routers of a process.
#[derive(Clone)]
pub struct File {
    /// Text of the file, and the command line's definitions, which apply to all graphs.
    pub source: Source,
    /// Default network namespace of routers.
    pub netns: Option<String>,
    /// Parent folder for the files of isolated routers.
    pub folder: PathBuf,
}

impl File {
    /// Parses the file.
    pub fn parse(&self) -> Parsed {
        self.parse_for(None)
    }

    /// Parses the file. If only one router is requested, the graphs of the others are not read.
    pub(crate) fn parse_for(&self, only: Option<&str>) -> Parsed {
        let folder = self.source.path.as_deref().and_then(Path::parent);
        let folder = folder.unwrap_or(Path::new("."));
        parse_for(&self.source.name, &self.source.text, folder, only)
    }
}

/// A parsed file, as complete as its errors allow.
#[derive(Debug)]
pub struct Parsed {
    /// Source text, for the positions of diagnostics.
    pub map: SourceMap,
    /// Valid routers of the process. Routers that own shared ports come first.
    pub routers: Vec<Section>,
    /// Shared ports and links.
    pub sharing: SharingSpec,
    /// The balancer, which is one of the routers; `None` if there is none, or an error.
    pub balancer: Option<balancer::Description>,
    /// The cluster; `None` if there is none, or an error.
    pub description: Option<Description>,
    /// All errors and warnings, by position.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// Text form of the diagnostics.
    pub fn text(&self) -> String {
        lang::render_all(&self.diagnostics, &self.map)
    }

    /// Number of errors, without warnings.
    pub fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.is_error()).count()
    }

    /// Adds further diagnostics.
    pub fn add(&mut self, mistakes: Vec<Diagnostic>) {
        self.diagnostics.extend(mistakes);
        lang::sort(&mut self.diagnostics);
    }
}

/// True if the name ends in `.toml`.
pub fn is_described(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "toml")
}

/// Parses a file, which is called `name` in messages. Paths of graphs are relative to `folder`.
pub fn parse(name: &str, text: &str, folder: &Path) -> Parsed {
    parse_for(name, text, folder, None)
}

/// Parses a file like [`parse`]. If `only` is given, the graphs of other routers are not read.
pub(crate) fn parse_for(name: &str, text: &str, folder: &Path, only: Option<&str>) -> Parsed {
    read(name, text, |reader, top| {
        let kinds = ["cluster", "server", "link", "route"];
        let has_routers = OF_ROUTERS.iter().any(|kind| top.has(kind));
        // Both kinds of file may contain links.
        let of_cluster = |kind: &str| !has_routers || kind != "link";
        let cluster = kinds.iter().any(|kind| of_cluster(kind) && top.has(kind));
        match (has_routers, cluster) {
            (true, true) => {
                let wrong = "this file describes the routers of a process and a cluster".to_owned();
                let help = "put [[router]] into a file of its own: a server of a cluster is a process by itself";
                let mut reader = reader;
                reader.wrong("file-kinds", top.span, wrong, help);
                kinds.iter().for_each(|kind| top.skip(kind));
                OF_ROUTERS.iter().for_each(|kind| top.skip(kind));
                Sections::none(reader)
            }
            (true, false) => {
                let (mut reader, mut routers) = routers::read(reader, top, folder, only);
                let balancer = routers::read_balancer(&mut reader, top, &mut routers);
                ipsec::read(&mut reader, top, &mut routers, folder);
                let sharing = ports::read(&mut reader, top, &mut routers);
                routers::make_gates(&mut reader, &mut routers, &sharing);
                Sections {
                    reader,
                    routers,
                    sharing,
                    balancer,
                    cluster: None,
                }
            }
            (false, true) => {
                let (reader, description) = cluster::file::read(reader, top);
                Sections {
                    cluster: Some(description),
                    ..Sections::none(reader)
                }
            }
            (false, false) => {
                let wrong = "this file describes no routers and no cluster".to_owned();
                let help = "add [[router]] with a name and a graph for each router of a process, or [balancer], or \
                    [cluster]";
                let mut reader = reader;
                reader.wrong("file-missing", top.span, wrong, help);
                Sections::none(reader)
            }
        }
    })
}

/// Parses a file like [`parse`], which must describe a cluster.
pub fn parse_cluster(name: &str, text: &str) -> Parsed {
    read(name, text, |reader, top| {
        let (reader, description) = cluster::file::read(reader, top);
        Sections {
            cluster: Some(description),
            ..Sections::none(reader)
        }
    })
}

/// Top-level sections of a file.
struct Sections {
    reader: Reader,
    routers: Vec<Section>,
    sharing: SharingSpec,
    balancer: Option<balancer::Description>,
    cluster: Option<Description>,
}

impl Sections {
    fn none(reader: Reader) -> Sections {
        Sections {
            reader,
            routers: Vec::new(),
            sharing: SharingSpec::default(),
            balancer: None,
            cluster: None,
        }
    }
}

fn read(name: &str, text: &str, sections: impl FnOnce(Reader, &mut Fields) -> Sections) -> Parsed {
    let mut map = SourceMap::new();
    let file = map.add(name, text);
    let mut reader = Reader::new(file);
    let document = reader.document(text);
    let span = reader.span(0..0);
    let mut top = Fields::new("the file", span, &document);
    let Sections {
        mut reader,
        routers,
        sharing,
        balancer,
        cluster,
    } = sections(reader, &mut top);
    top.end(&mut reader);
    let mut diagnostics = reader.mistakes;
    lang::sort(&mut diagnostics);
    let good = !diagnostics.iter().any(Diagnostic::is_error);
    Parsed {
        map,
        routers,
        sharing,
        balancer: balancer.filter(|_| good),
        description: cluster.filter(|_| good),
        diagnostics,
    }
}

#[cfg(test)]
mod isolation_tests;
#[cfg(test)]
mod tests;
