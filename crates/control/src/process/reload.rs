//! Applying a file of routers to a running process: as a whole, or not at all.

use super::{Process, directory, is_in};
use crate::compile::{Planned, compile, compile_all, errors_of_all, json_of_all, text_of_all};
use crate::description::file::{File, Section};
use crate::description::source::Source;
use crate::host::service;
use crate::running::Control;
use crate::view::{self, Failure, ReloadReply, ReloadRequest, RouterChange};
use arguments::text_file;
use engine::plan::Plan;
use planner::Options;
use ports::Directory;
use ports::joint::{Joints, Together};
use router::worker::share::Share;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sync::Lock;
use tracing::warn;

impl Process {
    pub(super) fn reload_all(
        &self,
        described: &Lock<File>,
        asked: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let (reply, read) = text_file::recorded(|| self.reload_file(described, asked));
        if let Ok(ReloadReply {
            good: true,
            until: None,
            ..
        }) = reply
            && !asked.dry_run
        {
            let file = described.lock().clone();
            service::reloaded(file.source.with_text(read));
        }
        reply
    }

    fn reload_file(
        &self,
        described: &Lock<File>,
        asked: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let refused = |why: String| Failure::new(409, why);
        let _change = self.changing.lock();
        let file = described.lock().clone();
        let mut next = File {
            source: match &asked.text {
                None => {
                    let own = self.own.as_ref().unwrap_or(&file);
                    own.source.again(&asked.definitions).map_err(refused)?
                }
                Some(text) => Source {
                    name: asked
                        .name
                        .clone()
                        .unwrap_or_else(|| file.source.name.clone()),
                    path: asked.path.as_ref().map(PathBuf::from),
                    text: text.as_str().into(),
                    ..file.source.clone()
                },
            },
            ..file.clone()
        };
        next.source.define(&asked.definitions);
        let mut parsed = next.parse();
        if parsed.description.is_some() {
            let why = "the file describes a cluster now: start the process anew for that";
            return Err(refused(why.to_owned()));
        }
        let common = &self.common;
        let workers = self.workers().count();
        let running = self.routers();
        let joints = Change::prepare(common.ports.joints(), &parsed.together);
        let stays = |section: &Section| {
            let here = running.iter().find(|r| r.name() == section.name);
            let is_in = |r: &&Arc<Control>| is_in(&r.ports, section.netns.as_deref());
            here.filter(is_in).filter(|r| r.ports.means_the_same())
        };
        let ports = |section: &Section| match stays(section) {
            Some(router) => Ok(Arc::clone(&router.ports)),
            None => directory(&common.ports, section).map(Arc::new),
        };
        let planned = compile_all(
            &mut parsed,
            &common.registry,
            (workers, true),
            &next,
            &ports,
        );
        let good = errors_of_all(&parsed, &planned) == 0;
        let mut reply = ReloadReply {
            good,
            text: text_of_all(&parsed, &planned),
            diagnostics: json_of_all(&parsed, &planned),
            configuration: next.source.name.clone(),
            ..ReloadReply::default()
        };
        if !good {
            return Ok(reply);
        }
        let own = self.own.as_ref().map(|own| &own.source);
        let own = own.filter(|own| own.path != next.source.path);
        reply.until = own.map(|own| own.name.clone());
        let kept = |router: &Arc<Control>| {
            planned
                .iter()
                .any(|p| stays(&p.section).is_some_and(|r| Arc::ptr_eq(r, router)))
        };
        let note = |what: &str, name: &str| RouterChange {
            name: name.to_owned(),
            what: what.to_owned(),
            changes: view::Changes::default(),
        };
        for router in running.iter().filter(|router| !kept(router)) {
            reply.routers.push(note("remove", router.name()));
        }
        for one in &planned {
            let mut change = note("add", &one.section.name);
            if let Some(router) = stays(&one.section) {
                change = router.would_change(&one.section.source, one.section.share)?;
            }
            reply.routers.push(change);
        }
        if !asked.dry_run {
            service::reloading();
            let goes = running.iter().filter(|router| !kept(router)).cloned();
            // Ports of routers that are no longer isolated are opened by this process.
            let shared = planned.iter().filter(|one| one.isolated.is_none());
            let ended = shared.filter_map(|one| self.isolated.end(&one.section.name));
            let ended: Vec<_> = ended.collect();
            let done = self.take_up(&planned, &stays, goes.collect());
            service::ready();
            if done.is_err() {
                for (isolated, known) in ended {
                    self.isolated.follow(&isolated, known).map_err(refused)?;
                }
            }
            reply.lost = done?;
            joints.hold();
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
        asked: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let refused = |why: String| Failure::new(409, why);
        let _change = self.changing.lock();
        let name = asked.add.as_deref().unwrap_or_default();
        if self.routers().iter().any(|router| router.name() == name) {
            return Err(refused(format!(
                "router {name} runs already; to change it: reload"
            )));
        }
        let file = described.lock().clone();
        let next = File {
            source: file.source.again(&asked.definitions).map_err(refused)?,
            ..file
        };
        let mut parsed = next.parse_for(Some(name));
        parsed.routers.retain(|section| section.name == name);
        let common = &self.common;
        let now = common.ports.joints().map(|joints| joints.together());
        let together = now.unwrap_or_default().with(name, &parsed.together);
        let joints = Change::prepare(common.ports.joints(), &together);
        let ports = |section: &Section| directory(&common.ports, section).map(Arc::new);
        let count = (self.workers().count(), true);
        let planned = compile_all(&mut parsed, &common.registry, count, &next, &ports);
        let good = errors_of_all(&parsed, &planned) == 0;
        let reply = ReloadReply {
            good,
            text: text_of_all(&parsed, &planned),
            diagnostics: json_of_all(&parsed, &planned),
            ..ReloadReply::default()
        };
        if !good {
            return Ok(reply);
        }
        let Some(one) = planned.first() else {
            let text = format!("{} describes no router `{name}`", next.source.name);
            return Err(Failure::new(404, text));
        };
        self.add_planned(one).map_err(refused)?;
        joints.hold();
        self.follow_isolated(one).map_err(refused)?;
        Ok(reply)
    }

    /// Removes, reloads and starts routers as one transaction. A router that needs another router's port follows after
    /// that router's reload.
    fn take_up<'a>(
        &self,
        planned: &[Planned],
        stays: &impl Fn(&Section) -> Option<&'a Arc<Control>>,
        goes: Vec<Arc<Control>>,
    ) -> Result<Vec<String>, Failure> {
        // Removal cannot fail, and thus comes last, unless another router needs the ports.
        let (first, last): (Vec<_>, Vec<_>) =
            goes.into_iter().partition(|r| is_in_the_way(r, planned));
        let mut done = Vec::new();
        for router in first {
            self.remove(router.name());
            done.push(Step::Removed(router));
        }
        let mut left: Vec<&Planned> = planned.iter().collect();
        let (mut failures, mut lost) = (Vec::new(), Vec::new());
        while !left.is_empty() {
            let before = left.len();
            failures.clear();
            left.retain(|one| {
                let section = &one.section;
                let (step, taken) = match stays(section) {
                    Some(router) => (
                        Step::Reloaded(
                            Arc::clone(router),
                            Box::new(router.source()),
                            router.share(),
                        ),
                        router
                            .take_up(&section.source, section.share)
                            .map(|thrown| {
                                let named = thrown
                                    .iter()
                                    .map(|line| format!("{}: {line}", section.name));
                                lost.extend(named);
                            }),
                    ),
                    None => (
                        Step::Added(section.name.clone()),
                        self.add_planned(one).map(|_| ()),
                    ),
                };
                let failed = taken.map_err(|why| failures.push(why)).is_err();
                if !failed {
                    done.push(step);
                }
                failed
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
        if let Some(joints) = self.common.ports.joints() {
            // Undone changes restore the old shared parts.
            joints.prepare(&joints.together());
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
            Step::Reloaded(router, source, share) => router.take_up(&source, share).map(|_| ()),
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

/// A change of shared ports and links. Dropping this value undoes the change unless it was [kept](Change::hold).
struct Change<'a> {
    joints: Option<&'a Arc<Joints>>,
    before: Together,
    next: Together,
}

impl<'a> Change<'a> {
    fn prepare(joints: Option<&'a Arc<Joints>>, next: &Together) -> Change<'a> {
        let before = joints.map(|joints| joints.together());
        if let Some(joints) = joints {
            joints.prepare(next);
        }
        Change {
            joints,
            before: before.unwrap_or_default(),
            next: next.clone(),
        }
    }

    fn hold(mut self) {
        self.before = std::mem::take(&mut self.next);
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if let Some(joints) = self.joints {
            joints.commit(&self.before);
        }
    }
}

/// Completed step of a reload of all routers.
enum Step {
    /// A router was removed.
    Removed(Arc<Control>),
    /// A router was reloaded; its former source and share of the workers.
    Reloaded(Arc<Control>, Box<Source>, Share),
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
