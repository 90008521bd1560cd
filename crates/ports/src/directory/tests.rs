use super::*;

#[test]
fn a_device_has_one_identity_whatever_it_is_called() {
    let directory = Directory::new();
    let is = |name: &str| directory.identity(name, Some("red"));
    for name in [
        "eth0",
        "af_packet:eth0",
        "af_xdp:eth0",
        "fault:loss=0.1/eth0",
        "pace:1k/af_packet:eth0",
    ] {
        assert_eq!(is(name).as_deref(), Some("eth0"), "{name}");
    }
    for name in [
        "0000:01:00.0",
        "dpdk:0000:01:00.0",
        "01:00.0",
        "dpdk:01:00.0,x=1",
    ] {
        assert_eq!(is(name), is("0000:01:00.0,x=1"), "{name}");
    }
    assert_ne!(is("tap:eth0"), is("eth0"));
    assert_ne!(is("tap:eth0"), directory.identity("tap:eth0", None));
    assert_ne!(is("pcap:a.pcap"), is("pcap:b.pcap"));
    for name in ["null:", "mem:0", "ring:a"] {
        assert_eq!(is(name), None, "{name}");
    }
}

#[test]
fn name_resolves_to_its_assigned_device() {
    let names = [("wan", "null:64"), ("null:64", "wan")];
    let names = names.map(|(name, device)| (name.to_owned(), device.to_owned()));
    let directory = Directory::new().with_names(names.into());
    assert_eq!(
        directory.probe("wan").map(|info| info.driver),
        Ok("null".to_owned())
    );
    let request = PortRequest {
        rx_queues: 1,
        tx_queues: 0,
        descriptors: 0,
        promiscuous: false,
    };
    assert_eq!(
        directory
            .open("wan", &request)
            .map(|port| port.rx.len())
            .ok(),
        Some(1)
    );
    // A name may stand for a device around the port of the same name.
    let names = [
        ("null:64", "pace:1k/null:64"),
        ("log", "record:/log.pcap/null:"),
    ];
    let names = names.map(|(name, device)| (name.to_owned(), device.to_owned()));
    let around = Directory::new().with_names(names.into());
    assert_eq!(around.identity("null:64", None), None);
    assert!(around.probe("null:64").is_ok());
    assert!(around.open("null:64", &request).is_ok());
    assert!(around.keeps_annotations("log") && !around.keeps_annotations("null:64"));
    let eth0 = Directory::new().with_names([("wan".to_owned(), "af_xdp:eth0".to_owned())].into());
    assert_eq!(eth0.linux_interface("wan").as_deref(), Some("eth0"));
    assert_eq!(eth0.identity("wan", None).as_deref(), Some("eth0"));
}

#[test]
fn a_claim_lasts_as_long_as_its_device_is_open_by_any_name() {
    let device = format!("no-such-{}", std::process::id());
    let directory = Directory::new().with_claims();
    let is_free = || matches!(claim::device(&device), Ok(ClaimResult::Granted(_)));
    let claim = |name: &str| directory.claim_device(name).expect("nobody has it");
    claim(&device);
    // A reload opens what the new text names before it closes the old one.
    let renamed = format!("af_packet:{device}");
    claim(&renamed);
    directory.give_device_back(&device);
    assert!(!is_free());
    claim(&format!("af_xdp:{device}"));
    directory.give_device_back(&renamed);
    assert!(!is_free());
    directory.give_device_back(&format!("fault:loss=0.1/af_xdp:{device}"));
    assert!(is_free());
}

#[test]
fn name_resolves_to_a_resource_of_the_machine() {
    let directory = Directory::new();
    for (name, what) in [
        ("0000:01:00.0", Resource::Card("0000:01:00.0".into())),
        ("dpdk:01:00.0,x=1", Resource::Card("01:00.0".into())),
        ("net_null0", Resource::Dpdk("net_null0".into())),
        ("memif:id=0", Resource::Other),
        (
            "vhost:/run/vm.sock,queues=2",
            Resource::Dpdk("vhost:/run/vm.sock".into()),
        ),
        ("eth0", Resource::Interface("eth0".into())),
        ("pace:1k/af_xdp:eth0", Resource::Xdp("eth0".into())),
        ("tap:eth0", Resource::Tap("eth0".into())),
        ("null:64", Resource::Nothing),
    ] {
        assert_eq!(directory.resource(name), what, "{name}");
    }
}

#[test]
fn a_port_belongs_to_one_router_until_it_is_given_back() {
    let process = Directory::new();
    let [red, blue] = ["red", "blue"].map(|name| process.of_router(name, None));
    red.take("eth0").expect("nobody has it");
    red.take("af_xdp:eth0").expect("it is its own");
    let refused = blue.take("eth0").expect_err("red has it");
    assert_eq!(
        refused,
        "router `red` has eth0, and a port belongs to one router"
    );
    red.release("eth0");
    assert!(blue.take("eth0").is_err(), "red has it by another name");
    red.release("af_xdp:eth0");
    blue.take("eth0").expect("nobody has it");
    // A port that fails to open is given back.
    let request = PortRequest {
        rx_queues: 1,
        tx_queues: 0,
        descriptors: 0,
        promiscuous: false,
    };
    assert!(red.open("pcap:/no/such/folder/a.pcap", &request).is_err());
    assert_eq!(process.open_devices.lock().len(), 1);
}

#[test]
fn unknown_kind_lists_embedded_ports_only_if_there_are_any() {
    let refused = |directory: &Directory| directory.probe("upd:a").expect_err("it is no kind");
    let error = refused(&Directory::new());
    assert!(error.contains("there are fault:"), "{error}");
    let info = PortInfo::of_process("test", 1);
    let embedding = Directory::new().with_port("a", info, |_| (Vec::new(), Vec::new()));
    let error = refused(&embedding);
    assert!(error.contains("there are NAME, fault:"), "{error}");
}
