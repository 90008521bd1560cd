//! Groups of routers, and isolated routers, in files.

use super::parse;
use super::tests::Folder;
use crate::description::testing::mistakes;
use router::worker::share::Group;

#[test]
fn groups_have_shares_and_routers_name_them() {
    let folder = Folder::new("groups");
    let text = r#"
[[group]]
name = "gold"
share = 3
[[group]]
name = "iron"
[[router]]
name = "red"
graph = "a.click"
share = 2
group = "iron"
[[router]]
name = "blue"
graph = "a.click"
"#;
    let parsed = parse("routers.toml", text, &folder.0);
    assert_eq!(mistakes(&parsed), [""; 0]);
    let groups: Vec<_> = parsed.routers.iter().map(|r| r.share.group).collect();
    let iron = Group {
        number: 1,
        tickets: 1,
    };
    assert_eq!(groups, [Some(iron), None]);

    let text = r#"[[group]]
share = 0
[[group]]
name = "gold"
[[group]]
name = "gold"
[[router]]
name = "red"
graph = "a.click"
group = "silver"
"#;
    let mut found = mistakes(&parse("routers.toml", text, &folder.0));
    found.sort_unstable();
    let right = [
        "10: there is no group `silver`",
        "1: [[group]] has no `name`",
        "2: there is no share 0",
        "6: there are two groups `gold`",
    ];
    assert_eq!(found, right);
}

#[test]
fn a_virtual_machine_has_a_card_for_each_share_and_link() {
    let folder = Folder::new("machines");
    std::fs::write(folder.0.join("a.click"), "FromDevice(between) -> Discard").expect("it is ours");
    let text = r#"
[[router]]
name = "red"
graph = "a.click"
[[router]]
name = "vm"
isolation = "machine"
sockets = "/run/vm"
[[port]]
name = "wan"
device = "eth0"
share = [{ router = "vm" }]
[[link]]
name = "between"
routers = ["red", "vm"]
"#;
    let parsed = parse("routers.toml", text, &folder.0);
    assert_eq!(mistakes(&parsed), [""; 0]);
    let vm = parsed.routers.iter().find(|r| r.name == "vm");
    let right = "\
        FromDevice(wan, PROMISC true) -> ToDevice(vhost:/run/vm/wan.sock);\n\
        FromDevice(vhost:/run/vm/wan.sock, PROMISC true) -> ToDevice(wan);\n\
        FromDevice(between, PROMISC true) -> ToDevice(vhost:/run/vm/between.sock);\n\
        FromDevice(vhost:/run/vm/between.sock, PROMISC true) -> ToDevice(between);\n";
    assert_eq!(&*vm.expect("it is there").source.text, right);
}

#[test]
fn missing_and_surplus_fields_of_isolation_are_reported() {
    let folder = Folder::new("isolation");
    let text = r#"[[router]]
name = "a"
isolation = "machine"
graph = "a.click"
sockets = "run/vm"
[[router]]
name = "b"
isolation = "machine"
sockets = "/run/vm"
user = "nobody"
routes = 5
[[router]]
name = "c"
graph = "a.click"
sockets = "/run/vm"
[[router]]
name = "d"
graph = "a.click"
isolation = "process"
[[router]]
name = "e"
graph = "a.click"
isolation = "wall"
"#;
    let mut found = mistakes(&parse("routers.toml", text, &folder.0));
    found.sort_unstable();
    let right = [
        "10: this is for a router that is a process of its own",
        "11: this is for a router that shares the process",
        "15: this is for a virtual machine",
        "19: a router that is a process of its own needs a user",
        "23: there is no isolation `wall`",
        "3: a virtual machine has no `graph`",
        "3: a virtual machine needs a folder for the sockets of its cards",
        "3: the virtual machine `a` has no card",
        "9: the virtual machine `b` has no card",
    ];
    assert_eq!(found, right);
}

#[test]
fn isolated_routers_share_no_user_and_no_namespace() {
    let folder = Folder::new("own");
    std::fs::write(folder.0.join("a.click"), "Idle -> Discard").expect("it is ours");
    let router = |name: &str, more: &str| {
        format!("[[router]]\nname = \"{name}\"\ngraph = \"a.click\"\n{more}\n")
    };
    let own = |user: &str, netns: &str| {
        format!("isolation = \"process\"\nuser = \"{user}\"\nnetns = \"{netns}\"")
    };
    let text = router("a", &own("games", "one"))
        + &router("b", &own("news", "two"))
        + &router("c", "netns = \"three\"")
        + &router("d", "netns = \"three\"");
    assert_eq!(mistakes(&parse("r.toml", &text, &folder.0)), [""; 0]);
    let text = router("a", &own("games", "one"))
        + &router("b", &own("games", "one"))
        + &router("c", &own("news", "three"))
        + &router("d", "netns = \"three\"");
    let mut found = mistakes(&parse("r.toml", &text, &folder.0));
    found.sort_unstable();
    let right = [
        "15: the isolated router `c` has the network namespace of `d`",
        "9: the isolated router `b` has the network namespace of `a`",
        "9: the isolated routers `a` and `b` have the same user `games`",
    ];
    assert_eq!(found, right);
}
