//! An operator's daily work: routes, rules, reloads, saved settings, and the output of commands.

use crate::common::{Folder, Running, capture, complained, conf, run, said};
use std::path::Path;

#[test]
fn routes_are_written_and_shown_with_interfaces() {
    let folder = Folder::new();
    let text = "rt :: DirectIPLookup(10.0.1.0/24 0, 10.0.2.0/24 1, NOROUTE 2);
        FromDevice(mem:9) -> Strip(14) -> CheckIPHeader -> rt;
        rt[0] -> Unstrip(14) -> Queue -> ToDevice(mem:0); rt[1] -> Unstrip(14) -> ToDevice(mem:1); rt[2] -> Discard;";
    let router = Running::start(&folder, text, &[]);
    router.tell(&["set", "rt.add", "203.0.113.0/24 via 10.0.2.254 dev mem:1"]);
    router.tell(&["set", "rt.add", "198.51.100.0/24 via 10.0.1.254"]);
    router.tell(&[
        "set",
        "rt.add",
        "default via 10.0.1.9 | via 10.0.2.9 weight 3",
    ]);
    router.tell(&["set", "rt.set", "192.0.2.0/24 output 1"]);
    let routes = router.tell(&["show", "rt.routes"]);
    for line in [
        "0.0.0.0/0 via 10.0.1.9 dev mem:0 | via 10.0.2.9 dev mem:1 weight 3",
        "10.0.1.0/24 dev mem:0",
        "192.0.2.0/24 dev mem:1",
        "198.51.100.0/24 via 10.0.1.254 dev mem:0",
        "203.0.113.0/24 via 10.0.2.254 dev mem:1",
    ] {
        assert!(
            routes.lines().any(|known| known == line),
            "{line}:\n{routes}"
        );
        // Every printed line can be written back.
        router.tell(&["set", "rt.set", line]);
    }
    assert_eq!(router.tell(&["show", "rt.routes"]), routes);
    let asked = router.tell(&["show", "rt.lookup", "203.0.113.7"]);
    assert_eq!(asked, "203.0.113.0/24 via 10.0.2.254 dev mem:1\n");
    router.tell(&["set", "rt.remove", "default"]);
    let asked = router.tell(&["show", "rt.lookup", "9.9.9.9"]);
    assert_eq!(asked, "no route: packets leave by output 2\n");
    let refused = |value: &str| complained(&router.ask(&["set", "rt.add", value]), 1);
    assert!(
        refused("9.0.0.0/8 via 10.0.1.9 dev mem:2")
            .contains("no output leads to `mem:2` alone; there are: mem:0, mem:1")
    );
    assert!(
        refused("9.0.0.0/8 via 10.0.1.9 dev mem:1")
            .contains("10.0.1.9 is on no network attached to mem:1")
    );
    assert!(refused("9.0.0.0/8 via 10.0.9.9").contains("10.0.9.9 is on no attached network"));
    assert!(refused("9.0.0.0/8 by 10.0.9.9 dev mem:0").contains("a route is written"));
    let told = router.tell(&["set", "rt.add", "9.0.0.0/8 10.0.9.9 1"]);
    assert!(
        told.starts_with("warning: 10.0.9.9 is on no network attached to mem:1"),
        "{told}"
    );
    let told = router.tell(&[
        "set",
        "rt.ctrl",
        "add 9.1.0.0/16 10.0.2.9 1\nremove 9.0.0.0/8 via 10.0.9.9 dev mem:1",
    ]);
    assert!(told.is_empty(), "{told}");
}

#[test]
fn both_tables_of_ip_router_know_the_same_interfaces() {
    let folder = Folder::new();
    let file = conf("ip-router.click");
    let router = Running::start_file(&folder, &file, &["DEV0=mem:0", "DEV1=mem:1"]);
    for (table, gateway) in [
        ("rt4", "10.0.2.254"),
        ("rt6", "fd00:2::254"),
        ("rt6", "fe80::9"),
    ] {
        router.tell(&[
            "set",
            &format!("{table}.set"),
            &format!("default via {gateway} dev mem:1"),
        ]);
        let asked = router.tell(&[
            "show",
            &format!("{table}.lookup"),
            if table == "rt4" { "9.9.9.9" } else { "2001::9" },
        ]);
        assert!(
            asked.ends_with(&format!(" via {gateway} dev mem:1\n")),
            "{asked}"
        );
        assert!(
            router
                .tell(&["show", &format!("{table}.table")])
                .contains("\t2\n")
        );
    }
}

#[test]
fn reload_reports_changes_and_keeps_the_own_file() {
    let folder = Folder::new();
    let own = "Idle -> c :: Counter -> q :: Queue(10) -> Discard;";
    let mut router = Running::start(&folder, own, &[]);
    let own = folder.path("router.click");
    let other = folder.write(
        "other.click",
        "Idle -> c :: Counter -> Null -> q :: Queue(20) -> Discard;",
    );
    let told = router.tell(&["reload", &other]);
    let first = format!("{other}: 1 added, 0 removed, 1 reconfigured, 3 kept\n");
    assert!(told.starts_with(&first), "{told}");
    assert!(
        told.contains(&format!(
            "it runs until the next reload without a file, SIGHUP or restart, which read {own}"
        )),
        "{told}"
    );
    let shown = complained(&router.ask(&["show"]), 0);
    assert!(
        shown.contains(&format!("{other} runs; the next reload")),
        "{shown}"
    );
    let told = router.tell(&["reload"]);
    assert_eq!(
        told,
        format!("{own}: 0 added, 1 removed, 1 reconfigured, 3 kept\n")
    );
    assert_eq!(complained(&router.ask(&["show"]), 0), "");
    router.tell(&["reload", &other]);
    // Reads the log up to this reload, as the line of the signal below names the same file as an earlier line.
    for file in [&other, &own, &other] {
        router.log_line(&format!("configuration=\"{file}\""));
    }
    router.signal(rustix::process::Signal::HUP);
    router.log_line(&format!("configuration=\"{own}\""));
    assert_eq!(router.tell(&["show", "q.capacity"]), "10\n");
}

#[test]
fn anonymous_elements_keep_their_names_and_counts_across_a_reload() {
    let folder = Folder::new();
    let text = "a :: Null; b :: Null;
        FromDevice(mem:0) -> Counter -> a -> Counter -> b -> Counter -> { input -> Counter -> output } -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let names = |class: &str| -> Vec<String> {
        let list = router.tell(&["show"]);
        let lines = list
            .lines()
            .filter(|line| line.contains(&format!(":: {class} ")));
        lines
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    };
    let before = names("Counter");
    assert_eq!(before.len(), 4);
    // One more rule before all others, and one between.
    let more = text
        .replace(
            "FromDevice(mem:0) -> ",
            "FromDevice(mem:0) -> Null -> Counter -> Counter(COUNT_CALL 9 stop) -> ",
        )
        .replace("-> a -> Counter -> b", "-> a -> Counter -> Null -> b");
    let more = more.replacen("-> Counter -> Counter(", "-> Counter(", 1);
    let file = folder.write("more.click", more);
    let told = router.tell(&["reload", &file]);
    assert!(
        told.contains(": 3 added, 0 removed, 0 reconfigured, 8 kept\n"),
        "{told}"
    );
    let after = names("Counter");
    assert_eq!(after.len(), 5);
    assert!(
        before.iter().all(|name| after.contains(name)),
        "{before:?} {after:?}"
    );
    // The added elements are removed again.
    let told = router.tell(&["reload"]);
    assert!(
        told.contains(": 0 added, 3 removed, 0 reconfigured, 8 kept\n"),
        "{told}"
    );
    assert_eq!(names("Counter"), before);
}

#[test]
fn saved_settings_survive_a_restart() {
    let folder = Folder::new();
    let text = "rt :: DirectIPLookup(10.0.1.0/24 0, 10.0.2.0/24 1, 10.0.3.0/24 1);
        FromDevice(mem:9) -> Strip(14) -> CheckIPHeader -> rt;
        rt[0] -> Unstrip(14) -> Queue -> ToDevice(mem:0); rt[1] -> Unstrip(14) -> ToDevice(mem:1);";
    let router = Running::start(&folder, text, &[]);
    let told = router.tell(&["save"]);
    assert!(told.starts_with("everything is as configured"), "{told}");
    router.tell(&["set", "rt.add", "203.0.113.0/24 via 10.0.2.254 dev mem:1"]);
    router.tell(&[
        "set",
        "rt.add",
        "198.51.100.0/24 via 10.0.2.4 dev mem:1 | via 10.0.2.2 dev mem:1",
    ]);
    router.tell(&["set", "rt.remove", "10.0.3.0/24"]);
    let routes = router.tell(&["show", "rt.routes"]);
    let told = router.tell(&["save"]);
    let saved = folder.path("router.saved");
    assert!(
        told.starts_with("3 changes in ") && told.contains("router.saved"),
        "{told}"
    );
    drop(router);
    let router = Running::start(&folder, text, &[]);
    assert_eq!(router.tell(&["show", "rt.routes"]), routes);
    drop(router);
    // A line that no longer applies is left out with a warning.
    let mut lines = std::fs::read_to_string(&saved).expect("it is written");
    lines.insert_str(
        0,
        "rt.ctrl add 9.0.0.0/8 dev eth7\ngone.ctrl add 1.0.0.0/8 1\n",
    );
    folder.write("router.saved", lines);
    let router = Running::start(&folder, text, &[]);
    assert_eq!(router.tell(&["show", "rt.routes"]), routes);
    router.tell(&[
        "set",
        "rt.ctrl",
        "remove 203.0.113.0/24\nremove 198.51.100.0/24\nadd 10.0.3.0/24 dev mem:1",
    ]);
    let told = router.tell(&["save"]);
    assert!(
        told.contains("which is removed") && !Path::new(&saved).exists(),
        "{told}"
    );
}

#[test]
fn printing_commands_print_json_with_the_same_counts() {
    let folder = Folder::new();
    let text = "FromDevice(pace:20k/null:64, PROMISCUOUS true) -> c :: Counter -> Queue(50) -> Unqueue -> Discard; k \
        :: Idle -> q :: Queue(7) -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let json = |words: &[&str]| -> serde_json::Value {
        let said = router.tell(words);
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{words:?}: {e}: {said}"))
    };
    assert_eq!(json(&["show", "q.capacity", "--json"])["value"], "7");
    assert!(json(&["show", "--json"]).is_array());
    assert_eq!(
        json(&["set", "--json", "c.reset", ""])["handler"],
        "c.reset"
    );
    assert_eq!(json(&["save", "--json"])["changes"], 0);
    assert_eq!(json(&["reload", "--json"])["good"], true);
    assert_eq!(json(&["show", "q", "--json"])["capacity"], "7");
    let page: serde_json::Value =
        serde_json::from_str(&said(&run(&["doc", "Queue", "--json"]))).expect("it is JSON");
    assert!(
        page["page"]
            .as_str()
            .is_some_and(|page| page.starts_with("# Queue"))
    );
    for count in ["-n", "-c", "--count"] {
        let packets = router.tell(&["capture", "c", count, "3", "--json"]);
        assert_eq!(packets.lines().count(), 3);
        let first: serde_json::Value =
            serde_json::from_str(packets.lines().next().unwrap_or_default()).expect("JSON");
        assert_eq!(first["length"], 64);
        assert_eq!(
            json(&["trace", count, "2", "--json"])
                .as_array()
                .map(Vec::len),
            Some(2)
        );
    }
    assert_eq!(
        json(&["trace", "2", "--json"]).as_array().map(Vec::len),
        Some(2)
    );
    // An empty answer is not a failure.
    let idle = Folder::new();
    let quiet = Running::start(&idle, "Idle -> c :: Counter -> Discard;", &[]);
    assert_eq!(
        quiet.tell(&["trace", "--json", "--seconds", "1"]).trim(),
        "[]"
    );
    assert!(
        complained(&quiet.ask(&["trace", "--seconds", "1"]), 0)
            .contains("no packet came within 1 s")
    );
    assert_eq!(json(&["stop", "--json"])["stopped"], true);
    router.end();
}

#[test]
fn help_is_a_command() {
    let text = said(&run(&["help"]));
    assert!(
        text.contains("Usage: ashlar") && text.contains("\n  save "),
        "{text}"
    );
    assert!(said(&run(&["help", "trace"])).contains("Follow packets"));
}

#[test]
fn trace_shows_the_time_of_each_step() {
    let folder = Folder::new();
    let text =
        "FromDevice(pace:20k/null:64) -> Counter -> CheckLength(2000) -> Counter -> Discard;";
    let router = Running::start(&folder, text, &[]);
    let packets: serde_json::Value =
        serde_json::from_str(&router.tell(&["trace", "5", "--json"])).expect("JSON");
    for packet in packets.as_array().expect("a list") {
        let steps = packet["steps"].as_array().expect("a list");
        let times: Vec<u64> = steps
            .iter()
            .filter_map(|step| step["time_ns"].as_u64())
            .collect();
        assert!(
            times.len() >= 4 && times.is_sorted() && times.first() < times.last(),
            "{times:?}"
        );
    }
}

#[test]
fn rules_of_a_firewall_are_seen_and_changed_by_number_and_by_name() {
    let folder = Folder::new();
    let text = rules_of(&folder);
    let router = Running::start(&folder, &text, &[]);
    let shown = || router.tell(&["show", "fw.rules"]);
    let bound = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !shown().contains("20  allow udp") {
        assert!(std::time::Instant::now() < bound, "{}", shown());
    }
    router.tell(&[
        "set",
        "fw.add",
        "before ssh web: allow tcp dst port 80 and syn",
    ]);
    router.tell(&["set", "fw.remove", "0"]);
    router.tell(&["set", "fw.remove", "ssh"]);
    let text = shown();
    let rules: Vec<(&str, &str)> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.trim().split_once(' ')?.1.trim().split_once("  "))
        .collect();
    let right = [
        ("0", "web: allow tcp dst port 80 and syn"),
        ("20", "allow udp"),
        ("0", "(no rule: dropped)"),
        ("0", "(bad headers: dropped)"),
    ];
    assert_eq!(rules, right);
    let wrong = complained(&router.ask(&["set", "fw.add", "allow tpc"]), 1);
    assert!(wrong.contains("unknown word `tpc`"), "{wrong}");
    let wrong = complained(&router.ask(&["set", "fw.remove", "wbe"]), 1);
    assert!(wrong.contains("did you mean `web`?"), "{wrong}");
    // Saved settings are restored after a restart.
    assert!(router.tell(&["save"]).starts_with("3 changes in "));
    drop(router);
    let router = Running::start(&folder, &rules_of(&folder), &[]);
    let now = router.tell(&["show", "fw.rules"]);
    assert!(now.contains("web: allow") && !now.contains("ssh:"), "{now}");
}

#[test]
fn saved_changes_do_not_undo_a_newer_file_of_rules() {
    let folder = Folder::new();
    let text = rules_of(&folder);
    let router = Running::start(&folder, &text, &[]);
    router.tell(&["set", "fw.add", "before ssh web: allow tcp dst port 80"]);
    assert!(router.tell(&["save"]).starts_with("1 change in "));
    let saved = std::fs::read_to_string(folder.path("router.saved")).expect("it is written");
    let lines: Vec<&str> = saved.lines().collect();
    // The changes, and the rules to which they apply.
    assert!(lines[0].starts_with("fw.configured "), "{saved}");
    assert_eq!(
        lines[1..],
        ["fw.ctrl add before 1 web: allow tcp dst port 80"]
    );
    drop(router);
    let closed = "ssh: deny tcp port ssh\nallow udp\n";
    folder.write("rules", closed);
    let router = Running::start(&folder, &text, &[]);
    let told = &router.begun;
    assert!(told.contains("configuration has changed"), "{told}");
    assert!(
        told.contains("fw") && told.contains("add before 1 web"),
        "{told}"
    );
    let now = router.tell(&["show", "fw.rules"]);
    assert!(now.contains("ssh: deny") && !now.contains("web:"), "{now}");
    // Saving again accepts the file.
    assert!(router.tell(&["save"]).contains("which is removed"));
    drop(router);
    // With the old rules the changes apply again.
    folder.write("router.saved", &saved);
    let router = Running::start(&folder, &rules_of(&folder), &[]);
    let now = router.tell(&["show", "fw.rules"]);
    assert!(
        now.contains("web: allow") && now.contains("ssh: allow"),
        "{now}"
    );
    // A reload decides in the same way, and reports it.
    folder.write("rules", closed);
    let told = router.tell(&["reload"]);
    assert!(
        told.contains("rules has changed, and is read again"),
        "{told}"
    );
    assert!(
        told.contains("thrown away: fw.ctrl add before 1 web: allow tcp"),
        "{told}"
    );
}

#[test]
fn settings_are_kept_and_those_that_cannot_be_are_named() {
    let folder = Folder::new();
    let text = "FromDevice(mem:3) -> q :: Queue(50) -> u :: Unqueue -> s :: Switch(0) -> Discard; s[1] -> Discard;
        Idle -> Strip(14) -> CheckIPHeader -> rt :: DirectIPLookup(10.0.0.0/8 10.0.0.1 0) -> Discard;";
    let router = Running::start(&folder, text, &[]);
    router.tell(&["set", "s.switch", "1"]);
    router.tell(&["set", "balance", "share 20%"]);
    router.tell(&["set", "rt.next_hop_down", "10.0.0.1"]);
    // This call is not a setting.
    router.tell(&["set", "q.reset", ""]);
    let told = router.tell(&["save"]);
    assert!(told.starts_with("2 changes in "), "{told}");
    assert!(
        told.contains("not kept: the setting of rt.next_hop_down;"),
        "{told}"
    );
    assert!(!told.contains("q.reset"), "{told}");
    let json: serde_json::Value =
        serde_json::from_str(&router.tell(&["save", "--json"])).expect("JSON");
    assert_eq!(json["not_kept"], serde_json::json!(["rt.next_hop_down"]));
    drop(router);
    let router = Running::start(&folder, text, &[]);
    assert_eq!(router.tell(&["show", "s.switch"]).trim(), "1");
    assert!(
        router.tell(&["show", "balance"]).contains("20%"),
        "{}",
        router.tell(&["show", "balance"])
    );
    // Restored settings are saved again; an element's changed text takes precedence over them.
    assert!(router.tell(&["save"]).starts_with("2 changes in "));
    folder.write("router.click", text.replace("Switch(0)", "Switch(-1)"));
    let told = router.tell(&["reload"]);
    assert!(told.contains("thrown away: s.switch 1"), "{told}");
    drop(router);
    let router = Running::start(&folder, &text.replace("Switch(0)", "Switch(-1)"), &[]);
    assert_eq!(router.tell(&["show", "s.switch"]).trim(), "-1");
}

#[test]
fn a_reload_reads_every_file_that_the_configuration_names() {
    let folder = Folder::new();
    let tree = folder.write(
        "tree",
        "group all RATE 1Gbps\nsubscribers all 10.0.0.1 RATE 1Mbps\n",
    );
    let routes = folder.write("routes", "10.0.0.0/8 0\n");
    let text = format!(
        "FromDevice(mem:3) -> Strip(14) -> CheckIPHeader -> rt :: DirectIPLookup(ROUTES {routes})
            -> q :: ShareQueue(TREE {tree}) -> Unqueue -> Discard;"
    );
    let router = Running::start(&folder, &text, &[]);
    router.tell(&["set", "q.set", "10.0.0.1 RATE 2Mbps CEIL 8Mbps"]);
    assert_eq!(
        router.tell(&["show", "q.share", "10.0.0.1"]).trim(),
        "RATE 2Mbps CEIL 8Mbps"
    );
    // Nothing has changed: everything stays.
    let told = router.tell(&["reload"]);
    assert!(
        told.contains(" 0 reconfigured") && !told.contains("read again"),
        "{told}"
    );
    assert!(router.tell(&["save"]).starts_with("1 change in "));
    folder.write("routes", "10.0.0.0/8 0\n11.0.0.0/8 0\n");
    let planned = router.tell(&["reload", "--dry-run"]);
    assert!(
        planned.contains("reconfigure rt\n") && planned.contains(&format!("read {routes}\n")),
        "{planned}"
    );
    folder.write(
        "tree",
        "group all RATE 1Gbps\nsubscribers all 10.0.0.1 10.0.0.2 RATE 3Mbps\n",
    );
    let told = router.tell(&["reload"]);
    assert!(told.contains(" 2 reconfigured"), "{told}");
    for file in [&tree, &routes] {
        assert!(
            told.contains(&format!("{file} has changed, and is read again")),
            "{told}"
        );
    }
    assert!(
        told.contains("thrown away: q.ctrl set 10.0.0.1 RATE 2Mbps CEIL 8Mbps"),
        "{told}"
    );
    assert_eq!(
        router.tell(&["show", "q.share", "10.0.0.1"]).trim(),
        "RATE 3Mbps"
    );
    assert!(router.tell(&["show", "rt.routes"]).contains("11.0.0.0/8"));
}

#[test]
fn a_reload_reads_a_file_of_rules_again_and_keeps_what_was_set_if_it_is_the_same() {
    let folder = Folder::new();
    let router = Running::start(&folder, &rules_of(&folder), &[]);
    let rules = || router.tell(&["show", "fw.rules"]);
    router.tell(&["set", "fw.add", "before ssh dns: allow udp dst port 53"]);
    router.tell(&["reload"]);
    assert!(rules().contains("dns: allow udp"), "{}", rules());
    folder.write("rules", "web: allow tcp dst port 443\n");
    router.tell(&["reload"]);
    assert!(
        rules().contains("web: allow tcp dst port 443"),
        "{}",
        rules()
    );
    assert!(!rules().contains("ssh:"), "{}", rules());
    folder.write("rules", "web: alow tcp\n");
    let wrong = complained(&router.ask(&["reload"]), 1);
    assert!(wrong.contains("line 1: unknown slot ID `alow`"), "{wrong}");
    assert!(
        rules().contains("web: allow tcp dst port 443"),
        "{}",
        rules()
    );
}

#[test]
fn rules_for_ipv6_are_seen_and_changed_in_the_same_way() {
    let folder = Folder::new();
    let rules = folder.write(
        "rules6",
        "ssh: allow src net 2001:db8::/32 and tcp dst port ssh\nallow udp\n",
    );
    let pcap = folder.write("in.pcap", capture(20, true));
    let text = format!(
        "FromDevice(pcap:{pcap}) -> Strip(14) -> CheckIP6Header
            -> fw :: IP6Filter(deny src net 2001:dead::/32, RULES {rules}) -> Discard;
         FromDevice(mem:3) -> Discard;"
    );
    let router = Running::start(&folder, &text, &[]);
    let shown = || router.tell(&["show", "fw.rules"]);
    let bound = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !shown().contains("20  allow udp") {
        assert!(std::time::Instant::now() < bound, "{}", shown());
    }
    router.tell(&["set", "fw.add", "before ssh pings: allow icmp6 type echo"]);
    router.tell(&["set", "fw.remove", "ssh"]);
    let text = shown();
    assert!(
        text.contains("pings: allow icmp6 type echo") && !text.contains("ssh:"),
        "{text}"
    );
    assert!(text.contains("0  (bad headers: dropped)"), "{text}");
    let wrong = complained(&router.ask(&["set", "fw.add", "allow ip proto tcp"]), 1);
    assert!(wrong.contains("write `ip6` in place of `ip`"), "{wrong}");
}

/// A firewall that continues after its file of 20 datagrams has been read.
fn rules_of(folder: &Folder) -> String {
    let rules = folder.write(
        "rules",
        "# who may come in\nssh: allow tcp port ssh\nallow udp\n",
    );
    let pcap = folder.write("in.pcap", capture(20, false));
    format!(
        "FromDevice(pcap:{pcap}) -> Strip(14) -> CheckIPHeader
            -> fw :: IPFilter(deny src 192.0.2.0/24, RULES {rules}) -> Discard;
         FromDevice(mem:3) -> Discard;"
    )
}
