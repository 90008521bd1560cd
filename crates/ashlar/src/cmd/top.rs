//! `ashlar top`: rates of elements and ports, updated at intervals.

use super::{Done, harmless, print, print_as_it_is, put};
use crate::cli::Top;
use crate::rates::{self, Annotations, Selection};
use control::client::Client;
use control::terminal::{Pause, PauseEnd, columns};
use control::view::{Element, Info, Router, Stats};
use std::time::{Duration, Instant};

pub(crate) fn top(top: &Top) -> Done {
    let client = top.target.client()?;
    if !client.names_router() {
        let routers: Vec<Router> = client.get_json("/v1/routers")?;
        if routers.len() > 1 {
            // The routers of a process, and each one's share of the workers' time.
            let look = || client.get_json::<Vec<Router>>("/v1/routers");
            return watch(top, &client, "/v1/routers", look, |before, after, time| {
                Ok(rates::routers(before, after, time.as_nanos() as f64))
            });
        }
    }
    let look = || client.get_json::<Stats>("/v1/stats");
    // A reload changes the VLANs and fused loops.
    let (mut known, mut reloads) = (Annotations::default(), None);
    let choice = Selection {
        words: top.elements.clone(),
        sort: top.sort,
    };
    watch(top, &client, "/v1/stats", look, |before, after, _| {
        if reloads != Some(after.reloads)
            && let Ok(elements) = client.get_json::<Vec<Element>>("/v1/elements")
        {
            (known, reloads) = (Annotations::of(elements), Some(after.reloads));
        }
        rates::table(before, after, &known, &choice)
    })
}

/// Shows the changes at a path of the API repeatedly, with the time that they took. If there is no table for once, it
/// shows why and goes on; with `--once` that is the command's failure.
fn watch<T>(
    top: &Top,
    client: &Client,
    path: &str,
    look: impl Fn() -> Result<T, String>,
    mut table: impl FnMut(&T, &T, Duration) -> Result<String, String>,
) -> Done {
    let json = || {
        let bytes = client.get(path)?;
        print_as_it_is(&format!("{}\n", String::from_utf8_lossy(&bytes)))
    };
    if top.json && top.once {
        return json();
    }
    let mut pause = Pause::new()?;
    let live = pause.is_live() && !top.once && !top.json;
    let mut before = (Instant::now(), look()?);
    loop {
        if pause.wait(Duration::from_secs_f64(top.interval)) == PauseEnd::Quit {
            return Ok(());
        }
        if top.json {
            json()?;
            continue;
        }
        let after = (Instant::now(), look()?);
        let info: Info = client.get_json("/v1/info")?;
        let shown = match table(&before.1, &after.1, after.0 - before.0) {
            Err(why) if !top.once => format!("{why}\n"),
            shown => shown?,
        };
        let text = head(&info) + &shown;
        match live {
            true => put(&screen_text(&harmless(&text), pause.lines(), columns()))?,
            false => print(&text)?,
        }
        if top.once {
            return Ok(());
        }
        before = after;
    }
}

fn head(info: &Info) -> String {
    let up = info.uptime_ns / 1_000_000_000;
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let own = match info.own == info.configuration || info.own.is_empty() {
        true => String::new(),
        false => format!(", own {}", info.own),
    };
    format!(
        "{} ({}{own}), up {hours}:{minutes:02}:{seconds:02}, {} reloads\n\n",
        info.name, info.configuration, info.reloads
    )
}

/// Text that redraws the screen: cursor home, each line cleared to its end, then the rest of the screen cleared.
pub(crate) fn screen_text(text: &str, lines: Option<usize>, columns: Option<usize>) -> String {
    let most = lines.unwrap_or(usize::MAX).saturating_sub(1);
    // A line wider than the screen would continue in the next line.
    let cut = |line: &'_ str| line.chars().take(columns.unwrap_or(usize::MAX)).collect();
    let shown: Vec<String> = text.lines().take(most).map(cut).collect();
    format!("\x1b[H{}\x1b[K\n\x1b[J", shown.join("\x1b[K\n"))
}
