mod needs_root {
    use super::super::*;

    #[test]
    fn interface_speaks_for_a_port_while_it_has_a_carrier() {
        let space = testkit::Namespace::new("tap-setup");
        let namespace = Namespace::open(space.name()).unwrap();
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
        let show = || space.ip("address show dev b-lan");
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
        let all = space.ip("-br link");
        assert!(!all.contains("b-lan"), "{all}");
    }

    #[test]
    fn name_of_an_interface_of_another_kind_is_refused() {
        let space = testkit::Namespace::new("tap-setup");
        space.ip("link add b-lan type veth peer name b-far");
        let setup = TapSetup {
            name: "b-lan".to_owned(),
            mtu: 1500,
            v4: None,
            v6: Vec::new(),
        };
        let namespace = Namespace::open(space.name()).unwrap();
        let why = setup.make(&namespace).err().unwrap();
        assert!(why.contains("an interface b-lan of another kind"), "{why}");
    }
}
