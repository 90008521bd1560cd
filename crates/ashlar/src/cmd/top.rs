//! `ashlar top`

use super::{Done, client, print};
use crate::cli::Top;
use crate::rates;
use control::client::Client;
use control::terminal::{Pause, Why};
use control::view::{Info, Router, Stats};
use std::time::{Duration, Instant};

pub(crate) fn top(top: &Top) -> Done {
    let client = client(&top.target)?;
    if !client.names_router() {
        let routers: Vec<Router> = client.get_json("/v1/routers")?;
        if routers.len() > 1 {
            return all(top, &client);
        }
    }
    let look = || client.get_json::<Stats>("/v1/stats");
    if top.json && top.once {
        let bytes = client.get("/v1/stats")?;
        return print(&format!("{}\n", String::from_utf8_lossy(&bytes)));
    }
    let mut pause = Pause::new()?;
    let live = pause.is_live() && !top.once && !top.json;
    let mut before = look()?;
    loop {
        if pause.wait(Duration::from_secs_f64(top.interval)) == Why::Quit {
            return Ok(());
        }
        let after = look()?;
        if top.json {
            let text = serde_json::to_string(&after).map_err(|e| e.to_string())?;
            print(&format!("{text}\n"))?;
        } else {
            let info: Info = client.get_json("/v1/info")?;
            let mut text = head(&info);
            text += &rates::table(&before, &after);
            print(&if live {
                picture(&text, pause.lines())
            } else {
                text
            })?;
        }
        if top.once {
            return Ok(());
        }
        before = after;
    }
}

/// The routers of a process, and the part of the workers' time that each has had.
fn all(top: &Top, client: &Client) -> Done {
    let look = || {
        let routers: Vec<Router> = client.get_json("/v1/routers")?;
        Ok::<_, String>((Instant::now(), routers))
    };
    if top.json && top.once {
        return print(&json(&look()?.1)?);
    }
    let mut pause = Pause::new()?;
    let live = pause.is_live() && !top.once && !top.json;
    let mut before = look()?;
    loop {
        if pause.wait(Duration::from_secs_f64(top.interval)) == Why::Quit {
            return Ok(());
        }
        let after = look()?;
        let text = match top.json {
            true => json(&after.1)?,
            false => {
                let info: Info = client.get_json("/v1/info")?;
                let time = (after.0 - before.0).as_nanos() as f64;
                head(&info) + &rates::routers(&before.1, &after.1, time)
            }
        };
        print(&if live {
            picture(&text, pause.lines())
        } else {
            text
        })?;
        if top.once {
            return Ok(());
        }
        before = after;
    }
}

fn json(routers: &[Router]) -> Result<String, String> {
    let text = serde_json::to_string(routers).map_err(|e| e.to_string())?;
    Ok(format!("{text}\n"))
}

fn head(info: &Info) -> String {
    let up = info.uptime_ns / 1_000_000_000;
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    format!(
        "{} ({}), up {hours}:{minutes:02}:{seconds:02}, {} reloads\n\n",
        info.name, info.configuration, info.reloads
    )
}

/// A picture over the one before: home, every line to its end, then nothing below.
fn picture(text: &str, lines: Option<usize>) -> String {
    let most = lines.unwrap_or(usize::MAX).saturating_sub(1);
    let shown: Vec<&str> = text.lines().take(most).collect();
    format!("\x1b[H{}\x1b[K\n\x1b[J", shown.join("\x1b[K\n"))
}
