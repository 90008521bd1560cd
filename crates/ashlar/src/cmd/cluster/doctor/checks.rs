//! Findings from the answers of all servers, of etcd, and of its members: a function without input or output.

use super::super::mixture::{Versions, mixture, of_view};
use super::super::show::since;
use agree::View;
use control::agreement::DESCRIPTION;
use control::view::Member;
use machine::doctor::{Finding, Level, Remedy};
use serde::Serialize;
use std::path::Path;

/// Difference of clocks that is reported, in milliseconds.
const CLOCKS_MS: i64 = 1_000;
/// Time before the end of a certificate from which on it is reported, in seconds.
const ENDS_SOON: i64 = 60 * 86_400;

/// A finding, and the server that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    pub(super) server: Option<String>,
    #[serde(flatten)]
    pub(super) finding: Finding,
}

/// A server's answers, and the times on this machine's clock between which the server read its own.
pub(super) struct Checkup {
    pub(super) member: Member,
    pub(super) asked_ms: u64,
    pub(super) answered_ms: u64,
    pub(super) findings: Vec<Finding>,
}

/// All answers.
pub(super) struct Picture<'a> {
    /// Name of the server at which the command runs.
    pub(super) own: &'a str,
    /// Folder of this server; others most likely have the same path.
    pub(super) folder: &'a Path,
    pub(super) view: Result<&'a View, &'a String>,
    /// Members of etcd, each with the reason why it does not work.
    pub(super) etcd: &'a [(String, Option<String>)],
    pub(super) servers: Vec<(&'a String, Result<Checkup, String>)>,
    /// Time on this machine's clock, in milliseconds since 1970.
    pub(super) now_ms: u64,
}

/// Maker of findings about one server, or about the cluster.
struct About<'a> {
    server: Option<&'a str>,
    found: &'a mut Vec<Found>,
}

impl About<'_> {
    /// Adds a finding: severity, subject, what is so, why it matters, what to do.
    fn say(&mut self, level: Level, about: &str, what: String, why: &str, command: &str) {
        let mend = (!command.is_empty()).then(|| Remedy {
            command: command.to_owned(),
            undo: None,
            by_hand: true,
        });
        self.found.push(Found {
            server: self.server.map(str::to_owned),
            finding: Finding {
                level,
                about: about.to_owned(),
                what,
                why: why.to_owned(),
                mend,
            },
        });
    }
}

impl Picture<'_> {
    /// All findings, the most severe first.
    pub(super) fn findings(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut about = About {
            server: None,
            found: &mut found,
        };
        self.agreement(&mut about);
        self.mixtures(&mut about);
        self.etcd(&mut found);
        for (name, answer) in &self.servers {
            let mut about = About {
                server: Some(name),
                found: &mut found,
            };
            if let Ok(view) = self.view {
                self.reported(view, name, &mut about);
            }
            match answer {
                Ok(checkup) => {
                    self.server(checkup, &mut about);
                    let own = checkup.findings.iter().cloned();
                    found.extend(own.map(|finding| Found {
                        server: Some((*name).clone()),
                        finding,
                    }));
                }
                Err(why) => about.say(
                    Level::Error,
                    "answers",
                    why.clone(),
                    "nobody can look at it from here; whether it forwards is not known",
                    "look at its log; let TCP port 2383 pass between the servers",
                ),
            }
        }
        found.sort_by_key(|found| std::cmp::Reverse(found.finding.level));
        found
    }

    fn agreement(&self, about: &mut About) {
        let view = match self.view {
            Ok(view) => view,
            Err(why) => {
                return about.say(
                    Level::Error,
                    "etcd",
                    format!("it does not answer: {why}"),
                    "nothing can be changed until a majority of its members answers; forwarding goes on",
                    &format!("on servers that run a member: {}", self.start_etcd()),
                );
            }
        };
        if view.leader().is_none() {
            about.say(
                Level::Error,
                "leader",
                format!("there is none since epoch {}", view.epoch()),
                "nothing can be changed, and routes stay as they are",
                "start a server, and compare the clocks and logs of those that run",
            );
        }
        let Some(routes) = view.current_routes() else {
            return;
        };
        if let Some(why) = &routes.error {
            about.say(
                Level::Error,
                "routes",
                format!("they are not led: {why}"),
                "servers keep the routes that they have",
                "",
            );
        }
        if routes.left_out > 0 {
            about.say(
                Level::Warning,
                "routes",
                format!(
                    "{} of the leader's kernel are left out, such as {}",
                    routes.left_out,
                    routes.examples.join(", ")
                ),
                "packets for them go elsewhere, or nowhere",
                "list their gateways as `gateways` of the ports, then `ashlar cluster apply`",
            );
        }
    }

    fn mixtures(&self, about: &mut About) {
        let answered = self
            .servers
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok());
        let versions = match self.view {
            Ok(view) => of_view(view),
            Err(_) => answered
                .map(|checkup| Versions::of_member(&checkup.member))
                .collect(),
        };
        let mixture = mixture(&versions);
        if let Some(programs) = mixture.programs {
            about.say(
                Level::Warning,
                "programs",
                format!("they differ: {programs}"),
                "a mixture is for the time of an upgrade: servers may differ in what they can do",
                "install the newer program on the others, and start them again one by one",
            );
        }
        if let Some(descriptions) = mixture.descriptions {
            about.say(
                Level::Warning,
                "descriptions",
                format!("they differ: {descriptions}"),
                "servers may send packets to ports or gateways that others do not have",
                "`ashlar cluster show` says who is behind, and why",
            );
        }
    }

    fn etcd(&self, found: &mut Vec<Found>) {
        for (server, why) in self.etcd {
            let Some(why) = why else { continue };
            let mut about = About {
                server: Some(server),
                found,
            };
            let mend = match why.contains("no leader") {
                // The member runs, and waits for others.
                true => String::new(),
                false => format!("on server {server}: {}", self.start_etcd()),
            };
            about.say(
                Level::Warning,
                "etcd",
                format!("its member does not work: {why}"),
                "without a majority of members nothing can be changed",
                &mend,
            );
        }
    }

    /// Command that starts a server's member of etcd.
    fn start_etcd(&self) -> String {
        let file = self.folder.join("etcd.yaml");
        format!("etcd --config-file {}", file.display())
    }

    /// Findings about a server from what the store has about it.
    fn reported(&self, view: &View, name: &str, about: &mut About) {
        if !view.alive.contains_key(name) {
            let away = view.away.get(name).and_then(|of| of.record);
            let away = away.map_or("it is away".to_owned(), |then| {
                format!("it is away for {}", since(then, self.now_ms))
            });
            let why = "it has no lease: it does not run, or does not reach etcd";
            about.say(
                Level::Error,
                "away",
                away,
                why,
                &format!(
                    "on server {name}: ashlar cluster up {} --agreed",
                    self.folder.join(DESCRIPTION).display()
                ),
            );
        }
        let Some(state) = view.state(name) else {
            return;
        };
        if let Some(why) = &state.error {
            about.say(
                Level::Error,
                "description",
                format!("it could not take version {}: {why}", view.version()),
                "it runs an older description than others",
                "apply a description that all servers can use",
            );
        }
        let routes = view.current_routes();
        let routes = routes.and_then(|routes| routes.servers.get(name));
        if let Some(routes) = routes.filter(|_| view.alive.contains_key(name))
            && (routes.behind.is_some() || routes.missing > 0)
        {
            let what = match routes.behind {
                Some(_) => {
                    let time = since(routes.since, self.now_ms);
                    format!("it lacks the leader's latest routes for {time}")
                }
                None => format!("{} of the leader's are not in its tables", routes.missing),
            };
            let why = "it forwards by the routes that it has";
            about.say(
                Level::Warning,
                "routes",
                what,
                why,
                "let TCP port 2382 pass between the servers; look at its log",
            );
        }
    }

    /// Findings about a server from its own account.
    fn server(&self, checkup: &Checkup, about: &mut About) {
        let member = &checkup.member;
        if let Some(why) = &member.trouble {
            about.say(
                Level::Warning,
                "etcd",
                format!("etcd does not answer this server: {why}"),
                "it forwards, takes no new description, and cannot lead",
                "let TCP port 2379 pass between the servers",
            );
        }
        let down = member.links.iter().filter(|link| !link.up);
        let down: Vec<&str> = down.map(|link| &*link.peer).collect();
        if !down.is_empty() {
            about.say(
                Level::Warning,
                "links",
                format!("not in use: to {}", down.join(", ")),
                "packets take longer ways, and the cluster carries less",
                "`ashlar show beat.journal` on that server says since when, and why",
            );
        }
        if let Some(what) = self.clock(checkup) {
            about.say(
                Level::Warning,
                "clock",
                what,
                "times of different servers cannot be compared, and certificates may be refused",
                "let NTP set the clocks of all servers",
            );
        }
        let ends = member.certificates;
        let again = "run `ashlar cluster invite NAME=ADDRESS` where `ashlar cluster init` ran, and on the server \
                     `ashlar cluster join --renew TOKEN`";
        self.certificate("certificate", ends.server_ends, again, about);
        let anew = "make a new cluster: `ashlar cluster init`";
        self.certificate("authority", ends.authority_ends, anew, about);
        if let Some(namespace) = member.namespace.as_ref().filter(|of| !of.there) {
            let name = &namespace.name;
            let (level, why) = match member.leads {
                true => (Level::Error, "this server leads: no routes are led"),
                false => (
                    Level::Warning,
                    "if this server comes to lead, no routes are led",
                ),
            };
            about.say(
                level,
                "namespace",
                format!("there is no network namespace {name} for the cluster's routes"),
                why,
                &format!("ip netns add {name}, and a routing daemon there, as in docs/cluster.md"),
            );
        }
    }

    /// Difference between a server's clock and this machine's, in words, if it is certain and large enough.
    fn clock(&self, checkup: &Checkup) -> Option<String> {
        let [now, asked, answered] = [checkup.member.now_ms, checkup.asked_ms, checkup.answered_ms]
            .map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        let (ahead, behind) = (now.saturating_sub(answered), asked.saturating_sub(now));
        let seconds = |ms: i64| format!("{:.1} s", ms as f64 / 1000.0);
        if ahead > CLOCKS_MS {
            return Some(format!(
                "it is {} ahead of server {}'s",
                seconds(ahead),
                self.own
            ));
        }
        (behind > CLOCKS_MS)
            .then(|| format!("it is {} behind server {}'s", seconds(behind), self.own))
    }

    fn certificate(&self, about: &str, ends: Option<i64>, command: &str, of: &mut About) {
        let now = i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX);
        let left = match ends {
            // A server may answer anything.
            Some(ends) => ends.saturating_sub(now),
            None => {
                let why = "connections to the server may be refused";
                return of.say(
                    Level::Warning,
                    about,
                    "it cannot be read".to_owned(),
                    why,
                    command,
                );
            }
        };
        let why = "other servers and etcd refuse the server when it has ended; forwarding goes on";
        if left <= 0 {
            of.say(
                Level::Error,
                about,
                format!("it ended {} days ago", left.saturating_neg() / 86_400),
                why,
                command,
            );
        } else if left < ENDS_SOON {
            of.say(
                Level::Warning,
                about,
                format!("it ends in {} days", left / 86_400),
                why,
                command,
            );
        }
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
