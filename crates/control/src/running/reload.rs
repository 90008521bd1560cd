//! Reload of one router: a configuration is compiled once, and its plan is applied.

use super::Control;
use super::saved::SavedChanges;
use crate::compile::describe::edge_name;
use crate::compile::{Compiled, compile};
use crate::description::source::Source;
use crate::host::service;
use crate::view::{Changes, Failure, ReloadReply, ReloadRequest};
use arguments::text_file;
use engine::plan::{Plan, PlanElement};
use engine::port::PortDirectory;
use forwarding::RouteBound;
use planner::Options;
use router::worker::share::Share;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracing::{info, warn};

/// State of a running router from which a plan is compiled. Before the plan is applied, another one may be applied, or
/// handlers may change what the plan has taken over.
pub(crate) struct ReloadBasis {
    /// The plan that runs.
    pub(crate) plan: Arc<Plan>,
    /// Number of writes to elements' handlers that had ended.
    writes_ended: u64,
}

/// Configuration and share of a running router before a reload of several routers, which a failure brings back.
pub(crate) struct PreviousState {
    source: Source,
    own: Source,
    share: Share,
}

impl Control {
    /// Reloads the configuration, or reports the changes that a reload would make. If the configuration has errors, the
    /// answer lists them, and the running configuration stays.
    ///
    /// # Errors
    /// The configuration cannot be read or applied.
    pub fn reload(&self, request: &ReloadRequest) -> Result<ReloadReply, Failure> {
        let _change = self.change();
        let running = self.source();
        let (reply, read) = text_file::recorded(|| {
            let source = requested(&self.own(), &running, request);
            let source = source.map_err(|e| Failure::new(409, e))?;
            keeps_numbers(&running, &source)?;
            let basis = self.reload_basis();
            let mut compiled = self.compile(&source, &basis.plan, request.dry_run);
            compiled.check_definitions(&request.definitions, true);
            // A variable that an earlier request has defined may no longer exist.
            let is_new = |(name, _): &&(String, String)| {
                request.definitions.iter().any(|(new, _)| new == name)
            };
            let earlier = source.definitions.iter().filter(|pair| !is_new(pair));
            compiled.check_definitions(&earlier.cloned().collect::<Vec<_>>(), false);
            let mut reply = reply(&compiled);
            let Some(plan) = &compiled.plan else {
                return Ok(reply);
            };
            let own = self.own();
            reply.good = true;
            reply.changes = changes(&basis.plan, plan);
            reply.configuration.clone_from(&source.name);
            reply.until = (!source.is_like(&own)).then_some(own.name);
            if !request.dry_run {
                reply.lost = self.swap(&basis.plan, plan, source)?;
            }
            Ok(reply)
        });
        if let Ok(reply) = &reply
            && reply.good
            && reply.until.is_none()
            && !request.dry_run
        {
            service::reloaded(self.source().with_text(read));
        }
        reply
    }

    /// Compiles and applies the running configuration again if ports have other addresses or MTUs than its elements
    /// know (`eth0:eth`, `eth0:mtu`). It is called regularly and needs no event.
    pub(crate) fn follow_addresses(&self) -> Result<(), Failure> {
        let _change = self.change();
        let plan = self.router.plan();
        let mut changed = planner::readdressed(&plan, &*self.ports);
        changed.dedup();
        let mut followed = Ok(());
        if !changed.is_empty() {
            for (port, from, to) in changed {
                warn!(port, from, to, "the port has another address or MTU");
            }
            followed = self.compile_and_swap(self.source()).map(|_| ());
        }
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
            let (text, to_do) = one.describe(plan);
            warn!(to_do, "{text}");
        }
    }

    /// State of the router from which its next plan is compiled.
    pub(crate) fn reload_basis(&self) -> ReloadBasis {
        // Read before the plan: a write in between counts as a change.
        let writes = self.writes.ended();
        ReloadBasis {
            plan: self.router.plan(),
            writes_ended: writes,
        }
    }

    /// Applies a plan that was compiled from `basis`, and a share of the workers; returns the settings that this has
    /// discarded. A router that has changed since is compiled again.
    ///
    /// # Errors
    /// The plan cannot be applied; a message.
    pub(crate) fn apply(
        &self,
        basis: &ReloadBasis,
        plan: &Arc<Plan>,
        (source, share): (&Source, Share),
    ) -> Result<Vec<String>, String> {
        let _change = self.change();
        let running = self.router.plan();
        let is_current =
            Arc::ptr_eq(&running, &basis.plan) && self.writes.none_since(basis.writes_ended);
        let done = if !is_current {
            self.compile_and_swap(source.clone())
        } else if is_same(plan, &running) && source.routes == self.source().routes {
            self.set_source(source.clone());
            Ok(Vec::new())
        } else {
            self.swap(&running, plan, source.clone())
        };
        let lost = done.map_err(|failure| format!("router {}: {}", self.name(), failure.text))?;
        self.set_own(source.clone());
        self.set_share(share);
        Ok(lost)
    }

    /// Present configuration and share, for [`undo`](Self::undo).
    pub(crate) fn previous_state(&self) -> PreviousState {
        PreviousState {
            source: self.source(),
            own: self.own(),
            share: self.share(),
        }
    }

    /// Compiles and applies an earlier configuration and share, after a reload of several routers has failed.
    ///
    /// # Errors
    /// The configuration cannot be applied; a message.
    pub(crate) fn undo(&self, former: PreviousState) -> Result<(), String> {
        let _change = self.change();
        let done = self.compile_and_swap(former.source);
        done.map_err(|failure| format!("router {}: {}", self.name(), failure.text))?;
        self.set_own(former.own);
        self.set_share(former.share);
        Ok(())
    }

    /// Compiles and applies a configuration that has been checked before. The caller [locks](Control::change) the
    /// running one.
    fn compile_and_swap(&self, source: Source) -> Result<Vec<String>, Failure> {
        let running = self.router.plan();
        let compiled = self.compile(&source, &running, false);
        let plan = compiled.plan.as_ref();
        let plan = plan.ok_or_else(|| Failure::new(409, compiled.text()))?;
        self.swap(&running, plan, source)
    }

    /// Compiles a configuration of this router. For a dry run, the plan takes over nothing that the running one has.
    fn compile(&self, source: &Source, running: &Plan, dry_run: bool) -> Compiled {
        let options = Options {
            previous: (!dry_run).then_some(running),
            replaces: Some(running),
            ..Options::new(running.workers, &*self.ports)
        };
        compile(source, &self.registry, &options)
    }

    /// Has all workers swap the running plan for the next one, which was compiled from it. Returns the settings that
    /// are discarded. The caller [locks](Control::change) the running configuration.
    fn swap(
        &self,
        running: &Arc<Plan>,
        next: &Arc<Plan>,
        source: Source,
    ) -> Result<Vec<String>, Failure> {
        let changes = changes(running, next);
        service::reloading();
        // A worker that does not answer must not prevent the reload.
        let settings = self.saved_changes().unwrap_or_default();
        let done = self.swap_on_workers(next);
        service::ready();
        let late = done.map_err(|e| Failure::new(409, e))?;
        if !late.is_empty() {
            warn!(
                ?late,
                "these workers take the configuration up when they answer again"
            );
        }
        next.router_wide::<RouteBound>().set(source.routes);
        let lost = self.lost_settings(settings, &changes);
        self.reloads.fetch_add(1, Ordering::Relaxed);
        info!(
            configuration = source.name,
            added = changes.added.len(),
            removed = changes.removed.len(),
            reconfigured = changes.reconfigured.len(),
            kept = changes.kept,
            "reload"
        );
        self.set_source(source);
        Ok(lost)
    }

    /// Settings that the reload has discarded; the log lists them, too.
    fn lost_settings(&self, before: Vec<SavedChanges>, changes: &Changes) -> Vec<String> {
        let stays = |name: &str| {
            let mut gone = changes.removed.iter().chain(&changes.reconfigured);
            !gone.any(|gone| gone == name)
        };
        self.settings.retain(stays);
        self.settings.set_again(self);
        let after = self.saved_changes().unwrap_or_default();
        let after: BTreeSet<String> = after.into_iter().flat_map(|kept| kept.lines).collect();
        let lost = before.into_iter().flat_map(|kept| kept.lines);
        let lost: Vec<String> = lost.filter(|line| !after.contains(line)).collect();
        for setting in &lost {
            warn!(router = self.name, "the reload has thrown away: {setting}");
        }
        lost
    }

    /// Has all workers adopt a plan, or none; returns the late ones.
    ///
    /// # Errors
    /// The kernel cannot be followed, or the router cannot adopt the plan; a sentence.
    fn swap_on_workers(&self, plan: &Arc<Plan>) -> Result<Vec<usize>, String> {
        let begins = self.follow_kernel(plan)?;
        self.router.reload(plan).inspect_err(|_| {
            if begins {
                self.leave_kernel();
            }
        })
    }
}

/// The configuration that comes with a request; without one, `own` with its present content.
///
/// # Errors
/// The file of `own` cannot be read again; a sentence.
pub(crate) fn requested(
    own: &Source,
    running: &Source,
    request: &ReloadRequest,
) -> Result<Source, String> {
    match &request.text {
        None => own.reread(&request.definitions),
        Some(text) => Ok(requested_source(text, running, request)),
    }
}

/// The configuration that comes with a request.
fn requested_source(text: &str, running: &Source, request: &ReloadRequest) -> Source {
    let mut source = Source {
        name: request
            .name
            .clone()
            .unwrap_or_else(|| "configuration".to_owned()),
        path: request.path.as_ref().map(PathBuf::from),
        text: text.into(),
        definitions: running.definitions.clone(),
        server: request.server.clone(),
        numbers: request.numbers.clone(),
        routes: running.routes,
    };
    source.define(&request.definitions);
    source
}

/// Refuses a change of numbers by which the servers of a cluster would misread each other's frames until all have
/// changed.
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

/// Answer with the diagnostics of a configuration.
fn reply(compiled: &Compiled) -> ReloadReply {
    ReloadReply {
        text: compiled.text(),
        diagnostics: serde_json::from_str(&compiled.json()).unwrap_or_default(),
        ..ReloadReply::default()
    }
}

/// True if a plan has the same elements, connections and queues as the running plan that it was compiled from.
fn is_same(next: &Plan, running: &Plan) -> bool {
    let same = |a: &PlanElement, b: &PlanElement| {
        let placed = a.workers == b.workers && a.queues == b.queues;
        a.name == b.name && placed && Arc::ptr_eq(&a.config, &b.config)
    };
    let mut elements = next.elements.iter().zip(&running.elements);
    let mut edges = next.edges.iter().zip(running.edges.iter());
    next.elements.len() == running.elements.len()
        && next.edges.len() == running.edges.len()
        && elements.all(|(a, b)| same(a, b))
        && edges.all(|(a, b)| (a.from, a.to) == (b.from, b.to))
}

/// Differences between two plans, by name.
pub(crate) fn changes(old: &Plan, new: &Plan) -> Changes {
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
