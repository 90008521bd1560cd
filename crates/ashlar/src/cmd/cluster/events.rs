//! `ashlar cluster events`: what has happened in a cluster, from the lists of all servers.

use super::{Done, answered};
use crate::cli::cluster::members::Events;
use crate::cmd::print;
use control::agreement::Home;
use control::client::Servers;
use control::view::Event;
use serde_json::json;
use time::OffsetDateTime;

pub(crate) fn events(asked: &Events) -> Done {
    let servers = Servers::find(&Home::open(&asked.at.home)?)?;
    let answers = servers.ask(|client| client.get_json::<Vec<Event>>("/v1/events"));
    let silent = servers.silent(&answers);
    let events = latest(
        answers.iter().flatten().flatten().cloned().collect(),
        asked.number,
    );
    if asked.json {
        let errors = silent
            .iter()
            .map(|(name, why)| json!({"server": name, "error": why}));
        let value = json!({"events": events, "silent": errors.collect::<Vec<_>>()});
        print(&format!("{value}\n"))?;
    } else {
        print(&events.iter().map(line).collect::<String>())?;
        for (name, why) in &silent {
            print(&format!("server {name}: {why}\n"))?;
        }
    }
    answered(&silent.iter().map(|(name, _)| *name).collect::<Vec<_>>())
}

/// The latest events in the order of their times.
fn latest(mut events: Vec<Event>, number: usize) -> Vec<Event> {
    // Events of one time stay in each server's order.
    events.sort_by_key(|event| event.time_ms);
    events.split_off(events.len().saturating_sub(number))
}

fn line(event: &Event) -> String {
    let Event {
        time_ms,
        epoch,
        server,
        what,
    } = event;
    // A reason may have several lines.
    let what = what.replace('\n', "\n    ");
    format!("{}  epoch {epoch}  {server}: {what}\n", moment(*time_ms))
}

/// Date and time in UTC, with milliseconds.
fn moment(time_ms: u64) -> String {
    match OffsetDateTime::from_unix_timestamp_nanos(i128::from(time_ms) * 1_000_000) {
        Ok(t) => format!(
            "{} {:02}:{:02}:{:02}.{:03}",
            t.date(),
            t.hour(),
            t.minute(),
            t.second(),
            t.millisecond()
        ),
        Err(_) => format!("{time_ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_by_the_calendar() {
        for (time_ms, right) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (1_709_164_799_999, "2024-02-28 23:59:59.999"),
            (1_709_164_800_000, "2024-02-29 00:00:00.000"),
            (1_735_689_600_000, "2025-01-01 00:00:00.000"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
        ] {
            assert_eq!(moment(time_ms), right);
        }
        // A server may answer anything.
        assert_eq!(moment(u64::MAX), format!("{} ms", u64::MAX));
    }

    #[test]
    fn the_latest_events_of_all_servers_are_in_order() {
        let event = |time_ms, server: &str, what: &str| Event {
            time_ms,
            epoch: 4,
            server: server.to_owned(),
            what: what.to_owned(),
        };
        let all = vec![
            event(1000, "a", "started"),
            event(3000, "a", "leads"),
            event(2000, "b", "started"),
            event(
                3000,
                "b",
                "did not take version 4 of the description: one\ntwo",
            ),
        ];
        let lines: Vec<String> = latest(all, 3).iter().map(line).collect();
        let right = [
            "1970-01-01 00:00:02.000  epoch 4  b: started\n",
            "1970-01-01 00:00:03.000  epoch 4  a: leads\n",
            "1970-01-01 00:00:03.000  epoch 4  b: did not take version 4 of the description: one\n    two\n",
        ];
        assert_eq!(lines, right);
    }
}
