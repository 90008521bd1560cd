//! Scheduling of the kernel's receive work (NAPI) for an interface that a router polls.
//!
//! By default an interrupt starts that work, and it preempts every thread of its core. With more packets than the core
//! can carry, the kernel receives them all, and the worker that should forward them gets no time (receive livelock).
//! Here the work waits for the worker instead:
//!
//! - **AF_XDP**: the worker does it, within its own polls (SO_PREFER_BUSY_POLL). This needs interrupts that are
//!   deferred for a while after each poll: `napi_defer_hard_irqs` and `gro_flush_timeout` of the interface. Where the
//!   kernel cannot do it in polls (a veth since Linux 6.13), a timer does it every 50 us: packets come in groups, and
//!   it runs on the worker's core. A longer interval delayed packets without more throughput; a shorter one reduced the
//!   throughput.
//! - **AF_PACKET** has no such polls. A kernel thread does the work (`threaded`), and the scheduler shares the core
//!   between it and the worker. Packets beyond the capacity of both are dropped at the least cost, in the device's
//!   queue. A veth has NAPI only while it merges packets (GRO).
//!
//! The interface gets its former settings back when its last port is closed. Settings changed by another program stay.

use crate::{ethtool, sys};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use sync::Lock;

/// Files of an interface's folder in /sys, with the values to set where they hold 0.
type Settings = &'static [(&'static str, &'static str)];

/// Interrupts stay off while the worker polls at least every 200 us. They are switched on after two intervals without
/// a poll.
const BY_WORKER: Settings = &[
    ("napi_defer_hard_irqs", "2"),
    ("gro_flush_timeout", "200000"),
];
const BY_TIMER: Settings = &[
    ("napi_defer_hard_irqs", "2"),
    ("gro_flush_timeout", "50000"),
];
const BY_THREAD: Settings = &[("threaded", "1")];

/// Thread or timer that does the receive work of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// The worker: it busy-polls.
    Worker,
    /// A timer of the kernel.
    Timer,
    /// A thread of the kernel.
    Thread,
}

/// Makes the receive work of an interface wait for the worker until this value is dropped.
pub(crate) struct Napi(String, By);

/// Former settings of an interface, and the number of its open ports.
#[derive(Default)]
struct Before {
    ports: usize,
    /// Open files, since a program that gave up root's rights could not open them again.
    files: Vec<File>,
    gro: bool,
}

static BEFORE: Lock<BTreeMap<(String, By), Before>> = Lock::new(BTreeMap::new());

fn former_settings() -> MutexGuard<'static, BTreeMap<(String, By), Before>> {
    BEFORE.lock()
}

impl Napi {
    /// Moves the receive work of an interface to the worker or a thread.
    ///
    /// # Errors
    /// A sentence: the setting is not permitted. The interface works all the same.
    pub(crate) fn arrange(name: &str, by: By) -> Result<Napi, String> {
        let key = (name.to_owned(), by);
        let mut all = former_settings();
        if let Some(known) = all.get_mut(&key) {
            known.ports += 1;
        } else {
            let folder = folder(name)?;
            let mut changed = Before {
                ports: 1,
                ..Before::default()
            };
            if let Err(why) = set(&mut changed, name, &folder, by) {
                changed.undo(name);
                return Err(why);
            }
            all.insert(key, changed);
        }
        Ok(Napi(name.to_owned(), by))
    }
}

impl Drop for Napi {
    fn drop(&mut self) {
        let mut all = former_settings();
        let key = (self.0.clone(), self.1);
        if let Some(known) = all.get_mut(&key) {
            known.ports -= 1;
            if known.ports == 0 {
                known.undo(&self.0);
                all.remove(&key);
            }
        }
    }
}

impl Before {
    /// Restores all settings; does nothing if the interface is gone.
    fn undo(&mut self, name: &str) {
        for file in self.files.drain(..) {
            _ = file.write_at(b"0", 0);
        }
        if self.gro
            && let Ok(socket) = sys::control_socket()
        {
            _ = ethtool::set_gro(&socket, name, false);
        }
    }
}

fn set(changed: &mut Before, name: &str, folder: &Path, by: By) -> Result<(), String> {
    let settings = match by {
        By::Worker => BY_WORKER,
        By::Timer => BY_TIMER,
        By::Thread => {
            changed.gro = give_napi(name)?;
            BY_THREAD
        }
    };
    for (file, value) in settings {
        let path = folder.join(file);
        let refused = |e| {
            format!(
                "overload may leave workers no time, since {} cannot be set ({e}): run `echo {value} > {0}`",
                path.display()
            )
        };
        if fs::read_to_string(&path).map_err(refused)?.trim() == "0" {
            let open = OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(refused)?;
            open.write_at(value.as_bytes(), 0).map_err(refused)?;
            changed.files.push(open);
        }
    }
    Ok(())
}

/// Makes a veth use NAPI; returns true if it did not before.
fn give_napi(name: &str) -> Result<bool, String> {
    let refused = |e| {
        format!(
            "overload may leave workers no time, since GRO of {name} cannot be set ({e}): run `ethtool -K {name} gro \
                on`"
        )
    };
    let socket = sys::control_socket().map_err(refused)?;
    if ethtool::kernel_driver(&socket, name).as_deref() != Some("veth")
        || ethtool::gro(&socket, name)
    {
        return Ok(false);
    }
    ethtool::set_gro(&socket, name, true).map_err(refused)?;
    Ok(true)
}

/// The folder of an interface in /sys. The /sys that is mounted may belong to another network namespace, with an
/// interface of the same name.
fn folder(name: &str) -> Result<PathBuf, String> {
    let folder = Path::new("/sys/class/net").join(name);
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    let here = sys::control_socket().and_then(|socket| sys::interface(&socket, name));
    let same = here.is_ok_and(|here| {
        let mac = here.mac.map(|byte| format!("{byte:02x}")).join(":");
        read("ifindex").trim() == here.index.to_string() && read("address").trim() == mac
    });
    match same {
        true => Ok(folder),
        false => Err(format!(
            "overload may leave workers no time, since /sys does not show {name}: start the program by `ip netns \
             exec`, which mounts /sys of the network namespace"
        )),
    }
}
