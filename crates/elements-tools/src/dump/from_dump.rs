//! Reads packets from a capture file, as `tcpdump -w` writes them.
//!
//! ```click
//! FromDump(trace.pcap, STOP true, FORCE_IP true) -> ToIPSummaryDump(-);
//! ```
//!
//! Reads pcap and pcapng files, also compressed with gzip or bzip2. The EXTRA_LENGTH annotation has the number of
//! bytes of a frame that were not captured. To receive packets of a file as from a device, see FromDevice with a
//! `pcap:` port.
//!
//! Arguments:
//!
//! - `FILENAME`: the file; `-` is the standard input.
//!
//! Keyword arguments:
//!
//! - `STOP`: true to stop the router at the end of the file or window. Default false.
//! - `TIMING`: true if packets keep the delays between their timestamps. Default false.
//! - `SAMPLE`: probability with which a packet is emitted. Default 1.
//! - `FORCE_IP`: true to emit only IPv4 and IPv6 packets, with their network header annotation set; others leave by
//!   output 1. Default false; true if the file has IP packets without link header.
//! - `START`, `START_AFTER`: start, as a timestamp, or as a time after the first timestamp.
//! - `END`, `END_AFTER`, `INTERVAL`: end, as a timestamp, as a time after the first timestamp, or as a time
//!   after the first emitted packet.
//! - `END_CALL`: handler that is written at the end, instead of `active false`.
//! - `ACTIVE`: if false, emits nothing until the handler `active` is written. Default true.
//! - `FILEPOS`: start, as the offset of a packet's record in the uncompressed file.
//! - `MMAP`: accepted for compatibility with Click.

use super::file::{Filename, Input};
use super::playback::{self, Next, Playback, PlaybackArgs, PlaybackClass};
use crate::prelude::*;
use captures::link::{Encap, mark_ip};
use captures::time_window::{Moment, Window, WindowPosition};
use captures::{ETHERNET, Reader};
use elements::source::end_action::End;
use elements::stderr_messages::complain;
use engine::notify::Notifies;
use engine::port::Slot;
use std::io::BufRead;

type File = Reader<Box<dyn BufRead + Send>>;

pub(super) struct Config {
    filename: String,
    end: End,
    manner: PlaybackArgs,
    force_ip: bool,
    window: Window,
    filepos: Option<u64>,
    opened: Slot<Dump>,
}

/// An open file.
struct Dump {
    name: String,
    size: Option<u64>,
    file: File,
}

pub(super) struct FromDump {
    config: Arc<Config>,
    playback: Playback,
    /// The dump; `None` after its end.
    dump: Option<Dump>,
    encap: Encap,
    window: Window,
    frame: Vec<u8>,
    count: u64,
    /// Start of the last packet's record.
    packet_at: u64,
}

drops! {
    NOT_IP = "not_ip",
}
const TOO_LONG: &str = "packet too long";

impl Dump {
    fn open(name: &str) -> Result<Dump, String> {
        let input = Input::open(name)?;
        let file = Reader::new(input.reader).map_err(|e| format!("{name}: {e}"))?;
        Ok(Dump {
            name: input.name,
            size: input.size,
            file,
        })
    }

    fn open_at(name: &str, at: u64) -> Result<Dump, String> {
        let mut dump = Dump::open(name)?;
        match dump.file.skip_to(at) {
            Ok(true) => Ok(dump),
            Ok(false) => Err(format!("{name}: no packet can start at byte {at}")),
            Err(e) => Err(format!("{name}: {e}")),
        }
    }
}

impl FromDump {
    /// Reads the next packet of the file; `None` at its end, or if there is no buffer.
    fn read(&mut self) -> Option<Packet> {
        loop {
            self.packet_at = self.playback.position;
            let dump = self.dump.as_mut()?;
            let read = dump.file.next(&mut self.frame);
            self.playback.position = dump.file.position();
            let read = read.inspect_err(|wrong| complain(&format!("{}: {wrong}", dump.name)));
            let Ok(Some(record)) = read else {
                self.dump = None;
                return None;
            };
            self.encap = Encap::of(record.link);
            let mut packet = Packet::new()?;
            let Some(data) = packet.put(self.frame.len()) else {
                complain(&format!("{}: {TOO_LONG}", dump.name));
                continue;
            };
            data.copy_from_slice(&self.frame);
            if record.link == ETHERNET {
                packet.set_mac_here();
            }
            let extra = record.original.saturating_sub(self.frame.len());
            let cold = packet.cold_mut();
            cold.timestamp = record.timestamp;
            cold.set_extra_length(u32::try_from(extra).unwrap_or(u32::MAX));
            return Some(packet);
        }
    }

    /// With `FORCE_IP`, or in a file of IP packets, marks the IP header; a packet without one leaves by output 1.
    fn mark_ip(&self, mut packet: Packet, cx: &mut Cx) -> Option<Packet> {
        if !self.config.force_ip && self.encap.name() != "IP" {
            return Some(packet);
        }
        let Some(at) = self.encap.ip_at(packet.data()) else {
            cx.send(packet, Verdict::reject(NOT_IP, 1));
            return None;
        };
        mark_ip(&mut packet, at);
        Some(packet)
    }
}

impl PlaybackClass for FromDump {
    fn playback(&self) -> &Playback {
        &self.playback
    }

    fn playback_mut(&mut self) -> &mut Playback {
        &mut self.playback
    }

    fn next(&mut self, cx: &mut Cx) -> Next {
        loop {
            let waiting = self.playback.waiting.take();
            // The window counts all packets, also those that are not taken, or leave by output 1.
            let taken = waiting.is_some() || self.playback.args.sample.is_sampled(cx);
            let packet = match waiting {
                Some(packet) => packet,
                None => match self.read() {
                    Some(packet) => packet,
                    None if self.dump.is_some() => return Next::NoBuffer,
                    None => return Next::End,
                },
            };
            match self.window.position(packet.cold().timestamp as i64) {
                WindowPosition::Before => continue,
                WindowPosition::Behind => {
                    // The packet stays: it is the first after `active true` or `extend_interval`.
                    self.window.pass_end();
                    self.playback.waiting = taken.then_some(packet);
                    return Next::End;
                }
                WindowPosition::Inside => {}
            }
            if !taken {
                continue;
            }
            let packet = match self.playback.hold(packet, cx) {
                Next::Packet(packet) => packet,
                later => return later,
            };
            if let Some(packet) = self.mark_ip(packet, cx) {
                self.count += 1;
                return Next::Packet(packet);
            }
        }
    }

    fn end(&mut self, cx: &mut Cx) -> Did {
        self.config.end.handle_end(cx);
        // A call replaces `active false`, and the end of a file does not end a window, as in Click.
        let end = &self.config.end;
        if end.stop || end.call.is_none() && self.window.has_end() {
            self.playback.active = false;
        }
        match (self.is_over(), self.playback.active) {
            (true, _) => Did::End,
            (false, true) => Did::Work,
            (false, false) => Did::Sleep,
        }
    }

    fn is_over(&self) -> bool {
        self.dump.is_none() && self.playback.waiting.is_none()
    }
}

impl Element for FromDump {
    const CONTRACT: Contract = Contract::new("FromDump", manual!())
        .ports(Ports::coded(&[], &["out", "other?"], "/ah"))
        .drops(DROPS)
        .copies(Copies::One)
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>(), &Notifies::PACKETS]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let Filename(filename) = args.required("FILENAME", "the file; - is the standard input");
        let end = End::parse(args);
        let _: bool = args.key("MMAP", false, "accepted for compatibility with Click");
        Config {
            filename,
            end,
            manner: PlaybackArgs::parse(args),
            force_ip: args.key("FORCE_IP", false, "true to emit only IP packets"),
            window: Window::configure(args, false),
            filepos: args.key_maybe("FILEPOS", "byte at which to start"),
            opened: Slot::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> FromDump {
        let dump = config.opened.take();
        let link = dump.as_ref().and_then(|d| d.file.link());
        let size = dump.as_ref().and_then(|d| d.size);
        let mut playback = Playback::new(config.manner, size, init);
        playback.position = dump.as_ref().map_or(0, |d| d.file.position());
        FromDump {
            playback,
            encap: link.map_or(Encap::ETHER, Encap::of),
            dump,
            window: config.window,
            frame: Vec::new(),
            count: 0,
            packet_at: 0,
            config: Arc::clone(config),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        playback::start(self, cx);
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        playback::pull(self, max, into, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        playback::task(self, cx)
    }

    fn timer(&mut self, cx: &mut Cx) {
        playback::wake(cx);
    }

    /// A new configuration starts anew.
    fn take(&mut self, old: FromDump) {
        if Arc::ptr_eq(&self.config, &old.config) {
            playback::take(self, old);
        }
    }

    const HANDLERS: &'static [Handler<FromDump>] = &[
        Handler::sum("count", "packets emitted", |e| e.count),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            e.count = 0;
            Ok(())
        }),
        playback::sampling_prob(),
        playback::active(),
        playback::set_active(),
        Handler::text(
            "encap",
            "first header of packets, by the names of ToDump",
            |e, _| Ok(e.encap.name()),
        ),
        Handler::text("filename", "the file", |e, _| Ok(e.config.filename.clone())),
        playback::filesize(),
        playback::filepos(),
        Handler::set(
            "filepos",
            "reads on at a byte of the file",
            |e, value, cx| {
                let at = arguments::units::parse(value)?;
                e.dump = Some(Dump::open_at(&e.config.filename, at)?);
                (e.playback.waiting, e.playback.position) = (None, at);
                playback::wake(cx);
                Ok(())
            },
        ),
        Handler::show(
            "packet_filepos",
            "where the last record that was asked for starts; at the end, the file's length",
            |e| &e.packet_at,
        ),
        Handler::set(
            "extend_interval",
            "moves the end by a time",
            |e, value, cx| {
                let by = arguments::units::parse::<Moment>(value)?.0;
                if e.window.has_end() || e.config.end.acts() {
                    e.window.extend(by);
                    e.playback.active = true;
                    playback::wake(cx);
                }
                Ok(())
            },
        ),
        Handler::set(
            "reset_timing",
            "the next packet that is read leaves at once",
            |e, _, _| {
                e.playback.pace.reset(e.playback.waiting.is_some());
                Ok(())
            },
        ),
        playback::stop(),
    ];
}

impl Resources for FromDump {
    fn initialize(config: &Config) -> Result<(), String> {
        let dump = match config.filepos {
            Some(at) => Dump::open_at(&config.filename, at)?,
            None => Dump::open(&config.filename)?,
        };
        let link = dump.file.link().filter(|_| config.force_ip);
        if let Some(unknown) = link.filter(|link| !Encap::of(*link).is_known()) {
            let name = &config.filename;
            return Err(format!(
                "{name}: unknown linktype {unknown}; can't force IP packets"
            ));
        }
        config.opened.put_back(dump);
        Ok(())
    }
}

#[cfg(test)]
#[path = "from_dump_tests.rs"]
mod tests;
