//! TAP interfaces that stand for a port elsewhere: the program that makes them carries their frames there.

use crate::netns::Namespace;
use crate::sys;
use crate::tap::{self, Layer, Tap};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::Prefix4;

/// Settings of such an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSetup {
    /// Name of the interface.
    pub name: String,
    /// Maximum length of an IP packet in bytes.
    pub mtu: usize,
    /// IPv4 address with its prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 addresses with their prefix lengths. The interface has no others.
    pub v6: Vec<(Ipv6Addr, u8)>,
}

impl TapSetup {
    /// Makes the interface in a namespace. It is up without a carrier, and ends with the value. An existing TAP
    /// interface of the name with several queues is set up and used.
    ///
    /// # Errors
    ///
    /// No permission, no TUN driver, a name that is taken or too long, or an address that the kernel refuses; a
    /// sentence.
    pub fn make(&self, namespace: &Namespace) -> Result<Arc<Tap>, String> {
        let setup = self.clone();
        namespace.run(move || setup.make_here())
    }

    /// Makes the interface in the namespace of the calling thread.
    fn make_here(&self) -> Result<Arc<Tap>, String> {
        let name = &*self.name;
        let wrong = |e: io::Error| tap::failed("tap", name, &e);
        let control = sys::control_socket().map_err(wrong)?;
        let queue = sys::tap(name).map_err(wrong)?;
        self.set(&control)
            .map_err(|(what, e)| format!("cannot set {what} of interface {name}: {e}"))?;
        let parts = tap::parts(Layer::Ether, name, control, vec![queue], (0, 0));
        let (tap, _) = parts.map_err(wrong)?;
        let up = tap.set_carrier(false).and_then(|()| tap.set_up(true));
        up.map_err(|e| format!("cannot bring interface {name} up: {e}"))?;
        Ok(tap)
    }

    fn set(&self, control: &OwnedFd) -> Result<(), (&'static str, io::Error)> {
        let name = &*self.name;
        // No address of the interface's own, no duplicate address detection, no routes by advertisements: the port
        // elsewhere owns the addresses. A kernel without IPv6 lacks these settings.
        for (setting, value) in [
            ("addr_gen_mode", "1"),
            ("accept_dad", "0"),
            ("accept_ra", "0"),
        ] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{setting}"), value);
        }
        sys::set_mtu(control, name, self.mtu).map_err(|e| ("the MTU", e))?;
        if let Some((address, length)) = self.v4 {
            let mask = Prefix4::new(address, length).mask();
            sys::set_address(control, name, address, mask).map_err(|e| ("the IPv4 address", e))?;
        }
        for (address, length) in &self.v6 {
            match sys::add_address6(control, name, *address, *length) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(("an IPv6 address", e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    mod needs_root {
        use super::super::*;
        use std::process::Command;
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

        /// A namespace of the test's own.
        struct Space(String);

        impl Space {
            fn new() -> Space {
                testkit::root();
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let number = NEXT.fetch_add(1, Relaxed);
                let space = Space(format!("tap-setup-{}-{number}", std::process::id()));
                run(&format!("ip netns add {}", space.0));
                space
            }
        }

        impl Drop for Space {
            fn drop(&mut self) {
                let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
            }
        }

        fn run(words: &str) -> String {
            let mut words = words.split(' ');
            let done = Command::new(words.next().unwrap()).args(words).output();
            let done = done.expect("the program runs");
            assert!(
                done.status.success(),
                "{}",
                String::from_utf8_lossy(&done.stderr)
            );
            String::from_utf8_lossy(&done.stdout).into_owned()
        }

        #[test]
        fn interface_speaks_for_a_port_while_it_has_a_carrier() {
            let space = Space::new();
            let namespace = Namespace::open(&space.0).unwrap();
            let setup = TapSetup {
                name: "b-lan".to_owned(),
                mtu: 1400,
                v4: Some(([10, 0, 2, 1].into(), 24)),
                v6: vec![
                    ("fd00:2::1".parse().unwrap(), 64),
                    ("fe80::1".parse().unwrap(), 64),
                ],
            };
            let tap = setup.make(&namespace).unwrap();
            let show = || run(&format!("ip -n {} address show dev b-lan", space.0));
            assert!(show().contains("NO-CARRIER"), "{}", show());
            tap.set_mac([2, 0, 0, 0, 0, 7]).unwrap();
            tap.set_carrier(true).unwrap();
            testkit::wait_until("the carrier", || show().contains("LOWER_UP"));
            let shown = show();
            for part in ["mtu 1400", "02:00:00:00:00:07", "inet 10.0.2.1/24"] {
                assert!(shown.contains(part), "{part}: {shown}");
            }
            // The port's addresses, at once, and no others.
            assert!(
                shown.contains("inet6 fd00:2::1/64") && !shown.contains("tentative"),
                "{shown}"
            );
            assert_eq!(shown.matches("inet6").count(), 2, "{shown}");
            let host = "02:00:00:00:00:09";
            let mut reply = [0; 2048];
            testkit::wait_until("an ARP reply", || {
                assert!(tap.give(&testkit::arp_request(host, "10.0.2.9", "10.0.2.1")));
                let length = tap.take(&mut reply);
                length >= 42 && reply[12..14] == [8, 6] && reply[20..22] == [0, 2]
            });
            assert_eq!(reply[22..28], [2, 0, 0, 0, 0, 7]);
            drop(tap);
            let all = run(&format!("ip -n {} -br link", space.0));
            assert!(!all.contains("b-lan"), "{all}");
        }

        #[test]
        fn name_of_an_interface_of_another_kind_is_refused() {
            let space = Space::new();
            run(&format!(
                "ip -n {} link add b-lan type veth peer name b-far",
                space.0
            ));
            let setup = TapSetup {
                name: "b-lan".to_owned(),
                mtu: 1500,
                v4: None,
                v6: Vec::new(),
            };
            let namespace = Namespace::open(&space.0).unwrap();
            let why = setup.make(&namespace).err().unwrap();
            assert!(why.contains("an interface b-lan of another kind"), "{why}");
        }
    }
}
