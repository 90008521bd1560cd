//! Reloads of a running router, and of several.

use crate::common::{Folder, IDLE, Running, SLOW, complained, get, said, until};

#[test]
fn reload_keeps_counts_and_refuses_wrong_files() {
    let folder = Folder::new();
    let mut router = Running::start(&folder, SLOW, &[]);
    until("packets", || router.count("c.count") > 100);
    let wrong = folder.write(
        "wrong.click",
        "in :: FromDevice(null:64) -> c :: Conter -> Discard;",
    );
    let errors = complained(&router.ask(&["reload", &wrong]), 1);
    assert!(
        errors.contains("wrong.click:1:35: error: unknown element class `Conter`"),
        "{errors}"
    );
    assert!(
        errors.contains("the running configuration is kept"),
        "{errors}"
    );

    let next = SLOW
        .replace("-> u ::", "-> n :: Null -> u ::")
        .replace("Queue(100)", "Queue($N)");
    let next = folder.write("next.click", next);
    let before = router.count("c.count");
    let would = router.tell(&["reload", "--dry-run", &next, "N=50"]);
    let right = "add n\nreconfigure q\nconnect n -> u\nconnect q -> n\ndisconnect q -> u\nkeep 7 elements\n";
    assert_eq!(would, right);
    assert_eq!(router.tell(&["show", "q.capacity"]), "100\n");
    router.tell(&["reload", &next, "N=50"]);
    assert_eq!(router.tell(&["show", "q.capacity"]), "50\n");
    assert!(router.count("c.count") >= before);

    // The router's own file applies again.
    router.log_line("reload");
    router.signal(rustix::process::Signal::HUP);
    let line = router.log_line("reload");
    assert!(line.contains("removed=1"), "{line}");
    folder.write("router.click", "what");
    router.signal(rustix::process::Signal::HUP);
    router.log_line("the running one stays");
    assert_eq!(router.tell(&["show", "q.capacity"]), "100\n");
}

#[test]
fn a_reload_that_cannot_follow_the_kernel_changes_nothing() {
    let folder = Folder::new();
    let taken = testkit::tcp_port();
    let port = taken.local_addr().expect("it is bound").port();
    let router = Running::start(&folder, IDLE, &["--fpm", &port.to_string()]);
    let next = "FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> rt :: LinuxIPLookup(eth0)
        -> Discard; rt[1] -> Discard; rt[2] -> Discard;";
    let next = folder.write("next.click", next);
    let why = complained(&router.ask(&["reload", &next]), 1);
    assert!(why.contains("cannot wait for a routing daemon"), "{why}");
    let runs = || router.tell(&["show", "flatconfig"]);
    assert!(runs().contains("Counter"), "{}", runs());
    assert!(
        router
            .tell(&["top", "--once", "--json"])
            .contains("\"ports\":[]")
    );
    drop(taken);
    router.tell(&["reload", &next]);
    assert!(runs().contains("LinuxIPLookup"), "{}", runs());
}

#[test]
fn a_reload_of_many_routers_that_fails_leaves_all_as_they_were() {
    let folder = Folder::new();
    let section = |name: &str, graph: &str| {
        let file = format!("{name}-{}.click", graph.len());
        folder.write(&file, graph);
        format!("[[router]]\nname = \"{name}\"\ngraph = \"{file}\"\n")
    };
    let red = "FromDevice(pace:20k/null:64) -> c :: Counter -> Discard;";
    let old = section("red", red) + &section("blue", IDLE) + &section("grey", IDLE);
    let file = folder.write("routers.toml", &old);
    let router = Running::start_file(&folder, &file, &[]);
    let ask = |words: &[&str]| said(&router.ask(words));
    let count = || -> u64 {
        let text = ask(&["show", "--router", "red", "c.count"]);
        text.trim().parse().expect("a number")
    };
    until("packets", || count() > 100);
    // Red changes, grey is replaced by another one of its name, blue is removed, and green cannot open its file.
    let missing = "FromDump(/no/such/file) -> Discard;";
    let next = section("red", &red.replace("-> Discard", "-> n :: Null -> Discard"))
        + &section("grey", &IDLE.replace("Idle", "Idle -> n :: Null"))
        + &section("green", missing);
    std::fs::write(&file, next).expect("it is written");
    let before = count();
    let why = complained(&router.ask(&["reload"]), 1);
    assert!(why.contains("nothing has changed: router green"), "{why}");
    let list: serde_json::Value = {
        let answer = get(&router.socket, "/v1/routers");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).expect("it is JSON")
    };
    let names: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|r| &r["name"])
        .collect();
    assert_eq!(names, ["red", "blue", "grey"]);
    assert!(count() >= before, "it was not started anew");
    for name in ["red", "grey"] {
        let text = ask(&["show", "--router", name, "flatconfig"]);
        assert!(!text.contains("Null"), "{text}");
    }
    std::fs::write(&file, old).expect("it is written");
    assert_eq!(
        ask(&["reload", "--dry-run"]),
        "keep router red\nkeep router blue\nkeep router grey\n"
    );
}
