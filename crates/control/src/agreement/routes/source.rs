//! Routes of a namespace's kernel for the cluster. Each server that may lead follows them, so that a new leader has
//! them at once.

use super::gateways::Gateways;
use crate::description::cluster::Description;
use crate::netlink::{Changed, Collector, Netlink};
use agree::routes::{Change, Hops};
use ports::{Named, Namespace};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};
use wire::Prefix;

/// Pause between attempts to follow the kernel.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of changed prefixes that are taken together.
const TOGETHER: usize = 4096;

/// A namespace that was entered when the process still had the right to.
#[derive(Clone, Default)]
pub(crate) struct Opened(Option<Arc<Namespace>>);

impl Opened {
    /// Enters the namespace of a description's routes. If that is not possible, the log says so later.
    pub(crate) fn of(description: Option<&Description>) -> Opened {
        let name = description.and_then(|of| of.namespace.as_deref());
        Opened(name.and_then(|name| Namespace::open(name).ok().map(Arc::new)))
    }

    /// The namespace that was entered.
    pub(crate) fn get(&self) -> Option<&Namespace> {
        self.0.as_deref()
    }

    /// The namespace that this name denotes now. The error is a sentence.
    fn enter(&mut self, name: &str) -> Result<Arc<Namespace>, String> {
        let good = |of: &&Arc<Namespace>| of.name() == name && of.named() != Named::Another;
        if let Some(namespace) = self.0.as_ref().filter(good) {
            return Ok(Arc::clone(namespace));
        }
        let namespace = Arc::new(Namespace::open(name)?);
        self.0 = Some(Arc::clone(&namespace));
        Ok(namespace)
    }
}

/// Routes of the described namespace's kernel.
pub(super) struct Source {
    namespace: Opened,
    news: Arc<Notify>,
    kernel: Option<Kernel>,
    gateways: Option<(Arc<Description>, Gateways)>,
    /// Routes so far, until a leader takes all of them; then it gets changes.
    gathered: Option<BTreeMap<Prefix, Hops>>,
    /// True if all routes are gathered.
    is_complete: bool,
    left_out: BTreeMap<Prefix, String>,
    /// Reason why the kernel is not followed.
    error: Option<String>,
    try_at: Instant,
}

/// A kernel that is followed.
struct Kernel {
    namespace: Arc<Namespace>,
    collector: Arc<Collector>,
    _thread: Netlink,
}

impl Source {
    /// Source without routes. `news` hears that there is something to take.
    pub(super) fn new(namespace: Opened, news: Arc<Notify>) -> Source {
        Source {
            namespace,
            news,
            kernel: None,
            gateways: None,
            gathered: Some(BTreeMap::new()),
            is_complete: false,
            left_out: BTreeMap::new(),
            error: None,
            try_at: Instant::now(),
        }
    }

    /// Follows the kernel of the namespace that a description names.
    pub(super) fn follow(&mut self, described: &Arc<Description>) {
        let known = self.gateways.as_ref();
        if known.is_none_or(|(of, _)| !Arc::ptr_eq(of, described)) {
            self.gateways = Some((Arc::clone(described), Gateways::new(described)));
            if let Some(kernel) = &self.kernel {
                kernel.collector.repeat();
            }
        }
        let name = described.namespace.as_deref().unwrap_or_default();
        let is_there = self.kernel.as_ref().is_some_and(|kernel| {
            kernel.namespace.name() == name && kernel.namespace.named() != Named::Another
        });
        if is_there || Instant::now() < self.try_at {
            return;
        }
        self.try_at = Instant::now() + PAUSE;
        let tried = self.open(name);
        if let Err(why) = &tried
            && self.error.as_ref() != Some(why)
        {
            warn!(
                namespace = name,
                "the kernel's routes cannot be read: {why}; while this server leads, servers keep those that they have"
            );
        }
        self.error = tried.err();
    }

    fn open(&mut self, name: &str) -> Result<(), String> {
        let namespace = self.namespace.enter(name)?;
        let bell = Arc::clone(&self.news);
        let collector = Collector::new(Box::new(move || bell.notify_one()));
        let thread = Netlink::collect(Arc::clone(&collector), Arc::clone(&namespace))?;
        info!(namespace = name, "the cluster's routes are read");
        self.kernel = Some(Kernel {
            namespace,
            collector,
            _thread: thread,
        });
        self.gathered = Some(BTreeMap::new());
        self.is_complete = false;
        self.left_out.clear();
        Ok(())
    }

    /// Follows no kernel.
    pub(super) fn leave(&mut self) {
        self.kernel = None;
        self.gateways = None;
        self.gather_again();
        self.left_out.clear();
        self.error = None;
        self.try_at = Instant::now();
    }

    /// Gathers all routes again, as no leader takes changes any more.
    pub(super) fn gather_again(&mut self) {
        self.gathered = Some(BTreeMap::new());
        self.is_complete = false;
        if let Some(kernel) = &self.kernel {
            kernel.collector.repeat();
        }
    }

    /// Reads some of what has changed. Returns changes for the leader that has taken the others, and true if there is
    /// more to read.
    pub(super) fn read(&mut self) -> (Vec<Change>, bool) {
        let Some(kernel) = &self.kernel else {
            return (Vec::new(), false);
        };
        let (changed, complete) = kernel.collector.take(TOGETHER);
        let more = changed.len() == TOGETHER;
        let changes = self.resolve(changed);
        let Some(gathered) = &mut self.gathered else {
            return (changes, more);
        };
        for (prefix, hops) in changes {
            match hops {
                Some(hops) => gathered.insert(prefix, hops),
                None => gathered.remove(&prefix),
            };
        }
        self.is_complete = complete;
        (Vec::new(), more)
    }

    /// All routes, for a leader that is told changes from now on; `None` if they are not known yet, or taken already.
    pub(super) fn take(&mut self) -> Option<BTreeMap<Prefix, Hops>> {
        self.gathered.take_if(|_| self.is_complete)
    }

    /// True if a leader has taken the routes.
    pub(super) fn is_taken(&self) -> bool {
        self.gathered.is_none()
    }

    /// Time for which the former leader's routes stay, in milliseconds.
    pub(super) fn hold(&self) -> u64 {
        let hold = self
            .gateways
            .as_ref()
            .map_or(0, |(of, _)| of.hold.as_millis());
        u64::try_from(hold).unwrap_or(u64::MAX)
    }

    /// Routes that no server can have, each with the reason.
    pub(super) fn left_out(&self) -> &BTreeMap<Prefix, String> {
        &self.left_out
    }

    /// Reason why the kernel is not followed.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Namespace whose kernel is followed.
    pub(super) fn namespace(&self) -> Option<&Arc<Namespace>> {
        self.kernel.as_ref().map(|kernel| &kernel.namespace)
    }

    /// Name of the namespace that is followed.
    pub(super) fn name(&self) -> &str {
        let kernel = self.kernel.as_ref();
        kernel.map_or("the namespace", |kernel| kernel.namespace.name())
    }

    /// Next hops for the cluster's routes among changed ones.
    fn resolve(&mut self, changed: Vec<Changed>) -> Vec<Change> {
        let mut changes = Vec::with_capacity(changed.len());
        for ((address, length), to) in changed {
            let Some(prefix) = Prefix::new(address, length) else {
                continue;
            };
            let gateways = self.gateways.as_ref();
            let hops = match (to, gateways) {
                (Some(to), Some((_, gateways))) => gateways.hops(prefix, &to).map(Some),
                _ => Ok(None),
            };
            match hops {
                Ok(hops) => {
                    self.left_out.remove(&prefix);
                    changes.push((prefix, hops));
                }
                Err(why) => {
                    self.left_out.insert(prefix, why);
                    changes.push((prefix, None));
                }
            }
        }
        changes
    }
}
