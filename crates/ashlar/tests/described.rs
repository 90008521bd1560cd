//! Commands on files that describe several routers, or a cluster, without a running router.

use crate::common::{Folder, complained, run, said};

const ROUTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/routers.toml");
const RB4: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/cluster.toml");

#[test]
fn a_file_of_routers_is_checked_and_planned_router_by_router() {
    said(&run(&["check", ROUTERS]));
    let plan = said(&run(&["plan", ROUTERS, "-j2"]));
    let heads = plan.lines().filter(|line| line.starts_with("router "));
    let heads: Vec<&str> = heads.collect();
    assert_eq!(heads.len(), 2, "{plan}");
    assert!(heads[0].starts_with("router red: "), "{}", heads[0]);
    let end = "linux-router.click, share 3, priority 0, namespace blue";
    assert!(heads[1].ends_with(end), "{}", heads[1]);
    let json = said(&run(&["plan", ROUTERS, "--json"]));
    let plans: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert!(plans["red"].is_object() && plans["blue"].is_object());
    // Definitions on the command line apply to all routers: now both use one port.
    let told = run(&["check", ROUTERS, "DEV0=eth7"]);
    assert_eq!(complained(&told, 1), "ashlar: 1 error\n");
    let text = String::from_utf8_lossy(&told.stdout);
    let wrong = "router `blue` uses the port eth7, and so does router `red`";
    assert!(text.contains(wrong), "{text}");
}

#[test]
fn mistakes_of_the_file_and_of_all_graphs_are_told_at_once() {
    let folder = Folder::new();
    folder.write("a.click", "Idle -> Discrad;");
    folder.write("b.click", "Idle -> ToDevice(null:, WURST 7);");
    let section = |name| format!("[[router]]\nname = \"{name}\"\ngraph = \"{name}.click\"\n");
    let text = section("a") + &section("b") + "colour = 1\n";
    let file = folder.write("routers.toml", &text);
    let told = run(&["check", &file]);
    assert_eq!(complained(&told, 1), "ashlar: 3 errors\n");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    for what in [
        "routers.toml:7:",
        "colour",
        "a.click:1:",
        "Discrad",
        "b.click:1:",
        "WURST",
    ] {
        assert!(text.contains(what), "{what} is missing: {text}");
    }
    let json = run(&["check", &file, "--json"]);
    let mistakes: Vec<serde_json::Value> =
        serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(mistakes.len(), 3, "{mistakes:?}");
}

#[test]
fn cluster_files_take_the_same_path() {
    let check = said(&run(&["check", RB4, "-j2"]));
    assert_eq!(check, said(&run(&["cluster", "check", RB4, "-j2"])));
    let text = said(&run(&["cluster", "text", RB4, "--server", "a"]));
    let folder = Folder::new();
    let click = folder.write("a.click", &text);
    let of_file = said(&run(&["plan", RB4, "--server", "a"]));
    assert_eq!(of_file, said(&run(&["plan", &click])));
    let wrong = complained(&run(&["plan", RB4]), 1);
    assert!(
        wrong.contains("say which server by --server: a, b, c, d"),
        "{wrong}"
    );
    let wrong = complained(&run(&["cluster", "up", RB4]), 1);
    assert!(wrong.contains("say which server by --server"), "{wrong}");
    let wrong = complained(&run(&["plan", &click, "--server", "a"]), 1);
    assert!(wrong.contains("--server names a server"), "{wrong}");
    let wrong = complained(&run(&["plan", ROUTERS, "--server", "a"]), 1);
    assert!(wrong.contains("describes no cluster"), "{wrong}");
}
