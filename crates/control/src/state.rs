//! A running router with what control knows about it. Methods may wait for workers.

use crate::balance::{Balance, Settings};
use crate::netlink::xfrm::Xfrm;
use crate::netlink::{Listen, Netlink};
use crate::policers::Policed;
use crate::source::Source;
use crate::tap_interfaces::TapInterfaces;
use crate::view;
use crate::{books, handlers, saved};
use elements::ipsec::KernelTable;
use elements::linux::Kernel;
use elements::route::RouteBound;
use engine::clock::{Clock, wall};
use engine::handler::AskError;
use engine::plan::Plan;
use engine::port::PortDirectory;
use engine::random::Seed;
use engine::stats::{NodeStats, TaskStats, drop_names};
use planner::Registry;
use ports::Directory;
use router::worker::WorkerTimes;
use router::worker::share::Share;
use router::{Router, Workers};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Instant;
use sync::Lock;
use tracing::warn;

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
    pub(crate) policed: Policed,
    /// MTUs of the ports at the last check.
    pub(crate) mtus: Lock<BTreeMap<String, usize>>,
    /// Held while a configuration is being replaced: one at a time. Readers do not wait for it.
    changing: Lock<()>,
    pub(crate) reloads: AtomicU64,
    tap_interfaces: Lock<TapInterfaces>,
    /// Follower of the kernel's routes, once a configuration has had a use for them.
    netlink: Lock<Option<Netlink>>,
    xfrm: Lock<Option<Xfrm>>,
    fpm: Option<Listen>,
    pub(crate) balance: Balance,
    share: Lock<Share>,
    pub(crate) name: String,
    started: Instant,
}

/// Reason why a request was not fulfilled: a status of HTTP and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// 4xx: the request is wrong; 5xx: the router cannot answer.
    pub status: u16,
    /// Reason for the failure, a sentence.
    pub text: String,
}

impl Failure {
    /// A failure.
    pub fn new(status: u16, text: impl Into<String>) -> Failure {
        Failure {
            status,
            text: text.into(),
        }
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        let status = match &error {
            AskError::NoElement(_) | AskError::NoHandler(_) => 404,
            AskError::Refused(_) => 422,
            AskError::NoAnswer(_) => 503,
        };
        Failure::new(status, error.to_string())
    }
}

/// A worker's counts, all at one moment.
pub(crate) struct Answer {
    plan: Arc<Plan>,
    pub(crate) stats: Vec<NodeStats>,
    tasks: Vec<(usize, TaskStats)>,
    held: Vec<usize>,
    /// Packets and bytes of elements with a device.
    devices: Vec<(usize, u64, u64)>,
    buffers: isize,
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
    /// Opens the devices and has the workers run the router. The error is a sentence.
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
            policed: Policed::default(),
            mtus: Lock::default(),
            own: Lock::new(start.source.clone()),
            source: Lock::new(start.source),
            changing: Lock::default(),
            reloads: AtomicU64::new(0),
            tap_interfaces: Lock::default(),
            netlink: Lock::default(),
            xfrm: Lock::default(),
            fpm: start.fpm,
            balance: Balance::new(Settings::default()),
            share: Lock::new(start.share),
            name: start.name,
            started: Instant::now(),
        };
        control.balance.set(&control.router, start.balance)?;
        control.follow_kernel(plan)?;
        Ok(control)
    }

    /// Ends all waiting for the router, and its moving of packets. Its TAP interfaces stay, but the service manager
    /// keeps them no longer.
    pub(crate) fn end(&self, process_ends: bool) {
        self.ending.store(true, Ordering::Release);
        // This also wakes who waits for the end. Workers that do not answer end with the process.
        let _ = self.router.halt();
        if !process_ends {
            let tap_interfaces = self.tap_interfaces.lock();
            tap_interfaces.forget(&self.ports);
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

    /// Changes the share. A worker that does not answer now takes it up when it does.
    pub(crate) fn set_share(&self, share: Share) {
        if let Err(late) = self.router.set_share(share) {
            warn!(router = self.name, "the share has changed, but {late}");
        }
        *self.share.lock() = share;
    }

    /// Follows the kernel of the router's namespace if a plan uses its routes; returns true if that begins now. The
    /// error is a sentence.
    pub(crate) fn follow_kernel(&self, plan: &Plan) -> Result<bool, String> {
        let routes = self.follow_routes(plan)?;
        let table = plan.find_router_wide::<KernelTable>();
        let mut xfrm = self.xfrm.lock();
        let Some(table) = table.filter(|table| xfrm.is_none() && table.in_use()) else {
            return Ok(routes);
        };
        match Xfrm::start(table, self.ports.namespace().cloned()) {
            Ok(started) => *xfrm = Some(started),
            Err(why) => {
                drop(xfrm);
                if routes {
                    self.leave_kernel();
                }
                return Err(why);
            }
        }
        Ok(true)
    }

    fn follow_routes(&self, plan: &Plan) -> Result<bool, String> {
        let kernel = plan.router_wide::<Kernel>();
        let mut netlink = self.netlink.lock();
        match &*netlink {
            Some(netlink) => netlink.look(),
            None if kernel.in_use() => {
                let namespace = self.ports.namespace().cloned();
                let bound = plan.router_wide::<RouteBound>();
                *netlink = Some(Netlink::start(
                    (kernel, bound),
                    namespace,
                    self.fpm.clone(),
                )?);
                return Ok(true);
            }
            None => {}
        }
        Ok(false)
    }

    /// Stops following a kernel.
    pub(crate) fn leave_kernel(&self) {
        let mut xfrm = self.xfrm.lock();
        let left = xfrm.take();
        drop(xfrm);
        drop(left);
        let mut netlink = self.netlink.lock();
        let left = netlink.take();
        // Its thread ends; who asks for its counts does not wait for that.
        drop(netlink);
        drop(left);
    }

    /// Counts of following the kernel: kind, name, sentence, value. Empty if it is not followed.
    pub(crate) fn kernel_counts(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
        let of_routes = self.with_netlink(|netlink| netlink.counts().list());
        let of_ipsec = self.with_xfrm(|xfrm| xfrm.counts().list());
        [of_routes, of_ipsec]
            .into_iter()
            .flatten()
            .flatten()
            .collect()
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
            // A reload may have taken the element away meanwhile.
            let text = self.router.read(&format!("{}.metrics", e.name), "").ok()?;
            Some((e.name.clone(), text))
        })
        .collect()
    }

    /// Makes the TAP interfaces look like their devices. Asked every now and then, it needs no event to be seen.
    pub(crate) fn follow_devices(&self) {
        let kernel = self.router.plan().router_wide::<Kernel>();
        let mut tap_interfaces = self.tap_interfaces.lock();
        if tap_interfaces.follow(&self.ports, &kernel) {
            self.with_netlink(Netlink::look);
        }
    }

    /// True if the kernel is followed by a thread that does something, or not at all; see [`Netlink::is_alive`].
    pub(crate) fn follows(&self) -> bool {
        // Both are to be asked, so that both are woken.
        let both = [
            self.with_netlink(Netlink::is_alive),
            self.with_xfrm(Xfrm::is_alive),
        ];
        both.into_iter().flatten().all(|alive| alive)
    }

    fn with_xfrm<T>(&self, job: impl FnOnce(&Xfrm) -> T) -> Option<T> {
        let xfrm = self.xfrm.lock();
        xfrm.as_ref().map(job)
    }

    fn with_netlink<T>(&self, job: impl FnOnce(&Netlink) -> T) -> Option<T> {
        let netlink = self.netlink.lock();
        netlink.as_ref().map(job)
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

    /// The configuration that the router was started with, or that the file of its process names: a reload without a
    /// file, SIGHUP and a restart read it.
    pub fn own(&self) -> Source {
        self.own.lock().clone()
    }

    pub(crate) fn set_own(&self, source: Source) {
        *self.own.lock() = source;
    }

    pub(crate) fn set_source(&self, source: Source) {
        *self.source.lock() = source;
    }

    /// Locks the configuration against changes while the guard lives.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// About the process.
    pub fn info(&self) -> view::Info {
        view::Info {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ns: nanoseconds(self.started),
            clock_ns: wall(Clock::real().now()),
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
        let answer = self.router.write(path, value)?;
        self.note_setting(path, value);
        Ok(answer)
    }

    /// Every worker's counts and the plan that they belong to.
    pub(crate) fn counts(&self) -> Result<(Arc<Plan>, Vec<Answer>), Failure> {
        // Workers take a new configuration up one after the other: look again if one has and another
        // has not.
        for _ in 0..3 {
            let answers = self.router.ask_all(|local| Answer::of(local.graph()))?;
            let Some(plan) = answers.first().map(|a| Arc::clone(&a.plan)) else {
                break;
            };
            if answers.iter().all(|a| Arc::ptr_eq(&a.plan, &plan)) {
                return Ok((plan, answers));
            }
        }
        Err(Failure::new(
            503,
            "the configuration is being replaced: ask again",
        ))
    }

    /// All counts.
    pub fn stats(&self) -> Result<view::Stats, Failure> {
        let (plan, answers) = self.counts()?;
        Ok(self.view(&plan, &answers))
    }

    /// Each worker's longest turn, awake, since the last call. Workers are not disturbed: a concurrent turn counts in
    /// one of the two answers.
    pub fn longest_turns(&self) -> Vec<view::Longest> {
        let take = |n: &AtomicU64| n.swap(0, Ordering::Acquire);
        (0..self.router.workers())
            .map(|worker| longest(self.router.times(worker), take))
            .collect()
    }

    fn view(&self, plan: &Plan, answers: &[Answer]) -> view::Stats {
        let element = |node: usize| view::ElementStats {
            name: plan.elements[node].name.clone(),
            class: plan.elements[node].class.name.to_owned(),
            drop_names: drop_names(&plan.elements[node]),
            copies: plan.elements[node]
                .workers
                .iter()
                .filter_map(|&w| Some(answers.get(w)?.copy(plan, node, w)))
                .collect(),
        };
        let workers = answers.iter().enumerate().map(|(w, answer)| {
            let times = self.router.times(w);
            let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
            view::WorkerStats {
                turns: get(&times.turns),
                empty: get(&times.empty),
                busy_ns: get(&times.busy),
                asleep_ns: get(&times.asleep),
                sleeps: get(&times.sleeps),
                longest: longest(times, |n| n.load(Ordering::Acquire)),
                runs: times.runs.iter().map(get).collect(),
                held: answer.held.iter().sum::<usize>() as u64,
                buffers: answer.buffers as i64,
            }
        });
        view::Stats {
            time_ns: nanoseconds(self.started),
            reloads: self.reloads.load(Ordering::Relaxed),
            elements: (0..plan.elements.len()).map(element).collect(),
            workers: workers.collect(),
            ports: self.port_stats(),
            pool: view::PoolStats {
                buffers: engine::packet::pool::made(),
                bytes: engine::packet::pool::memory_bytes(),
            },
            balance: self.balance.view(),
        }
    }

    fn port_stats(&self) -> Vec<view::PortStats> {
        let open = self.ports.names().into_iter();
        open.filter_map(|name| self.ports.get(&name))
            .map(|open| {
                let info = open.port.info();
                let counters = open.port.counters().into_iter();
                view::PortStats {
                    name: open.name,
                    driver: info.driver,
                    mac: wire::EtherAddr(info.mac).to_string(),
                    mtu: info.mtu,
                    up: open.port.link_up(),
                    counters: counters
                        .map(|(name, queue, value)| view::PortCounter {
                            name: name.to_owned(),
                            queue,
                            value,
                        })
                        .collect(),
                }
            })
            .collect()
    }

    /// Halts the router and gives its final counts, as the books add them up.
    pub fn close(&self) -> Result<books::Books, Failure> {
        self.router.halt()?;
        let (plan, answers) = self.counts()?;
        Ok(books::balance(&plan, self.view(&plan, &answers)))
    }

    /// True if the service is ending: waiting requests give up.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }
}

impl Answer {
    fn of(graph: &mut engine::graph::Graph) -> Answer {
        let plan = Arc::clone(graph.plan());
        let mut devices = Vec::new();
        for (node, element) in plan.elements.iter().enumerate() {
            if element.queues.is_empty() {
                continue;
            }
            let handlers = (element.class.handlers)();
            let count = |name: &str| {
                let at = handlers.iter().position(|h| h.name == name)?;
                graph.read(node, at, "")?.ok()?.parse().ok()
            };
            let packets = count("count").unwrap_or(0);
            devices.push((node, packets, count("byte_count").unwrap_or(0)));
        }
        Answer {
            stats: graph.stats().to_vec(),
            tasks: graph.task_stats().map(|(n, s)| (n, *s)).collect(),
            held: (0..plan.elements.len()).map(|n| graph.held_by(n)).collect(),
            devices,
            buffers: engine::packet::pool::balance(),
            plan,
        }
    }

    fn copy(&self, plan: &Plan, node: usize, worker: usize) -> view::CopyStats {
        let stats = &self.stats[node];
        let element = &plan.elements[node];
        let task = self.tasks.iter().find(|(n, _)| *n == node);
        let used = self.devices.iter().find(|(n, ..)| *n == node);
        let device = element.device().zip(used);
        view::CopyStats {
            worker,
            packets: stats.packets,
            batches: stats.batches,
            cycles: stats.cycles,
            sent: stats.sent.clone(),
            drops: stats.drops.clone(),
            held: self.held[node] as u64,
            task: task.map(|(_, t)| view::Task {
                runs: t.runs,
                empty: t.empty,
                cycles: t.cycles,
                empty_cycles: t.empty_cycles,
            }),
            device: device.map(|(device, &(_, packets, bytes))| view::DeviceUse {
                port: device.name,
                receives: device.receives,
                queues: element.queues_of(worker).to_vec(),
                packets,
                bytes,
            }),
        }
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A worker's longest turn, as `read` finds it: the whole last, so that no part is longer.
fn longest(times: &WorkerTimes, read: impl Fn(&AtomicU64) -> u64) -> view::Longest {
    view::Longest {
        longest_run_ns: read(&times.longest_run),
        longest_wait_ns: read(&times.longest_wait),
        longest_control_ns: read(&times.longest_control),
        longest_turn_ns: read(&times.longest_turn),
    }
}
