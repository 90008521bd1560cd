//! Writes a line about each packet, with chosen fields.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> UDPIPEncap(192.0.2.1, 9, 192.0.2.2, 9)
//!     -> ToIPSummaryDump(-, FIELDS ip_src sport ip_dst dport ip_len);
//! ```
//!
//! Describes the IPv4 packet at the network header annotation. A field that does not apply to a packet is
//! written as `-`. If output 0 is connected, packets pass; otherwise they end here. FromIPSummaryDump can read
//! the dump.
//!
//! Fields: `timestamp`, `utimestamp`, `ntimestamp`, `ts_sec`, `ts_usec`, `ts_usec1`, `first_timestamp`; `ip_src`,
//! `ip_dst`, `ip_frag` (`F` first fragment, `f` later one, `!` do not fragment, `.` other), `ip_fragoff`
//! (in bytes, then `+` for more, `!` for do not fragment), `ip_len`, `ip_proto` (`T`, `U`, `I` or a
//! number), `ip_hl`, `ip_id`, `ip_tos`, `ip_dscp`, `ip_ecn` (`no`, `ect1`, `ect2`, `ce`), `ip_ttl`, `ip_sum`,
//! `ip_opt`, `ip_capture_len`; `sport`, `dport`; `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_flags` (letters of
//! FSRPAUECN), `tcp_opt`, `tcp_ntopt` (without timestamps), `tcp_sack`, `tcp_window`, `tcp_urp`; `udp_len`;
//! `icmp_type`, `icmp_code`, `icmp_type_name`, `icmp_code_name`, `icmp_flowid`, `icmp_seq`,
//! `icmp_nextmtu`; `payload`, `payload_len`, `payload_md5`, `payload_md5_hex`; `count`, `direction`
//! (`>` or `<` for paint 0 or 1), `link` or `paint`, `aggregate`; `eth_src`, `eth_dst`, `eth_type`, `wire_len`.
//! Shorter names such as `src` are understood.
//!
//! Arguments:
//!
//! - `FILENAME`: the file, which is created or overwritten; `-` is the standard output.
//!
//! Keyword arguments:
//!
//! - `FIELDS`, `CONTENTS`: names of fields, separated by spaces. Default `ip_src ip_dst`.
//! - `HEADER`: true to write lines that start with `!` and describe the dump. Default true.
//! - `VERBOSE`: true if these lines name the host and the time. Default false.
//! - `BANNER`: text for a `!creator` line.
//! - `BINARY`: true to write packets as binary records. Default false.
//! - `MULTIPACKET`: true if a packet that stands for several is written that many times. Default false.
//! - `BAD_PACKETS`: true to write a `!bad` line for a packet with bad headers. Default false.
//! - `CAREFUL_TRUNC`: true to write a `!bad` line for a packet with missing bytes. Default true.
//! - `EXTRA_LENGTH`: true if the EXTRA_LENGTH annotation is added to a packet's length. Default true.

use super::file::{Filename, Output};
use super::sink::{self, DumpWriter, Sink};
use crate::prelude::*;
use arguments::show::reason;
use captures::date;
use captures::summary::field_text::{View, push_quoted};
use captures::summary::reader::{Columns, columns};
use captures::summary::{Field, Size, binary, record};
use engine::port::Slot;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) struct Config {
    filename: String,
    fields: Vec<Field>,
    header: bool,
    verbose: bool,
    banner: String,
    binary: bool,
    /// True if a packet gets one line for each packet that it stands for; false if lines have a count.
    multipacket: bool,
    bad_packets: bool,
    careful_trunc: bool,
    extra_length: bool,
    opened: Slot<Output>,
}

pub(super) struct ToIpSummaryDump {
    config: Arc<Config>,
    sink: Sink,
    /// Formatted text that is not written yet.
    buffer: Vec<u8>,
}

impl Config {
    /// The lines before the first packet.
    fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.header {
            out.extend(b"!IPSummaryDump 1.3\n");
            if !self.banner.is_empty() {
                out.extend(b"!creator ");
                push_quoted(self.banner.as_bytes(), &mut out);
                out.push(b'\n');
            }
            if self.verbose {
                self.push_run(&mut out);
            }
            out.extend(b"!data");
            for field in &self.fields {
                out.push(b' ');
                out.extend(field.name().as_bytes());
            }
            out.push(b'\n');
        }
        if self.binary {
            out.extend(b"!binary\n");
        }
        out
    }

    fn push_run(&self, out: &mut Vec<u8>) {
        if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
            out.extend(b"!host ");
            out.extend(host.trim().as_bytes());
            out.push(b'\n');
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.map_or(0, |d| d.as_nanos() as i64);
        out.extend(b"!runtime ");
        record::push_time(nanos, captures::summary::Stamp::Micro, out);
        out.extend(b" (");
        date::push((nanos / 1_000_000_000) as u64, out);
        out.extend(b")\n");
    }
}

impl ToIpSummaryDump {
    fn describe(&mut self, packet: &Packet) {
        let config = &self.config;
        let view = View::new(packet, config.extra_length);
        let out = &mut self.buffer;
        if let Some(wrong) = view.header_fault().filter(|_| config.bad_packets) {
            push_bad(wrong, config.binary, out);
        } else if config.careful_trunc && view.is_truncated() {
            push_bad("truncated IP length", config.binary, out);
        }
        let times = match packet.cold().extra_packets() {
            extra if config.multipacket => u64::from(extra) + 1,
            _ => 1,
        };
        for _ in 0..times {
            if config.binary {
                binary::push(&view, &config.fields, out);
                continue;
            }
            for (i, &field) in config.fields.iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                view.push(field, out);
            }
            out.push(b'\n');
        }
    }
}

impl DumpWriter for ToIpSummaryDump {
    fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    fn write(&mut self, batch: &Batch, _: &mut Cx) {
        for packet in batch.iter() {
            self.describe(packet);
        }
        self.sink.write(&mut self.buffer, false);
    }
}

fn push_bad(wrong: &str, is_binary: bool, out: &mut Vec<u8>) {
    let line = format!("!bad {wrong}\n");
    if is_binary {
        binary::push_line(line.as_bytes(), out);
    } else {
        out.extend(line.as_bytes());
    }
}

impl Element for ToIpSummaryDump {
    const CONTRACT: Contract = Contract::new("ToIPSummaryDump", manual!())
        .ports(Ports::coded(&["in"], &["out?"], "a/a"))
        .copies(Copies::One)
        .runs(Runs::AsTaskIfPull)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let Filename(filename) = args.required("FILENAME", "the file; - is the standard output");
        let doc = "names of fields, separated by spaces";
        let fields: Option<Columns> = args.key_maybe("FIELDS", doc);
        let contents = args.key_maybe("CONTENTS", "the older name of FIELDS");
        let fields = fields.or(contents).map(|list| list.0);
        let fields = fields.unwrap_or("ip_src ip_dst".to_owned());
        let binary = args.key("BINARY", false, "true if packets are binary records");
        let mut found = Vec::new();
        for name in columns(&fields) {
            let (wrong, help) = match Field::find(&name) {
                Some(field) if binary && field.size() == Size::None => {
                    let wrong = format!("cannot use content type '{name}' with BINARY");
                    (wrong, "leave the field or BINARY out")
                }
                Some(field) => {
                    found.push(field);
                    continue;
                }
                None => {
                    let wrong = format!("unknown content type '{name}'");
                    (wrong, "the manual page lists the fields")
                }
            };
            args.error_in_whole(wrong, help);
        }
        if found.is_empty() {
            args.error_in_whole("no contents specified", "name fields in FIELDS");
        }
        let multipacket = args.key("MULTIPACKET", false, "true if each packet has its line");
        Config {
            filename,
            multipacket: multipacket && !found.contains(&Field::Count),
            fields: found,
            header: args.key("HEADER", true, "true to write lines about the dump"),
            verbose: args.key("VERBOSE", false, "true if these name host and time"),
            banner: args.key("BANNER", String::new(), "text for a !creator line"),
            binary,
            bad_packets: args.key("BAD_PACKETS", false, "true to report bad headers"),
            careful_trunc: args.key("CAREFUL_TRUNC", true, "true to report missing bytes"),
            extra_length: args.key("EXTRA_LENGTH", true, "true if EXTRA_LENGTH counts"),
            opened: Slot::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> ToIpSummaryDump {
        ToIpSummaryDump {
            sink: Sink::new(&config.filename, &config.opened, init),
            buffer: Vec::new(),
            config: Arc::clone(config),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        sink::process(self, batch, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        sink::task(self, cx)
    }

    /// The file is written on where the same configuration wrote before.
    fn take(&mut self, old: ToIpSummaryDump) {
        if Arc::ptr_eq(&self.config, &old.config) {
            self.sink.take(old.sink);
        }
    }

    const HANDLERS: &'static [Handler<ToIpSummaryDump>] = &[sink::flush()];
}

impl Resources for ToIpSummaryDump {
    fn initialize(config: &Config) -> Result<(), String> {
        let mut output = Output::create(&config.filename)?;
        output
            .write(&config.head())
            .map_err(|e| format!("{}: {}", config.filename, reason(&e)))?;
        config.opened.put_back(output);
        Ok(())
    }
}
