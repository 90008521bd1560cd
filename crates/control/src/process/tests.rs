//! Reloads of several routers, with the number of compilations counted.

use super::reload::new_base;
use super::{Common, Process};
use crate::compile::{compile_all, errors_of_all, text_of_all};
use crate::description::file::{File, Section};
use crate::description::source::Source;
use crate::host::clock::wall_clock;
use crate::view::{Certificates, Member, ReloadReply, ReloadRequest};
use forwarding::RouteBound;
use planner::Options;
use ports::Directory;
use ports::shared_port::SharedPorts;
use router::Workers;
use router::worker::share::Share;
use std::cell::Cell;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const ROUTERS: usize = 40;

thread_local! {
    /// Number of compilations on this thread: each test has a thread of its own.
    static COMPILATIONS: Cell<usize> = const { Cell::new(0) };
}

/// A rewriting that changes nothing and counts.
fn count(_: &mut lang::Router, _: &Options) -> Vec<lang::Diagnostic> {
    COMPILATIONS.set(COMPILATIONS.get() + 1);
    Vec::new()
}

/// A process whose routers are described in a file of its own folder, which is removed at the end.
struct Stand {
    folder: PathBuf,
    process: Process,
}

impl Stand {
    /// Starts a process. `fields` gives further fields of the section of each router, by number.
    fn new(test: &str, graph: &str, fields: impl Fn(usize) -> String) -> Stand {
        let folder =
            std::env::temp_dir().join(format!("ashlar-process-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder takes folders");
        fs::write(folder.join("r.click"), graph).expect("it takes files");
        write(&folder, fields);
        let path = folder.join("routers.toml");
        let file = File {
            source: Source::read(&path.display().to_string(), Vec::new()).expect("it is there"),
            netns: None,
            folder: folder.join("isolated"),
        };
        let ports = Directory::new().with_shared_ports(Arc::new(SharedPorts::new(1)));
        let common = Common {
            name: test.to_owned(),
            registry: classes::registry().with_rewrite(count),
            ports: Arc::new(ports),
            workers: Workers::start(1, &ports::waiter::of_worker).expect("there is a thread"),
            seed: 1.into(),
            fpm: None,
            balance: "off",
        };
        let mut parsed = file.parse();
        let base = |section: &Section| new_base(&common.ports, section);
        let planned = compile_all(&mut parsed, &common.registry, (1, true), &file, &base);
        assert_eq!(
            errors_of_all(&parsed, &planned),
            0,
            "{}",
            text_of_all(&parsed, &planned)
        );
        let process = Process::new(common, Some(file));
        for one in &planned {
            process.add_planned(one).expect("it can be started");
        }
        Stand { folder, process }
    }

    /// Reloads the file with other fields. Returns the answer and the number of compilations.
    fn reload(&self, dry_run: bool, fields: impl Fn(usize) -> String) -> (ReloadReply, usize) {
        write(&self.folder, fields);
        COMPILATIONS.set(0);
        let request = ReloadRequest {
            dry_run,
            ..ReloadRequest::default()
        };
        let reply = self.process.reload(None, &request);
        (reply.expect("it can be read"), COMPILATIONS.get())
    }

    fn read(&self, router: usize, handler: &str) -> String {
        let router = self.process.router(Some(&format!("r{router}")));
        let value = router.and_then(|router| router.read(handler, ""));
        value.expect("there is such a handler")
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.process.end();
        let _ = self.process.close();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn write(folder: &std::path::Path, fields: impl Fn(usize) -> String) {
    let mut text = String::new();
    for n in 0..ROUTERS {
        let _ = writeln!(
            text,
            "[[router]]\nname = \"r{n}\"\ngraph = \"r.click\"\n{}",
            fields(n)
        );
    }
    fs::write(folder.join("routers.toml"), text).expect("it takes files");
}

fn limit(packets: usize) -> String {
    format!("definitions = {{ LIMIT = \"{packets}\" }}")
}

const QUEUE: &str = "Idle -> q :: Queue($LIMIT) -> Unqueue -> Discard;";

#[test]
fn reload_compiles_each_router_once() {
    let stand = Stand::new("once", QUEUE, |_| limit(100));
    let whats = |reply: &ReloadReply| -> Vec<String> {
        reply
            .routers
            .iter()
            .map(|router| router.what.clone())
            .collect()
    };
    let (reply, compilations) = stand.reload(true, |_| limit(200));
    assert_eq!(
        (reply.good, compilations),
        (true, ROUTERS),
        "{}",
        reply.text
    );
    assert_eq!(whats(&reply), vec!["change"; ROUTERS]);
    assert_eq!(
        stand.read(7, "q.capacity"),
        "100",
        "a dry run changes nothing"
    );
    let (reply, compilations) = stand.reload(false, |_| limit(200));
    assert_eq!(
        (reply.good, compilations),
        (true, ROUTERS),
        "{}",
        reply.text
    );
    assert_eq!(whats(&reply), vec!["change"; ROUTERS]);
    for router in 0..ROUTERS {
        assert_eq!(stand.read(router, "q.capacity"), "200");
    }
}

#[test]
fn reload_leaves_routers_without_changes_alone() {
    let stand = Stand::new("same", QUEUE, |_| limit(100));
    let plans = || -> Vec<_> {
        let routers = stand.process.routers();
        routers
            .iter()
            .map(|router| router.router().plan())
            .collect()
    };
    let before = plans();
    let (reply, compilations) = stand.reload(false, |n| limit(if n == 3 { 50 } else { 100 }));
    assert_eq!(
        (reply.good, compilations),
        (true, ROUTERS),
        "{}",
        reply.text
    );
    for (n, (old, new)) in before.iter().zip(plans()).enumerate() {
        assert_eq!(Arc::ptr_eq(old, &new), n != 3, "r{n}");
        let what = if n == 3 { "change" } else { "keep" };
        assert_eq!(reply.routers[n].what, what, "r{n}");
    }
}

#[test]
fn refused_reload_leaves_bounds_of_routes_as_they_are() {
    let graph = "Idle -> rt :: RadixIPLookup(10.0.0.0/8 0, 10.1.0.0/16 0) -> Discard;";
    let stand = Stand::new("bounds", graph, |_| "routes = 5".to_owned());
    let bounds = || -> Vec<usize> {
        let routers = stand.process.routers();
        let plans = routers.iter().map(|router| router.router().plan());
        plans
            .map(|plan| plan.router_wide::<RouteBound>().get())
            .collect()
    };
    assert_eq!(bounds(), vec![5; ROUTERS]);
    // The table of the last router does not fit.
    let (reply, _) = stand.reload(false, |n| {
        let routes = if n + 1 == ROUTERS { 1 } else { 9 };
        fs::write(
            stand.folder.join("r.click"),
            graph.replace("10.1.", "10.2."),
        )
        .expect("writes");
        format!("routes = {routes}")
    });
    assert!(
        !reply.good && reply.text.contains("1 routes at most"),
        "{}",
        reply.text
    );
    assert_eq!(bounds(), vec![5; ROUTERS]);
    let (reply, _) = stand.reload(false, |_| "routes = 9".to_owned());
    assert!(reply.good, "{}", reply.text);
    assert_eq!(bounds(), vec![9; ROUTERS]);
}

#[test]
fn failed_reload_leaves_the_source_of_later_reloads_as_it_is() {
    let dump = |path: &str| format!("definitions = {{ FILE = \"{path}\" }}");
    let stand = Stand::new("undo", "Idle -> ToDump($FILE);", |_| dump("/dev/null"));
    let request = ReloadRequest {
        text: Some("Idle -> Discard;".to_owned()),
        name: Some("other.click".to_owned()),
        ..ReloadRequest::default()
    };
    let reply = stand.process.reload(Some("r0"), &request);
    let reply = reply.expect("it can be applied");
    assert!(reply.good, "{}", reply.text);
    let sources = || {
        let router = stand.process.router(Some("r0")).expect("it runs");
        let info = router.info();
        (info.configuration, info.own)
    };
    let before = sources();
    assert_eq!(before.0, "other.click");
    assert_ne!(before.0, before.1);
    // The last router is reloaded after `r0`, and cannot make its file.
    write(&stand.folder, |n| match n + 1 {
        ROUTERS => dump("/no/such/folder/dump"),
        _ => dump("/dev/null"),
    });
    let request = ReloadRequest::default();
    let failure = stand.process.reload(None, &request);
    let failure = failure.expect_err("there is no such folder");
    let begins = failure.text.starts_with("nothing has changed: router r39:");
    assert!(begins, "{}", failure.text);
    assert_eq!(sources(), before);
}

#[test]
fn write_after_the_compilation_is_not_lost() {
    let graph = "Idle -> rt :: RadixIPLookup(10.0.0.0/8 0) -> Discard;";
    let stand = Stand::new("write", graph, |_| String::new());
    let router = stand.process.router(Some("r0")).expect("it runs");
    let basis = router.reload_basis();
    let source = Source {
        text: graph
            .replace("10.0.0.0/8 0", "10.0.0.0/8 0, 11.0.0.0/8 0")
            .into(),
        ..router.source()
    };
    let options = Options {
        previous: Some(&basis.plan),
        ..Options::new(1, &*router.ports)
    };
    let compiled = crate::compile::compile(&source, &router.registry, &options);
    let plan = compiled.plan.expect("it is good");
    router
        .write("rt.add", "12.0.0.0/8 0")
        .expect("it is a route");
    let share = Share::default();
    router
        .apply(&basis, &plan, (&source, share))
        .expect("it can be applied");
    let table = router.read("rt.table", "").expect("it has one");
    assert!(
        table.contains("11.0.0.0/8") && table.contains("12.0.0.0/8"),
        "{table}"
    );
}

#[test]
fn server_of_a_cluster_reads_clock_and_certificates_at_each_call_and_refuses_reloads() {
    let stand = Stand::new("member", "Idle -> Discard;", |_| String::new());
    for n in 1..ROUTERS {
        assert!(stand.process.remove(&format!("r{n}")));
    }
    let renewals = AtomicI64::new(0);
    stand.process.follow_cluster(move || Certificates {
        server_ends: Some(renewals.fetch_add(1, Ordering::Relaxed)),
        authority_ends: None,
    });
    stand.process.set_member(Member::default());
    for end in 0..2 {
        let before = wall_clock();
        let member = stand.process.member().expect("it is a server");
        assert_eq!(member.certificates.server_ends, Some(end));
        assert!((before..=wall_clock()).contains(&member.now_ms));
        assert!(member.links.is_empty());
    }
    let refused = stand.process.reload_here(None, &ReloadRequest::default());
    let refused = refused.expect_err("its cluster has the description");
    assert!(refused.text.contains("cluster apply"), "{}", refused.text);
}
