use super::*;
use crate::records::Links;
use std::collections::VecDeque;

fn seeds() -> u64 {
    std::env::var("SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(300)
}

#[test]
fn seeds_keep_one_writer_an_epoch_and_converge_when_faults_end() {
    let (mut epochs, mut versions) = (0, 0);
    for seed in 0..seeds() {
        let history = World::new(seed, Mutation::default()).run();
        let history = history.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        epochs += history.epoch;
        versions += history.wanted.1;
    }
    // The faults do something: leaders change, and descriptions too.
    assert!(
        epochs >= 2 * seeds() && versions >= 3 * seeds(),
        "{epochs} {versions}"
    );
}

#[test]
fn seeds_find_a_store_that_ignores_epochs() {
    let mutation = Mutation {
        ignores_epochs: true,
        ..Mutation::default()
    };
    let wrong = (0..2_000).find_map(|seed| World::new(seed, mutation).run().err());
    assert!(wrong.is_some());
}

#[test]
fn seeds_find_a_server_that_forgets_its_epoch() {
    let mutation = Mutation {
        forgets_epoch: true,
        ..Mutation::default()
    };
    let wrong = (0..100).find_map(|seed| World::new(seed, mutation).run().err());
    assert!(wrong.is_some_and(|why| why.contains("has forgotten")));
}

#[test]
fn a_seed_gives_the_same_history_again() {
    let run = || {
        World::new(7, Mutation::default())
            .run()
            .map(|history| history.texts)
    };
    assert_eq!(run(), run());
}

/// Drives a server alone for forty seconds. Its watch reports nothing, and it can run every description. Returns the
/// state that it kept last, and the description that it took.
fn drive(agent: &mut Agent, store: &mut Memory, from: Millis) -> (Option<Kept>, Option<Wanted>) {
    let (mut keeps, mut took) = (None, None);
    for now in from..from + 40_000 {
        match agent.next(now) {
            Some(Act::Ask(number, request)) => {
                if let Some(answer) = store.answer(&request, now) {
                    agent.hear(Event::Answered(number, Ok(answer)), now);
                }
            }
            Some(Act::Keep(kept)) => {
                keeps = Some(kept.clone());
                agent.kept(Ok(kept), now);
            }
            Some(Act::Check(proposal)) => agent.checked(proposal.id, None),
            Some(Act::Take(wanted)) => {
                let version = wanted.version;
                let kept = Kept {
                    version,
                    ..agent.keeps().clone()
                };
                took = Some(wanted);
                agent.took(version, Ok(kept), now);
            }
            None => {}
        }
    }
    (keeps, took)
}

#[test]
fn a_store_that_was_restored_from_an_old_copy_takes_no_server_back() {
    let mut store = Memory::default();
    let old = Leader {
        name: "b".to_owned(),
        epoch: 2,
        at: None,
    };
    let wanted = Wanted {
        version: 3,
        epoch: 2,
        leader: "b".to_owned(),
        ..Wanted::default()
    };
    let write = |changes| {
        Request::Write(Write {
            changes,
            ..Write::default()
        })
    };
    let changes = vec![put(EPOCH, &2), put(LEADER, &old), put(WANTED, &wanted)];
    store.answer(&write(changes), 0);
    let kept = Kept {
        epoch: 7,
        version: 9,
        ..Kept::default()
    };
    let mut agent = Agent::new(identity(0), kept, 0);
    let (_, took) = drive(&mut agent, &mut store, 0);
    assert!(agent.leads() && took.is_none());
    assert_eq!((agent.keeps().epoch, agent.keeps().version), (8, 9));
    // The next description is newer than all that servers run.
    let proposal = Proposal {
        id: "1".to_owned(),
        base: 3,
        ..Proposal::default()
    };
    store.answer(&write(vec![put(PROPOSED, &proposal)]), 40_000);
    let (_, took) = drive(&mut agent, &mut store, 40_000);
    let took = took.unwrap();
    assert_eq!((took.epoch, took.version), (8, 10));
}

#[test]
fn leases_are_renewed_while_another_request_has_no_answer() {
    let mut agent = Agent::new(identity(0), Kept::default(), 0);
    let mut store = Memory::default();
    drive(&mut agent, &mut store, 0);
    // The server has a state to report, and the store answers renewals alone.
    agent.linked(Links::default());
    let mut unanswered = 0;
    for now in 40_000..44_900 {
        match agent.next(now) {
            Some(Act::Ask(number, request @ Request::Renew(_))) => {
                let answer = store.answer(&request, now).unwrap();
                agent.hear(Event::Answered(number, Ok(answer)), now);
            }
            Some(_) => unanswered += 1,
            None => {}
        }
    }
    assert_eq!(unanswered, 1);
    store.expire(44_900);
    assert!(store.value(LEADER).is_some() && agent.leads());
}

#[test]
fn leases_stay_if_answers_to_renewals_are_late() {
    let mut agent = Agent::new(identity(0), Kept::default(), 0);
    let mut store = Memory::default();
    drive(&mut agent, &mut store, 0);
    let epoch = agent.keeps().epoch;
    let mut renewals = 0;
    // By 1.4 s; and each third one is a failure although the store has renewed the lease.
    let mut late: VecDeque<(Millis, u64, Result<Answer, String>)> = VecDeque::new();
    for now in 40_000..55_000 {
        while late.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, number, answer) = late.pop_front().unwrap();
            agent.hear(Event::Answered(number, answer), now);
        }
        let Some(Act::Ask(number, request)) = agent.next(now) else {
            continue;
        };
        let Some(answer) = store.answer(&request, now) else {
            continue;
        };
        renewals += u64::from(matches!(request, Request::Renew(_)));
        let answer = match (request, renewals % 3) {
            (Request::Renew(_), 0) => Err("timed out".to_owned()),
            _ => Ok(answer),
        };
        late.push_back((now + 1_400, number, answer));
    }
    store.expire(55_000);
    assert!(store.value(LEADER).is_some());
    assert_eq!((agent.keeps().epoch, agent.trouble()), (epoch, None));
}

#[test]
fn a_server_that_left_stays_away_until_it_joins_again() {
    let (mut store, mut agent) = (
        Memory::default(),
        Agent::new(identity(0), Kept::default(), 0),
    );
    drive(&mut agent, &mut store, 0);
    assert!(agent.leads());
    let gone = Member {
        identity: name(0),
        left: true,
    };
    let write = Write {
        changes: vec![put(format!("{MEMBER}a"), &gone)],
        ..Write::default()
    };
    store.answer(&Request::Write(write), 40_000);
    let kept = drive(&mut agent, &mut store, 40_000).0.unwrap();
    assert!(kept.left && agent.next(90_000).is_none());
    // The same identity is refused again after a restart, another one is taken.
    let mut again = Agent::new(identity(0), Kept::default(), 0);
    let (kept, _) = drive(&mut again, &mut store, 100_000);
    assert!(kept.is_some_and(|kept| kept.left));
    let mut anew = identity(0);
    anew.id = "anew".to_owned();
    let mut anew = Agent::new(anew, Kept::default(), 0);
    drive(&mut anew, &mut store, 200_000);
    assert!(anew.leads());
}

#[test]
fn a_proposal_that_a_server_refuses_is_not_wanted_and_the_verdict_names_the_server() {
    let mut world = World::new(1, Mutation::default());
    world.due.retain(|_, due| matches!(due, Due::Turn(_)));
    let mut until = |proposal: Option<&Proposal>, end: Millis| {
        if let Some(proposal) = proposal {
            let write = Write {
                changes: vec![put(PROPOSED, proposal)],
                ..Write::default()
            };
            world.store.answer(&Request::Write(write), world.now);
        }
        while let Some(Reverse((at, order))) = world.queue.pop() {
            world.now = at;
            if let Some(due) = world.due.remove(&order) {
                world.step(due);
            }
            if at > end {
                break;
            }
        }
        let Some(Answer::All(revision, all)) = world.store.answer(&Request::Read, world.now) else {
            unreachable!("a store in memory answers");
        };
        let view = View::new(revision, all);
        (
            view.version(),
            view.verdict.record.map(|verdict| verdict.error),
        )
    };
    let proposal = |id: &str, text: &str, dry_run| Proposal {
        id: id.to_owned(),
        text: text.to_owned(),
        dry_run,
        ..Proposal::default()
    };
    assert_eq!(until(None, FAULTS), (0, None));
    let refused = Some(Some("server c refuses it: a mistake".to_owned()));
    let mut end = FAULTS;
    for (proposal, right) in [
        (proposal("1", "bad c", false), (0, refused.clone())),
        (proposal("2", "good", true), (0, Some(None))),
        (proposal("3", "good", false), (1, Some(None))),
        (proposal("4", "late", false), (1, None)),
    ] {
        end += 20_000;
        let (version, verdict) = until(Some(&proposal), end);
        let late = proposal.id == "4"
            && verdict.as_ref().is_some_and(|why| {
                why.as_ref()
                    .is_some_and(|why| why.contains("version 1 is wanted by now"))
            });
        assert!(
            version == right.0 && (late || verdict == right.1),
            "{version} {verdict:?}"
        );
    }
}
