//! Requirements of tests on the machine, and time limits.

use std::fmt::Display;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Fails unless the process runs as root. A test that calls this has `needs_root` in its path. So a user without root
/// can skip it, and libtest counts it as filtered out.
pub fn root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "only root can make network namespaces and interfaces: run the test as root, \
         or leave out all such tests: cargo test -- --skip needs_root"
    );
}

/// Waits until `holds` returns true. Fails after a minute.
pub fn wait_until(what: impl Display, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited a minute in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A TCP port of this host, held until it is dropped. A program that starts later may use its number: it is below the
/// kernel's range for outgoing connections (32768 and more), and no other test gets it.
pub fn tcp_port() -> TcpListener {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Relaxed) + std::process::id() * 61;
        if let Ok(port) = TcpListener::bind(("127.0.0.1", 20_000 + (number % 12_000) as u16)) {
            return port;
        }
    }
}
