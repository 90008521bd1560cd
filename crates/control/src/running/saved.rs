//! Saved settings of handlers, which a restart keeps: lines `ELEMENT.HANDLER VALUE`, in a file beside the configuration
//! (`edge.saved` for `edge.click`), which a router reads at its start.
//!
//! Two kinds are kept. A class with a handler `changes` returns the lines for its handler `ctrl` that turn its
//! configuration into its present state. A handler that can be read and set is kept with its last value. All other
//! settings are listed as not kept.
//!
//! `ELEMENT.configured FINGERPRINT` identifies the element's configuration. If the text, or a file that it names, has
//! changed by the next start, saved settings are ignored: an old setting must not undo a newer firewall rule.

use super::Control;
use super::handlers;
use crate::view::Failure;
use arguments::text_file::fingerprint;
use engine::plan::{Plan, PlanElement};
use std::collections::HashSet;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::MutexGuard;
use sync::Lock;
use tracing::{info, warn};
use wire::Prefix;

/// Begins a line that names what cannot be kept.
pub const NOT_KEPT: &str = "# not kept: ";
/// Name, in place of a handler's, for the fingerprint of an element's configuration.
const CONFIGURED: &str = "configured";
/// Handlers whose effect is included in a class's `changes`.
const IN_CHANGES: [&str; 8] = [
    "add", "clear", "ctrl", "flush", "rate", "remove", "replace", "set",
];

/// Tables of a cluster's server.
const TABLES: [&str; 2] = ["rt4", "rt6"];

/// Routes that a cluster's leader has given, by their prefixes. They are no settings: each start gets them again.
#[derive(Default)]
pub(crate) struct Given(Lock<HashSet<Prefix>>);

impl Given {
    /// The prefixes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<Prefix>> {
        self.0.lock()
    }

    /// True if this line of a table's `changes` sets such a route.
    fn sets(&self, element: &str, line: &str) -> bool {
        if !TABLES.contains(&element) {
            return false;
        }
        let mut words = line.split_whitespace();
        let prefix = words.next().filter(|word| *word == "set");
        let prefix = prefix.and_then(|_| words.next()?.parse().ok());
        prefix.is_some_and(|prefix| self.lock().contains(&prefix))
    }
}

/// Settings by handler, in the order in which they were set last.
#[derive(Default)]
pub(crate) struct Settings(Lock<Vec<Setting>>);

#[derive(Clone)]
struct Setting {
    /// Empty for a handler of the router.
    element: String,
    handler: String,
    /// Set another part of the same handler: `share` of the balancer.
    part: &'static str,
    /// Value of the setting; `None` if it cannot be kept.
    value: Option<String>,
}

impl Settings {
    fn lock(&self) -> MutexGuard<'_, Vec<Setting>> {
        self.0.lock()
    }

    fn store(&self, setting: Setting) {
        let mut all = self.lock();
        all.retain(|old| {
            (&old.element, &old.handler, old.part)
                != (&setting.element, &setting.handler, setting.part)
        });
        all.push(setting);
    }

    /// Restores handler settings of elements that were rebuilt although their text is unchanged, because they depend on
    /// others.
    pub(crate) fn set_again(&self, control: &Control) {
        let plan = control.router().plan();
        let all = self.lock().clone();
        for setting in all {
            let element = plan.find(&setting.element).map(|at| &plan.elements[at]);
            let looks = element.is_some_and(|element| element.named_elements.is_some());
            if let (true, Some(value)) = (looks, &setting.value) {
                let path = format!("{}.{}", setting.element, setting.handler);
                if let Err(failure) = control.write(&path, value) {
                    warn!("{path} {value}: {}", failure.text);
                }
            }
        }
    }

    /// Removes the settings of elements for which `keeps` returns false.
    pub(crate) fn retain(&self, keeps: impl Fn(&str) -> bool) {
        self.lock().retain(|setting| keeps(&setting.element));
    }
}

/// Saved changes of one element.
pub(crate) struct SavedChanges {
    /// Name of the element; empty for the router.
    element: String,
    fingerprint: Option<u64>,
    /// Lines `ELEMENT.HANDLER VALUE`.
    pub(crate) lines: Vec<String>,
    /// Handlers that were set and cannot be kept.
    not_kept: Vec<String>,
}

impl Control {
    /// Differences from the configuration: settings that can be saved, and settings that cannot.
    pub fn saved(&self) -> Result<String, Failure> {
        let mut text = String::new();
        for kept in self.saved_changes()? {
            if let (Some(print), false) = (kept.fingerprint, kept.lines.is_empty()) {
                let _ = writeln!(text, "{}.{CONFIGURED} {print:016x}", kept.element);
            }
            kept.lines
                .iter()
                .for_each(|line| text += &format!("{line}\n"));
            let named = kept.not_kept.iter();
            named.for_each(|path| text += &format!("{NOT_KEPT}{path}\n"));
        }
        Ok(text)
    }

    /// Saved settings by element.
    pub(crate) fn saved_changes(&self) -> Result<Vec<SavedChanges>, Failure> {
        let plan = self.router().plan();
        let settings = self.settings.lock().clone();
        let mut all = Vec::new();
        let of_router = settings.iter().filter(|setting| setting.element.is_empty());
        let (lines, not_kept) = of_settings(of_router);
        all.push(SavedChanges {
            element: String::new(),
            fingerprint: None,
            lines,
            not_kept,
        });
        for element in &plan.elements {
            let own = settings
                .iter()
                .filter(|setting| setting.element == element.name);
            let (set, not_kept) = of_settings(own);
            let mut lines = Vec::new();
            if tells_changes(element) {
                let changes = self.read(&format!("{}.changes", element.name), "")?;
                let own = changes
                    .lines()
                    .filter(|line| !self.given.sets(&element.name, line));
                let each = own.map(|line| format!("{}.ctrl {line}", element.name));
                lines.extend(each);
            }
            lines.extend(set);
            if !lines.is_empty() || !not_kept.is_empty() {
                all.push(SavedChanges {
                    element: element.name.clone(),
                    fingerprint: Some(print_of(element)),
                    lines,
                    not_kept,
                });
            }
        }
        Ok(all)
    }

    /// Records that a handler was set, for [`saved`](Self::saved).
    pub(crate) fn note_setting(&self, path: &str, value: &str) {
        let plan = self.router().plan();
        if handlers::is_balance(self, path) {
            let word = value.split_whitespace().next().unwrap_or_default();
            let part = ["share", "interval", "workers"]
                .into_iter()
                .find(|part| *part == word);
            // `now` balances once, and is not a setting.
            if word != "now" {
                self.settings.store(Setting {
                    element: String::new(),
                    handler: "balance".to_owned(),
                    part: part.unwrap_or_default(),
                    value: Some(value.to_owned()),
                });
            }
            return;
        }
        let Some((name, handler)) = path.rsplit_once('.') else {
            return;
        };
        let Some(element) = plan.find(name).map(|at| &plan.elements[at]) else {
            return;
        };
        if tells_changes(element) && IN_CHANGES.contains(&handler) {
            return;
        }
        let is_kept = is_setting(&plan, element, handler) && !value.contains('\n');
        // An empty value, as for `reset`, makes the element act and sets nothing.
        if is_kept || !value.trim().is_empty() {
            self.settings.store(Setting {
                element: name.to_owned(),
                handler: handler.to_owned(),
                part: "",
                value: is_kept.then(|| value.to_owned()),
            });
        }
    }

    /// Restores saved settings; those that no longer fit are left out with a warning.
    pub(crate) fn restore(&self, file: PathBuf) {
        let shown = file.display().to_string();
        let text = std::fs::read_to_string(&file);
        // A router is started once.
        let _ = self.saved.set(file);
        let text = match text {
            Ok(text) => text,
            Err(wrong) if wrong.kind() == ErrorKind::NotFound => return,
            Err(wrong) => return warn!(file = shown, %wrong, "saved settings cannot be read"),
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<(&str, &str)> = lines.filter_map(|l| l.split_once(' ')).collect();
        let element = |path: &'_ str| path.rsplit_once('.').map(|(element, _)| element.to_owned());
        let mut count = 0;
        for lines in lines.chunk_by(|a, b| element(a.0) == element(b.0)) {
            count += self.restore_element(&shown, lines);
        }
        info!(file = shown, lines = count, "saved settings are used again");
    }

    /// Restores the settings of one element; returns the number of valid lines.
    fn restore_element(&self, file: &str, lines: &[(&str, &str)]) -> usize {
        let plan = self.router().plan();
        let name = lines[0].0.rsplit_once('.').map(|(name, _)| name);
        let element = name.and_then(|name| Some(&plan.elements[plan.find(name)?]));
        let is_print = |path: &str| path.rsplit_once('.').is_some_and(|(_, h)| h == CONFIGURED);
        let print = lines.iter().find(|(path, _)| is_print(path));
        let rest: Vec<_> = lines.iter().filter(|(path, _)| !is_print(path)).collect();
        if let (Some(element), Some((_, print))) = (element, print)
            && *print != format!("{:016x}", print_of(element))
        {
            let all: Vec<String> = rest
                .iter()
                .map(|(path, value)| format!("{path} {value}"))
                .collect();
            warn!(
                file,
                to_do = "`ashlar set` what is still wanted, then `ashlar save`, which also forgets the rest",
                "{}: its configuration has changed since these settings were saved, so it decides, and they do not \
                    count: {}",
                element.name,
                all.join("; ")
            );
            return 0;
        }
        let mut count = 0;
        for same in rest.chunk_by(|a, b| a.0 == b.0) {
            let path = same[0].0;
            let handler = path.rsplit_once('.').map_or(path, |(_, handler)| handler);
            // The file may come from a router that was isolated, and is not trusted.
            let may = handler == "ctrl"
                || handlers::is_balance(self, path)
                || element.is_some_and(|element| is_setting(&plan, element, handler));
            if !may && element.is_some() {
                warn!(file, "{path}: this is no setting, so it does not count");
                continue;
            }
            let each: Vec<&str> = same.iter().map(|(_, value)| *value).collect();
            let Err(failure) = self.write(path, &each.join("\n")) else {
                count += each.len();
                continue;
            };
            // Settings saved for this very configuration are applied as one change, because lines refer to the rules of
            // earlier lines.
            if print.is_some() {
                let all = lang::count(each.len(), "line");
                warn!(
                    file,
                    "{path}: {}, so nothing of its {all} counts", failure.text
                );
                continue;
            }
            // A line that no longer fits must not prevent the other lines.
            for value in each {
                match self.write(path, value) {
                    Ok(_) => count += 1,
                    Err(failure) => warn!(file, "{path} {value}: {}", failure.text),
                }
            }
        }
        count
    }
}

fn of_settings<'s>(settings: impl Iterator<Item = &'s Setting>) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut not_kept) = (Vec::new(), Vec::new());
    for setting in settings {
        let path = match setting.element.as_str() {
            "" => setting.handler.clone(),
            element => format!("{element}.{}", setting.handler),
        };
        match &setting.value {
            Some(value) => lines.push(format!("{path} {value}")),
            None => not_kept.push(path),
        }
    }
    (lines, not_kept)
}

/// True if the class reports what handlers have changed.
fn tells_changes(element: &PlanElement) -> bool {
    let mut handlers = (element.class.handlers)().into_iter();
    handlers.any(|handler| handler.name == "changes")
}

/// True if a handler has a value that can be read and set.
fn is_setting(plan: &Plan, element: &PlanElement, handler: &str) -> bool {
    let own = (element.class.handlers)();
    let inner = own.iter().any(|h| h.name == handler && h.inner);
    let listed = handlers::list(plan, element);
    let found = listed.iter().find(|h| h.name == handler);
    !inner && found.is_some_and(|h| h.read && h.write)
}

/// Fingerprint of an element's configuration: its text, and the content of the files that it names.
fn print_of(element: &PlanElement) -> u64 {
    let mut all = format!("{}({})", element.class.name, element.text);
    for file in &element.files {
        let _ = write!(all, "\n{} {:?}", file.path.display(), file.content);
    }
    fingerprint(all.as_bytes())
}
