//! Routers whose code is not trusted: each runs as a process of its own (`isolation = "process"`), confined by `ashlar
//! confine`.
//!
//! The router's ports that it shares with others, and its links, are ports of shared memory in its process (memif). In
//! this process a router with its name, the *gate*, takes packets from the shared port to the memory and back. The gate
//! has the router's share and priority, so that packets beyond the router's share are dropped before they affect other
//! routers, and an isolated router that hangs delays only its own packets. Requests about the router are relayed to its
//! process; `NAME.gate` denotes the gate.

mod count_bounds;
mod folder;
mod group;
pub(crate) mod remote;
mod supervisor;

use crate::compile::gate::Isolated;
use crate::description::file::GATE;
use crate::description::source::Source;
use crate::view::{self, Failure, Info, ReloadReply, ReloadRequest, Stats};
pub(crate) use count_bounds::PlannedNames;
use engine::port::PortDirectory as _;
use ports::Directory;
use remote::RemoteAddress;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use supervisor::Supervisor;
use sync::Lock;
use tracing::warn;

/// Parent folder of a process's isolated routers, writable for root only.
pub fn folder(process: &str) -> PathBuf {
    PathBuf::from("/run/ashlar-isolated").join(process)
}

/// The running isolated routers of this process.
#[derive(Default)]
pub(crate) struct IsolatedRouters {
    running: Lock<BTreeMap<String, Supervisor>>,
    claim: Lock<Option<Claim>>,
}

/// Exclusive lock on a folder, held until this value is dropped.
struct Claim {
    path: PathBuf,
    _locked: File,
}

impl Claim {
    fn of(folder: &Path) -> Result<Claim, String> {
        let path = PathBuf::from(format!("{}.lock", folder.display()));
        let failed = |e: io::Error| format!("cannot use {}: {e}", path.display());
        let mut all = DirBuilder::new();
        let base = folder.parent().unwrap_or(Path::new("/"));
        let all = all.recursive(true).mode(0o711);
        all.create(base).map_err(failed)?;
        loop {
            // Other users must not be able to open the lock file: they could lock it, and block the next process.
            let mut file = OpenOptions::new();
            let file = file.write(true).create(true).truncate(false).mode(0o600);
            let file = file.open(&path).map_err(failed)?;
            file.set_permissions(Permissions::from_mode(0o600))
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(format!(
                        "another process has isolated routers in {}: give this one another --name",
                        folder.display()
                    ));
                }
                Err(e) => return Err(failed(e.into())),
            }
            // The former owner may have removed the file before this process locked it.
            let ours = file.metadata().map_err(failed)?.ino();
            if path.metadata().is_ok_and(|there| there.ino() == ours) {
                return Ok(Claim {
                    path,
                    _locked: file,
                });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl IsolatedRouters {
    fn list(&self) -> MutexGuard<'_, BTreeMap<String, Supervisor>> {
        self.running.lock()
    }

    /// Locks the folder against other processes of the same name.
    ///
    /// # Errors
    ///
    /// The folder cannot be used, or another process has locked it; a message.
    fn claim(&self, folder: &Path) -> Result<(), String> {
        let mut claim = self.claim.lock();
        if claim.is_none() {
            *claim = Some(Claim::of(folder)?);
        }
        Ok(())
    }

    /// Starts an isolated router, or reloads it if it runs. `known` bounds the counts that its process may report.
    ///
    /// # Errors
    ///
    /// The folder cannot be used, the process cannot be started, or it refuses the configuration; a message.
    pub(crate) fn follow(
        &self,
        isolated: &Isolated,
        known: Arc<PlannedNames>,
    ) -> Result<(), String> {
        let name = &isolated.name;
        self.claim(isolated.all())?;
        isolated.write()?;
        let place = match self.list().get(name) {
            Some(running) if running.isolated.starts_like(isolated) => {
                Some(running.isolated.remote_address())
            }
            _ => None,
        };
        if let Some(place) = place {
            // The router's process can stay: it only reloads its file.
            let asked = ReloadRequest::default();
            let reply = remote::reload(&place, &asked, true).map_err(|failure| failure.text);
            return match reply {
                Ok(reply) if reply.good => {
                    self.learn(name, known);
                    Ok(())
                }
                Ok(reply) => Err(format!("router {name} refuses it: {}", reply.text)),
                // A process that does not answer reads the file when it is restarted.
                Err(why) => {
                    warn!(router = name, why, "does not answer");
                    Ok(())
                }
            };
        }
        // The old process must end first, since both use the same folder.
        self.end(name);
        let started = Supervisor::start(isolated.clone(), known)?;
        self.list().insert(name.clone(), started);
        Ok(())
    }

    /// Ends an isolated router, and waits for its process. Returns the arguments of [`follow`](Self::follow) that start
    /// it again; `None` for other routers.
    pub(crate) fn end(&self, name: &str) -> Option<(Isolated, Arc<PlannedNames>)> {
        let gone = self.list().remove(name)?;
        Some((gone.isolated.clone(), Arc::clone(&gone.planned)))
    }

    /// Ends all isolated routers.
    pub(crate) fn end_all(&self) {
        let all = std::mem::take(&mut *self.list());
        all.values().for_each(Supervisor::stop);
        drop(all);
        self.claim.lock().take();
    }

    /// Address of an isolated router's control socket.
    pub(crate) fn remote_address(&self, name: &str) -> Option<RemoteAddress> {
        Some(self.list().get(name)?.isolated.remote_address())
    }

    /// File with an isolated router's saved settings.
    pub(crate) fn saved(&self, name: &str) -> Option<PathBuf> {
        self.list().get(name)?.isolated.saved()
    }

    /// Records the new configuration of an isolated router.
    pub(crate) fn learn(&self, name: &str, known: Arc<PlannedNames>) {
        if let Some(running) = self.list().get_mut(name) {
            running.planned = known;
        }
    }

    /// Number of an isolated router's workers; `None` for other routers.
    pub(crate) fn workers(&self, name: &str) -> Option<usize> {
        Some(self.list().get(name)?.isolated.workers())
    }

    /// The graph of an isolated router.
    pub(crate) fn source(&self, name: &str) -> Option<Source> {
        Some(self.list().get(name)?.isolated.source.clone())
    }

    /// Description and counters of all isolated routers that answer in time.
    pub(crate) fn counts(&self) -> BTreeMap<String, (Info, Stats)> {
        let list = self.list();
        let places = list.iter().map(|(name, of)| {
            let known = Arc::clone(&of.planned);
            (name.clone(), of.isolated.remote_address(), known)
        });
        let places: Vec<(String, RemoteAddress, Arc<PlannedNames>)> = places.collect();
        drop(list);
        // All processes are queried in parallel, so that several hung processes cost one timeout.
        std::thread::scope(|scope| {
            let ask = |(name, place, known): (String, RemoteAddress, Arc<PlannedNames>)| {
                scope.spawn(move || {
                    let (info, stats) = place.counts(known.most_bytes())?;
                    Some((name.clone(), known.filter(name, &info, stats)))
                })
            };
            let asked: Vec<_> = places.into_iter().map(ask).collect();
            let answers = asked.into_iter().filter_map(|thread| thread.join().ok()?);
            answers.collect()
        })
    }

    /// Name of the isolated router whose gate has this name.
    pub(crate) fn of_gate(&self, name: &str) -> Option<String> {
        let router = name.strip_suffix(GATE)?;
        self.list().contains_key(router).then(|| router.to_owned())
    }

    /// Passes link states of shared ports to isolated routers. `ports` returns the ports of a gate.
    pub(crate) fn follow_links(&self, ports: impl Fn(&str) -> Option<Arc<Directory>>) {
        for (name, running) in &*self.list() {
            let Some(ports) = ports(name) else {
                continue;
            };
            for passage in &running.isolated.links {
                let (port, memory) = (ports.get(&passage.name), ports.get(&passage.outside));
                if let (Some(port), Some(memory)) = (port, memory) {
                    memory.port.hold_down(!port.port.link_up());
                }
            }
        }
    }

    /// API description of an isolated router; `None` for other routers.
    pub(crate) fn view(&self, name: &str) -> Option<view::Isolated> {
        let list = self.list();
        let running = list.get(name)?;
        Some(view::Isolated {
            user: running.isolated.user_name.clone(),
            starts: running.starts(),
            running: running.runs(),
        })
    }

    /// Reloads an isolated router from a given text, or from its file.
    pub(crate) fn reload(
        &self,
        name: &str,
        request: &ReloadRequest,
    ) -> Result<ReloadReply, Failure> {
        let found = self.list().get(name).map(|r| r.isolated.clone());
        let gone = || Failure::new(404, format!("router {name} does not run"));
        let isolated = found.ok_or_else(gone)?;
        if request.text.is_none() {
            let refused = |why: String| Failure::new(409, why);
            let source = isolated.source.reread(&request.definitions);
            let mut again = isolated.clone();
            again.source = source.map_err(refused)?;
            again.write().map_err(refused)?;
        }
        remote::reload(&isolated.remote_address(), request, false)
    }
}
