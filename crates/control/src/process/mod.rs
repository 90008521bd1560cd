//! A process: its workers, ports and routers. A Click file gives one router, a TOML file several
//! ([`crate::description::file`]).

mod balance_thread;
mod reload;
#[cfg(test)]
mod tests;

use crate::compile::gate::Outside;
use crate::compile::{Planned, compile};
use crate::description::file::{self, File, GATE, Section};
use crate::description::source::{Source, saved_file};
use crate::host::clock::wall_clock;
use crate::host::memory::FreeMemoryFlag;
use crate::host::namespace::path_of;
use crate::host::needs::port_requirements;
use crate::host::service;
use crate::isolated::{IsolatedRouters, PlannedNames};
use crate::netlink::Listen;
use crate::running::reload::requested;
use crate::running::{Control, Start};
use crate::view::packet_accounting::PacketAccounting;
use crate::view::{
    self, Certificates, Event, Failure, Info, Member, MemberLink, ReloadReply, ReloadRequest,
    metrics,
};
use balance_thread::BalanceControl;
use engine::clock::{Clock, wall_ns};
use engine::plan::Plan;
use engine::port::PortDirectory;
use engine::random::Seed;
use machine::Machine;
use machine::doctor::{Finding, Wanted};
use planner::{Options, Registry};
use ports::{Directory, Namespace};
use router::Workers;
use router::worker::share::Share;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;
use sync::Lock;
use tracing::info;

/// Maximum number of events that a process remembers.
const EVENTS_MAX: usize = 1000;

/// Shared state of all routers of a process.
pub struct Common {
    /// Name of the process.
    pub name: String,
    /// Registry of element classes.
    pub registry: Registry,
    /// Ports of the process. If a file describes several routers, each router's ports derive from these.
    pub ports: Arc<Directory>,
    /// Worker threads, shared by all routers.
    pub workers: Arc<Workers>,
    /// Seed of random number generators.
    pub seed: Seed,
    /// Address and settings for a routing daemon's connection (FPM); `None` without one.
    pub fpm: Option<Listen>,
    /// Initial value of the handler `balance`, for load balancing between workers.
    pub balance: &'static str,
}

/// A process and its routers.
pub struct Process {
    common: Common,
    routers: RwLock<Vec<Arc<Control>>>,
    /// Description of the routers; `None` if a Click file defines the only router.
    file: Option<Lock<File>>,
    /// Description with which the process was started.
    own: Option<File>,
    /// Lock that serialises changes of the file. Readers do not take it.
    changing: Lock<()>,
    reloads: AtomicU64,
    /// Reader of the certificates' ends, if the process is a server that takes its description from its cluster.
    certificates: OnceLock<Box<dyn Fn() -> Certificates + Send + Sync>>,
    /// The server's account of itself, if it takes part in its cluster's agreement.
    member: Lock<Option<Member>>,
    /// Latest events of the cluster that the server has noticed, the oldest first.
    events: Lock<VecDeque<Event>>,
    pub(crate) stop: tokio::sync::Notify,
    balance_control: BalanceControl,
    pub(crate) isolated: IsolatedRouters,
    /// Notified whenever a router is added or removed.
    pub(crate) free_memory: FreeMemoryFlag,
    started: Instant,
}

impl Process {
    /// A process without routers. With `file`, routers are always identified by name.
    pub fn new(common: Common, file: Option<File>) -> Process {
        Process {
            common,
            routers: RwLock::default(),
            own: file.clone(),
            file: file.map(Lock::new),
            changing: Lock::default(),
            reloads: AtomicU64::new(0),
            certificates: OnceLock::new(),
            member: Lock::default(),
            events: Lock::default(),
            stop: tokio::sync::Notify::new(),
            balance_control: BalanceControl::default(),
            isolated: IsolatedRouters::default(),
            free_memory: FreeMemoryFlag::default(),
            started: Instant::now(),
        }
    }

    /// Starts a router.
    ///
    /// # Errors
    ///
    /// The router cannot be started; a message.
    pub fn add(
        &self,
        name: String,
        source: Source,
        plan: Arc<Plan>,
        ports: Arc<Directory>,
        share: Share,
    ) -> Result<Arc<Control>, String> {
        let common = &self.common;
        let control = Arc::new(Control::start(Start {
            name,
            source,
            plan,
            registry: common.registry.clone(),
            ports,
            workers: Arc::clone(&common.workers),
            share,
            balance: common.balance,
            seed: common.seed,
            fpm: common.fpm.clone(),
        })?);
        if let Some(path) = &control.own().path {
            control.restore(saved_file(path, self.label(&control)));
        }
        self.list(|routers| routers.push(Arc::clone(&control)));
        self.balance_control.wake();
        self.free_memory.set();
        Ok(control)
    }

    /// Starts a planned router of the file; for an isolated router, its gate.
    ///
    /// # Errors
    ///
    /// The graph has errors, or the router cannot be started; a message.
    pub fn add_planned(&self, planned: &Planned) -> Result<Arc<Control>, String> {
        let section = &planned.section;
        let plan = planned.compiled.plan.as_ref().map(Arc::clone);
        let control = self.add(
            section.name.clone(),
            section.source.clone(),
            plan.ok_or("its graph has mistakes")?,
            Arc::clone(&planned.ports),
            section.share,
        );
        control.map_err(|why| format!("router {}: {why}", section.name))
    }

    /// Starts or reloads the process of an isolated router; does nothing for other routers.
    ///
    /// # Errors
    ///
    /// The process cannot be started or reloaded; a message.
    pub fn follow_isolated(&self, planned: &Planned) -> Result<(), String> {
        let Some((isolated, own)) = &planned.isolated else {
            return Ok(());
        };
        let plan = own.plan.as_ref().ok_or("its graph has mistakes")?;
        let known = PlannedNames::of(plan, isolated.isolation.workers.into());
        self.isolated.follow(isolated, Arc::new(known))
    }

    /// Closes queues of TAP interfaces that a former process left open for this one, and that no router uses.
    pub fn forget_queues_left(&self) {
        let left = self.common.ports.close_queues_left();
        left.iter().for_each(|name| service::remove_stored(name));
    }

    fn list<R>(&self, change: impl FnOnce(&mut Vec<Arc<Control>>) -> R) -> R {
        change(&mut self.routers.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// All routers, in the order of their addition.
    pub fn routers(&self) -> Vec<Arc<Control>> {
        let routers = self.routers.read();
        routers.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Router with this name; without a name, the only router.
    ///
    /// # Errors
    ///
    /// There is no such router, or a name is required.
    pub fn router(&self, name: Option<&str>) -> Result<Arc<Control>, Failure> {
        let routers = self.routers();
        let names = || {
            let names: Vec<&str> = routers.iter().map(|router| router.name()).collect();
            names.join(", ")
        };
        match (name, &*routers) {
            (None, [only]) => Ok(Arc::clone(only)),
            (None, []) => Err(Failure::new(404, "no router runs")),
            (None, _) => {
                let text = format!("say which router (--router): {}", names());
                Err(Failure::new(400, text))
            }
            (Some(name), _) => {
                let found = routers.iter().find(|router| router.name() == name);
                found.cloned().ok_or_else(|| {
                    Failure::new(
                        404,
                        format!("there is no router `{name}`; there are {}", names()),
                    )
                })
            }
        }
    }

    /// True if a file describes its routers.
    pub fn is_described(&self) -> bool {
        self.file.is_some()
    }

    /// Name of a router for labels; `None` if the process always has a single router.
    pub(crate) fn label<'a>(&self, router: &'a Control) -> Option<&'a str> {
        self.is_described().then(|| router.name())
    }

    /// Worker threads of the process.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.common.workers
    }

    /// Removes a router and its ports. Returns false if no router has this name.
    pub fn remove(&self, name: &str) -> bool {
        let gone = self.list(|routers| {
            let at = routers.iter().position(|router| router.name() == name)?;
            Some(routers.remove(at))
        });
        let Some(gone) = gone else {
            return false;
        };
        self.isolated.end(name);
        gone.end(false);
        gone.take_down();
        self.free_memory.set();
        info!(router = name, "stop");
        true
    }

    /// Ends the service: [`Runtime::serve`](crate::Runtime::serve) returns.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Stops one router. The process ends with its last router.
    pub(crate) fn stop_router(&self, name: &str) -> Result<(), Failure> {
        self.router(Some(name))?;
        match &*self.routers() {
            // The last router's counters are reported at the end of the process.
            [_] => self.stop(),
            _ => {
                self.remove(name);
                if let Some(shared_ports) = self.common.ports.shared_ports() {
                    shared_ports.remove_router(name);
                }
            }
        }
        Ok(())
    }

    /// Starts load balancing on a thread of `threads`, until the process [ends](Self::end).
    pub(crate) fn start_balancing(self: &Arc<Self>, threads: &tokio::runtime::Handle) {
        let process = Arc::clone(self);
        threads.spawn_blocking(move || process.balance_control.run(|| process.routers()));
    }

    /// Ends load balancing, isolated routers and all requests that wait for routers.
    pub(crate) fn end(&self) {
        self.balance_control.end();
        self.isolated.end_all();
        self.routers().iter().for_each(|router| router.end(true));
    }

    /// True if all routers have ended by themselves.
    pub(crate) fn ended(&self) -> bool {
        let routers = self.routers();
        !routers.is_empty() && routers.iter().all(|router| router.router.ended())
    }

    /// Description of the process for the API.
    pub fn info(&self) -> Info {
        match &self.file {
            None => self.router(None).map(|one| one.info()).unwrap_or_default(),
            Some(file) => Info {
                name: self.common.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                uptime_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
                clock_ns: wall_ns(Clock::real().now()),
                configuration: file.lock().source.name.clone(),
                own: self
                    .own
                    .as_ref()
                    .map(|own| own.source.name.clone())
                    .unwrap_or_default(),
                saved: None,
                reloads: self.reloads.load(Ordering::Relaxed),
            },
        }
    }

    /// Description of the routers for the API.
    pub fn list_routers(&self) -> Result<Vec<view::Router>, Failure> {
        let busy = self.workers().busy()?;
        let each = |router: &Arc<Control>| {
            let info = router.info();
            let share = router.share();
            let namespace = router.ports.namespace();
            view::Router {
                name: info.name,
                configuration: info.configuration,
                netns: namespace.map(|namespace| namespace.name().to_owned()),
                share: share.tickets,
                group_share: share.group.map(|group| group.tickets),
                priority: share.priority,
                buffers: share.buffers,
                routes: router.source().routes,
                uptime_ns: info.uptime_ns,
                reloads: info.reloads,
                elements: router.router.plan().elements.len(),
                ports: router
                    .router
                    .plan()
                    .devices
                    .iter()
                    .map(|d| d.name.clone())
                    .collect(),
                ended: router.router.ended(),
                isolated: self.isolated.view(router.name()),
                busy_ns: busy_of(&busy, router),
            }
        };
        Ok(self.routers().iter().map(each).collect())
    }

    /// Metrics of all routers in Prometheus text format.
    pub fn metrics(&self) -> Result<String, Failure> {
        let mut text = metrics::Text::default();
        if !self.is_described() {
            let router = self.router(None)?;
            text.router(&router.info(), &router.stats()?);
            text.kernel(&router.kernel_counts());
            text.samples(&router.samples());
            if let Ok(member) = self.member() {
                text.member(&member);
            }
            return Ok(text.finish());
        }
        let busy = self.workers().busy()?;
        for (n, router) in self.routers().iter().enumerate() {
            let mut info = router.info();
            if self.isolated.remote_address(router.name()).is_some() {
                info.name.push_str(GATE);
            }
            text.router_of_many(&info, &router.stats()?, n == 0);
            text.kernel(&router.kernel_counts());
            text.samples(&router.samples());
            text.busy(&busy_of(&busy, router));
            text.end_router();
        }
        for (info, stats) in self.isolated.counts().values() {
            text.router_of_many(info, stats, false);
            text.end_router();
        }
        Ok(text.finish())
    }

    /// Halts all routers. Returns the packet accounting of each, with the router's name if the process may have
    /// several.
    pub fn close(&self) -> Result<Vec<(Option<String>, PacketAccounting)>, Failure> {
        let routers = self.routers();
        let close = |router: &Arc<Control>| {
            let mut books = router.close()?;
            if self.is_described() {
                // Buffers are accounted for all routers of the process together.
                books.buffers = None;
            }
            Ok((self.label(router).map(str::to_owned), books))
        };
        routers.iter().map(close).collect()
    }

    /// Plans the configuration that an isolated router has applied, to learn which counters the router can report.
    fn learn(&self, name: &str, request: &ReloadRequest) {
        let isolated = &self.isolated;
        let (Some(source), Some(workers)) = (isolated.source(name), isolated.workers(name)) else {
            return;
        };
        let Ok(source) = requested(&source, &source, request) else {
            return;
        };
        let Ok(gate) = self.router(Some(name)) else {
            return;
        };
        let ports = Outside(&gate.ports);
        let options = Options {
            devices_must_exist: false,
            ..Options::new(workers, &ports)
        };
        if let Some(plan) = compile(&source, &self.common.registry, &options).plan {
            isolated.learn(name, Arc::new(PlannedNames::of(&plan, workers)));
        }
    }

    /// Makes the process follow the description on which the cluster's servers agree. `certificates` reads the ends of
    /// the server's certificates, at each use.
    pub(crate) fn follow_cluster(
        &self,
        certificates: impl Fn() -> Certificates + Send + Sync + 'static,
    ) {
        // The process has one participant.
        let _ = self.certificates.set(Box::new(certificates));
    }

    /// True if the process follows the description on which the cluster's servers agree.
    fn follows_cluster(&self) -> bool {
        self.certificates.get().is_some()
    }

    /// Notes how the server stands in its cluster.
    pub(crate) fn set_member(&self, member: Member) {
        *self.member.lock() = Some(member);
    }

    /// Remembers an event of the cluster, and forgets the oldest of too many.
    pub(crate) fn note_event(&self, event: Event) {
        let mut events = self.events.lock();
        if events.len() >= EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Events of the cluster that this process has noticed since it was started, the oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().iter().cloned().collect()
    }

    /// Links to other servers of a cluster, in the order of their numbers; `None` if the server has none.
    ///
    /// # Errors
    ///
    /// The process has no router, or several.
    pub(crate) fn links(&self) -> Result<Option<Vec<MemberLink>>, Failure> {
        // A server without links has no such element.
        let states = self.router(None)?.read("beat.links", "").ok();
        Ok(states.map(|states| MemberLink::all(&states)))
    }

    /// Account of a cluster's server for other members.
    ///
    /// # Errors
    ///
    /// The process is no server of a cluster whose servers agree.
    pub fn member(&self) -> Result<Member, Failure> {
        let member = self.member.lock().clone();
        let mut member = member.ok_or_else(|| {
            let why = "this router is no server of a cluster whose servers agree (`ashlar cluster up --agreed`)";
            Failure::new(404, why)
        })?;
        member.links = self.links()?.unwrap_or_default();
        if let Some(namespace) = &mut member.namespace {
            namespace.there = path_of(&namespace.name).exists();
        }
        if let Some(certificates) = self.certificates.get() {
            member.certificates = certificates();
        }
        member.now_ms = wall_clock();
        Ok(member)
    }

    /// Findings of the machine's diagnosis for the ports of all routers, which are open.
    pub fn findings(&self) -> Vec<Finding> {
        let routers = self.routers();
        let names = routers.iter().flat_map(|router| router.ports.names());
        let wanted = Wanted {
            opened: true,
            ..port_requirements(&names.collect::<Vec<_>>(), 0)
        };
        Machine::here().findings(&wanted)
    }

    /// Reloads for an operator at this machine.
    pub(crate) fn reload_here(
        &self,
        router: Option<&str>,
        request: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        if self.follows_cluster() && !request.dry_run {
            let why = "this server runs what its cluster agrees on: change that by `ashlar cluster apply FILE`";
            return Err(Failure::new(409, why));
        }
        self.reload(router, request)
    }

    /// Reloads one router, or all routers of the file; or reports the changes without applying them.
    pub fn reload(
        &self,
        router: Option<&str>,
        request: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let named = request.path.as_deref().or(request.name.as_deref());
        let described = named.is_some_and(file::is_described) && request.server.is_none();
        match (&self.file, router) {
            (Some(file), None) if request.add.is_some() => self.add_described(file, request),
            (Some(file), None) if request.text.is_none() || described => {
                self.reload_all(file, request)
            }
            (Some(_), Some(name)) if self.isolated.remote_address(name).is_some() => {
                let reply = self.isolated.reload(name, request)?;
                if reply.good && !request.dry_run {
                    self.learn(name, request);
                }
                Ok(reply)
            }
            (None, _) if described => Err(Failure::new(
                409,
                "this process runs one router of a Click file: for several routers, start `ashlar run` with their file",
            )),
            (_, router) => self.router(router)?.reload(request),
        }
    }
}

/// Port directory of a router, derived from the process's directory.
///
/// # Errors
///
/// The router's network namespace cannot be opened; a message.
pub fn directory(process_ports: &Directory, section: &Section) -> Result<Directory, String> {
    let namespace = section.netns.as_deref().map(Namespace::open).transpose()?;
    Ok(process_ports.of_router(&section.name, namespace.map(Arc::new)))
}

/// True if a directory's TAP interfaces belong to the current namespace of this name.
fn is_in(ports: &Directory, netns: Option<&str>) -> bool {
    match (ports.namespace(), netns) {
        (None, None) => true,
        (Some(namespace), Some(netns)) => {
            namespace.name() == netns && namespace.named() == ports::Named::Same
        }
        _ => false,
    }
}

fn busy_of(busy: &[Vec<(u64, u64)>], router: &Control) -> Vec<u64> {
    let number = router.router.number();
    let of_worker = |worker: &Vec<(u64, u64)>| {
        let found = worker.iter().find(|(router, _)| *router == number);
        found.map_or(0, |(_, time)| *time)
    };
    busy.iter().map(of_worker).collect()
}
