//! Network namespaces for tests.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A network namespace of a test's own, which is deleted on drop.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace with a unique name that begins with `prefix`. Fails unless the process runs as root, like
    /// [`root`](crate::root).
    pub fn new(prefix: &str) -> Namespace {
        crate::root();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("{prefix}-{}-{number}", std::process::id());
        ip(&format!("netns add {name}"));
        Namespace { name }
    }

    /// The namespace's name, by which `ip` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in the namespace, with arguments that are separated by blanks. Returns its output; fails if `ip` does.
    pub fn ip(&self, args: &str) -> String {
        ip(&format!("-n {} {args}", self.name))
    }

    /// Runs a program in the namespace, with arguments that are separated by blanks. Returns its output; fails if the
    /// program does.
    pub fn exec(&self, command: &str) -> String {
        ip(&format!("netns exec {} {command}", self.name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let command = ["netns", "delete", &self.name];
        let _ = machine::program("ip").args(command).output();
    }
}

fn ip(args: &str) -> String {
    let done = machine::program("ip")
        .args(args.split_whitespace())
        .output();
    let done = done.expect("ip runs");
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {args}: {why}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}
