use super::*;
use crate::description::cluster::testing::{TWO, description};

/// Interfaces of a server without ports.
fn without_ports() -> Arc<OfServer> {
    Arc::new(OfServer {
        setups: Vec::new(),
        taps: Vec::new(),
        latest: watch::Sender::new(Some(0)),
    })
}

#[test]
fn a_connection_ends_with_the_next_one_and_with_the_interfaces() {
    let server = without_ports();
    let new = || Attached::new(Arc::clone(&server), &[]);
    let first = new().expect("they are there");
    assert!(first.is_current());
    let second = new().expect("they are there");
    assert!(!first.is_current() && second.is_current());
    server.remove();
    assert!(!second.is_current());
    let refused = new().err();
    assert_eq!(
        refused.as_deref(),
        Some("the leader's interfaces are being replaced")
    );
}

mod needs_root {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn interfaces_are_made_beside_the_caller_and_removed_only_when_all_are_made() {
        let space = testkit::Namespace::new("interfaces");
        let namespace = Arc::new(Namespace::open(space.name()).expect("it was made"));
        let rate = "rate = \"1Gbps\"\n";
        let routes = "[cluster.routes]\nnamespace = \"r\"\ninterfaces = true\n";
        let described = description(&TWO.replace(rate, &format!("{rate}{routes}")));
        let described = Arc::new(described);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        let mut interfaces = Interfaces::default();
        let shared = interfaces.shared();
        let mut follow = |wanted: bool| {
            let of = wanted.then_some((&namespace, &described)).unzip();
            runtime.block_on(interfaces.follow(of.0, of.1));
            interfaces.is_making()
        };

        // The task waits for this lock, and nobody waits for the task. If one did, the lock would be released late.
        let (lock_taken, is_taken) = mpsc::channel();
        let (keep_lock, lock_kept) = mpsc::channel::<()>();
        let of_task = Arc::clone(&shared);
        let holder = thread::spawn(move || {
            let _lock = of_task.lock();
            lock_taken.send(()).expect("the test waits");
            lock_kept.recv_timeout(Duration::from_secs(20))
        });
        is_taken.recv().expect("the lock");
        assert!(follow(true));
        assert!(follow(false), "interfaces that are made later would stay");
        drop(keep_lock);
        let released = holder.join().expect("it does not panic");
        assert_eq!(released, Err(mpsc::RecvTimeoutError::Disconnected));
        testkit::wait_until("the interfaces", || !follow(true));
        let names: Vec<String> = shared.lock().keys().cloned().collect();
        assert_eq!(names, ["a", "b"]);
        assert!(!follow(false));
        assert!(shared.lock().is_empty());
    }
}
