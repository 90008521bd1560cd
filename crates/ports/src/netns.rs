//! Network namespaces other than the one that the process was started in.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use sync::Lock;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, with a thread that has entered it and stays: entering takes CAP_SYS_ADMIN, which
/// the process may give up afterwards. Sockets and interfaces belong to the namespace in which they are made,
/// whichever thread uses them then.
pub struct Namespace {
    name: String,
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
    jobs: Lock<Sender<Job>>,
}

/// Namespace that a name denotes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The namespace that was entered.
    Same,
    /// The name denotes no namespace; the namespace that was entered lives on without a name.
    Nothing,
    /// The name denotes another namespace, made since then.
    Another,
}

impl Namespace {
    /// Enters the namespace `/run/netns/NAME`, or that of a path such as `/proc/1/ns/net`.
    ///
    /// # Errors
    /// A sentence: there is none, or no permission to enter it.
    pub fn open(name: &str) -> Result<Namespace, String> {
        let path = match name.contains('/') {
            true => PathBuf::from(name),
            false => PathBuf::from("/run/netns").join(name),
        };
        let failed = |e: io::Error| explain(name, &e);
        let file = File::open(&path).map_err(failed)?;
        let id = id(&file.metadata().map_err(failed)?);
        let (jobs, inbox) = channel::<Job>();
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().name("netns".into());
        let inside = move || {
            let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
            let good = entered.is_ok();
            // The caller of `open` waits for this.
            let _ = tell.send(entered);
            if good {
                inbox.iter().for_each(|job| job());
            }
        };
        thread.spawn(inside).map_err(failed)?;
        match told.recv() {
            Ok(Ok(())) => Ok(Namespace {
                name: name.to_owned(),
                path,
                id,
                jobs: Lock::new(jobs),
            }),
            Ok(Err(e)) => Err(failed(e.into())),
            Err(_) => Err(format!("cannot enter network namespace {name}")),
        }
    }

    /// Name or path by which the namespace was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Namespace that the name denotes now.
    pub fn named(&self) -> Named {
        // The namespace of a process may end with it, and the process's number may go to another one.
        if self.path.starts_with("/proc") {
            return Named::Same;
        }
        match self.path.metadata().map(|now| id(&now)) {
            Ok(now) if now == self.id => Named::Same,
            // All namespace files have one device number. While a namespace is made or deleted, the path is a file on
            // another device.
            Ok((device, _)) if device == self.id.0 => Named::Another,
            _ => Named::Nothing,
        }
    }

    /// Runs `job` in the namespace, on its thread, one at a time, and returns its result.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        let job = move || {
            let done = catch_unwind(AssertUnwindSafe(job));
            // The caller waits for this.
            let _ = tell.send(done);
        };
        let jobs = self.jobs.lock();
        let alive = "its thread ends with the namespace only";
        jobs.send(Box::new(job)).expect(alive);
        drop(jobs);
        told.recv()
            .expect(alive)
            .unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn explain(name: &str, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no network namespace {name}: make it with `ip netns add {name}`, or give a path"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "no permission to enter network namespace {name}: run as root or give CAP_SYS_ADMIN"
        ),
        _ => format!("cannot enter network namespace {name}: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_namespace_is_reported_with_a_remedy() {
        let error = Namespace::open("no-such-ns").err().expect("there is none");
        assert!(error.contains("ip netns add no-such-ns"), "{error}");
    }

    mod needs_root {
        use super::*;

        #[test]
        fn a_job_runs_on_the_namespaces_thread_and_its_panic_reaches_the_caller() {
            testkit::root();
            let own = Namespace::open("/proc/self/ns/net").unwrap_or_else(|e| panic!("{e}"));
            let name = || std::thread::current().name().map(str::to_owned);
            assert_eq!(own.run(name).as_deref(), Some("netns"));
            let panicked = catch_unwind(AssertUnwindSafe(|| own.run(|| panic!("of the job"))));
            assert!(panicked.is_err());
            assert_eq!(own.run(|| 7), 7);
        }
    }
}
