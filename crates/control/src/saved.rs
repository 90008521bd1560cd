//! What was set at run time and is to be there after a restart: a text of lines `ELEMENT.ctrl LINE`, in a file beside the
//! configuration (`edge.saved` for `edge.click`), that a router reads when it starts.
//!
//! An element takes part if its class has a handler `changes`: the lines for its handler `ctrl` that make of its
//! configuration what it has now.

use crate::state::{Control, Failure};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tracing::{info, warn};

/// The file for a configuration, and for one router of a file of several.
pub(crate) fn file_for(configuration: &Path, router: Option<&str>) -> PathBuf {
    match router {
        None => configuration.with_extension("saved"),
        Some(router) => configuration.with_extension(format!("{router}.saved")),
    }
}

impl Control {
    /// What differs from the configuration.
    pub fn saved(&self) -> Result<String, Failure> {
        let plan = self.router().plan();
        let mut text = String::new();
        for element in &plan.elements {
            if !(element.class.handlers)()
                .iter()
                .any(|h| h.name == "changes")
            {
                continue;
            }
            let name = &element.name;
            for line in self.read(&format!("{name}.changes"), "")?.lines() {
                text += &format!("{name}.ctrl {line}\n");
            }
        }
        Ok(text)
    }

    /// Takes up what was saved; what does not fit any more is left out with a warning.
    pub(crate) fn restore(&self, file: PathBuf) {
        let shown = file.display().to_string();
        let text = std::fs::read_to_string(&file);
        // A router is started once.
        let _ = self.saved.set(file);
        let text = match text {
            Ok(text) => text,
            Err(wrong) if wrong.kind() == ErrorKind::NotFound => return,
            Err(wrong) => return warn!(file = shown, %wrong, "what was saved cannot be read"),
        };
        let lines: Vec<(&str, &str)> = text.lines().filter_map(|l| l.split_once(' ')).collect();
        for lines in lines.chunk_by(|a, b| a.0 == b.0) {
            let path = lines[0].0;
            // What is in the file may come from a router that was isolated, and is not trusted.
            if !path.ends_with(".ctrl") {
                warn!(
                    file = shown,
                    "{path}: this is no `ctrl`, so it does not count"
                );
                continue;
            }
            let each: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
            if self.write(path, &each.join("\n")).is_ok() {
                continue;
            }
            // One that does not fit must not keep the others away.
            for line in each {
                if let Err(failure) = self.write(path, line) {
                    warn!(file = shown, "{path} {line}: {}", failure.text);
                }
            }
        }
        info!(
            file = shown,
            lines = lines.len(),
            "what was saved counts again"
        );
    }
}
