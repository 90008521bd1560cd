//! Requirements of tests on the machine, and time limits.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Fails unless the process runs as root. A test that calls this has `needs_root` in its path, so that a user without
/// the rights can leave it out, and libtest counts it as left out.
pub fn root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "only root can make network namespaces and interfaces: run the test as root, \
         or leave out all such tests: cargo test -- --skip needs_root"
    );
}

/// Waits until something holds. Fails after a minute.
pub fn until(what: impl Display, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited a minute in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}
