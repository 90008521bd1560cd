//! `ashlar run`

use super::{Done, compile_source, print, say};
use crate::cli::{Balance, LogFormat, Run};
use crate::user::User;
use control::log::Format;
use control::socket::{self, Socket};
use control::{Control, Runtime, Serve, Source, Start};
use engine::plan::{Plan, Registry};
use engine::worker::Idle;
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

pub(crate) fn run(run: Run, registry: &Registry) -> Done {
    let source = |run: &Run| {
        let asked = &run.configuration;
        Source::read(&asked.file, asked.definitions.clone())
    };
    run_source(run, registry, source)
}

/// Runs what `read` finds.
pub(crate) fn run_source(
    run: Run,
    registry: &Registry,
    read: impl FnOnce(&Run) -> Result<Source, String>,
) -> Done {
    let user = run.user.as_deref().map(User::named).transpose()?;
    // Before there is another thread.
    user.as_ref().map_or(Ok(()), |_| User::no_more_rights())?;
    let format = match run.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    control::log::start(format, run.log_level);
    if let Some(cores) = &run.cores {
        let used = cores.0.iter().take(run.workers.count().into());
        control::leave_to_workers(&used.copied().collect::<Vec<_>>())?;
    }
    let sizes = ports::DpdkSizes::with_buffers(run.buffers);
    let mut ports = ports::Directory::with_dpdk_sizes(sizes)
        .with_vdevs(run.vdev.clone())
        .with_queues(control::service::inherited());
    if let Some(name) = &run.netns {
        ports = ports.in_namespace(Arc::new(ports::Namespace::open(name)?));
    }
    let ports = Arc::new(ports);
    let (at_once, user) = match user {
        Some(user) if user.is_ours() => (Some(user), None),
        user => (None, user),
    };
    // DPDK's threads, which begin with the first look at a port, would keep what they have.
    at_once.map_or(Ok(()), |user| become_user(&user, &ports))?;
    let workers = run.workers.count();
    let source = read(&run)?;
    let registry = super::optimizing(registry, &run.configuration);
    let compiled = compile_source(&source, &registry, workers, &*ports, true);
    say(&compiled.text());
    let Some(plan) = compiled.plan else {
        return Err(String::new());
    };
    // From here on there is something to end in order.
    let runtime = Runtime::new()?;
    let name = run.name.clone().unwrap_or_else(|| source.stem());
    let socket = match (run.no_socket, &run.socket) {
        (true, _) => None,
        (_, Some(path)) => Some(Socket::bind(path)?),
        _ => Some(Socket::bind(&socket::path_of(&name))?),
    };
    let metrics = run.metrics.map(control::metrics_listener).transpose()?;
    user.map_or(Ok(()), |user| become_user(&user, &ports))?;
    let control = start(&run, name, source, registry, plan, ports)?;
    let ended = runtime.serve(&control, Serve { socket, metrics })?;
    let books = control.close().map_err(|e| e.text)?;
    info!(reason = ended.words(), "stop");
    if run.report {
        print(&books.to_string())?;
    }
    Ok(())
}

fn start(
    run: &Run,
    name: String,
    source: Source,
    registry: Registry,
    plan: Arc<Plan>,
    ports: Arc<ports::Directory>,
) -> Result<Arc<Control>, String> {
    let control = Control::start(Start {
        name,
        source,
        plan,
        registry,
        ports,
        seed: run.seed,
        fpm: run.fpm.map(|address| control::netlink::Listen {
            address,
            stale: Duration::from_secs(run.fpm_stale),
        }),
    })?;
    let mode = match run.balance {
        None if run.poll => "even",
        None | Some(Balance::On) => "on",
        Some(Balance::Even) => "even",
        Some(Balance::Off) => "off",
    };
    control.balance().set(control.router(), mode)?;
    if run.poll {
        let told = control
            .router()
            .ask_all(|inside| inside.set_idle(Idle::never()));
        told.map_err(|error| error.to_string())?;
    }
    if let Some(cores) = &run.cores {
        control.pin(&cores.0)?;
    }
    Ok(Arc::new(control))
}

/// Gives up what the router does not need once it has read its configuration. The thread in the router's
/// namespace opens ports there, so it keeps what this one keeps.
fn become_user(user: &User, ports: &ports::Directory) -> Done {
    user.become_for_good(|job| match ports.namespace() {
        Some(namespace) => namespace.within(job),
        None => Ok(()),
    })
}
