//! A server's tables: the cluster's routes beside those of the file.
//!
//! The file's routes, attached networks and the router's own addresses win over a kernel's route to the same prefix:
//! an operator's word, and the way to the gateways themselves. Otherwise the longest prefix wins.

use crate::description::cluster::Description;
use crate::description::cluster::generate::KernelRoutes;
use crate::process::Process;
use crate::running::saved::Given;
use agree::routes::copy::{Copy, Heard};
use agree::routes::message::{Acknowledged, Hello, Message};
use agree::routes::{At, Change, Hops};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;
use tracing::warn;
use wire::Prefix;

/// Maximum number of routes that are written together.
const BATCH: usize = 4096;

/// The cluster's routes on this server.
pub(crate) struct Fib {
    process: Arc<Process>,
    server: String,
    copy: Copy,
    /// Number of the present stream: a message of an earlier one may still be on its way here.
    stream: u64,
    description: Option<Arc<Description>>,
    /// Prefixes of which the file says where they lead.
    own: HashSet<Prefix>,
    /// Routes in the tables.
    written: Arc<Given>,
    /// Routes that should be there and are not.
    missing: HashSet<Prefix>,
    /// True if the log says that routes are missing.
    told: bool,
}

/// Change of a table, as a line of its handler `ctrl`.
struct Line {
    prefix: Prefix,
    text: String,
    sets: bool,
}

impl Fib {
    /// The server's tables, with the file's routes alone.
    pub(crate) fn new(
        process: Arc<Process>,
        server: &str,
        description: Option<Arc<Description>>,
    ) -> Fib {
        let router = process.router(None);
        let written = router.map(|router| Arc::clone(&router.given));
        let mut fib = Fib {
            process,
            server: server.to_owned(),
            copy: Copy::default(),
            stream: 0,
            description: None,
            own: HashSet::new(),
            written: written.unwrap_or_default(),
            missing: HashSet::new(),
            told: false,
        };
        fib.describe(description);
        fib
    }

    /// Description that the server runs; `None` if it cannot be read.
    pub(crate) fn description(&self) -> Option<Arc<Description>> {
        self.description.clone()
    }

    /// Notes an epoch: older leaders are refused from now on.
    pub(super) fn see(&mut self, epoch: u64) {
        self.copy.see(epoch);
    }

    /// All routes of the latest leader; and the state of which they are, if they are exactly its routes.
    pub(super) fn routes_of_leader(&self) -> (Option<At>, BTreeMap<Prefix, Hops>) {
        let routes = self.copy.routes();
        let routes = routes.map(|(prefix, hops)| (*prefix, hops.clone()));
        (self.copy.exact_at(), routes.collect())
    }

    /// Begins a stream: its number, and the server's account of itself.
    pub(super) fn connect(&mut self, identity: &str) -> (u64, Message) {
        self.copy.connect();
        self.stream += 1;
        let hello = Message::Hello(Hello {
            name: self.server.clone(),
            identity: identity.to_owned(),
            seen: self.copy.epoch(),
            at: self.copy.at(),
            exact: self.copy.exact_at().is_some(),
        });
        (self.stream, hello)
    }

    /// Hears a message and writes what differs. Returns the server's account, and true if the leader waits for it.
    ///
    /// # Errors
    ///
    /// The stream must end; a sentence.
    pub(super) fn hear(
        &mut self,
        stream: u64,
        message: Message,
    ) -> Result<(Message, bool), String> {
        if stream != self.stream {
            return Err("another stream has begun".to_owned());
        }
        let Heard {
            changes,
            acknowledge,
        } = self.copy.hear(message)?;
        self.write(changes);
        let account = Acknowledged {
            at: self.copy.at(),
            routes: self.copy.len() as u64,
            missing: self.missing.len() as u64,
        };
        Ok((Message::Acknowledged(account), acknowledge))
    }

    /// Reloads the router by `reload`, and writes the routes as the new description needs them. Nothing else writes
    /// meanwhile.
    pub(crate) fn reload(
        &mut self,
        description: Option<Arc<Description>>,
        reload: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let ends = description.as_ref().is_none_or(|of| of.namespace.is_none());
        if ends {
            // Without a namespace outputs have no names by which routes could follow them.
            self.remove_all();
        }
        let done = reload();
        if done.is_ok() {
            self.describe(description);
        }
        self.write_all();
        done
    }

    fn describe(&mut self, description: Option<Arc<Description>>) {
        self.description = description;
        let prefixes = self.routes().map(|(routes, _)| routes.prefixes());
        let prefixes = prefixes.into_iter().flatten();
        self.own = prefixes.filter_map(|text| text.parse().ok()).collect();
    }

    /// Translator for the server's tables, if the cluster has routes of a kernel.
    fn routes(&self) -> Option<(KernelRoutes<'_>, usize)> {
        let of = self.description.as_deref()?;
        let server = of.server(&self.server).filter(|_| of.namespace.is_some())?;
        Some((KernelRoutes::new(of, server), server))
    }

    fn remove_all(&mut self) {
        let gone: Vec<Change> = {
            let written = self.written.lock();
            written.iter().map(|prefix| (*prefix, None)).collect()
        };
        self.write(gone);
        self.missing.clear();
    }

    /// Writes all routes, as the description may have changed.
    fn write_all(&mut self) {
        // The file says where these lead now, also if they were written before.
        self.written
            .lock()
            .retain(|prefix| !self.own.contains(prefix));
        self.missing.clear();
        let all = self.copy.routes();
        let all: Vec<Change> = all
            .map(|(prefix, hops)| (*prefix, Some(hops.clone())))
            .collect();
        self.write(all);
    }

    /// Writes changes into the tables.
    fn write(&mut self, changes: Vec<Change>) {
        let lines = self.lines(changes);
        for v4 in [true, false] {
            let lines = lines.iter().filter(|line| line.prefix.is_ipv4() == v4);
            let lines: Vec<&Line> = lines.collect();
            for batch in lines.chunks(BATCH) {
                self.write_batch(if v4 { "rt4.ctrl" } else { "rt6.ctrl" }, batch);
            }
        }
        self.tell();
    }

    fn lines(&mut self, changes: Vec<Change>) -> Vec<Line> {
        let (mut lines, mut missing) = (Vec::with_capacity(changes.len()), Vec::new());
        let mut words: HashMap<(bool, Hops), Option<String>> = HashMap::new();
        let routes = self.routes();
        let written = self.written.lock();
        for (prefix, hops) in changes {
            let v4 = prefix.is_ipv4();
            let has = routes.as_ref().is_some_and(|(routes, _)| routes.has(v4));
            let wanted = hops.filter(|_| has && !self.own.contains(&prefix));
            let hops = wanted.as_ref().and_then(|hops| {
                let words = words.entry((v4, hops.clone()));
                let words = words.or_insert_with(|| {
                    let each = hops.iter().map(|hop| {
                        let [server, port, gateway] =
                            [hop.server, hop.port, hop.gateway].map(usize::from);
                        (server, port, gateway, hop.weight)
                    });
                    let each: Vec<_> = each.collect();
                    routes.as_ref()?.0.hops(v4, &each)
                });
                words.clone()
            });
            missing.push((prefix, wanted.is_some() && hops.is_none()));
            match hops {
                Some(hops) => lines.push(Line {
                    prefix,
                    text: format!("set {prefix} {hops}"),
                    sets: true,
                }),
                None if written.contains(&prefix) => lines.push(Line {
                    prefix,
                    text: format!("remove {prefix}"),
                    sets: false,
                }),
                None => {}
            }
        }
        drop((routes, written));
        for (prefix, misses) in missing {
            match misses {
                true => self.missing.insert(prefix),
                false => self.missing.remove(&prefix),
            };
        }
        lines
    }

    fn write_batch(&mut self, handler: &str, lines: &[&Line]) {
        let router = match self.process.router(None) {
            Ok(router) => router,
            Err(_) => return,
        };
        let carry_out = |lines: &[&Line]| {
            let mut text = String::new();
            for line in lines {
                let _ = writeln!(text, "{}", line.text);
            }
            router
                .router()
                .write(handler, &text)
                .map_err(|e| e.to_string())
        };
        let whole = carry_out(lines).is_ok();
        for line in lines {
            // One line that is impossible keeps the others of its batch out.
            let done = whole || carry_out(&[line]).is_ok();
            match (line.sets, done) {
                (true, true) => drop(self.written.lock().insert(line.prefix)),
                // The former route may still be there.
                (true, false) => drop(self.missing.insert(line.prefix)),
                // A route that could not be removed is gone already.
                (false, _) => drop(self.written.lock().remove(&line.prefix)),
            }
        }
    }

    /// Logs that routes are missing; once until none is.
    fn tell(&mut self) {
        let misses = !self.missing.is_empty();
        if misses && !self.told {
            let example = self.missing.iter().next().map(Prefix::to_string);
            warn!(
                missing = self.missing.len(),
                example,
                "routes of the cluster are not in this server's tables: the description that it runs has no such \
                 gateway, or a table is full"
            );
        }
        self.told = misses;
    }
}
