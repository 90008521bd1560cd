//! A TAP interface in the test's own network namespace, which requires root.

use super::*;
use engine::port::{PortCounter, PortInfo, PortRequest};
use ports::Namespace;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A device whose link state the test sets.
#[derive(Default)]
struct Device {
    is_up: AtomicBool,
    is_settling: AtomicBool,
}

impl Port for Device {
    fn info(&self) -> PortInfo {
        PortInfo::of_process("test", 1)
    }

    fn link_up(&self) -> bool {
        self.is_up.load(Relaxed)
    }

    fn is_settling(&self) -> bool {
        self.is_settling.load(Relaxed)
    }

    fn counters(&self) -> Vec<PortCounter> {
        Vec::new()
    }
}

/// A network namespace, removed when it is dropped.
struct Space(String);

impl Space {
    fn ip(&self, verb: &str) -> bool {
        let command = ["netns", verb, &self.0];
        let done = Command::new("ip").args(command).status();
        done.is_ok_and(|status| status.success())
    }

    /// The carrier now: the interface's flags follow it a second later.
    fn carrier(&self) -> bool {
        let command = ["netns", "exec", &self.0, "cat", "/sys/class/net/t0/carrier"];
        let said = Command::new("ip").args(command).output();
        match &said.expect("it runs").stdout[..] {
            b"0\n" => false,
            b"1\n" => true,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.ip("delete");
    }
}

#[test]
fn carrier_of_a_restarted_router_stays_while_the_other_end_of_its_device_comes_again() {
    testkit::root();
    let space = Space(format!("carrier-{}", std::process::id()));
    assert!(space.ip("add"));
    let request = PortRequest {
        rx_queues: 1,
        tx_queues: 1,
        descriptors: 0,
        promiscuous: false,
    };
    // Like a starting router: it opens the interface that the previous router left.
    let open = || {
        let namespace = Namespace::open(&space.0).expect("it was made");
        let directory = Directory::new().in_namespace(Arc::new(namespace));
        directory.open("tap:t0", &request).expect("there is room");
        let tap = directory.tap("t0").expect("it was opened");
        let follower = TapInterface::adopted(&tap, "t0");
        (directory, tap, follower)
    };
    let device = Device::default();
    device.is_up.store(true, Relaxed);
    let (directory, tap, mut follower) = open();
    follower.follow(&tap, &device, true);
    assert!(space.carrier());
    drop((directory, tap, follower));

    device.is_up.store(false, Relaxed);
    device.is_settling.store(true, Relaxed);
    let (_directory, tap, mut follower) = open();
    follower.follow(&tap, &device, true);
    assert!(space.carrier(), "a loss would end BGP sessions");
    device.is_settling.store(false, Relaxed);
    follower.follow(&tap, &device, true);
    assert!(!space.carrier());
    device.is_up.store(true, Relaxed);
    follower.follow(&tap, &device, true);
    assert!(space.carrier());
}
