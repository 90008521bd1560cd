//! `ashlar run`

use super::{Done, cluster, compile_source, described, print};
use crate::cli::{Balance, Check, LogFormat, Run};
use crate::user;
use control::agreement::Participant;
use control::file::{File, Parsed};
use control::log::Format;
use control::netlink::Listen;
use control::service;
use control::socket::{self, Socket};
use control::text_file::{self, Copies};
use control::user::User;
use control::{
    Base, Common, Process, Runtime, Serve, Source, compile_all, directory, errors_of_all,
    text_of_all,
};
use planner::Registry;
use ports::shared_port::SharedPorts;
use ports::{Directory, Namespace};
use router::Workers;
use router::worker::Idle;
use router::worker::share::Share;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// Subject of a run.
enum What<'a> {
    /// A router whose source is read after the process has given up its rights.
    One(Read<'a>),
    /// The routers of a file.
    Many(Box<(File, Parsed)>),
}

/// Function that reads a router's source.
type Read<'a> = Box<dyn FnOnce(&Run) -> Result<Source, String> + 'a>;

/// Function that starts routers in a process.
type Begin = Box<dyn FnOnce(&Process) -> Done>;

pub(crate) fn run(run: Run, registry: &Registry) -> Done {
    if let Some(last) = service::last_configuration()
        && has_mistakes(&run, registry)
    {
        text_file::read_in_place(last);
        service::runs_the_last(&run.configuration.file);
    }
    text_file::record();
    read_and_run(run, registry)
}

/// True if the configuration on disk cannot run with any devices; prints the mistakes.
fn has_mistakes(run: &Run, registry: &Registry) -> bool {
    let check = Check {
        configuration: run.configuration.clone(),
        workers: run.workers.clone(),
        json: false,
    };
    super::check::check(&check, registry).is_err()
}

fn read_and_run(run: Run, registry: &Registry) -> Done {
    let names = (run.netns.as_deref(), run.name.as_deref());
    match described(&run.configuration, names)? {
        None => {
            let source = |run: &Run| {
                let configuration = &run.configuration;
                Source::read(&configuration.file, definitions(run)?)
            };
            run_source(run, registry, None, source)
        }
        Some((file, parsed)) if parsed.description.is_some() => {
            cluster::run(run, registry, file.source, parsed)
        }
        Some((file, parsed)) => run_what(run, registry, None, What::Many(Box::new((file, parsed)))),
    }
}

/// Definitions of a file and, after them, of the command line.
fn definitions(run: &Run) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    if let Some(path) = &run.definitions_from {
        let failed = |e: String| format!("cannot read {}: {e}", path.display());
        let text = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
        all = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
    }
    all.extend(run.configuration.definitions.iter().cloned());
    Ok(all)
}

/// Runs the configuration that `read` returns. With `agreement` the process is a server of a cluster.
pub(crate) fn run_source(
    run: Run,
    registry: &Registry,
    agreement: Option<Participant>,
    read: impl FnOnce(&Run) -> Result<Source, String>,
) -> Done {
    run_what(run, registry, agreement, What::One(Box::new(read)))
}

fn run_what(run: Run, registry: &Registry, agreement: Option<Participant>, what: What) -> Done {
    let user = run.user.as_deref().map(User::named).transpose()?;
    // This must run before the process has a second thread.
    user.as_ref().map_or(Ok(()), |_| user::no_more_rights())?;
    let format = match run.log_format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    control::log::start(format, run.log_level);
    if let Some(cores) = &run.cores {
        let used = cores.0.iter().take(run.workers.count().into());
        control::leave_to_workers(&used.copied().collect::<Vec<_>>())?;
    }
    // The size must be set before any buffer is made and before the memory of buffers is computed.
    ports::carry_frames(run.frame_bytes.into());
    let sizes = ports::DpdkSizes::with_buffers(run.buffers);
    let mut ports = Directory::with_dpdk_sizes(sizes)
        .with_vdevs(run.vdev.clone())
        .with_names(run.port.iter().cloned().collect())
        .with_queues(service::inherited());
    if !run.share_devices {
        ports = ports.with_claims();
    }
    let mut all = BTreeMap::new();
    match &what {
        What::One(_) => {
            if let Some(name) = &run.netns {
                ports = ports.in_namespace(Arc::new(Namespace::open(name)?));
            }
        }
        // Namespaces are entered before rights are given up. Namespaces that cannot be entered are reported with other
        // mistakes.
        What::Many(described) => {
            let (file, parsed) = &**described;
            let shared_ports = SharedPorts::new(run.workers.count().into());
            shared_ports.commit(&parsed.sharing);
            ports = ports.with_shared_ports(Arc::new(shared_ports));
            for section in &parsed.routers {
                let mut section = section.clone();
                section.netns = section.netns_in(file.netns.as_deref());
                let opened = directory(&ports, &section).map(Arc::new);
                all.insert(section.name, opened);
            }
        }
    }
    let ports = Arc::new(ports);
    let inside = |user: &User| {
        let each = all.values().filter_map(|opened| opened.as_ref().ok());
        let each: Vec<&Directory> = each.map(|ports| &**ports).chain([&*ports]).collect();
        let of_routes = agreement.as_ref().and_then(Participant::namespace);
        become_user(user, &each, of_routes)
    };
    let (at_once, user) = match user {
        Some(user) if user::is_ours(&user) => (Some(user), None),
        user => (None, user),
    };
    // DPDK's threads, which start at the first query of a port, would keep their capabilities.
    at_once.map_or(Ok(()), |user| inside(&user))?;
    let workers = run.workers.count();
    let registry = super::optimizing(registry, &run.configuration);
    let (stem, file, begin): (String, Option<File>, Begin) = match what {
        What::One(read) => {
            let source = read(&run)?;
            let compiled = compile_source(&source, &registry, workers, &*ports, true);
            control::log::write(&compiled.text());
            let plan = compiled.plan.ok_or_else(String::new)?;
            for odd in control::odd_workers(&plan) {
                warn!(to_do = odd.help, "{}", odd.message);
            }
            let (stem, ports) = (source.stem(), Arc::clone(&ports));
            let name = run.name.clone().unwrap_or_else(|| stem.clone());
            let begin = move |process: &Process| {
                let router = process.add(name, source, plan, ports, Share::default());
                router.map(|_| ())
            };
            (stem, None, Box::new(begin))
        }
        What::Many(described) => {
            let (file, mut parsed) = *described;
            let count = (usize::from(workers), true);
            let opened = |section: &control::file::Section| match all.get(&section.name) {
                Some(Ok(ports)) => Ok(Base::new(Arc::clone(ports))),
                Some(Err(why)) => Err(why.clone()),
                None => Err("it has no ports".to_owned()),
            };
            let planned = compile_all(&mut parsed, &registry, count, &file, &opened);
            control::log::write(&text_of_all(&parsed, &planned));
            if errors_of_all(&parsed, &planned) > 0 {
                return Err(String::new());
            }
            let begin = move |process: &Process| {
                let mut each = planned.iter();
                each.try_for_each(|one| process.add_planned(one).map(|_| ()))?;
                planned
                    .iter()
                    .try_for_each(|one| process.follow_isolated(one))
            };
            (file.source.stem(), Some(file), Box::new(begin))
        }
    };
    let read = text_file::take_record();
    text_file::read_in_place(Copies::new());
    // From here on the program must end in order, so that it cleans up.
    let runtime = Runtime::new()?;
    let name = run.name.clone().unwrap_or(stem);
    let socket = match (run.no_socket, &run.socket) {
        (true, _) => None,
        (_, Some(path)) => Some(Socket::bind(path)?),
        _ => Some(Socket::bind(&socket::path_of(&name))?),
    };
    let metrics = run.metrics.map(control::metrics_listener).transpose()?;
    user.map_or(Ok(()), |user| inside(&user))?;
    drop(all);
    let process = start(&run, name, file, registry, ports, begin)?;
    service::keep_configuration(read);
    let serve = Serve {
        socket,
        metrics,
        agreement,
    };
    let ended = runtime.serve(&process, serve)?;
    let books = process.close().map_err(|e| e.text)?;
    info!(reason = ended.words(), "stop");
    if run.report {
        for (router, books) in books {
            let head = router.map(|router| format!("router {router}\n"));
            print(&format!("{}{books}", head.unwrap_or_default()))?;
        }
    }
    Ok(())
}

fn start(
    run: &Run,
    name: String,
    file: Option<File>,
    registry: Registry,
    ports: Arc<Directory>,
    begin: Begin,
) -> Result<Arc<Process>, String> {
    let workers = Workers::start(run.workers.count().into(), &ports::waiter::of_worker)?;
    if run.poll {
        let told = workers.set_idle(Idle::never());
        told.map_err(|error| error.to_string())?;
    }
    if let Some(cores) = &run.cores {
        control::pin(&workers, &cores.0)?;
    }
    let common = Common {
        name,
        registry,
        ports,
        workers,
        seed: run.seed.into(),
        fpm: run.fpm.map(|at| listen(run, at)).transpose()?,
        balance: match run.balance {
            None if run.poll => "even",
            None | Some(Balance::On) => "on",
            Some(Balance::Even) => "even",
            Some(Balance::Off) => "off",
        },
    };
    let process = Process::new(common, file);
    begin(&process)?;
    process.forget_queues_left();
    Ok(Arc::new(process))
}

/// Settings for a routing daemon's connection (FPM).
///
/// # Errors
/// There is no such user, or `--fpm-from` is a loopback address; a sentence.
fn listen(run: &Run, address: SocketAddr) -> Result<Listen, String> {
    let daemon = match &run.fpm_user {
        Some(name) => Some(User::named(name)?),
        // Without a user `frr`, only root may connect.
        None => User::named("frr").ok(),
    };
    if let Some(from) = run.fpm_from.filter(|from| from.is_loopback()) {
        return Err(format!(
            "--fpm-from {from} would let every user of this machine set routes: leave it out for a daemon on this \
             machine, and name its user by --fpm-user"
        ));
    }
    Ok(Listen {
        address,
        users: std::iter::once(0)
            .chain(daemon.map(|user| user.id))
            .collect(),
        from: run.fpm_from,
        stale: Duration::from_secs(run.fpm_stale),
    })
}

/// Drops the rights that the process does not need once it has read its configuration. The threads in routers'
/// namespaces open ports there, and that in the namespace of a cluster's routes makes interfaces. So they keep the
/// rights that this one keeps.
fn become_user(user: &User, ports: &[&Directory], of_routes: Option<&Namespace>) -> Done {
    user::become_for_good(user, |job| {
        let namespaces = ports.iter().filter_map(|ports| ports.namespace());
        let mut namespaces = namespaces.map(|namespace| &**namespace).chain(of_routes);
        namespaces.try_for_each(|namespace| namespace.run(job))
    })
}
