//! A TAP interface in the test's own network namespace, which requires root.

use super::*;
use engine::port::{PortCounter, PortInfo, PortRequest};
use ports::Namespace;
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

/// Carrier of `t0` now: the interface's flags follow it a second later.
fn carrier(space: &testkit::Namespace) -> bool {
    match &*space.exec("cat /sys/class/net/t0/carrier") {
        "0\n" => false,
        "1\n" => true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn carrier_of_a_restarted_router_stays_while_the_other_end_of_its_device_comes_again() {
    let space = testkit::Namespace::new("carrier");
    let request = PortRequest {
        rx_queues: 1,
        tx_queues: 1,
        descriptors: 0,
        promiscuous: false,
    };
    // Like a starting router: it opens the interface that the previous router left.
    let open = || {
        let namespace = Namespace::open(space.name()).expect("it was made");
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
    assert!(carrier(&space));
    drop((directory, tap, follower));

    device.is_up.store(false, Relaxed);
    device.is_settling.store(true, Relaxed);
    let (_directory, tap, mut follower) = open();
    follower.follow(&tap, &device, true);
    assert!(carrier(&space), "a loss would end BGP sessions");
    device.is_settling.store(false, Relaxed);
    follower.follow(&tap, &device, true);
    assert!(!carrier(&space));
    device.is_up.store(true, Relaxed);
    follower.follow(&tap, &device, true);
    assert!(carrier(&space));
}
