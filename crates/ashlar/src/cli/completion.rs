//! Completion of elements and handlers of a running router. Completion must not print errors, so there are no
//! candidates if no router answers.

use super::Target;
use clap_complete::CompletionCandidate;
use control::client::Client;
use control::view::{Element, Handler};
use std::ffi::OsStr;

/// Maximum number of elements for which all handlers are offered before the user types a dot.
const ELEMENTS_MAX: usize = 3;

impl Target {
    /// A client of the router that the command line names.
    ///
    /// # Errors
    /// No socket is named, and there is none or more than one; a sentence.
    pub(crate) fn client(&self) -> Result<Client, String> {
        let path = control::socket::find(self.socket.as_deref())?;
        Ok(Client::new(&path, self.router.as_deref()))
    }
}

/// Elements of the router that `target` selects.
pub(crate) fn running(target: &Target) -> Vec<Element> {
    let client = target.client();
    let found = client.and_then(|client| client.get_json("/v1/elements"));
    found.unwrap_or_default()
}

/// Elements, or their handlers, whose names begin with a word; each with a description.
pub(crate) fn completions_of(
    word: &str,
    all: &[Element],
    wanted: fn(&Handler) -> bool,
) -> Vec<(String, String)> {
    let handlers = |element: &Element| -> Vec<(String, String)> {
        let own = element.handlers.iter().filter(|handler| wanted(handler));
        own.map(|handler| {
            (
                format!("{}.{}", element.name, handler.name),
                handler.doc.clone(),
            )
        })
        .filter(|(path, _)| path.starts_with(word))
        .collect()
    };
    let named = word.rsplit_once('.').map(|(element, _)| element);
    if let Some(element) = all.iter().find(|e| Some(&*e.name) == named) {
        return handlers(element);
    }
    let found: Vec<&Element> = all.iter().filter(|e| e.name.starts_with(word)).collect();
    let mut words: Vec<_> = found
        .iter()
        .map(|e| (e.name.clone(), e.class.clone()))
        .collect();
    if found.len() <= ELEMENTS_MAX {
        words.extend(found.into_iter().flat_map(handlers));
    }
    words
}

fn candidates(word: &OsStr, wanted: fn(&Handler) -> bool) -> Vec<CompletionCandidate> {
    let target = Target {
        socket: None,
        router: None,
    };
    let Some(word) = word.to_str() else {
        return Vec::new();
    };
    let words = completions_of(word, &running(&target), wanted).into_iter();
    words
        .map(|(word, doc)| CompletionCandidate::new(word).help(Some(doc.into())))
        .collect()
}

/// Candidates for `show`.
pub(crate) fn readable(word: &OsStr) -> Vec<CompletionCandidate> {
    candidates(word, |handler| handler.read)
}

/// Candidates for `set`.
pub(crate) fn writable(word: &OsStr) -> Vec<CompletionCandidate> {
    candidates(word, |handler| handler.write)
}

/// Candidates for `capture` and `trace`.
pub(crate) fn elements(word: &OsStr) -> Vec<CompletionCandidate> {
    candidates(word, |_| false)
}
