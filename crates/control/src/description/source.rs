//! The Click text of one router, its origin, and its definitions.

use super::numbers::Numbers;
use super::unreadable::{cannot_read, not_text};
use arguments::text_file::{self, Copies};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A configuration: its text, file and definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Name in messages: the path as typed, or `standard input`.
    pub name: String,
    /// The file, if it can be read again.
    pub path: Option<PathBuf>,
    /// The text, which all copies share: there may be many routers.
    pub text: Arc<str>,
    /// `NAME=value` of the command line.
    pub definitions: Vec<(String, String)>,
    /// Name of the server whose configuration the text is, if the file describes a cluster.
    pub server: Option<String>,
    /// Numbers in frames between the cluster's servers.
    pub numbers: Option<Numbers>,
    /// Routes that each routing table may have; `None` = no bound.
    pub routes: Option<u32>,
}

impl Source {
    /// Reads a file, or standard input if the name is `-`. The error is a sentence.
    pub fn read(name: &str, definitions: Vec<(String, String)>) -> Result<Source, String> {
        if name != "-" {
            return Source::of_file(Path::new(name), text_file::typed, definitions);
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)
            .map_err(|e| format!("cannot read standard input: {e}"))?;
        Source::of_bytes("standard input".to_owned(), None, bytes, definitions)
    }

    /// Reads a file that another one names. The error is a sentence.
    pub fn read_at(path: &Path, definitions: Vec<(String, String)>) -> Result<Source, String> {
        Source::of_file(path, text_file::named, definitions)
    }

    fn of_file(
        path: &Path,
        read: fn(&Path) -> std::io::Result<Vec<u8>>,
        definitions: Vec<(String, String)>,
    ) -> Result<Source, String> {
        let name = path.display().to_string();
        let bytes = read(path).map_err(|e| cannot_read(path, &e))?;
        // The path must stay valid if the router reads the file again from another working directory.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Source::of_bytes(name, Some(path), bytes, definitions)
    }

    fn of_bytes(
        name: String,
        path: Option<PathBuf>,
        bytes: Vec<u8>,
        definitions: Vec<(String, String)>,
    ) -> Result<Source, String> {
        let text = String::from_utf8(bytes).map_err(|e| {
            let bad = e.utf8_error().valid_up_to();
            not_text(&name, e.as_bytes(), bad)
        })?;
        Ok(Source {
            name,
            path,
            text: text.into(),
            definitions,
            server: None,
            numbers: None,
            routes: None,
        })
    }

    /// Files that were read for the configuration, its own file among them, which may have come with a request.
    pub(crate) fn with_text(&self, mut read: Copies) -> Copies {
        // The text of a server's configuration is made from the file.
        if let (Some(path), None) = (&self.path, &self.server) {
            let own = || self.text.as_bytes().to_vec();
            read.entry(text_file::name_in_copies(path))
                .or_insert_with(own);
        }
        read
    }

    /// True if both sources are the same file with the same values for its variables.
    pub fn is_like(&self, other: &Source) -> bool {
        let values = |source: &Source| -> BTreeSet<(String, String)> {
            source.definitions.iter().cloned().collect()
        };
        // A cluster's file gives its own.
        self.path == other.path && (self.server.is_some() || values(self) == values(other))
    }

    /// Adds definitions; later ones replace earlier ones of the same name.
    pub fn define(&mut self, changes: &[(String, String)]) {
        for (name, value) in changes {
            self.definitions.retain(|(n, _)| n != name);
            self.definitions.push((name.clone(), value.clone()));
        }
    }

    /// A short name for the router: the file without folder and extension.
    pub fn stem(&self) -> String {
        let stem = self.path.as_deref().and_then(Path::file_stem);
        stem.map_or_else(|| "router".to_owned(), |s| s.to_string_lossy().into_owned())
    }
}

/// File with the saved settings of a configuration, or of one router of a file of several.
pub(crate) fn saved_file(configuration: &Path, router: Option<&str>) -> PathBuf {
    match router {
        None => configuration.with_extension("saved"),
        Some(router) => configuration.with_extension(format!("{router}.saved")),
    }
}

/// Splits `NAME=value`; `None` if the word is no definition.
pub fn definition(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let name = name.strip_prefix('$').unwrap_or(name);
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good = !name.is_empty() && name.chars().all(fits);
    good.then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_has_a_name_an_equals_sign_and_any_value() {
        assert_eq!(definition("A=b=c"), Some(("A".into(), "b=c".into())));
        assert_eq!(definition("$A="), Some(("A".into(), String::new())));
        assert_eq!(definition("./a=b.click"), None);
        assert_eq!(definition("=x"), None);
        assert_eq!(definition("router.click"), None);
    }

    #[test]
    fn later_definitions_replace_earlier_ones() {
        let mut source = Source {
            definitions: vec![("A".into(), "1".into()), ("B".into(), "2".into())],
            ..Source::default()
        };
        source.define(&[("A".into(), "3".into())]);
        assert_eq!(
            source.definitions,
            [("B".into(), "2".into()), ("A".into(), "3".into())]
        );
    }
}
