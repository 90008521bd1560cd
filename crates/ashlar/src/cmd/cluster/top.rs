//! `ashlar cluster top`: rates of all servers, again and again.

use super::mixture::{Versions, description_text, mixture};
use super::server_rates::{Port, Rate, Reading, ServerRates, between};
use super::{Done, answered};
use crate::cli::cluster::members::Top;
use crate::cmd::top::screen_text;
use crate::cmd::{harmless, print, print_json, put};
use crate::rates::{self, share, short_number};
use control::agreement::Home;
use control::client::{Answers, Servers};
use control::terminal::{Pause, PauseEnd, columns};
use control::view::Member;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Time after which the list of servers is read again. It takes seconds if etcd is away.
const AGAIN: Duration = Duration::from_secs(15);
/// Number of drops that a line of the table names.
const DROPS_MAX: usize = 4;

/// Rates of a server, and how it stands in the cluster.
type Row = (Member, ServerRates);

pub(crate) fn top(asked: &Top) -> Done {
    let home = Home::open(&asked.at.home)?;
    let mut pause = Pause::new()?;
    let live = pause.is_live() && !asked.once && !asked.json;
    let (mut servers, mut found) = (Servers::find(&home)?, Instant::now());
    let mut before = servers.ask(Reading::of);
    loop {
        if pause.wait(Duration::from_secs_f64(asked.interval)) == PauseEnd::Quit {
            return Ok(());
        }
        if found.elapsed() > AGAIN
            && let Ok(now) = Servers::find(&home)
        {
            found = Instant::now();
            let same = now.names == servers.names;
            servers = now;
            if !same {
                before = servers.ask(Reading::of);
                continue;
            }
        }
        let after = servers.ask(Reading::of);
        let rows: Answers<Row> = before.iter().zip(&after).map(row).collect();
        if asked.json {
            print_json(&to_json(&servers, &rows))?;
        } else {
            let text = table(&servers, &rows);
            match live {
                true => put(&screen_text(&harmless(&text), pause.lines(), columns()))?,
                false => print(&text)?,
            }
        }
        if asked.once {
            let silent = servers.silent(&rows).into_iter();
            return answered(&silent.map(|(name, _)| name).collect::<Vec<_>>());
        }
        before = after;
    }
}

fn row(readings: (&Result<Reading, String>, &Result<Reading, String>)) -> Result<Row, String> {
    match readings {
        (_, Err(why)) => Err(why.clone()),
        (Err(_), Ok(_)) => Err("it answers since a moment ago".to_owned()),
        (Ok(before), Ok(after)) => Ok((after.member.clone(), between(before, after)?)),
    }
}

/// The head, tables of ports and of workers, and a line for each server that does not answer.
fn table(servers: &Servers, rows: &Answers<Row>) -> String {
    let members = rows.iter().flatten().map(|(member, _)| member);
    let mut text = head(&servers.cluster, members);
    let (mut ports, mut workers) = (Vec::new(), Vec::new());
    for (name, row) in servers.names.iter().zip(rows) {
        let Ok((_, rates)) = row else { continue };
        ports.extend(rates.ports.iter().map(|port| port_cells(name, port)));
        workers.push(worker_cells(name, rates));
    }
    let columns = [
        "server",
        "port",
        "link",
        "in packets/s",
        "in bits/s",
        "out packets/s",
        "out bits/s",
    ];
    rates::print(&mut text, &columns, 3, ports);
    let columns = ["server", "workers", "busy", "busiest", "drops/s"];
    rates::print(&mut text, &columns, 1, workers);
    for (name, why) in servers.silent(rows) {
        let _ = writeln!(text, "server {name}: {why}");
    }
    text
}

/// Leader of the cluster, and the description that its servers run.
fn head<'a>(cluster: &str, members: impl Iterator<Item = &'a Member> + Clone) -> String {
    let leader = members.clone().find(|member| member.leads);
    let leader = leader.map_or("no leader".to_owned(), |member| {
        format!("leader {}, epoch {}", member.server, member.epoch)
    });
    let versions: Vec<Versions> = members.map(Versions::of_member).collect();
    let described = match (mixture(&versions).descriptions, versions.first()) {
        (Some(descriptions), _) => format!("; a mixture of descriptions: {descriptions}"),
        (None, Some(all)) => format!(
            "; each server that answered runs {}",
            description_text(all.description)
        ),
        (None, None) => String::new(),
    };
    format!("cluster {cluster}: {leader}{described}\n\n")
}

fn port_cells(server: &str, port: &Port) -> [String; 7] {
    let bits = |rate: Rate| rate.bits.map_or("-".to_owned(), short_number);
    [
        server.to_owned(),
        match &port.peer {
            Some(peer) => format!("to {peer}"),
            None => port.name.clone(),
        },
        if port.up { "up" } else { "down" }.to_owned(),
        short_number(port.received.packets),
        bits(port.received),
        short_number(port.sent.packets),
        bits(port.sent),
    ]
}

fn worker_cells(server: &str, rates: &ServerRates) -> [String; 5] {
    let (count, sum) = (rates.busy.len(), rates.busy.iter().sum::<f64>());
    let named = rates.drops.iter().take(DROPS_MAX);
    let mut named: Vec<String> = named
        .map(|(element, name, rate)| format!("{element} {name} {}", short_number(*rate)))
        .collect();
    if let Some(more) = rates.drops.len().checked_sub(DROPS_MAX).filter(|n| *n > 0) {
        named.push(format!("and {more} others"));
    }
    [
        server.to_owned(),
        count.to_string(),
        share(sum / count.max(1) as f64, 1.0),
        share(rates.busy.iter().copied().fold(0.0, f64::max), 1.0),
        named.join(", "),
    ]
}

fn to_json(servers: &Servers, rows: &Answers<Row>) -> Value {
    let rate = |rate: Rate| json!({"packets": rate.packets, "bits": rate.bits});
    let port = |port: &Port| {
        json!({
            "port": port.name, "peer": port.peer, "up": port.up,
            "in": rate(port.received), "out": rate(port.sent),
        })
    };
    let drop = |of: &(String, String, f64)| json!({"at": of.0, "name": of.1, "packets": of.2});
    let server = |(name, row): (&String, &Result<Row, String>)| match row {
        Err(why) => json!({"server": name, "error": why}),
        Ok((member, rates)) => json!({
            "server": name,
            "leads": member.leads, "epoch": member.epoch, "version": member.version, "program": member.program,
            "ports": rates.ports.iter().map(port).collect::<Vec<_>>(),
            "busy": rates.busy,
            "drops": rates.drops.iter().map(drop).collect::<Vec<_>>(),
        }),
    };
    json!({
        "cluster": servers.cluster,
        "servers": servers.names.iter().zip(rows).map(server).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::cluster::server_rates::tests::reading;

    #[test]
    fn a_line_tells_a_port_and_a_line_tells_the_workers() {
        let (member, rates) = row((&Ok(reading(10)), &Ok(reading(12)))).unwrap();
        assert_eq!(member.server, "a");
        let ports = rates
            .ports
            .iter()
            .map(|port| port_cells("a", port).join(" "));
        let right = [
            "a lan up 100 100k 90 90.0k",
            "a to b up 80 80.0k 70 70.0k",
            "a to c down 50 - 40 -",
            "a underlay up 60 60.0k 0 -",
        ];
        assert_eq!(ports.collect::<Vec<_>>(), right);
        let mut rates = rates;
        let workers = worker_cells("a", &rates).join(" ");
        assert_eq!(workers, "a 1 25% 25% beat full 3, eth0 kernel_drops 2");
        let more = (0..4).map(|n| (format!("q{n}"), "full".to_owned(), 1.0));
        rates.drops.extend(more);
        let workers = worker_cells("a", &rates)[4].clone();
        assert!(workers.ends_with("q1 full 1, and 2 others"), "{workers}");
    }

    #[test]
    fn the_head_names_the_leader_and_what_servers_run() {
        let member = |server: &str, leads, version| Member {
            server: server.to_owned(),
            leads,
            epoch: 5,
            version,
            ..Member::default()
        };
        for (members, right) in [
            (vec![], "no leader"),
            (
                vec![member("a", false, 0)],
                "no leader; each server that answered runs the file it joined with",
            ),
            (
                vec![member("a", false, 3), member("b", true, 3)],
                "leader b, epoch 5; each server that answered runs version 3",
            ),
            (
                vec![member("a", true, 3), member("b", false, 2)],
                "leader a, epoch 5; a mixture of descriptions: version 2 on b; version 3 on a",
            ),
        ] {
            assert_eq!(head("c", members.iter()), format!("cluster c: {right}\n\n"));
        }
    }

    #[test]
    fn a_server_needs_two_answers() {
        let away = || Err("it is away".to_owned());
        assert_eq!(row((&Ok(reading(1)), &away())).err().unwrap(), "it is away");
        assert!(row((&away(), &Ok(reading(1)))).is_err());
    }
}
