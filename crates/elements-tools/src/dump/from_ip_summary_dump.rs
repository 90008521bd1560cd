//! Makes packets from the lines of an IP summary dump, as ToIPSummaryDump writes them.
//!
//! ```click
//! FromIPSummaryDump(DATA "!data ip_src ip_dst
//! 192.0.2.1 192.0.2.2
//! ", STOP true) -> Print -> Discard;
//! ```
//!
//! Packets are IPv4. A field that the dump does not have gets a default: protocol TCP, TTL 100, no fragment,
//! otherwise zero. Bytes that the dump does not have are missing. The EXTRA_LENGTH annotation counts them, so a
//! packet may be shorter than the length in its IP header. With `CHECKSUM` these bytes exist, as zeros. The dump may
//! be compressed with gzip or bzip2. A line without any readable field is skipped; the first such line is reported on
//! the standard error stream.
//!
//! Arguments:
//!
//! - `FILENAME`: the dump; `-` is the standard input.
//!
//! Keyword arguments:
//!
//! - `STOP`: true to stop the router at the end of the dump. Default false.
//! - `TIMING`: true if packets keep the delays between their timestamps. Default false.
//! - `ACTIVE`: if false, makes no packets until the handler `active` is written. Default true.
//! - `ZERO`: accepted for compatibility with Click; fields that are not set are always zero.
//! - `CHECKSUM`: true if packets have correct checksums and all their bytes. Default false.
//! - `PROTO`: protocol of packets for which the dump has none, by number or name. Default 6, TCP.
//! - `MULTIPACKET`: true if a line that counts several packets makes that many packets. Default false.
//! - `SAMPLE`: probability with which a packet is emitted. Default 1.
//! - `FIELDS`, `CONTENTS`, `DEFAULT_FIELDS`, `DEFAULT_CONTENTS`: columns of the dump, until a `!data` line
//!   names others; see ToIPSummaryDump.
//! - `FLOWID`, `DEFAULT_FLOWID`: default addresses and ports: source, port, destination, port, and perhaps protocol.
//! - `ALLOW_NONEXISTENT`: true if a missing or empty file counts as a dump without packets.
//! - `DATA`: the dump itself, instead of a file.
//!
//! The handlers `filesize` and `filepos` count bytes of the dump.

use super::file::{Filename, Input};
use super::playback::{self, Next, Playback, PlaybackArgs, PlaybackClass};
use crate::prelude::*;
use arguments::protocol::Protocol;
use arguments::units::{Bytes, FromArg};
use captures::summary::Field;
use captures::summary::build::{self, Fault, Flow};
use captures::summary::reader::{Columns, ReadResult, Reader, columns};
use captures::summary::record::Record;
use elements::stderr_messages::complain;
use engine::notify::Notifies;
use engine::port::Slot;
use std::io::BufRead;

pub(super) struct Config {
    filename: String,
    data: Option<Vec<u8>>,
    allow_nonexistent: bool,
    stop: bool,
    manner: PlaybackArgs,
    checksum: bool,
    protocol: u8,
    multipacket: bool,
    fields: Vec<Field>,
    flow: Option<(Flow, Option<u8>)>,
    opened: Slot<Input>,
}

/// The dump that is being read.
struct Dump {
    name: String,
    size: Option<u64>,
    reader: Reader<Box<dyn BufRead + Send>>,
}

pub(super) struct FromIpSummaryDump {
    config: Arc<Config>,
    playback: Playback,
    /// The dump; `None` after its end.
    dump: Option<Dump>,
    record: Record,
    /// Number of packets that remain of the record.
    left: u32,
    /// Number of the record's next packet.
    next: u32,
}

/// A keyword with older names.
fn older<T: FromArg, const N: usize>(
    args: &mut Args,
    names: [&'static str; N],
    doc: &'static str,
) -> Option<T> {
    let given = names.map(|name| args.key_maybe(name, doc));
    given.into_iter().flatten().next()
}

fn list(args: &mut Args, text: &str) -> Vec<Field> {
    let find = |name: String| {
        let field = Field::find(&name);
        if field.is_none() {
            args.error_in_whole(
                format!("unknown content type '{name}'"),
                "ToIPSummaryDump's page lists the fields",
            );
        }
        field
    };
    columns(text).into_iter().filter_map(find).collect()
}

impl Dump {
    fn new(input: Input, config: &Config) -> Dump {
        let mut reader = Reader::new(input.reader, config.fields.clone());
        reader.defaults.protocol = config.protocol;
        if let Some((flow, protocol)) = config.flow {
            reader.defaults.flow = flow;
            reader.defaults.protocol = protocol.unwrap_or(config.protocol);
        }
        Dump {
            name: input.name,
            size: input.size,
            reader,
        }
    }
}

impl FromIpSummaryDump {
    /// Makes the next packet of the dump; `None` at its end.
    fn read(&mut self, cx: &mut Cx) -> Option<Result<Packet, Fault>> {
        let dump = self.dump.as_mut()?;
        loop {
            if self.left == 0 {
                let name = &dump.name;
                let mut told =
                    |line: u64, wrong: &str| complain(&format!("{name}:{line}: {wrong}"));
                let found = dump.reader.next(&mut self.record, &mut told);
                self.playback.position = dump.reader.position();
                if found == ReadResult::End {
                    self.dump = None;
                    return None;
                }
                (self.left, self.next) = (1, 0);
                if self.config.multipacket {
                    self.left = self.record.count();
                }
                if self.left == 0 {
                    continue;
                }
            }
            if !self.playback.args.sample.is_sampled(cx) {
                self.left -= 1;
                self.next += 1;
                continue;
            }
            let defaults = &dump.reader.defaults;
            match build::packet(&self.record, defaults, self.config.checksum) {
                Ok(mut packet) => {
                    if self.config.multipacket {
                        self.number(&mut packet);
                    }
                    self.left -= 1;
                    self.next += 1;
                    return Some(Ok(packet));
                }
                Err(Fault::NoBuffer) => return Some(Err(Fault::NoBuffer)),
                Err(Fault::TooLong) => {
                    let line = dump.reader.lines();
                    complain(&format!("{}:{line}: packet too long", dump.name));
                    self.left = 0;
                }
            }
        }
    }

    /// Numbers a packet of a line with several: it counts for itself, at a time between the first and the last.
    fn number(&self, packet: &mut Packet) {
        let cold = packet.cold_mut();
        cold.set_extra_packets(0);
        if let (last, Some(first)) = self.record.times() {
            let count = i128::from(self.record.count().max(2) - 1);
            let passed = i128::from(last.wrapping_sub(first)) * i128::from(self.next) / count;
            cold.timestamp = first.wrapping_add(passed as i64) as u64;
        }
    }
}

impl PlaybackClass for FromIpSummaryDump {
    fn playback(&self) -> &Playback {
        &self.playback
    }

    fn playback_mut(&mut self) -> &mut Playback {
        &mut self.playback
    }

    fn next(&mut self, cx: &mut Cx) -> Next {
        let packet = match self.playback.waiting.take() {
            Some(packet) => packet,
            None => match self.read(cx) {
                Some(Ok(packet)) => packet,
                Some(Err(_)) => return Next::NoBuffer,
                None => return Next::End,
            },
        };
        self.playback.hold(packet, cx)
    }

    fn end(&mut self, cx: &mut Cx) -> Did {
        if self.config.stop {
            cx.stop();
        }
        Did::End
    }

    fn is_over(&self) -> bool {
        self.dump.is_none() && self.playback.waiting.is_none()
    }
}

impl Element for FromIpSummaryDump {
    const CONTRACT: Contract = Contract::new("FromIPSummaryDump", manual!())
        .ports(Ports::coded(&[], &["out"], "/a"))
        .gives(&[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)])
        .copies(Copies::One)
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>(), &Notifies::PACKETS]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let data: Option<Bytes> = args.key_maybe("DATA", "the dump itself");
        let Filename(filename) = if data.is_some() {
            // A file name in addition to DATA is ignored.
            args.optional(
                "FILENAME",
                Filename::stand_in(),
                "the dump; - is the standard input",
            )
        } else {
            args.required("FILENAME", "the dump; - is the standard input")
        };
        let stop = args.key("STOP", false, "true to stop the router at the end");
        let manner = PlaybackArgs::parse(args);
        let _: bool = args.key("ZERO", true, "accepted: unset fields are always zero");
        let checksum = args.key("CHECKSUM", false, "true if checksums are right");
        let protocol = args
            .key("PROTO", Protocol(wire::proto::TCP), "default protocol")
            .0;
        let multipacket = args.key("MULTIPACKET", false, "true if a line gives its count");
        let fields: Option<Columns> = older(
            args,
            ["FIELDS", "CONTENTS", "DEFAULT_FIELDS", "DEFAULT_CONTENTS"],
            "columns of the dump",
        );
        let flow: Option<String> = older(
            args,
            ["FLOWID", "DEFAULT_FLOWID"],
            "default addresses and ports",
        );
        let flow = flow.unwrap_or_default();
        // Ports may be names of PortInfo, or well-known ones.
        let port = |word: &str| arguments::service::port(word, None, args.names());
        let words = flow.split_whitespace().enumerate().map(|(at, word)| {
            let port = matches!(at, 1 | 3).then(|| port(word)).flatten();
            port.map_or_else(|| word.to_owned(), |port| port.to_string())
        });
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let parsed = Flow::parse(&words);
        if parsed.is_none() && !words.is_empty() {
            args.error_in_whole(
                format!("bad flow ID `{flow}`"),
                "write source address, source port, destination address, destination port",
            );
        }
        Config {
            filename,
            data: data.map(|d| d.0),
            allow_nonexistent: args.key(
                "ALLOW_NONEXISTENT",
                false,
                "true if a missing file is an empty one",
            ),
            stop,
            manner,
            checksum,
            protocol,
            multipacket,
            fields: fields.map_or(Vec::new(), |names| list(args, &names.0)),
            flow: parsed,
            opened: Slot::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> FromIpSummaryDump {
        let dump = config.opened.take().map(|input| Dump::new(input, config));
        let size = dump.as_ref().and_then(|d| d.size);
        FromIpSummaryDump {
            playback: Playback::new(config.manner, size, init),
            dump,
            record: Record::default(),
            left: 0,
            next: 0,
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

    fn held(&self) -> usize {
        let waits = self.playback.waiting.is_some();
        usize::from(waits || self.playback.is_pulled() && self.dump.is_some())
    }

    /// A new configuration starts anew.
    fn take(&mut self, old: FromIpSummaryDump) {
        if Arc::ptr_eq(&self.config, &old.config) {
            playback::take(self, old);
        }
    }

    const HANDLERS: &'static [Handler<FromIpSummaryDump>] = &[
        playback::sampling_prob(),
        playback::active(),
        playback::set_active(),
        Handler::text("encap", "first header of packets: IP", |_, _| {
            Ok("IP".into())
        }),
        playback::filesize(),
        playback::filepos(),
        playback::stop(),
    ];
}

impl Resources for FromIpSummaryDump {
    fn initialize(config: &Config) -> Result<(), String> {
        if let Some(data) = &config.data {
            config.opened.put_back(Input::text(data.clone()));
            return Ok(());
        }
        let name = &config.filename;
        if config.allow_nonexistent && name != "-" && !std::path::Path::new(name).exists() {
            return Ok(());
        }
        let mut input = Input::open(name)?;
        if name != "-" && !config.allow_nonexistent && input.is_empty() {
            return Err(format!("{name}: file is empty"));
        }
        config.opened.put_back(input);
        Ok(())
    }
}

#[cfg(test)]
#[path = "from_ip_summary_dump_tests.rs"]
mod tests;
