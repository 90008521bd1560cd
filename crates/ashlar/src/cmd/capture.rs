//! `ashlar capture`

use super::{Done, complain, print};
use crate::cli::{Capture, Copies};
use crate::packet::describe;
use control::client::{Client, encode};
use control::view::pcapng::{PcapngBlock, RAW_IP, take_block};
use std::io::{IsTerminal, Write};

pub(crate) fn capture(args: &Capture) -> Done {
    let client = args.target.client()?;
    capture_from(&client, &args.points, &args.how)
}

/// Copies packets of a router at points, or where an element drops them.
pub(crate) fn capture_from(client: &Client, points: &[String], how: &Copies) -> Done {
    let mut output = Output::open(how.write.as_deref())?;
    let mut tally = CaptureState {
        json: how.json,
        ..CaptureState::default()
    };
    let mut wrong = None;
    client.follow(&target(points, how), &mut |bytes| {
        let done = tally.read(bytes, &mut output);
        done.map_err(|e| wrong = Some(e)).is_ok()
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    output.flush()?;
    complain(&format!(
        "{} packets captured, {} lost",
        tally.packets, tally.lost
    ));
    if tally.packets == 0 && !how.filter.is_empty() && !how.filter.contains("vlan") {
        complain(&format!(
            "if the frames have VLAN tags: filters look behind a tag only after `vlan`, as in -f 'vlan and ({})'",
            how.filter
        ));
    }
    Ok(())
}

fn target(points: &[String], how: &Copies) -> String {
    let mut query: Vec<String> = Vec::new();
    query.extend(points.iter().map(|p| format!("point={}", encode(p))));
    if let Some(element) = &how.drops {
        query.push(format!("drops={}", encode(element)));
    }
    if let Some(count) = how.count {
        query.push(format!("count={count}"));
    }
    query.push(format!("filter={}", encode(&how.filter)));
    query.push(format!("snaplen={}", how.snaplen));
    format!("/v1/capture?{}", query.join("&"))
}

enum Output {
    File(std::fs::File, String),
    Raw,
    Lines,
}

impl Output {
    fn open(name: Option<&str>) -> Result<Output, String> {
        match name {
            None => Ok(Output::Lines),
            Some("-") if std::io::stdout().is_terminal() => {
                Err("a capture is binary: write it to a file or a pipe".to_owned())
            }
            Some("-") => Ok(Output::Raw),
            Some(name) => {
                let file = std::fs::File::create(name);
                let file = file.map_err(|e| format!("cannot write {name}: {e}"))?;
                Ok(Output::File(file, name.to_owned()))
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Done {
        match self {
            Output::Lines => Ok(()),
            Output::File(file, name) => file
                .write_all(bytes)
                .map_err(|e| format!("cannot write {name}: {e}")),
            Output::Raw => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes)
                    .and_then(|()| out.flush())
                    .map_err(|_| String::new())
            }
        }
    }

    fn flush(&mut self) -> Done {
        match self {
            Output::File(file, name) => file
                .flush()
                .map_err(|e| format!("cannot write {name}: {e}")),
            _ => Ok(()),
        }
    }
}

/// State of a capture: interfaces and counters so far.
#[derive(Default)]
struct CaptureState {
    json: bool,
    packets: u64,
    lost: u64,
    waiting: Vec<u8>,
    interfaces: Vec<(String, u16)>,
}

impl CaptureState {
    fn read(&mut self, bytes: &[u8], output: &mut Output) -> Done {
        output.bytes(bytes)?;
        self.waiting.extend_from_slice(bytes);
        let (mut at, mut text) = (0, String::new());
        while let Some((found, length)) = take_block(&self.waiting[at..])? {
            at += length;
            match found {
                PcapngBlock::Interface(name, link) => self.interfaces.push((name, link)),
                PcapngBlock::Lost(lost) => self.lost = lost,
                PcapngBlock::Packet(interface, time, bytes, len, comment) => {
                    self.packets += 1;
                    if matches!(output, Output::Lines) {
                        text += &self.line(interface, time, &bytes, len, &comment);
                    }
                }
                PcapngBlock::Other => {}
            }
        }
        self.waiting.drain(..at);
        if text.is_empty() {
            Ok(())
        } else {
            print(&text)
        }
    }

    fn line(&self, interface: u32, time: u64, bytes: &[u8], len: usize, comment: &str) -> String {
        let known = self.interfaces.get(interface as usize);
        let (name, link) = known.map_or(("", 0), |(name, link)| (name.as_str(), *link));
        let point_name = if comment.is_empty() { name } else { comment };
        let what = describe(bytes, link == RAW_IP);
        if self.json {
            let packet = serde_json::json!({"time_ns": time, "place": point_name, "packet": what, "length": len});
            return format!("{packet}\n");
        }
        format!("{} {point_name}: {what} length {len}\n", clock(time))
    }
}

/// The time of day, in UTC, with microseconds.
pub(crate) fn clock(time: u64) -> String {
    let seconds = time / 1_000_000_000 % 86_400;
    let micros = time / 1000 % 1_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{micros:06}", seconds % 60)
}
