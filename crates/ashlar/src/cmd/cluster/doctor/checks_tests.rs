use super::*;
use agree::records::{ALIVE, EPOCH, LEADER, Leader, MEMBER, ROUTES, Routes, STATE, State, put};
use agree::{Change, Entry};
use control::view::{Certificates, MemberLink, Namespace};

/// Time at which the answers were given, in milliseconds since 1970.
const NOW: u64 = 1_800_000_000_000;

/// View of a store with these changes.
fn view(changes: Vec<Change>) -> View {
    let entries = changes.into_iter().map(|change| Entry {
        key: change.key,
        value: change.value,
        revision: 1,
        lease: Some(1),
    });
    View::new(1, entries.collect())
}

/// Entries of servers that run the same program and version 3, and of the leader a.
fn usual(servers: &[&str]) -> Vec<Change> {
    let leader = Leader {
        name: "a".to_owned(),
        epoch: 5,
        at: None,
    };
    let mut all = vec![put(EPOCH, &5), put(LEADER, &leader)];
    for name in servers {
        all.push(put(
            format!("{MEMBER}{name}"),
            &agree::records::Member::default(),
        ));
        all.push(put(format!("{ALIVE}{name}"), &""));
        all.push(put(format!("{STATE}{name}"), &state("1", 3)));
    }
    all
}

fn state(program: &str, version: u64) -> State {
    State {
        program: program.to_owned(),
        version,
        ..State::default()
    }
}

fn well(name: &str) -> Checkup {
    let days = |days: i64| Some((NOW / 1000) as i64 + days * 86_400);
    Checkup {
        member: Member {
            server: name.to_owned(),
            program: "1".to_owned(),
            version: 3,
            now_ms: NOW,
            certificates: Certificates {
                server_ends: days(800),
                authority_ends: days(3000),
            },
            ..Member::default()
        },
        asked_ms: NOW - 20,
        answered_ms: NOW + 20,
        findings: Vec::new(),
    }
}

/// Findings as `LEVEL SERVER ABOUT: WHAT`; servers are called a, b and so on.
fn found(view: Result<&View, &String>, checkups: Vec<Result<Checkup, String>>) -> Vec<String> {
    let names = ["a", "b", "c"].map(str::to_owned);
    let picture = Picture {
        own: "a",
        folder: Path::new("/srv/a"),
        view,
        etcd: &[],
        servers: names.iter().zip(checkups).collect(),
        now_ms: NOW,
    };
    lines(&picture)
}

fn lines(picture: &Picture) -> Vec<String> {
    let each = picture.findings().into_iter().map(|found| {
        let finding = found.finding;
        let server = found.server.unwrap_or("-".to_owned());
        format!(
            "{} {server} {}: {}",
            finding.level.name(),
            finding.about,
            finding.what
        )
    });
    each.collect()
}

#[test]
fn nothing_is_found_when_all_is_well() {
    let view = view(usual(&["a", "b"]));
    assert_eq!(
        found(Ok(&view), vec![Ok(well("a")), Ok(well("b"))]),
        [""; 0]
    );
}

#[test]
fn servers_that_are_away_or_silent_are_errors() {
    let mut changes = usual(&["a", "b"]);
    changes.retain(|change| change.key != format!("{ALIVE}b"));
    changes.push(put("away/b", &(NOW - 65_000)));
    let view = view(changes);
    let found = found(
        Ok(&view),
        vec![Ok(well("a")), Err("no route to host".to_owned())],
    );
    let right = [
        "error b away: it is away for 0:01:05",
        "error b answers: no route to host",
    ];
    assert_eq!(found, right);
}

#[test]
fn a_mixture_names_its_servers() {
    let mut changes = usual(&["a", "b", "c"]);
    changes.push(put(format!("{STATE}c"), &state("2", 4)));
    let mut view = view(changes);
    let all = || ["a", "b", "c"].map(|name| Ok(well(name))).into();
    let right = [
        "warning - programs: they differ: 1 on a, b; 2 on c",
        "warning - descriptions: they differ: version 3 on a, b; version 4 on c",
    ];
    assert_eq!(found(Ok(&view), all()), right);
    let failed = State {
        error: Some("no such device".to_owned()),
        ..state("1", 3)
    };
    let entry = Entry {
        key: format!("{STATE}c"),
        value: put("", &failed).value,
        revision: 2,
        lease: None,
    };
    view.change(2, vec![entry]);
    let right = ["error c description: it could not take version 0: no such device"];
    assert_eq!(found(Ok(&view), all()), right);
}

#[test]
fn a_servers_own_account_is_judged() {
    let view = view(usual(&["a", "b"]));
    let judged = |change: &dyn Fn(&mut Member)| {
        let mut checkup = well("b");
        change(&mut checkup.member);
        let found = found(Ok(&view), vec![Ok(well("a")), Ok(checkup)]);
        found.join("\n")
    };
    let link = |peer: &str, up| MemberLink {
        peer: peer.to_owned(),
        up,
    };
    let links = |member: &mut Member| {
        member.links = vec![link("a", true), link("c", false), link("d", false)];
    };
    assert_eq!(judged(&links), "warning b links: not in use: to c, d");
    assert_eq!(
        judged(&|member| member.now_ms += 3_020),
        "warning b clock: it is 3.0 s ahead of server a's"
    );
    assert_eq!(
        judged(&|member| member.now_ms -= 7_000),
        "warning b clock: it is 7.0 s behind server a's"
    );
    // So much may be the way of the answer.
    assert_eq!(judged(&|member| member.now_ms += 1_000), "");
    let ends = |days: i64| {
        move |member: &mut Member| {
            member.certificates.server_ends = Some((NOW / 1000) as i64 + days * 86_400);
        }
    };
    assert_eq!(
        judged(&ends(59)),
        "warning b certificate: it ends in 59 days"
    );
    assert_eq!(
        judged(&ends(-2)),
        "error b certificate: it ended 2 days ago"
    );
    assert_eq!(judged(&ends(60)), "");
    let namespace = |leads| {
        move |member: &mut Member| {
            member.leads = leads;
            member.namespace = Some(Namespace {
                name: "routes".to_owned(),
                there: false,
            });
        }
    };
    let missing = "b namespace: there is no network namespace routes for the cluster's routes";
    assert_eq!(judged(&namespace(false)), format!("warning {missing}"));
    assert_eq!(judged(&namespace(true)), format!("error {missing}"));
    assert_eq!(
        judged(&|member| member.trouble = Some("no way".to_owned())),
        "warning b etcd: etcd does not answer this server: no way"
    );
}

#[test]
fn without_etcd_servers_are_judged_by_their_own_accounts() {
    let mut other = well("b");
    other.member.program = "2".to_owned();
    let why = "no majority".to_owned();
    let etcd = [
        ("a".to_owned(), Some("etcdserver: no leader".to_owned())),
        ("b".to_owned(), Some("connection refused".to_owned())),
    ];
    let names = ["a", "b"].map(str::to_owned);
    let picture = Picture {
        own: "a",
        folder: Path::new("/srv/a"),
        view: Err(&why),
        etcd: &etcd,
        servers: names.iter().zip([Ok(well("a")), Ok(other)]).collect(),
        now_ms: NOW,
    };
    let right = [
        "error - etcd: it does not answer: no majority",
        "warning - programs: they differ: 1 on a; 2 on b",
        "warning a etcd: its member does not work: etcdserver: no leader",
        "warning b etcd: its member does not work: connection refused",
    ];
    assert_eq!(lines(&picture), right);
    // A member that runs need not be started.
    let mends = picture
        .findings()
        .into_iter()
        .map(|found| found.finding.mend);
    let mends: Vec<String> = mends.flatten().map(|mend| mend.command).collect();
    let start = "etcd --config-file /srv/a/etcd.yaml";
    assert_eq!(mends.len(), 3, "{mends:?}");
    assert_eq!(mends[0], format!("on servers that run a member: {start}"));
    assert_eq!(mends[2], format!("on server b: {start}"));
}

#[test]
fn a_leader_is_missed_and_its_routes_are_judged() {
    let routes = Routes {
        epoch: 5,
        error: Some("no namespace".to_owned()),
        left_out: 2,
        examples: vec!["10.9.0.0/16: no such gateway".to_owned()],
        ..Routes::default()
    };
    let mut changes = usual(&["a"]);
    changes.push(put(ROUTES, &routes));
    let view_ = view(changes.clone());
    let right = [
        "error - routes: they are not led: no namespace",
        "warning - routes: 2 of the leader's kernel are left out, such as 10.9.0.0/16: no such gateway",
    ];
    assert_eq!(found(Ok(&view_), vec![Ok(well("a"))]), right);
    // A leader that is gone leads no routes.
    changes.retain(|change| change.key != LEADER);
    let view_ = view(changes);
    let right = ["error - leader: there is none since epoch 5"];
    assert_eq!(found(Ok(&view_), vec![Ok(well("a"))]), right);
}
