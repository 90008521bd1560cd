//! Writes packets to a capture file, which tcpdump and FromDump read.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> UDPIPEncap(192.0.2.1, 9, 192.0.2.2, 9) -> ToDump(-, ENCAP IP);
//! ```
//!
//! If output 0 is connected, packets pass; otherwise they end here. A packet without a timestamp is written with its
//! arrival time here.
//!
//! Arguments:
//!
//! - `FILENAME`: the file, which is created or overwritten; `-` is the standard output.
//!
//! Keyword arguments:
//!
//! - `SNAPLEN`: maximum number of bytes written of a packet; 0 = all. Default 2000.
//! - `ENCAP`: first header of packets: `ETHER`, `IP`, `FDDI`, `ATM`, `802_11` or `802.11`, `SLL`, `AIRONET`, `HDLC`,
//!   `PPP_HDLC`, `PPP`, `SUNATM`, `PRISM` or `NULL`. Default ETHER.
//! - `USE_ENCAP_FROM`: elements whose `encap` handlers give the type, instead of `ENCAP`.
//! - `EXTRA_LENGTH`: true if the EXTRA_LENGTH annotation is added to a packet's length. Default true.
//! - `UNBUFFERED`: true if each batch is written to the file at once. Default false.
//! - `NANO`: true if timestamps have nanoseconds instead of microseconds. Default false.

use super::file::{Filename, Output};
use super::sink::{self, DumpWriter, Sink};
use crate::prelude::*;
use captures::link::Encap;
use captures::{FileHeader, Writer};
use engine::graph::call::JobCx;
use engine::port::Slot;

pub(super) struct Config {
    filename: String,
    snap: usize,
    encap: Encap,
    encap_from: Vec<String>,
    extra_length: bool,
    unbuffered: bool,
    nano: bool,
    opened: Slot<Output>,
}

pub(super) struct ToDump {
    config: Arc<Config>,
    sink: Sink,
    /// Writes to memory, from where bytes go to the file.
    writer: Option<Writer<Vec<u8>>>,
    count: u64,
}

impl ToDump {
    /// Writes the file's header, if it is not there yet.
    fn write_file_header(&mut self, encap: Encap) {
        let head = FileHeader {
            link: encap.number(),
            nanos: self.config.nano,
            snap: match self.config.snap {
                usize::MAX => u32::MAX,
                snap => snap as u32,
            },
        };
        if self.writer.is_none() {
            // Writing to memory cannot fail.
            self.writer = Writer::with_header(Vec::new(), head).ok();
        }
    }

    fn describe(&mut self, packet: &Packet, now: u64) {
        let data = packet.data();
        let kept = &data[..data.len().min(self.config.snap)];
        let extra = packet.cold().extra_length() as usize;
        let extra = if self.config.extra_length { extra } else { 0 };
        let timestamp = match packet.cold().timestamp {
            0 => now,
            set => set,
        };
        if let Some(writer) = &mut self.writer {
            // Writing to memory cannot fail.
            let _ = writer.write_cut(timestamp, kept, data.len() + extra);
            self.count += 1;
        }
    }

    /// Passes formatted data to the file.
    fn hand_over(&mut self) {
        if let Some(writer) = &mut self.writer {
            self.sink.write(writer.get_mut(), self.config.unbuffered);
        }
    }
}

impl DumpWriter for ToDump {
    fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    fn write(&mut self, batch: &Batch, cx: &mut Cx) {
        self.write_file_header(self.config.encap);
        let now = cx.timestamp();
        for packet in batch.iter() {
            self.describe(packet, now);
        }
        self.hand_over();
    }
}

/// The encapsulation that elements agree on.
fn agreed(cx: &mut JobCx, elements: &[String]) -> Result<Encap, String> {
    let mut agreed: Option<(String, &str)> = None;
    for element in elements {
        let path = format!("{element}.encap");
        let name = cx.read(&path, "").map_err(|e| e.to_string())?;
        let name = name.trim().to_owned();
        match &agreed {
            Some((before, first)) if *before != name => {
                return Err(format!(
                    "'{first}' and '{element}' have different encapsulations"
                ));
            }
            _ => agreed = Some((name, element)),
        }
    }
    let name = agreed.map_or(String::new(), |(name, _)| name);
    Encap::find(&name).ok_or_else(|| format!("bad encapsulation type '{name}'"))
}

impl Element for ToDump {
    const CONTRACT: Contract = Contract::new("ToDump", manual!())
        .ports(Ports::coded(&["in"], &["out?"], "a/a"))
        .copies(Copies::One)
        .runs(Runs::AsTaskIfPull)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let Filename(filename) = args.required("FILENAME", "the file; - is the standard output");
        let snap = args.optional("SNAPLEN", 2000, "most bytes of a packet; 0 = all");
        let encap: Option<String> = args.maybe("ENCAP", "first header of packets");
        let from: Option<String> =
            args.key_maybe("USE_ENCAP_FROM", "elements whose `encap` says it");
        if encap.is_some() && from.is_some() {
            args.error_in_whole(
                "specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'",
                "leave one out",
            );
        }
        let found = encap.as_deref().map_or(Some(Encap::ETHER), Encap::find);
        if found.is_none() {
            args.error_in_whole("bad encapsulation type", "ETHER and IP are the usual ones");
        }
        let words = from.unwrap_or_default();
        Config {
            filename,
            snap: if snap == 0 { usize::MAX } else { snap },
            encap: found.unwrap_or(Encap::ETHER),
            encap_from: words.split_whitespace().map(str::to_owned).collect(),
            extra_length: args.key("EXTRA_LENGTH", true, "true if EXTRA_LENGTH counts"),
            unbuffered: args.key("UNBUFFERED", false, "true if each batch is written at once"),
            nano: args.key("NANO", false, "true if times have nanoseconds"),
            opened: Slot::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> ToDump {
        let mut dump = ToDump {
            sink: Sink::new(&config.filename, &config.opened, init),
            writer: None,
            count: 0,
            config: Arc::clone(config),
        };
        if config.encap_from.is_empty() && dump.sink.is_open() {
            dump.write_file_header(config.encap);
            dump.hand_over();
        }
        dump
    }

    fn start(&mut self, cx: &mut Cx) {
        if self.config.encap_from.is_empty() {
            return;
        }
        let config = Arc::clone(&self.config);
        cx.defer(move |cx| {
            let name = cx.name().to_owned();
            let wrong = match agreed(cx, &config.encap_from) {
                Ok(encap) => cx.write(&format!("{name}.encap"), &encap.name()).err(),
                Err(wrong) => {
                    cx.say(&format!("{name}: {wrong}"));
                    cx.end();
                    None
                }
            };
            if let Some(wrong) = wrong {
                cx.say(&wrong.to_string());
            }
        });
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        sink::process(self, batch, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        sink::task(self, cx)
    }

    /// The file is written on where the same configuration wrote before.
    fn take(&mut self, old: ToDump) {
        if Arc::ptr_eq(&self.config, &old.config) {
            self.sink.take(old.sink);
            (self.writer, self.count) = (old.writer, old.count);
        }
    }

    const HANDLERS: &'static [Handler<ToDump>] = &[
        Handler::sum("count", "packets written", |e| e.count),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            e.count = 0;
            Ok(())
        }),
        Handler::text("filename", "the file, or `<stdout>`", |e, _| {
            Ok(match e.config.filename.as_str() {
                "-" => "<stdout>".to_owned(),
                name => name.to_owned(),
            })
        }),
        Handler::set("encap", "first header of packets", |e, value, _| {
            let encap = Encap::find(value.trim());
            e.write_file_header(encap.ok_or_else(|| "bad encapsulation type".to_owned())?);
            e.hand_over();
            Ok(())
        }),
        sink::flush(),
    ];
}

impl Resources for ToDump {
    fn initialize(config: &Config) -> Result<(), String> {
        config.opened.put_back(Output::create(&config.filename)?);
        Ok(())
    }
}
