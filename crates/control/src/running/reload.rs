//! Replacing the running configuration: compared, checked, planned, taken up.

use super::Control;
use super::saved::Kept;
use crate::compile::describe::edge_name;
use crate::compile::{Compiled, compile};
use crate::description::source::Source;
use crate::host::service;
use crate::view::{Changes, Failure, ReloadReply, ReloadRequest, RouterChange};
use arguments::text_file;
use elements::route::RouteBound;
use engine::plan::Plan;
use engine::port::PortDirectory;
use planner::Options;
use router::worker::share::Share;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracing::{info, warn};

impl Control {
    /// Replaces the configuration, or says what would change. A wrong configuration is answered
    /// with its mistakes, and the running one stays.
    pub fn reload(&self, asked: &ReloadRequest) -> Result<ReloadReply, Failure> {
        let _change = self.change();
        let running = self.source();
        let (reply, read) = text_file::recorded(|| {
            let source = self.wanted(&running, asked)?;
            keeps_numbers(&running, &source)?;
            self.replace(source, Some(&asked.definitions), asked.dry_run)
        });
        if let Ok(ReloadReply {
            good: true,
            until: None,
            ..
        }) = reply
            && !asked.dry_run
        {
            service::reloaded(self.source().with_text(read));
        }
        reply
    }

    /// Applies the running configuration again if ports have other addresses or MTUs than its elements know
    /// (`eth0:eth`, `eth0:mtu`). It is called regularly and needs no event.
    pub(crate) fn follow_addresses(&self) -> Result<(), Failure> {
        let _change = self.change();
        let plan = self.router.plan();
        let mut changed = planner::readdressed(&plan, &*self.ports);
        changed.dedup();
        let followed = match changed.is_empty() {
            true => Ok(()),
            false => {
                for (port, from, to) in changed {
                    warn!(port, from, to, "the port has another address or MTU");
                }
                let reply = self.replace(self.source(), None, false)?;
                match reply.good {
                    true => Ok(()),
                    false => Err(Failure::new(409, reply.text)),
                }
            }
        };
        // By now the router knows the new value of arguments such as `eth0:mtu`.
        self.warn_of_mtus(&self.router.plan());
        followed
    }

    /// Warns of ports whose MTU is now smaller than the packets of the configuration. Start and reload have warned of
    /// those that were too small then.
    fn warn_of_mtus(&self, plan: &Plan) {
        let mut known = self.mtus.lock();
        let mut shorter = BTreeSet::new();
        for device in &plan.devices {
            let Some(mtu) = self
                .ports
                .get(&device.name)
                .map(|open| open.port.info().mtu)
            else {
                continue;
            };
            let before = known.insert(device.name.clone(), mtu);
            if before.is_some_and(|before| mtu < before) {
                shorter.insert(device.name.as_str());
            }
        }
        if shorter.is_empty() {
            return;
        }
        let mtu = |device: &str| {
            known
                .get(device)
                .copied()
                .filter(|_| shorter.contains(device))
        };
        for one in planner::too_long(plan, mtu) {
            let (text, to_do) = one.words(plan);
            warn!(to_do, "{text}");
        }
    }

    /// Changes to the router if this were its configuration and share.
    pub(crate) fn would_change(
        &self,
        source: &Source,
        share: Share,
    ) -> Result<RouterChange, Failure> {
        let _change = self.change();
        let changes = self.replace(source.clone(), None, true)?.changes;
        let same =
            changes.are_none() && share == self.share() && source.routes == self.source().routes;
        Ok(RouterChange {
            name: self.name().to_owned(),
            what: if same { "keep" } else { "change" }.to_owned(),
            changes,
        })
    }

    /// Applies a checked configuration and a share; returns the settings that it has discarded. The error is a
    /// sentence.
    pub(crate) fn take_up(&self, source: &Source, share: Share) -> Result<Vec<String>, String> {
        let why = |text: &str| format!("router {}: {text}", self.name());
        let _change = self.change();
        let done = self.replace(source.clone(), None, false);
        let reply = done.map_err(|failure| why(&failure.text))?;
        if !reply.good {
            return Err(why(&reply.text));
        }
        self.set_own(source.clone());
        self.set_share(share);
        Ok(reply.lost)
    }

    /// Applies a configuration, or returns the changes that it would make. The caller [locks](Control::change) the
    /// running one. Definitions that were `given` with it must have their variables; for earlier ones a missing
    /// variable is a warning.
    fn replace(
        &self,
        source: Source,
        given: Option<&[(String, String)]>,
        dry_run: bool,
    ) -> Result<ReloadReply, Failure> {
        let before = self.source().routes;
        let replaced = self.try_to_replace(source, given, dry_run);
        if !replaced.as_ref().is_ok_and(|reply| reply.good) {
            self.router.plan().router_wide::<RouteBound>().set(before);
        }
        replaced
    }

    /// Like [`replace`](Self::replace), but after a failure the bounds are those of the refused configuration.
    fn try_to_replace(
        &self,
        source: Source,
        given: Option<&[(String, String)]>,
        dry_run: bool,
    ) -> Result<ReloadReply, Failure> {
        let plan = self.router.plan();
        // A plan that is not taken up must not touch what the running elements share.
        let previous = (!dry_run).then_some(&*plan);
        let options = Options {
            previous,
            replaces: Some(&plan),
            ..Options::new(plan.workers, &*self.ports)
        };
        let mut compiled = compile(&source, &self.registry, &options);
        if let Some(given) = given {
            let before = |(name, _): &&(String, String)| !given.iter().any(|(new, _)| new == name);
            let before: Vec<_> = source.definitions.iter().filter(before).cloned().collect();
            compiled.check_definitions(given, true);
            compiled.check_definitions(&before, false);
        }
        let Some(next) = compiled.plan.clone() else {
            return Ok(reply(&compiled, Changes::default(), false));
        };
        let changes = changes(&plan, &next);
        let mut lost = Vec::new();
        if !dry_run {
            service::reloading();
            // A worker that does not answer has no say in whether there is a reload.
            let settings = self.kept().unwrap_or_default();
            let done = self.reload_to(&next);
            service::ready();
            let late = done.map_err(|e| Failure::new(409, e))?;
            if !late.is_empty() {
                warn!(
                    ?late,
                    "these workers take the configuration up when they answer again"
                );
            }
            lost = self.lost_settings(settings, &changes);
            self.reloads.fetch_add(1, Ordering::Relaxed);
            info!(
                configuration = source.name,
                added = changes.added.len(),
                removed = changes.removed.len(),
                reconfigured = changes.reconfigured.len(),
                kept = changes.kept,
                "reload"
            );
        }
        let mut reply = reply(&compiled, changes, true);
        reply.lost = lost;
        let own = self.own();
        reply.until = (!source.is_like(&own)).then_some(own.name);
        reply.configuration.clone_from(&source.name);
        if !dry_run {
            self.set_source(source);
        }
        Ok(reply)
    }

    /// Settings that the reload has thrown away; the log lists them, too.
    fn lost_settings(&self, before: Vec<Kept>, changes: &Changes) -> Vec<String> {
        let stays = |name: &str| {
            let mut gone = changes.removed.iter().chain(&changes.reconfigured);
            !gone.any(|gone| gone == name)
        };
        self.settings.retain(stays);
        self.settings.set_again(self);
        let after = self.kept().unwrap_or_default();
        let after: BTreeSet<String> = after.into_iter().flat_map(|kept| kept.lines).collect();
        let lost = before.into_iter().flat_map(|kept| kept.lines);
        let lost: Vec<String> = lost.filter(|line| !after.contains(line)).collect();
        for setting in &lost {
            warn!(router = self.name, "the reload has thrown away: {setting}");
        }
        lost
    }

    /// Makes all workers adopt a plan, or none; returns the late ones.
    ///
    /// # Errors
    /// The kernel cannot be followed, or the router cannot adopt the plan; a sentence.
    fn reload_to(&self, plan: &Arc<Plan>) -> Result<Vec<usize>, String> {
        let begins = self.follow_kernel(plan)?;
        self.router.reload(plan).inspect_err(|_| {
            if begins {
                self.leave_kernel();
            }
        })
    }

    fn wanted(&self, running: &Source, asked: &ReloadRequest) -> Result<Source, Failure> {
        match &asked.text {
            None => {
                let again = self.own().again(&asked.definitions);
                again.map_err(|e| Failure::new(409, e))
            }
            Some(text) => Ok(given(text, running, asked)),
        }
    }
}

/// The configuration that comes with a request.
pub(crate) fn given(text: &str, running: &Source, asked: &ReloadRequest) -> Source {
    let mut source = Source {
        name: asked
            .name
            .clone()
            .unwrap_or_else(|| "configuration".to_owned()),
        path: asked.path.as_ref().map(PathBuf::from),
        text: text.into(),
        definitions: running.definitions.clone(),
        server: asked.server.clone(),
        numbers: asked.numbers.clone(),
        routes: running.routes,
    };
    source.define(&asked.definitions);
    source
}

/// Refuses what would have frames between the servers of a cluster misread while some have changed and some not.
fn keeps_numbers(running: &Source, source: &Source) -> Result<(), Failure> {
    let both = running.numbers.as_ref().zip(source.numbers.as_ref());
    match both.and_then(|(old, new)| new.moved(old)) {
        None => Ok(()),
        Some(what) => Err(Failure::new(
            409,
            format!(
                "{what} would change its number, or lose it to another: frames on their way would be misread. Append \
                 what is new at the end and leave what has gone in the file, or start all servers anew"
            ),
        )),
    }
}

fn reply(compiled: &Compiled, changes: Changes, good: bool) -> ReloadReply {
    ReloadReply {
        good,
        changes,
        text: compiled.text(),
        diagnostics: serde_json::from_str(&compiled.json()).unwrap_or_default(),
        ..ReloadReply::default()
    }
}

/// Differences between two plans, by name.
fn changes(old: &Plan, new: &Plan) -> Changes {
    let same_class = |a: &Plan, b: &Plan, n: usize| {
        let element = &a.elements[n];
        let other = b.find(&element.name).map(|i| &b.elements[i]);
        other.is_some_and(|o| o.class.name == element.class.name)
    };
    let missing = |a: &Plan, b: &Plan| -> Vec<String> {
        let missing = (0..a.elements.len()).filter(|&n| !same_class(a, b, n));
        missing.map(|n| a.elements[n].name.clone()).collect()
    };
    let (added, removed) = (missing(new, old), missing(old, new));
    let stay = (0..new.elements.len()).filter(|&n| same_class(new, old, n));
    let stay = stay.map(|n| &new.elements[n]);
    let changed = |e: &&engine::plan::PlanElement| {
        let before = old.find(&e.name).map(|i| &old.elements[i]);
        before.is_some_and(|b| b.text != e.text || b.files != e.files)
    };
    let total = stay.clone().count();
    let reconfigured: Vec<String> = stay.filter(changed).map(|e| e.name.clone()).collect();
    let read = |p: &Plan| -> BTreeSet<(String, Option<u64>)> {
        let files = p.elements.iter().flat_map(|e| &e.files);
        files
            .map(|file| (file.path.display().to_string(), file.content))
            .collect()
    };
    let (old_files, new_files) = (read(old), read(new));
    let files: BTreeSet<&String> = new_files
        .difference(&old_files)
        .map(|(path, _)| path)
        .collect();
    let edges =
        |p: &Plan| -> BTreeSet<String> { p.edges.iter().map(|e| edge_name(p, e)).collect() };
    let devices =
        |p: &Plan| -> BTreeSet<String> { p.devices.iter().map(|d| d.name.clone()).collect() };
    let (old_edges, new_edges) = (edges(old), edges(new));
    let (old_devices, new_devices) = (devices(old), devices(new));
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect();
    Changes {
        added,
        removed,
        kept: total - reconfigured.len(),
        reconfigured,
        files: files.into_iter().cloned().collect(),
        connected: only(&new_edges, &old_edges),
        disconnected: only(&old_edges, &new_edges),
        opened: only(&new_devices, &old_devices),
        closed: only(&old_devices, &new_devices),
    }
}
