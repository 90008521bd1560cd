//! The control thread: serves the API, handles signals, watches ports, and detects the end of routers.

use crate::agreement::Participant;
use crate::api::Api;
use crate::host::service;
use crate::host::socket::Socket;
use crate::process::Process;
use crate::view::ReloadRequest;
use engine::port::PortDirectory;
use ports::Named;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

/// Interval between checks of the policers' drops.
const POLICERS_INTERVAL: Duration = Duration::from_secs(10);

/// Reason why a router's service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All sources have ended, or an element stopped the router.
    Finished,
    /// A signal: SIGINT or SIGTERM.
    Signal,
    /// A client asked the program to end.
    Requested,
}

impl Ended {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Ended::Finished => "all is done",
            Ended::Signal => "signal",
            Ended::Requested => "asked",
        }
    }
}

/// Services beside the routers.
pub struct Serve {
    /// The API's socket.
    pub socket: Option<Socket>,
    /// Listener that serves metrics only.
    pub metrics: Option<TcpListener>,
    /// Part in a cluster's agreement, if the process is a server of such a cluster.
    pub agreement: Option<Participant>,
}

/// Listens for clients of /metrics over TCP. The error is a sentence.
pub fn metrics_listener(at: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(at);
    listener
        .and_then(|l| l.set_nonblocking(true).map(|()| l))
        .map_err(|e| format!("cannot serve metrics at {at}: {e}"))
}

/// The control thread's runtime and its signals. From its creation on, no signal ends the process at once: earlier
/// signals take effect when the router is served.
pub struct Runtime {
    runtime: tokio::runtime::Runtime,
    signals: Signals,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Runtime {
    /// Starts listening for signals. Call it before creating ports, workers and sockets, which need an orderly end. The
    /// error is a sentence.
    pub fn new() -> Result<Runtime, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| format!("cannot start the control thread: {e}"))?;
        let inside = runtime.enter();
        let on = |kind| signal(kind).map_err(|e| format!("cannot wait for signals: {e}"));
        let signals = Signals {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        };
        drop(inside);
        Ok(Runtime { runtime, signals })
    }

    /// Serves a process on the calling thread until it ends. The workers still run then: see
    /// [`Process::close`]. The error is a sentence.
    pub fn serve(self, process: &Arc<Process>, mut serve: Serve) -> Result<Ended, String> {
        let Runtime { runtime, signals } = self;
        process.start_balancing(runtime.handle());
        if let Some(participant) = serve.agreement.take() {
            process.follow_cluster(participant.certificates());
            let members = Api::of_members(Arc::clone(process));
            runtime.spawn(members.serve_members(participant.members()));
            runtime.spawn(participant.take_part(Arc::clone(process)));
        }
        let ended = runtime.block_on(run(process, &serve, signals));
        service::stopping();
        process.end();
        // Requests in progress are aborted; jobs that wait for a worker end with its answer.
        runtime.shutdown_timeout(Duration::from_secs(1));
        drop(serve);
        ended
    }
}

async fn run(process: &Arc<Process>, serve: &Serve, signals: Signals) -> Result<Ended, String> {
    let wrong = |e: std::io::Error| format!("cannot start the control thread: {e}");
    let Signals {
        mut interrupt,
        mut terminate,
        mut hang_up,
    } = signals;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut policers_turn = tokio::time::interval(POLICERS_INTERVAL);
    let watchdog = service::watchdog();
    let mut alive = tokio::time::interval(watchdog.unwrap_or(Duration::MAX));
    let mut often = tokio::time::interval(Duration::from_millis(100));
    let (mut watch, mut namespace) = (PortWatch::default(), NamespaceWatch::default());
    let [
        mut addresses,
        mut devices,
        mut workers_turn,
        mut spare,
        mut policed,
    ] = [const { Following(None) }; 5];
    let mut end = watch_end(process);
    if let Some(socket) = &serve.socket {
        let listener = socket.listener().map_err(wrong)?;
        let listener = tokio::net::UnixListener::from_std(listener).map_err(wrong)?;
        tokio::spawn(Api::new(Arc::clone(process)).serve(listener));
    }
    if let Some(metrics) = &serve.metrics {
        let listener = metrics.try_clone().map_err(wrong)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
        tokio::spawn(Api::of_metrics(Arc::clone(process)).serve_tcp(listener));
    }
    let socket = serve.socket.as_ref().map(|s| s.path.display().to_string());
    let workers = process.workers().count();
    follow_devices(process);
    info!(name = process.info().name, socket, workers, "start");
    service::ready();
    loop {
        tokio::select! {
            _ = &mut end => return Ok(Ended::Finished),
            _ = interrupt.recv() => return Ok(Ended::Signal),
            _ = terminate.recv() => return Ok(Ended::Signal),
            () = process.stop.notified() => return Ok(Ended::Requested),
            _ = hang_up.recv() => reload_again(process),
            _ = second.tick() => {
                watch.check(process);
                namespace.end_if_renamed(process)?;
                addresses.start_if_idle(process, follow_addresses);
                spare.start_if_idle(process, |process| process.free_memory.give_back());
            }
            _ = alive.tick(), if watchdog.is_some() => workers_turn.start_if_idle(process, tell_alive),
            _ = policers_turn.tick() => policed.start_if_idle(process, look_at_policers),
            _ = often.tick() => devices.start_if_idle(process, follow_devices),
        }
    }
}

/// Ends when all routers have ended by themselves.
fn watch_end(process: &Arc<Process>) -> tokio::task::JoinHandle<()> {
    let process = Arc::clone(process);
    tokio::task::spawn_blocking(move || {
        let changed = Arc::clone(process.workers().changed());
        loop {
            let seen = changed.count();
            if process.ended() {
                return;
            }
            changed.wait(seen, Duration::from_secs(3600));
        }
    })
}

/// SIGHUP: reads the configuration's file again.
fn reload_again(process: &Arc<Process>) {
    let process = Arc::clone(process);
    tokio::task::spawn_blocking(move || {
        match process.reload_here(None, &ReloadRequest::default()) {
            Ok(reply) if reply.good => {}
            Ok(reply) => error!(
                "the configuration on disk is wrong, the running one stays:\n{}",
                reply.text
            ),
            Err(failure) => error!("{}", failure.text),
        }
    });
}

/// A repeated job that may wait for workers or for the kernel. Each run has a thread of its own, and no two runs
/// overlap.
struct Following(Option<tokio::task::JoinHandle<()>>);

impl Following {
    fn start_if_idle(&mut self, process: &Arc<Process>, job: fn(&Process)) {
        if self.0.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let process = Arc::clone(process);
        self.0 = Some(tokio::task::spawn_blocking(move || job(&process)));
    }
}

/// Reports to the service manager that the router is alive, if all workers and all followers of kernels make progress.
fn tell_alive(process: &Process) {
    let routers = process.routers();
    let stuck: Vec<&str> = {
        let stuck = routers.iter().filter(|router| !router.follows());
        stuck.map(|router| router.name()).collect()
    };
    let turned = process.workers().check_workers();
    let wrong = match (turned, stuck.as_slice()) {
        (Ok(()), []) => return service::notify_watchdog(),
        (Err(e), _) => e.to_string(),
        (Ok(()), some) => format!("the netlink thread of {} does nothing", some.join(", ")),
    };
    error!("the service manager's watchdog gets no sign of life: {wrong}");
}

/// Updates elements whose ports have changed address.
fn follow_addresses(process: &Process) {
    for router in process.routers() {
        if let Err(failure) = router.follow_addresses() {
            let name = process.label(&router);
            error!(
                router = name,
                "elements keep the old address or MTU: {}", failure.text
            );
        }
    }
}

/// Logs drops of policers.
fn look_at_policers(process: &Process) {
    for router in process.routers() {
        router.look_at_policers(process.label(&router));
    }
}

fn follow_devices(process: &Process) {
    let routers = process.routers();
    routers.iter().for_each(|r| r.follow_devices());
    let named = |name: &str| routers.iter().find(|router| router.name() == name);
    let ports = |name: &str| named(name).map(|router| Arc::clone(&router.ports));
    process.isolated.follow_links(ports);
}

/// Routers whose namespace has lost its name, so that each is reported once.
#[derive(Default)]
struct NamespaceWatch(BTreeSet<String>);

impl NamespaceWatch {
    /// Ends a router if the name of its namespace now denotes another namespace, because the router would follow
    /// daemons that nobody can reach. Entering the new namespace needs dropped privileges, and no known state is valid
    /// there.
    ///
    /// # Errors
    /// The router is alone; a sentence.
    fn end_if_renamed(&mut self, process: &Arc<Process>) -> Result<(), String> {
        let routers = process.routers();
        self.0
            .retain(|name| routers.iter().any(|r| r.name() == name));
        for router in &routers {
            let Some(namespace) = router.ports.namespace() else {
                continue;
            };
            let (name, now) = (namespace.name(), namespace.named());
            if now == Named::Another {
                let why = format!(
                    "network namespace {name} was made anew: this router is in the one before, start it again"
                );
                if routers.len() == 1 {
                    return Err(why);
                }
                error!(router = router.name(), "{why} by `ashlar reload`");
                let (process, name) = (Arc::clone(process), router.name().to_owned());
                tokio::task::spawn_blocking(move || process.remove(&name));
                continue;
            }
            if now != Named::Nothing {
                self.0.remove(router.name());
            } else if self.0.insert(router.name().to_owned()) {
                warn!(
                    router = process.label(router),
                    namespace = name,
                    "it was deleted, and the router stays in it"
                );
            }
        }
        Ok(())
    }
}

/// Last known link states of ports, by router and name, so that changes are reported once.
#[derive(Default)]
struct PortWatch(BTreeMap<(String, String), bool>);

impl PortWatch {
    fn check(&mut self, process: &Process) {
        let routers = process.routers();
        let mut all = Vec::new();
        for router in &routers {
            for event in router.ports.events() {
                warn!(router = process.label(router), event = "port", "{event}");
            }
            let names = router.ports.names().into_iter();
            let open = names.filter_map(|name| router.ports.get(&name));
            all.extend(open.map(|port| (router, port)));
        }
        let open = all.iter();
        let open: BTreeSet<(&str, &str)> = open
            .map(|(router, port)| (router.name(), port.name.as_str()))
            .collect();
        self.0
            .retain(|(router, name), _| open.contains(&(router.as_str(), name.as_str())));
        for (router, port) in all {
            let up = port.port.link_up();
            let label = process.label(router);
            let key = (router.name().to_owned(), port.name.clone());
            match self.0.insert(key, up) {
                None => {
                    let about = port.port.info();
                    info!(
                        router = label,
                        port = port.name,
                        driver = about.driver,
                        up,
                        "port open"
                    );
                    for remark in about.remarks {
                        warn!(router = label, port = port.name, "{remark}");
                    }
                }
                Some(was) if was != up => match up {
                    true => info!(router = label, port = port.name, up, "link up"),
                    false => warn!(router = label, port = port.name, up, "link down"),
                },
                Some(_) => {}
            }
        }
    }
}
