use super::*;
use crate::description::testing::mistakes;
use router::worker::share::Share;
use std::fs;
use std::path::PathBuf;

/// A folder with graphs, removed when it is dropped.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ashlar-file-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder takes folders");
        fs::write(path.join("a.click"), "Idle -> Discard").expect("it takes files");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_becomes_routers() {
    let folder = Folder::new("routers");
    let text = r#"
        [[router]]
        name = "red"
        graph = "a.click"
        netns = "vr-red"
        definitions = { DEV0 = "eth0", N = 7 }
        share = 3
        priority = 2
        buffers = 4096
        routes = 1_000

        [[router]]
        name = "blue"
        graph = "a.click"
    "#;
    let parsed = parse("routers.toml", text, &folder.0);
    assert_eq!(mistakes(&parsed), [""; 0]);
    let [red, blue] = &*parsed.routers else {
        panic!("two routers")
    };
    assert_eq!((&*red.name, red.netns.as_deref()), ("red", Some("vr-red")));
    assert_eq!(&*red.source.text, "Idle -> Discard");
    let defined = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        red.source.definitions,
        [defined("DEV0", "eth0"), defined("N", "7")]
    );
    let share = |tickets, priority, buffers| Share {
        tickets,
        priority,
        buffers,
        ..Share::default()
    };
    assert_eq!(
        (red.share, blue.share),
        (share(3, 2, Some(4096)), share(1, 0, None))
    );
    assert_eq!((red.source.routes, blue.source.routes), (Some(1000), None));
    assert_eq!(
        (blue.netns.as_deref(), blue.source.definitions.len()),
        (None, 0)
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let folder = Folder::new("mistakes");
    let text = r#"[[router]]
name = "red"
graph = "a.click"
shares = 3
[[router]]
name = "red"
graph = "b.click"
share = 0
buffers = 0
[[router]]
name = "a b"
graph = 7
priority = 8
netns = ""
[[router]]
definitions = { "a-b" = "x", C = true }
[router-groups]
"#;
    let parsed = parse("routers.toml", text, &folder.0);
    let missing = folder.0.join("b.click");
    let mut right = [
        "4: [[router]] has no field `shares`",
        "6: there are two routers `red`",
        &format!(
            "7: cannot read {}: there is no such file; did you mean {}?",
            missing.display(),
            folder.0.join("a.click").display()
        ),
        "8: there is no share 0",
        "9: a limit cannot be 0",
        "11: `a b` is no name of a router, port or link",
        "12: `graph` must be a text, not integer",
        "13: `priority` is out of range",
        "14: `netns` is empty",
        "15: [[router]] has no `graph`",
        "15: [[router]] has no `name`",
        "16: `C` must be a text, not boolean",
        "16: `a-b` is no name of a variable",
        "17: the file has no field `router-groups`",
    ];
    let mut found = mistakes(&parsed);
    right.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, right);
}

#[test]
fn names_are_no_words_that_mean_something_else() {
    let folder = Folder::new("names");
    std::fs::write(folder.0.join("a.click"), "Idle -> Discard;").expect("it is ours");
    for (name, good) in [
        ("..", false),
        (".", false),
        ("-x", false),
        ("_a", true),
        ("7.a-b", true),
    ] {
        let text = format!("[[router]]\nname = \"{name}\"\ngraph = \"a.click\"\n");
        let found = mistakes(&parse("x.toml", &text, &folder.0));
        let wrong = format!("2: `{name}` is no name of a router, port or link");
        assert_eq!(found, if good { vec![] } else { vec![wrong] });
    }
}

#[test]
fn a_graph_is_a_regular_file() {
    let folder = Folder::new("devices");
    let text = "[[router]]\nname = \"a\"\ngraph = \"/dev/zero\"\n";
    let found = mistakes(&parse("x.toml", text, &folder.0));
    assert_eq!(found, ["3: cannot read /dev/zero: it is no regular file"]);
}

#[test]
fn file_describes_either_routers_or_a_cluster() {
    let folder = Folder::new("kinds");
    let of = |text: &str| mistakes(&parse("x.toml", text, &folder.0));
    assert_eq!(of(""), ["1: this file describes no routers and no cluster"]);
    let both = "[[router]]\nname = \"a\"\ngraph = \"a.click\"\n[cluster]\nname = \"b\"\n";
    assert_eq!(
        of(both),
        ["1: this file describes the routers of a process and a cluster"]
    );
    let cluster = fs::read_to_string("../../conf/cluster.toml").expect("it is there");
    let parsed = parse("cluster.toml", &cluster, &folder.0);
    assert!(parsed.description.is_some(), "{}", parsed.text());
    assert!(parsed.routers.is_empty());
}

/// A file with two routers, and this text.
fn with_routers(test: &str, text: &str) -> Parsed {
    let folder = Folder::new(test);
    let routers = r#"
        [[router]]
        name = "red"
        graph = "a.click"
        share = 3
        [[router]]
        name = "blue"
        graph = "a.click"
    "#;
    parse("routers.toml", &format!("{routers}{text}"), &folder.0)
}

#[test]
fn ports_are_shared_and_routers_linked() {
    use ::ports::shared_port::{Kind, Selector, Tunnel};
    let text = r#"
        [[port]]
        name = "wan"
        device = "0000:01:00.0"
        [[port.share]]
        router = "red"
        vlan = "s100"
        inner_vlan = 7
        mac = "02:00:00:00:00:07"
        mpls = 77
        rate = 1000
        queue = 32
        [[port.share]]
        router = "blue"
        tunnel = "vxlan"
        to = "192.0.2.1"
        key = 5
        broadcast = false
        [[port]]
        name = "eth0"
        scheme = "inline"
        [[link]]
        name = "between"
        routers = ["red", "blue"]
    "#;
    let parsed = with_routers("shared", text);
    assert_eq!(mistakes(&parsed), [""; 0]);
    let names: Vec<&str> = parsed.routers.iter().map(|r| &*r.name).collect();
    assert_eq!(names, ["wan", "eth0", "red", "blue"]);
    let wan = &parsed.routers[0];
    assert!(
        wan.source
            .text
            .contains("FromDevice(0000:01:00.0, PROMISC true)"),
        "{}",
        wan.source.text
    );
    assert!(wan.share.priority > parsed.routers[1].share.priority);
    let of = &parsed.sharing.ports[0];
    let [red, blue] = &*of.shares else {
        panic!("two shares")
    };
    let vlan: Vec<String> = red.vlan.iter().map(ToString::to_string).collect();
    assert_eq!((&*of.device, &*vlan.join(" ")), ("0000:01:00.0", "s100 7"));
    assert_eq!(
        red.by,
        [Selector::Mac([2, 0, 0, 0, 0, 7]), Selector::Label(77)]
    );
    assert_eq!(
        (red.rate, red.queue, red.tickets, red.broadcast),
        (Some(1000), 32, 3, true)
    );
    let tunnel = Tunnel {
        kind: Kind::Vxlan,
        to: Some([192, 0, 2, 1].into()),
        key: Some(5),
    };
    assert_eq!(
        (&*blue.by, blue.broadcast),
        (&[Selector::Tunnel(tunnel)][..], false)
    );
    assert_eq!(parsed.sharing.links[0].routers, ["red", "blue"]);
}

#[test]
fn all_mistakes_of_ports_and_links_are_told() {
    let text = r#"
        [[port]]
        name = "red"
        scheme = "magic"
        [[port.share]]
        router = "rde"
        [[port]]
        name = "wan"
        [[port.share]]
        router = "red"
        vlan = 5000
        mac = "03:00:00:00:00:07"
        rate = 0
        queue = 0
        [[port.share]]
        router = "red"
        inner_vlan = 7
        key = 3
        [[port.share]]
        router = "blue"
        tunnel = "ipip"
        key = 3
        to = "here"
        mpls = 1048576
        [[link]]
        name = "wan"
        routers = ["red"]
        [[link]]
        name = "between"
        routers = ["red", "red"]
        colour = 1
    "#;
    let parsed = with_routers("shared-wrong", text);
    let all = mistakes(&parsed).join("\n");
    for what in [
        "there are two of the name `red`",
        "there is no scheme `magic`",
        "there is no router `rde`",
        "`vlan` must be a VLAN: a number from 1 to 4094",
        "03:00:00:00:00:07 is no station's address",
        "a rate of 0 lets nothing pass",
        "there is no such queue",
        "an inner VLAN and no outer one",
        "this is of a tunnel, and none is named",
        "router `red` has two shares of this port",
        "IP in IP has no key",
        "`here` is no address",
        "there is no such label",
        "a link joins two routers",
        "[[link]] has no field `colour`",
    ] {
        assert!(all.contains(what), "{what}\n{all}");
    }
    let same = r#"
        [[port]]
        name = "wan"
        [[port.share]]
        router = "red"
        vlan = 1
        [[port.share]]
        router = "blue"
        vlan = 1
    "#;
    let all = mistakes(&with_routers("shared-same", same)).join("\n");
    assert!(
        all.contains("router `blue` would get the same frames"),
        "{all}"
    );
}

const IPSEC: &str = r#"[[router]]
name = "edge"
graph = "ipsec.click"

[ipsec]
[[ipsec.sa]]
direction = "out"
spi = 0x1001
reqid = 1
suite = "aes128gcm16"
tunnel = ["192.0.2.1", "192.0.2.2"]
udp = [4500, 4501]
key_file = "out.key"
hard_packets = 1000
[[ipsec.sa]]
direction = "in"
spi = 0x2001
reqid = 1
suite = "aes128-sha256"
tunnel = ["192.0.2.2", "192.0.2.1"]
key_file = "in.key"
esn = true
window = 1024
ecn = false
[[ipsec.policy]]
direction = "out"
src = "10.1.0.0/16"
dst = "10.2.0.0/16"
protocol = "udp"
dport = "1000-2000"
protect = 1
[[ipsec.policy]]
direction = "out"
src = "0.0.0.0/0"
dst = "0.0.0.0/0"
action = "bypass"
"#;

/// A folder with the files that the text above names.
fn with_keys(test: &str) -> Folder {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new(test);
    let graph = "ipsec :: IPsecTable($IPSEC);";
    fs::write(folder.0.join("ipsec.click"), graph).expect("it takes files");
    let keys = [
        ("out.key", "5a".repeat(20)),
        (
            "in.key",
            format!("{}\n{}", "6b".repeat(16), "7c".repeat(32)),
        ),
    ];
    for (name, text) in keys {
        let path = folder.0.join(name);
        fs::write(&path, text).expect("it takes files");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    }
    folder
}

#[test]
fn ipsec_of_a_file_is_what_the_table_of_its_router_is_given() {
    let folder = with_keys("ipsec");
    let parsed = parse("routers.toml", IPSEC, &folder.0);
    assert_eq!(mistakes(&parsed), [""; 0]);
    let [(name, value)] = &*parsed.routers[0].source.definitions else {
        panic!("one definition")
    };
    let at = folder.0.display();
    assert_eq!(
        (&**name, &**value),
        (
            "IPSEC",
            &*format!(
                "sa out spi 4097 reqid 1 suite aes128gcm16 tunnel 192.0.2.1 192.0.2.2 udp 4500 4501 KEY_FILE \
                 {at}/out.key hard_packets 1000, \
                 sa in spi 8193 reqid 1 suite aes128-sha256 tunnel 192.0.2.2 192.0.2.1 KEY_FILE {at}/in.key esn ecn \
                 no window 1024, \
                 policy out src 10.1.0.0/16 dst 10.2.0.0/16 proto udp dport 1000-2000 protect 1, \
                 policy out src 0.0.0.0/0 dst 0.0.0.0/0 bypass"
            )
        )
    );
    // The graph accepts it, and no visible text has a key.
    let compiled = crate::compile::compile(
        &parsed.routers[0].source,
        &classes::registry(),
        &planner::Options::new(1, &::ports::Directory::new()),
    );
    assert_eq!(compiled.text(), "");
    assert!(!format!("{parsed:?}").contains("5a5a"));

    let kernel = &IPSEC[..IPSEC.find("[[ipsec.sa]]").expect("it is there")];
    let parsed = parse("routers.toml", &format!("{kernel}kernel = true"), &folder.0);
    assert_eq!(mistakes(&parsed), [""; 0]);
    assert_eq!(parsed.routers[0].source.definitions[0].1, "KERNEL true");
}

#[test]
fn all_mistakes_of_ipsec_are_told_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let folder = with_keys("ipsec-mistakes");
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(folder.0.join("in.key"), open).expect("it is ours");
    let text = IPSEC
        .replace("direction = \"out\"\nspi", "direction = \"up\"\nspi")
        .replace("window = 1024", "windows = 1024\nttl = \"x\"")
        .replace("protect = 1", "protect = 2")
        .replace("action = \"bypass\"", "action = \"pass\"");
    let parsed = parse("routers.toml", &text, &folder.0);
    assert_eq!(
        mistakes(&parsed),
        [
            "6: the direction must be `in` or `out`, not `up`",
            "23: [[ipsec.sa]] has no field `windows`",
            "37: there is no action `pass`",
        ],
        "{}",
        parsed.text()
    );
    let parsed = parse(
        "routers.toml",
        &IPSEC.replace("key_file = \"out.key\"", "key_file = \"in.key\""),
        &folder.0,
    );
    let open = "others may read or change the key file";
    assert_eq!(parsed.text().matches(open).count(), 2, "{}", parsed.text());
    for (from, to, wanted) in [
        (
            "protect = 1",
            "protect = 2",
            "5: a policy protects by 2, and there is no outbound association with this `reqid`",
        ),
        (
            "spi = 0x1001",
            "spi = 0x2",
            "6: the SPI must be at least 256: those below are reserved",
        ),
        ("\"out.key\"", "\"no.key\"", "6: cannot read the key file"),
        (
            "key_file = \"out.key\"\n",
            "",
            "6: [[ipsec.sa]] has no `key_file`",
        ),
        (
            "udp = [4500, 4501]",
            "udp = [4500]",
            "12: `udp` must name two, not 1",
        ),
        ("10.1.0.0/16", "10.1.0.0/33", "25: `src` must be a prefix"),
        (
            "action = \"bypass\"",
            "action = \"pass\"",
            "36: there is no action `pass`",
        ),
        (
            "protect = 1",
            "protect = 1\naction = \"bypass\"",
            "`protect` contradicts `action`",
        ),
        (
            "[ipsec]",
            "[ipsec]\nrouter = \"egde\"",
            "6: there is no router `egde`",
        ),
        (
            "[ipsec]",
            "[ipsec]\nkernel = true",
            "6: both the kernel and this file define which packets are protected",
        ),
        (
            "[ipsec]",
            "[ipsec]\nkernels = true",
            "[ipsec] has no field `kernels`",
        ),
        (
            "\"ipsec.click\"",
            "\"a.click\"",
            "5: the graph of router `edge` has no IPsecTable that takes this",
        ),
        (
            "\"ipsec.click\"",
            "\"ipsec.click\"\ndefinitions = { IPSEC = \"\" }",
            "6: router `edge` has a definition of `IPSEC` already",
        ),
    ] {
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.0.join("in.key"), mode).expect("it is ours");
        let parsed = parse("routers.toml", &IPSEC.replacen(from, to, 1), &folder.0);
        let said = mistakes(&parsed);
        assert!(
            said.iter().any(|said| said.contains(wanted)),
            "{wanted}: {said:?}"
        );
        assert!(!parsed.text().contains("5a5a"));
    }
    let two = IPSEC.replace(
        "[ipsec]",
        "[[router]]\nname = \"b\"\ngraph = \"a.click\"\n[ipsec]",
    );
    let parsed = parse("routers.toml", &two, &folder.0);
    assert_eq!(
        mistakes(&parsed),
        ["8: [ipsec] does not say for which router it is"]
    );
    let none = parse("routers.toml", "[ipsec]\nkernel = true", &folder.0);
    assert_eq!(
        mistakes(&none),
        ["1: [ipsec] is for a router, and this file has none"]
    );
}

#[test]
fn the_example_of_ipsec_is_right() {
    let folder = with_keys("ipsec-example");
    fs::copy(folder.0.join("out.key"), folder.0.join("in.key")).expect("it takes files");
    let key = "6b".repeat(20);
    fs::write(folder.0.join("in.key"), key).expect("it takes files");
    let graph = include_str!("../../../../../conf/ipsec-linux.click");
    fs::write(folder.0.join("ipsec-linux.click"), graph).expect("it takes files");
    let text = include_str!("../../../../../conf/ipsec.toml");
    for text in [text.to_owned(), kernel_only(text)] {
        let parsed = parse("ipsec.toml", &text, &folder.0);
        assert_eq!(mistakes(&parsed), [""; 0]);
        let compiled = crate::compile::compile(
            &parsed.routers[0].source,
            &classes::registry(),
            &planner::Options::new(1, &::ports::Directory::new()),
        );
        // The router's interfaces need not exist.
        assert!(!compiled.text().contains("IPsec"), "{}", compiled.text());
    }
}

/// The example with only the `kernel` line.
fn kernel_only(text: &str) -> String {
    let at = text.find("[[ipsec.sa]]").expect("it is there");
    text[..at].replace("# kernel = true", "kernel = true")
}
