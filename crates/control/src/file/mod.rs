//! Whatever is more than one graph is a file of TOML: the routers of a process (`[[router]]`), or the servers of a
//! cluster (`[cluster]`, `[[server]]`, `[[link]]`, `[[route]]`).
//!
//! All mistakes are found at once; each has its place, says what is wrong and what to do.

pub(crate) mod reader;
mod routers;

use crate::cluster::{self, Description};
use lang::{Diagnostic, SourceMap};
use reader::{Fields, Reader};
pub use routers::{Section, twice_used};
use std::path::Path;

/// A file, read as far as its mistakes allow.
#[derive(Debug)]
pub struct Parsed {
    /// The text, to show places in it.
    pub map: SourceMap,
    /// The routers of a process, as far as they make sense.
    pub routers: Vec<Section>,
    /// The cluster; `None` if there is none, or an error.
    pub description: Option<Description>,
    /// All mistakes and warnings, by place.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// The diagnostics as people read them.
    pub fn text(&self) -> String {
        lang::render_all(&self.diagnostics, &self.map)
    }

    /// Number of errors, warnings not counted.
    pub fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.is_error()).count()
    }

    /// Notes further mistakes.
    pub fn add(&mut self, mistakes: Vec<Diagnostic>) {
        self.diagnostics.extend(mistakes);
        lang::sort(&mut self.diagnostics);
    }
}

/// Whether a name is that of such a file: it ends in `.toml`.
pub fn is_described(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "toml")
}

/// Reads the text of a file that is called `name` in messages. Graphs are looked for from `folder`.
pub fn parse(name: &str, text: &str, folder: &Path) -> Parsed {
    read(name, text, |reader, top| {
        let kinds = ["cluster", "server", "link", "route"];
        let cluster = kinds.iter().any(|kind| top.has(kind));
        match (top.has("router"), cluster) {
            (true, true) => {
                let wrong = "this file describes the routers of a process and a cluster".to_owned();
                let help = "put [[router]] into a file of its own: a server of a cluster is a process by itself";
                let mut reader = reader;
                reader.wrong("file-kinds", top.span, wrong, help);
                kinds.iter().for_each(|kind| top.skip(kind));
                top.skip("router");
                (reader, Vec::new(), None)
            }
            (true, false) => {
                let (reader, routers) = routers::read(reader, top, folder);
                (reader, routers, None)
            }
            (false, true) => {
                let (reader, description) = cluster::file::read(reader, top);
                (reader, Vec::new(), Some(description))
            }
            (false, false) => {
                let wrong = "this file describes nothing".to_owned();
                let help = "add [[router]] with a name and a graph for each router of a process, or [cluster]";
                let mut reader = reader;
                reader.wrong("file-missing", top.span, wrong, help);
                (reader, Vec::new(), None)
            }
        }
    })
}

/// As [`parse`], of a file that must describe a cluster.
pub fn parse_cluster(name: &str, text: &str) -> Parsed {
    read(name, text, |reader, top| {
        let (reader, description) = cluster::file::read(reader, top);
        (reader, Vec::new(), Some(description))
    })
}

fn read(
    name: &str,
    text: &str,
    sections: impl FnOnce(Reader, &mut Fields) -> (Reader, Vec<Section>, Option<Description>),
) -> Parsed {
    let mut map = SourceMap::new();
    let file = map.add(name, text);
    let mut reader = Reader::new(file);
    let document = reader.document(text);
    let place = reader.span(0..0);
    let mut top = Fields::new("the file", place, &document);
    let (mut reader, routers, description) = sections(reader, &mut top);
    top.end(&mut reader);
    let mut diagnostics = reader.mistakes;
    lang::sort(&mut diagnostics);
    let good = !diagnostics.iter().any(Diagnostic::is_error);
    Parsed {
        map,
        routers,
        description: description.filter(|_| good),
        diagnostics,
    }
}

#[cfg(test)]
mod tests;
