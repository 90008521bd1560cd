//! Reload of all routers of a process: each is compiled once, then the plans are applied as a whole, or not at all.

use super::{Process, directory, is_in};
use crate::compile::{
    Base, Planned, compile, compile_all, errors_of_all, json_of_all, text_of_all,
};
use crate::description::file::{File, Parsed, Section};
use crate::description::source::Source;
use crate::host::service;
use crate::running::Control;
use crate::running::reload::{PreviousState, ReloadBasis, changes};
use crate::view::{self, Failure, ReloadReply, ReloadRequest, RouterChange};
use arguments::text_file;
use engine::plan::Plan;
use planner::Options;
use ports::Directory;
use ports::shared_port::{SharedPorts, SharingSpec};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sync::Lock;
use tracing::warn;

impl Process {
    pub(super) fn reload_all(
        &self,
        described: &Lock<File>,
        request: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let (reply, read) = text_file::recorded(|| self.reload_file(described, request));
        if let Ok(ReloadReply {
            good: true,
            until: None,
            ..
        }) = reply
            && !request.dry_run
        {
            let file = described.lock().clone();
            service::reloaded(file.source.with_text(read));
        }
        reply
    }

    fn reload_file(
        &self,
        described: &Lock<File>,
        request: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let refused = |why: String| Failure::new(409, why);
        let _change = self.changing.lock();
        let file = described.lock().clone();
        let mut next = File {
            source: match &request.text {
                None => {
                    let own = self.own.as_ref().unwrap_or(&file);
                    own.source.reread(&request.definitions).map_err(refused)?
                }
                Some(text) => Source {
                    name: request
                        .name
                        .clone()
                        .unwrap_or_else(|| file.source.name.clone()),
                    path: request.path.as_ref().map(PathBuf::from),
                    text: text.as_str().into(),
                    ..file.source.clone()
                },
            },
            ..file.clone()
        };
        next.source.define(&request.definitions);
        let mut parsed = next.parse();
        if parsed.description.is_some() {
            let why = "the file describes a cluster now: start the process anew for that";
            return Err(refused(why.to_owned()));
        }
        let common = &self.common;
        let running = self.routers().into_iter().map(Running::new);
        let running: BTreeMap<String, Running> = running.collect();
        let sharing_change = SharingChange::prepare(common.ports.shared_ports(), &parsed.sharing);
        let base = |section: &Section| match running.get(&section.name) {
            Some(one) if one.can_keep_ports(section) => Ok(Base {
                ports: Arc::clone(&one.router.ports),
                previous: (!request.dry_run).then(|| Arc::clone(&one.basis.plan)),
                replaces: Some(Arc::clone(&one.basis.plan)),
            }),
            _ => new_base(&common.ports, section),
        };
        let count = (self.workers().count(), true);
        let planned = compile_all(&mut parsed, &common.registry, count, &next, &base);
        let mut reply = ReloadReply {
            configuration: next.source.name.clone(),
            ..diagnosed(&parsed, &planned)
        };
        if !reply.good {
            return Ok(reply);
        }
        let own = self.own.as_ref().map(|own| &own.source);
        let own = own.filter(|own| own.path != next.source.path);
        reply.until = own.map(|own| own.name.clone());
        // A router stays if its section was compiled for the ports that it has open.
        let stay = planned.iter().filter_map(|one| {
            let name = &one.section.name;
            let running = running.get(name)?;
            Arc::ptr_eq(&running.router.ports, &one.ports).then(|| (name.clone(), running))
        });
        let stay: BTreeMap<String, &Running> = stay.collect();
        let routers = self.routers().into_iter();
        let go: Vec<Arc<Control>> = routers
            .filter(|router| !stay.contains_key(router.name()))
            .collect();
        let removed = go.iter().map(|router| RouterChange {
            name: router.name().to_owned(),
            what: "remove".to_owned(),
            changes: view::Changes::default(),
        });
        reply.routers.extend(removed);
        let each = planned.iter();
        let each = each.map(|one| change_of(one, stay.get(&one.section.name).copied()));
        reply.routers.extend(each);
        if !request.dry_run {
            service::reloading();
            // Ports of routers that are no longer isolated are opened by this process.
            let shared = planned.iter().filter(|one| one.isolated.is_none());
            let ended = shared.filter_map(|one| self.isolated.end(&one.section.name));
            let ended: Vec<_> = ended.collect();
            let done = self.apply(&planned, &stay, &go);
            service::ready();
            if done.is_err() {
                for (isolated, known) in ended {
                    self.isolated.follow(&isolated, known).map_err(refused)?;
                }
            }
            reply.lost = done?;
            sharing_change.keep();
            // A failed isolated router affects nothing in this process: its failure is logged, and the reload stands.
            for one in &planned {
                if let Err(why) = self.follow_isolated(one) {
                    warn!(router = one.section.name, why);
                }
            }
            self.reloads.fetch_add(1, Ordering::Relaxed);
            *described.lock() = next;
        }
        Ok(reply)
    }

    /// Starts one router of the current file, without changing the others.
    pub(super) fn add_described(
        &self,
        described: &Lock<File>,
        request: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let refused = |why: String| Failure::new(409, why);
        let _change = self.changing.lock();
        let name = request.add.as_deref().unwrap_or_default();
        if self.routers().iter().any(|router| router.name() == name) {
            return Err(refused(format!(
                "router {name} runs already; to change it: reload"
            )));
        }
        let file = described.lock().clone();
        let next = File {
            source: file.source.reread(&request.definitions).map_err(refused)?,
            ..file
        };
        let mut parsed = next.parse_for(Some(name));
        parsed.routers.retain(|section| section.name == name);
        let common = &self.common;
        let now = common
            .ports
            .shared_ports()
            .map(|shared_ports| shared_ports.spec());
        let sharing = now.unwrap_or_default().with(name, &parsed.sharing);
        let sharing_change = SharingChange::prepare(common.ports.shared_ports(), &sharing);
        let base = |section: &Section| new_base(&common.ports, section);
        let count = (self.workers().count(), true);
        let planned = compile_all(&mut parsed, &common.registry, count, &next, &base);
        let reply = diagnosed(&parsed, &planned);
        if !reply.good {
            return Ok(reply);
        }
        let Some(one) = planned.first() else {
            let text = format!("{} describes no router `{name}`", next.source.name);
            return Err(Failure::new(404, text));
        };
        self.add_planned(one).map_err(refused)?;
        sharing_change.keep();
        self.follow_isolated(one).map_err(refused)?;
        Ok(reply)
    }

    /// Removes, reloads and starts routers as one transaction: those that `go`, those that `stay`, and the other ones
    /// that are planned. A router that needs another router's port is applied after that router's reload. Returns the
    /// discarded settings.
    fn apply(
        &self,
        planned: &[Planned],
        stay: &BTreeMap<String, &Running>,
        go: &[Arc<Control>],
    ) -> Result<Vec<String>, Failure> {
        // Removal cannot fail, and thus comes last, unless another router needs the ports.
        let (first, last): (Vec<_>, Vec<_>) =
            go.iter().partition(|router| is_in_the_way(router, planned));
        let mut done = Vec::new();
        for router in first {
            self.remove(router.name());
            done.push(Step::Removed(Arc::clone(router)));
        }
        let mut left: Vec<&Planned> = planned.iter().collect();
        let (mut failures, mut lost) = (Vec::new(), Vec::new());
        while !left.is_empty() {
            let before = left.len();
            failures.clear();
            left.retain(|one| {
                let applied = self.apply_one(one, stay.get(&one.section.name).copied(), &mut lost);
                let failed = applied.map(|step| done.push(step));
                failed.map_err(|why| failures.push(why)).is_err()
            });
            if left.len() == before {
                break;
            }
        }
        if failures.is_empty() {
            last.iter().for_each(|router| {
                self.remove(router.name());
            });
            return Ok(lost);
        }
        if let Some(shared_ports) = self.common.ports.shared_ports() {
            // Undone changes restore the old shared parts.
            shared_ports.prepare(&shared_ports.spec());
        }
        let undone = done.into_iter().rev().map(|step| self.undo(step));
        let stuck: Vec<String> = undone.filter_map(Result::err).collect();
        let mut text = format!("nothing has changed: {}", failures.join("; "));
        if !stuck.is_empty() {
            text = format!(
                "{}; what was done until then could not be undone: {}",
                failures.join("; "),
                stuck.join("; ")
            );
        }
        Err(Failure::new(409, text))
    }

    /// Reloads a planned router if it runs, or starts it. Adds the settings that this discards to `lost`.
    ///
    /// # Errors
    ///
    /// The plan cannot be applied; a message.
    fn apply_one(
        &self,
        planned: &Planned,
        running: Option<&Running>,
        lost: &mut Vec<String>,
    ) -> Result<Step, String> {
        let section = &planned.section;
        let (Some(Running { router, basis }), Some(plan)) = (running, &planned.compiled.plan)
        else {
            self.add_planned(planned)?;
            return Ok(Step::Added(section.name.clone()));
        };
        let former = router.previous_state();
        let discarded = router.apply(basis, plan, (&section.source, section.share))?;
        let named = discarded
            .iter()
            .map(|line| format!("{}: {line}", section.name));
        lost.extend(named);
        Ok(Step::Reloaded(Arc::clone(router), Box::new(former)))
    }

    /// Undoes a step of a reload. A removed router starts anew, without its former state.
    ///
    /// # Errors
    ///
    /// The router cannot be started or reloaded; a message.
    fn undo(&self, step: Step) -> Result<(), String> {
        match step {
            Step::Added(name) => {
                self.remove(&name);
                Ok(())
            }
            Step::Reloaded(router, former) => router.undo(*former),
            Step::Removed(router) => {
                let why = |text: &str| format!("router {}: {text}", router.name());
                let (source, ports) = (router.source(), Arc::clone(&router.ports));
                let options = Options::new(self.workers().count(), &*ports);
                let compiled = compile(&source, &self.common.registry, &options);
                let plan = compiled.plan.clone().ok_or_else(|| why(&compiled.text()))?;
                let name = router.name().to_owned();
                let added = self.add(name, source, plan, ports, router.share());
                added.map(|_| ()).map_err(|text| why(&text))
            }
        }
    }
}

/// Base of a router that does not run. Its ports are chosen from the ports of the process.
///
/// # Errors
///
/// As [`directory`].
pub(super) fn new_base(process_ports: &Directory, section: &Section) -> Result<Base, String> {
    directory(process_ports, section).map(|ports| Base::new(Arc::new(ports)))
}

/// Answer with the diagnostics of a file and its graphs.
fn diagnosed(parsed: &Parsed, planned: &[Planned]) -> ReloadReply {
    ReloadReply {
        good: errors_of_all(parsed, planned) == 0,
        text: text_of_all(parsed, planned),
        diagnostics: json_of_all(parsed, planned),
        ..ReloadReply::default()
    }
}

/// A running router, with the state from which its next plan is compiled.
struct Running {
    router: Arc<Control>,
    basis: ReloadBasis,
}

impl Running {
    fn new(router: Arc<Control>) -> (String, Running) {
        let basis = router.reload_basis();
        (router.name().to_owned(), Running { router, basis })
    }

    /// True if the router can run the graph of this section; false if its ports must be opened anew.
    fn can_keep_ports(&self, section: &Section) -> bool {
        let ports = &self.router.ports;
        is_in(ports, section.netns.as_deref()) && ports.names_are_unchanged()
    }
}

/// Effect of a reload on a planned router.
fn change_of(planned: &Planned, running: Option<&Running>) -> RouterChange {
    let section = &planned.section;
    let (what, changes) = match (running, &planned.compiled.plan) {
        (Some(Running { router, basis }), Some(plan)) => {
            let changes = changes(&basis.plan, plan);
            let same = changes.are_none()
                && section.share == router.share()
                && section.source.routes == router.source().routes;
            (if same { "keep" } else { "change" }, changes)
        }
        _ => ("add", view::Changes::default()),
    };
    RouterChange {
        name: section.name.clone(),
        what: what.to_owned(),
        changes,
    }
}

/// A change of shared ports and links. Dropping this value undoes the change unless it was [kept](Self::keep).
struct SharingChange<'a> {
    shared_ports: Option<&'a Arc<SharedPorts>>,
    before: SharingSpec,
    next: SharingSpec,
}

impl<'a> SharingChange<'a> {
    fn prepare(
        shared_ports: Option<&'a Arc<SharedPorts>>,
        next: &SharingSpec,
    ) -> SharingChange<'a> {
        let before = shared_ports.map(|shared_ports| shared_ports.spec());
        if let Some(shared_ports) = shared_ports {
            shared_ports.prepare(next);
        }
        SharingChange {
            shared_ports,
            before: before.unwrap_or_default(),
            next: next.clone(),
        }
    }

    fn keep(mut self) {
        self.before = std::mem::take(&mut self.next);
    }
}

impl Drop for SharingChange<'_> {
    fn drop(&mut self) {
        if let Some(shared_ports) = self.shared_ports {
            shared_ports.commit(&self.before);
        }
    }
}

/// Completed step of a reload of all routers.
enum Step {
    /// A router was removed.
    Removed(Arc<Control>),
    /// A router was reloaded.
    Reloaded(Arc<Control>, Box<PreviousState>),
    /// A router was started.
    Added(String),
}

/// True if a router to be removed has the name, or a port, of a planned router.
fn is_in_the_way(router: &Control, planned: &[Planned]) -> bool {
    let netns = router.ports.namespace().map(|n| n.name().to_owned());
    let plan = router.router.plan();
    let ports = |of: &Directory, plan: &Plan, netns: Option<&str>| -> Vec<String> {
        let each = plan.devices.iter();
        each.filter_map(|d| of.identity(&d.name, netns)).collect()
    };
    let has = ports(&router.ports, &plan, netns.as_deref());
    planned.iter().any(|one| {
        let wants = |plan: &Arc<Plan>| ports(&one.ports, plan, one.section.netns.as_deref());
        let wants = one.compiled.plan.as_ref().map(wants).unwrap_or_default();
        one.section.name == router.name() || wants.iter().any(|port| has.contains(port))
    })
}
