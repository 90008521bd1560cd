//! The control thread: serves the API, obeys signals, watches ports, and notices the end.

use crate::api::Api;
use crate::service;
use crate::socket::Socket;
use crate::state::Control;
use crate::view::ReloadRequest;
use engine::port::PortDirectory;
use ports::Named;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

/// Why a router's service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All sources have ended, or an element stopped the router.
    ByItself,
    /// A signal: SIGINT or SIGTERM.
    Signal,
    /// A client asked for it.
    Asked,
}

impl Ended {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Ended::ByItself => "all is done",
            Ended::Signal => "signal",
            Ended::Asked => "asked",
        }
    }
}

/// What is served beside the router.
pub struct Serve {
    /// The API's socket.
    pub socket: Option<Socket>,
    /// Where only metrics are served.
    pub metrics: Option<TcpListener>,
}

/// Listens for those who fetch metrics over TCP. The error is a sentence.
pub fn metrics_listener(at: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(at);
    listener
        .and_then(|l| l.set_nonblocking(true).map(|()| l))
        .map_err(|e| format!("cannot serve metrics at {at}: {e}"))
}

/// The control thread's own: what it waits with, and the signals that it obeys. From when this is made none of them
/// ends the process out of order: what comes before the router is served counts then.
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
    /// Begins to listen for signals. Make it before anything that wants an end in order: ports, workers, sockets.
    /// The error is a sentence.
    pub fn new() -> Result<Runtime, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(32)
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

    /// Serves a router on the calling thread until it ends. The workers still run then: see
    /// [`Control::close`]. The error is a sentence.
    pub fn serve(self, control: &Arc<Control>, serve: Serve) -> Result<Ended, String> {
        let Runtime { runtime, signals } = self;
        let ended = runtime.block_on(run(control, &serve, signals));
        service::stopping();
        control.ending.store(true, Ordering::Release);
        control.balance.ring();
        // This also wakes who waits for the end. Workers that do not answer end with the process.
        let _ = control.router.halt();
        // Requests under way are cut off; what waits for a worker ends with its answer.
        runtime.shutdown_timeout(Duration::from_secs(1));
        drop(serve);
        ended
    }
}

async fn run(control: &Arc<Control>, serve: &Serve, signals: Signals) -> Result<Ended, String> {
    let wrong = |e: std::io::Error| format!("cannot start the control thread: {e}");
    let Signals {
        mut interrupt,
        mut terminate,
        mut hang_up,
    } = signals;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let watchdog = service::watchdog();
    let mut alive = tokio::time::interval(watchdog.unwrap_or(Duration::MAX));
    let mut often = tokio::time::interval(Duration::from_millis(100));
    let (mut watch, mut namespace) = (PortWatch::default(), NamespaceWatch::default());
    let [mut addresses, mut devices, mut workers_turn] = [const { Following(None) }; 3];
    let mut end = watch_end(control);
    let api = Api::new(Arc::clone(control));
    if let Some(socket) = &serve.socket {
        let listener = socket.listener().map_err(wrong)?;
        let listener = tokio::net::UnixListener::from_std(listener).map_err(wrong)?;
        tokio::spawn(api.clone().serve(listener));
    }
    if let Some(metrics) = &serve.metrics {
        let listener = metrics.try_clone().map_err(wrong)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
        tokio::spawn(api.serve_metrics(listener));
    }
    let socket = serve.socket.as_ref().map(|s| s.path.display().to_string());
    let workers = control.router.workers();
    keep_balance(control);
    control.follow_devices();
    info!(name = control.info().name, socket, workers, "start");
    service::ready();
    loop {
        tokio::select! {
            _ = &mut end => return Ok(Ended::ByItself),
            _ = interrupt.recv() => return Ok(Ended::Signal),
            _ = terminate.recv() => return Ok(Ended::Signal),
            () = control.stop.notified() => return Ok(Ended::Asked),
            _ = hang_up.recv() => reload_again(control),
            _ = second.tick() => {
                watch.look(control);
                namespace.look(control)?;
                addresses.again(control, follow_addresses);
            }
            _ = alive.tick(), if watchdog.is_some() => workers_turn.again(control, tell_alive),
            _ = often.tick() => devices.again(control, Control::follow_devices),
        }
    }
}

/// Ends when the router has ended by itself.
fn watch_end(control: &Arc<Control>) -> tokio::task::JoinHandle<()> {
    let control = Arc::clone(control);
    tokio::task::spawn_blocking(
        move || {
            while !control.router.wait_ended(Duration::from_secs(3600)) {}
        },
    )
}

/// Spreads load over the workers, again and again, on a thread of its own.
fn keep_balance(control: &Arc<Control>) {
    let control = Arc::clone(control);
    tokio::task::spawn_blocking(move || {
        while !control.is_ending() {
            control.balance.wait();
            control.balance.step(&control.router);
        }
    });
}

/// SIGHUP: reads the configuration's file again.
fn reload_again(control: &Arc<Control>) {
    let control = Arc::clone(control);
    tokio::task::spawn_blocking(move || match control.reload(&ReloadRequest::default()) {
        Ok(reply) if reply.good => {}
        Ok(reply) => error!(
            "the configuration on disk is wrong, the running one stays:\n{}",
            reply.text
        ),
        Err(failure) => error!("{}", failure.text),
    });
}

/// Something that is done again and again and may have to wait, for workers or the kernel: it has a thread of
/// its own, one at a time.
struct Following(Option<tokio::task::JoinHandle<()>>);

impl Following {
    fn again(&mut self, control: &Arc<Control>, job: fn(&Control)) {
        if self.0.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let control = Arc::clone(control);
        self.0 = Some(tokio::task::spawn_blocking(move || job(&control)));
    }
}

/// Tells the service manager that all workers turn, if they do.
fn tell_alive(control: &Control) {
    match control.router.ask_all(|_| ()) {
        Ok(_) => service::alive(),
        Err(e) => error!("the service manager's watchdog is not told that all is well: {e}"),
    }
}

/// Has elements know ports by the addresses that these have now, should one have changed.
fn follow_addresses(control: &Control) {
    if let Err(failure) = control.follow_addresses() {
        error!("elements keep the old address: {}", failure.text);
    }
}

/// The router's namespace, as its name is seen from outside.
#[derive(Default)]
struct NamespaceWatch {
    is_nameless: bool,
}

impl NamespaceWatch {
    /// Fails, with a sentence, if the name stands for another one: the router would follow daemons that nobody
    /// can reach. Entering that takes rights that were given up, and nothing known holds there.
    fn look(&mut self, control: &Control) -> Result<(), String> {
        let Some(namespace) = control.ports.namespace() else {
            return Ok(());
        };
        let (name, now) = (namespace.name(), namespace.named());
        if now == Named::Another {
            return Err(format!(
                "network namespace {name} was made anew: this router is in the one before, start it again"
            ));
        }
        let was_nameless = std::mem::replace(&mut self.is_nameless, now == Named::Nothing);
        if self.is_nameless && !was_nameless {
            warn!(
                namespace = name,
                "it was deleted: the router stays in what is left of it"
            );
        }
        Ok(())
    }
}

/// What was last seen of ports, so that changes are said once.
#[derive(Default)]
struct PortWatch(BTreeMap<String, bool>);

impl PortWatch {
    fn look(&mut self, control: &Control) {
        for event in control.ports.events() {
            warn!(event = "port", "{event}");
        }
        let open: Vec<_> = control
            .ports
            .names()
            .iter()
            .filter_map(|name| control.ports.get(name))
            .collect();
        self.0
            .retain(|name, _| open.iter().any(|p| p.name == *name));
        for port in open {
            let up = port.port.link_up();
            match self.0.insert(port.name.clone(), up) {
                None => {
                    let about = port.port.info();
                    info!(port = port.name, driver = about.driver, up, "port open");
                    for remark in about.remarks {
                        warn!(port = port.name, "{remark}");
                    }
                }
                Some(was) if was != up => {
                    let state = if up { "up" } else { "down" };
                    warn!(port = port.name, up, "link {state}");
                }
                Some(_) => {}
            }
        }
    }
}
