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
