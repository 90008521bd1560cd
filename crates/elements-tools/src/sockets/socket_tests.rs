use testkit::{Bench, tcp_port};

/// A free port of this host.
fn port() -> u16 {
    tcp_port().local_addr().expect("it is bound").port()
}

/// A file for a socket of this process.
fn file(name: &str) -> String {
    let name = format!("ashlar-socket-{}-{name}", std::process::id());
    std::env::temp_dir().join(name).display().to_string()
}

fn bench(config: &str) -> Bench {
    let text = format!("in :: Null -> s :: Socket({config}) -> out :: Collect");
    Bench::new(crate::with_basics(), &text)
}

/// Runs both until `to` has received `bytes` bytes. Returns them as one stream.
fn carry(from: &mut Bench, to: &mut Bench, bytes: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..1_000_000 {
        from.run();
        to.run();
        all.extend(to.take("out").concat());
        if all.len() >= bytes {
            return all;
        }
        std::thread::yield_now();
    }
    panic!("{} bytes have come, not {bytes}", all.len());
}

/// A server and a client exchange packets; the client sends first.
fn talk(server: &str, client: &str) {
    let mut server = bench(server);
    let mut client = bench(client);
    client.push("in", &[b"ask".to_vec(), b"more".to_vec()]);
    assert_eq!(carry(&mut client, &mut server, 7), b"askmore");
    server.push("in", &[b"answer"]);
    assert_eq!(carry(&mut server, &mut client, 6), b"answer");
    assert_eq!(
        (server.read("s.sent"), client.read("s.sent")),
        ("1".into(), "2".into())
    );
}

#[test]
fn servers_and_clients_of_all_types_talk() {
    for kind in ["TCP", "UDP"] {
        let at = format!("{kind}, 127.0.0.1, {}", port());
        talk(&at, &format!("{at}, CLIENT true"));
        talk(&at, &format!("{at}, 127.0.0.1"));
    }
    let (a, b) = (file("a"), file("b"));
    talk(&format!("UNIX, {a}"), &format!("UNIX, {a}, CLIENT true"));
    // The server's file is removed with it, and an old file is replaced.
    assert!(!std::path::Path::new(&a).exists());
    drop(std::os::unix::net::UnixListener::bind(&a));
    talk(&format!("UNIX, {a}"), &format!("UNIX, {a}, CLIENT true"));
    talk(
        &format!("UNIX_DGRAM, {a}"),
        &format!("UNIX_DGRAM, {a}, {b}"),
    );
}

#[test]
fn a_server_takes_the_next_client_when_one_has_gone() {
    let at = format!("TCP, 127.0.0.1, {}", port());
    let mut server = bench(&at);
    for word in ["one", "two"] {
        let mut client = bench(&format!("{at}, CLIENT true"));
        client.push("in", &[word]);
        assert_eq!(carry(&mut client, &mut server, 3), word.as_bytes());
        server.push("in", &[word]);
        assert_eq!(carry(&mut server, &mut client, 3), word.as_bytes());
    }
    server.run();
    server.push("in", &[b"to nobody"]);
    server.run();
    assert_eq!(server.drops("s", "refused"), 1);
}

#[test]
fn a_stream_loses_and_changes_nothing_when_its_buffers_are_full() {
    let at = format!("TCP, 127.0.0.1, {}", port());
    let mut server = bench(&format!("{at}, RCVBUF 4096, SNAPLEN 700"));
    let mut client = bench(&format!("{at}, CLIENT true, SNDBUF 4096"));
    let packets: Vec<Vec<u8>> = (0..900u32)
        .map(|i| (0..1000).map(|k| (i * 7 + k) as u8).collect())
        .collect();
    client.push("in", &packets);
    client.run();
    assert!(client.graph().held_by(1) > 0, "some must wait");
    let came = carry(&mut client, &mut server, 900_000);
    assert!(came == packets.concat());
    assert!(client.all_drops().is_empty());
}

#[test]
fn packets_beyond_the_waiting_limit_are_dropped_under_a_name() {
    let at = format!("TCP, 127.0.0.1, {}", port());
    let _server = bench(&at);
    let mut client = bench(&format!("{at}, CLIENT true, SNDBUF 4096"));
    for _ in 0..20 {
        client.push("in", &vec![[0; 2000]; 1024]);
        client.run();
    }
    assert!(client.drops("s", "full") > 0);
}

#[test]
fn a_client_of_no_address_sends_to_the_annotation() {
    let port = port();
    let mut server = bench(&format!("UDP, 127.0.0.1, {port}"));
    let mut client = Bench::new(
        crate::with_basics(),
        &format!(
            "in :: SetIPAddress(127.0.0.1) -> s :: Socket(UDP, 0.0.0.0, {port}); out :: Idle -> Discard"
        ),
    );
    client.push("in", &[b"there"]);
    assert_eq!(carry(&mut client, &mut server, 5), b"there");
}

#[test]
fn a_connection_outlives_a_reload() {
    let at = format!("TCP, 127.0.0.1, {}", port());
    let mut server = bench(&at);
    let mut client = bench(&format!("{at}, CLIENT true"));
    client.push("in", &[b"1"]);
    assert_eq!(carry(&mut client, &mut server, 1), b"1");
    let text = format!("in :: Null -> s :: Socket({at}) -> out :: Collect; Idle -> Discard");
    server.reload(&text).expect("it fits");
    server.push("in", &[b"2"]);
    assert_eq!(carry(&mut server, &mut client, 1), b"2");
}

#[test]
fn mistakes_are_reported_with_remedies() {
    let errors = testkit::errors(crate::with_basics(), "Socket(SCTP, 1.2.3.4, 5)");
    assert!(errors.contains("write TCP, UDP, UNIX"), "{errors}");
    let at = format!("TCP, 127.0.0.1, {}", port());
    let refused = std::panic::catch_unwind(|| bench(&format!("{at}, CLIENT true")));
    let told = refused.err().expect("nobody listens");
    let told = told.downcast::<String>().expect("a text");
    assert!(told.contains("start the server first"), "{told}");
}

#[test]
fn a_server_listens_only_to_whom_it_may() {
    let tables = "allow :: RadixIPLookup(127.0.0.9/32 0); deny :: RadixIPLookup(127.0.0.0/8 0);
        allow -> deny -> allow;";
    for (client, heard) in [("127.0.0.9", true), ("127.0.0.8", false)] {
        for kind in ["UDP", "TCP"] {
            let at = format!("{kind}, 127.0.0.1, {}", port());
            let server = format!("{at}, ALLOW allow, DENY deny");
            let text = format!("{tables} in :: Null -> s :: Socket({server}) -> out :: Collect");
            let mut server = Bench::new(crate::with_basics(), &text);
            let mut client = bench(&format!("{at}, {client}"));
            client.push("in", &[b"ask"]);
            if heard {
                assert_eq!(carry(&mut client, &mut server, 3), b"ask");
            } else if kind == "UDP" {
                while server.drops("s", "denied") == 0 {
                    client.run();
                    server.run();
                }
            } else {
                // The server closes the connection, so that later packets are refused.
                while client.drops("s", "refused") == 0 {
                    client.push("in", &[b"more"]);
                    client.run();
                    server.run();
                }
            }
            assert!(server.take("out").is_empty());
        }
    }
    let text = "c :: Counter -> Discard; Socket(UDP, 0.0.0.0, 1, ALLOW c) -> Discard";
    let errors = testkit::errors(crate::with_basics(), text);
    assert!(errors.contains("ALLOW must be an IPRouteTable"), "{errors}");
}
