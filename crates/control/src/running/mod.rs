//! One running router, with the operations of control: handlers, counters, captures, traces, saved settings, reload.
//! Methods may wait for workers.

pub(crate) mod capture;
mod capture_point;
mod counts;
pub(crate) mod handlers;
mod kernel;
mod policers;
pub(crate) mod reload;
pub mod saved;
mod tap_interfaces;
pub mod trace;
mod writes;

use crate::balance::{Balance, Settings};
use crate::description::source::Source;
use crate::netlink::xfrm::Xfrm;
use crate::netlink::{Listen, Netlink};
use crate::view::{self, Failure};
use engine::clock::{Clock, wall_ns};
use engine::plan::Plan;
use engine::port::PortDirectory;
use engine::random::Seed;
use forwarding::RouteBound;
use planner::Registry;
use policers::Policed;
use ports::Directory;
use router::worker::share::Share;
use router::{Router, Workers};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Instant;
use sync::Lock;
use tap_interfaces::TapInterfaces;
pub(crate) use tap_interfaces::port_of;
use tracing::warn;
use writes::Writes;

/// A running router, with the operations of the API.
pub struct Control {
    pub(crate) router: Router,
    pub(crate) registry: Registry,
    pub(crate) ports: Arc<Directory>,
    pub(crate) ending: AtomicBool,
    source: Lock<Source>,
    own: Lock<Source>,
    /// File of saved settings for the next start.
    pub(crate) saved: OnceLock<PathBuf>,
    /// Settings to be saved in that file.
    pub(crate) settings: saved::Settings,
    /// Routes from a cluster's leader, which are not settings.
    pub(crate) given: Arc<saved::Given>,
    pub(crate) policed: Policed,
    /// MTUs of the ports at the last check.
    pub(crate) mtus: Lock<BTreeMap<String, usize>>,
    /// Held while a configuration is being replaced: one at a time. Readers do not wait for it.
    changing: Lock<()>,
    pub(crate) reloads: AtomicU64,
    writes: Writes,
    tap_interfaces: Lock<TapInterfaces>,
    /// Follower of the kernel's routes; `None` until a configuration uses them.
    netlink: Lock<Option<Netlink>>,
    xfrm: Lock<Option<Xfrm>>,
    fpm: Option<Listen>,
    pub(crate) balance: Balance,
    share: Lock<Share>,
    pub(crate) name: String,
    started: Instant,
}

/// Parameters of starting a router.
pub struct Start {
    /// Name of the router.
    pub name: String,
    /// The configuration.
    pub source: Source,
    /// Plan of the router.
    pub plan: Arc<Plan>,
    /// The classes, for reloads.
    pub registry: Registry,
    /// Ports.
    pub ports: Arc<Directory>,
    /// The process's workers.
    pub workers: Arc<Workers>,
    /// Share of the workers.
    pub share: Share,
    /// Load balancing of the workers: the value for the handler `balance`.
    pub balance: &'static str,
    /// Seed of random numbers.
    pub seed: Seed,
    /// Settings of waiting for a routing daemon whose routes replace the kernel's (FPM), if wanted.
    pub fpm: Option<Listen>,
}

impl Control {
    /// Opens the devices and starts the router on the workers. The error is a sentence.
    pub fn start(start: Start) -> Result<Control, String> {
        let ports = Arc::clone(&start.ports) as Arc<dyn PortDirectory>;
        let (workers, plan) = (&start.workers, &start.plan);
        let router = Router::start_on(workers, plan, ports, start.share, start.seed)?;
        let control = Control {
            router,
            registry: start.registry,
            ports: start.ports,
            ending: AtomicBool::new(false),
            saved: OnceLock::new(),
            settings: saved::Settings::default(),
            given: Arc::default(),
            policed: Policed::default(),
            mtus: Lock::default(),
            own: Lock::new(start.source.clone()),
            source: Lock::new(start.source),
            changing: Lock::default(),
            reloads: AtomicU64::new(0),
            writes: Writes::default(),
            tap_interfaces: Lock::default(),
            netlink: Lock::default(),
            xfrm: Lock::default(),
            fpm: start.fpm,
            balance: Balance::new(Settings::default()),
            share: Lock::new(start.share),
            name: start.name,
            started: Instant::now(),
        };
        plan.router_wide::<RouteBound>()
            .set(control.source().routes);
        control.balance.set(&control.router, start.balance)?;
        control.follow_kernel(plan)?;
        Ok(control)
    }

    /// Wakes all that wait for the router, and halts it. Its TAP interfaces stay, but the service manager no longer
    /// holds their queues.
    pub(crate) fn end(&self, process_ends: bool) {
        self.ending.store(true, Ordering::Release);
        // This also wakes callers that wait for the end. Workers that do not answer end with the process.
        let _ = self.router.halt();
        if !process_ends {
            let tap_interfaces = self.tap_interfaces.lock();
            tap_interfaces.drop_stored(&self.ports);
        }
    }

    /// Removes the router from all workers, and closes its ports. Later requests to it get no answer.
    pub(crate) fn take_down(&self) {
        self.router.take_down();
        self.leave_kernel();
        self.ports
            .names()
            .iter()
            .for_each(|name| self.ports.close(name));
    }

    /// Name of the router.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Share of the workers.
    pub fn share(&self) -> Share {
        *self.share.lock()
    }

    /// Changes the share, unless it is the same. A worker that does not answer now adopts the share when it answers
    /// again.
    fn set_share(&self, share: Share) {
        if share == self.share() {
            return;
        }
        if let Err(late) = self.router.set_share(share) {
            warn!(router = self.name, "the share has changed, but {late}");
        }
        *self.share.lock() = share;
    }

    /// Samples that elements give by a read handler `metrics`: the element and its text.
    pub(crate) fn samples(&self) -> Vec<(String, String)> {
        let plan = self.router.plan();
        let gives = |e: &&engine::plan::PlanElement| {
            let mut all = (e.class.handlers)().into_iter();
            all.any(|handler| handler.name == "metrics" && handler.access.readable())
        };
        let with = plan.elements.iter().filter(gives);
        with.filter_map(|e| {
            // A reload may have removed the element meanwhile.
            let text = self.router.read(&format!("{}.metrics", e.name), "").ok()?;
            Some((e.name.clone(), text))
        })
        .collect()
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Balancer of load over the workers.
    pub fn balance(&self) -> &Balance {
        &self.balance
    }

    /// The configuration that runs.
    pub fn source(&self) -> Source {
        self.source.lock().clone()
    }

    /// The configuration that a reload without a file, SIGHUP and a restart read: the one with which the router was
    /// started, or that the process's file names.
    pub fn own(&self) -> Source {
        self.own.lock().clone()
    }

    fn set_own(&self, source: Source) {
        *self.own.lock() = source;
    }

    fn set_source(&self, source: Source) {
        *self.source.lock() = source;
    }

    /// Locks the configuration against changes until the guard is dropped.
    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// About the process.
    pub fn info(&self) -> view::Info {
        view::Info {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ns: self.uptime_ns(),
            clock_ns: wall_ns(Clock::real().now()),
            configuration: self.source().name,
            own: self.own().name,
            saved: self.saved.get().cloned(),
            reloads: self.reloads.load(Ordering::Relaxed),
        }
    }

    /// Elements and handlers.
    pub fn elements(&self) -> Vec<view::Element> {
        let plan = self.router.plan();
        let mut fused = vec![None; plan.elements.len()];
        for one in &plan.loops {
            let first = one.nodes.first().map(|&at| &plan.elements[at].name);
            one.all().for_each(|at| fused[at] = first);
        }
        let each = |(at, e): (usize, &engine::plan::PlanElement)| view::Element {
            name: e.name.clone(),
            class: e.class.name.to_owned(),
            configuration: lang::masked(&e.text).into_owned(),
            workers: e.workers.clone(),
            fused: fused[at].cloned(),
            handlers: handlers::list(&plan, e),
        };
        plan.elements.iter().enumerate().map(each).collect()
    }

    /// Reads `element.handler`.
    pub fn read(&self, path: &str, argument: &str) -> Result<String, Failure> {
        match handlers::global(self, path) {
            Some(answer) => Ok(answer),
            None => Ok(self.router.read(path, argument)?),
        }
    }

    /// Writes `element.handler`.
    pub fn write(&self, path: &str, value: &str) -> Result<String, Failure> {
        if handlers::is_balance(self, path) {
            let done = self.balance.set(&self.router, value);
            done.map_err(|e| Failure::new(422, e))?;
            self.note_setting(path, value);
            return Ok(String::new());
        }
        if handlers::global(self, path).is_some() {
            return Err(Failure::new(422, format!("`{path}` can only be read")));
        }
        let answer = self.writes.run(|| self.router.write(path, value))?;
        self.note_setting(path, value);
        Ok(answer)
    }

    /// Time since the start, in nanoseconds.
    fn uptime_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// True if the service is ending: waiting requests give up.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }
}
