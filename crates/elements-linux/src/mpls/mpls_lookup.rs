//! Looks packets up by their outermost MPLS label, and swaps, pops or pushes labels.
//!
//! ```click
//! FromDevice(null:64) -> c :: Classifier(12/8847, -) -> Strip(14)
//!     -> mpls :: MPLSLookup(100 swap 200 10.0.1.2 0, 101 pop 10.0.1.2 0, 102 pop 1, EXPIRED 2);
//! c[1] -> Discard;
//! mpls[0] -> MPLSEtherEncap(02:00:00:00:00:01, 02:00:00:00:01:02) -> Discard;
//! mpls[1] -> CheckIPHeader -> Discard;
//! mpls[2] -> p :: MPLSPayload -> ICMPError(10.0.1.1, timeexceeded, MPLS true) -> Discard;
//! p[1] -> Discard;
//! ```
//!
//! The packet begins with its label stack; put Strip(14) before. An entry of the table is written
//! `LABEL ACTION [GATEWAY] PORT`: the packet leaves by output `PORT`, and the gateway becomes its destination
//! annotation, which MPLSNextHop reads. Actions:
//!
//! - `swap 200`: label 200 takes the place of the label; with `swap 300/200` label 300 is pushed upon that.
//! - `pop` with a gateway: the label is removed for the next router (penultimate hop popping).
//! - `pop` without a gateway: the packet was for this router. If there is a further label, that is looked up; if not,
//!   the packet leaves by output `PORT` with its IP header first.
//!
//! Several next hops may be separated by `|`, each with its own action and optionally `WEIGHT n`. A flow, identified
//! by the IP packet below the labels or else by the labels, always takes the same one.
//!
//! A packet that is to be forwarded with a time to live of 1 or 0 leaves unchanged by output `EXPIRED`, or is dropped
//! (`expired`). One whose label has no entry leaves by output `NOLABEL`, or is dropped (`no_label`); so is one whose
//! stack does not end (`bad_stack`), that has no room for further labels (`no_headroom`), or whose output is not
//! connected (`no_next_hop`). The network header annotation marks what is below the labels.
//!
//! Arguments:
//!
//! - `ENTRIES`: entries, one an argument.
//!
//! Keyword arguments:
//!
//! - `MODE`: `uniform` or `pipe` (RFC 3443). With `uniform` a popped label's time to live and class go into what was
//!   below it: the next label, or the IP header (with the class as a class selector); the time to live never grows.
//!   With `pipe` they are forgotten. Default uniform.
//! - `EXPIRED`: output for packets whose time to live has expired.
//! - `NOLABEL`: output for packets whose label has no entry.

use super::header::Mode;
use super::switch::{self, Stop, Switch};
use super::syntax;
use crate::prelude::*;
use arguments::Names;
use elements::secret;
use forwarding::label_table::{Entry as Known, Hop, LabelTable};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

drops! {
    EXPIRED = "expired",
    NO_LABEL = "no_label",
    BAD_STACK = "bad_stack",
    NO_HEADROOM = "no_headroom",
    NO_NEXT_HOP = "no_next_hop",
}
/// Port number of an unconnected output: packets are dropped.
const UNCONNECTED: u8 = u8::MAX;

pub(crate) struct Config {
    switch: Switch,
    expired: u8,
    no_label: u8,
    names: Names,
    port_max: Option<u8>,
    /// Outputs of the running element; 0 until it runs.
    outputs: AtomicUsize,
}

fn show(entry: &Known) -> String {
    syntax::show(entry.hops(), |port| port.to_string())
}

/// A change of the table.
enum Command {
    Add(u32, Known),
    Set(u32, Known),
    Remove(u32),
}

impl Config {
    fn entry(&self, text: &str) -> Result<(u32, Known), String> {
        let (label, entry) = syntax::entry(text, &self.names)?;
        let outputs = self.outputs.load(Relaxed);
        let ports = entry.hops().iter().map(|hop| usize::from(hop.port));
        match ports.max().filter(|&port| port >= outputs && outputs > 0) {
            Some(port) => Err(format!(
                "there is no output {port}, only 0 to {}",
                outputs - 1
            )),
            None => Ok((label, entry)),
        }
    }

    fn command(&self, line: &str) -> Result<Command, String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "add" => self.entry(rest).map(|(label, e)| Command::Add(label, e)),
            "set" => self.entry(rest).map(|(label, e)| Command::Set(label, e)),
            "remove" => syntax::label(rest.trim()).map(Command::Remove),
            _ => Err(format!("`{word}` is neither add, set nor remove")),
        }
    }

    /// Carries out all lines, or none.
    fn control(&self, text: &str) -> Result<String, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let at = |i: usize, wrong: String| match text.lines().count() {
            0 | 1 => wrong,
            _ => format!("line {}: {wrong}", i + 1),
        };
        let mut known = self.switch.table.lock();
        let mut there: BTreeSet<u32> = BTreeSet::new();
        let mut gone: BTreeSet<u32> = BTreeSet::new();
        let mut commands = Vec::new();
        for (i, line) in lines {
            let command = self.command(line).map_err(|wrong| at(i, wrong))?;
            let has = |label: &u32| {
                there.contains(label) || known.labels.contains(label) && !gone.contains(label)
            };
            match &command {
                Command::Add(label, _) if has(label) => {
                    return Err(at(
                        i,
                        format!("label {label} has an entry; `set` changes it"),
                    ));
                }
                Command::Remove(label) if !has(label) => {
                    return Err(at(i, format!("label {label} has no entry")));
                }
                Command::Add(label, _) | Command::Set(label, _) => {
                    there.insert(*label);
                    gone.remove(label);
                }
                Command::Remove(label) => {
                    there.remove(label);
                    gone.insert(*label);
                }
            }
            commands.push(command);
        }
        for command in commands {
            let (label, entry) = match command {
                Command::Add(label, entry) | Command::Set(label, entry) => (label, Some(entry)),
                Command::Remove(label) => (label, None),
            };
            self.switch
                .table
                .set(&mut known, label, entry.map(Arc::new));
        }
        Ok(String::new())
    }

    fn show(&self) -> String {
        let known = self.switch.table.lock();
        let entries = known.labels.iter().map(|&label| {
            let entry = self.switch.table.entry(label);
            let entry = entry.map(|entry| show(&entry));
            format!("{label} {}\n", entry.unwrap_or_default())
        });
        entries.collect()
    }

    fn lookup(&self, label: &str) -> Result<String, String> {
        let entry = self.switch.table.entry(syntax::label(label.trim())?);
        Ok(entry.map_or("-1".to_owned(), |entry| show(&entry)))
    }

    fn flush(&self) {
        let mut known = self.switch.table.lock();
        for label in known.labels.clone() {
            self.switch.table.set(&mut known, label, None);
        }
    }
}

pub(crate) struct MplsLookup {
    config: Arc<Config>,
    outputs: usize,
}

impl MplsLookup {
    #[inline(always)]
    fn output_verdict(outputs: usize, port: u16) -> Option<Verdict> {
        (usize::from(port) < outputs).then_some(Verdict::out(port as u8))
    }
}

impl Fuse for MplsLookup {
    #[inline]
    fn fast(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (table, reader, outputs) = (&*self.config.switch.table, cx.reader(), self.outputs);
        #[inline(always)]
        move |packet| {
            switch::swap(table, reader, packet, |port| {
                MplsLookup::output_verdict(outputs, port)
            })
        }
    }

    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let config = &self.config;
        let out = |hop: &Hop| {
            MplsLookup::output_verdict(self.outputs, hop.port).ok_or(Verdict::drop(NO_NEXT_HOP))
        };
        let reader = cx.reader();
        match config.switch.slow(packet, reader, out) {
            Ok((hop, verdict)) => {
                match hop.gateway {
                    Some(IpAddr::V4(gateway)) => packet.anno_mut().set_dst4(gateway.octets()),
                    Some(IpAddr::V6(gateway)) => packet.anno_mut().set_via6(gateway.octets()),
                    None => {}
                }
                verdict // as the fast path, so that packets keep their order
            }
            Err(Stop::Verdict(verdict)) => verdict,
            Err(Stop::Expired) => Verdict::reject(EXPIRED, config.expired),
            Err(Stop::NoLabel) => Verdict::reject(NO_LABEL, config.no_label),
            Err(Stop::BadStack) => Verdict::drop(BAD_STACK),
            Err(Stop::NoHeadroom) => Verdict::drop(NO_HEADROOM),
        }
    }
}

impl Element for MplsLookup {
    const CONTRACT: Contract = Contract::new("MPLSLookup", manual!())
        .ports(Ports::coded(&["in"], &["out*"], "h/h"))
        .gives(&[Facts::NETWORK])
        .spoils(Facts::ALL)
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mode = args.key(
            "MODE",
            Mode::Uniform,
            "time to live and class: uniform or pipe",
        );
        let expired: Option<u8> = args.key_maybe("EXPIRED", "output for expired packets");
        let no_label: Option<u8> = args.key_maybe("NOLABEL", "output for unknown labels");
        let given = args.rest("ENTRIES", "LABEL ACTION [GATEWAY] PORT", "an entry");
        if expired == Some(UNCONNECTED) || no_label == Some(UNCONNECTED) {
            args.error_in_whole("there is no port 255", "give a lower one");
        }
        let mut config = Config {
            switch: Switch {
                table: Arc::new(LabelTable::default()),
                mode,
                seed: secret(cfg!(test)) as u32,
            },
            expired: expired.unwrap_or(UNCONNECTED),
            no_label: no_label.unwrap_or(UNCONNECTED),
            names: args.names().clone(),
            port_max: expired.max(no_label).filter(|&port| port < UNCONNECTED),
            outputs: AtomicUsize::new(0),
        };
        for arg in &given {
            match syntax::entry(&arg.words().join(" "), &config.names) {
                Ok((label, entry)) => {
                    let ports = entry.hops().iter().map(|hop| hop.port);
                    config.port_max = config.port_max.max(ports.max().map(|port| port as u8));
                    let mut known = config.switch.table.lock();
                    if !known.configured.insert(label) {
                        args.error(arg, format!("label {label} has an entry already"));
                    }
                    config.switch.table.set(&mut known, label, Some(Arc::new(entry)));
                }
                Err(wrong) => args.error_with_help(
                    arg,
                    wrong,
                    "write LABEL pop [GATEWAY] PORT or LABEL swap LABELS [GATEWAY] PORT; more next hops may follow \
                        behind `|`",
                ),
            }
        }
        config
    }

    fn new(config: &Arc<Config>, init: &Init) -> MplsLookup {
        config.outputs.store(init.outputs, Relaxed);
        MplsLookup {
            config: Arc::clone(config),
            outputs: init.outputs,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.switch.seed = old.switch.seed; // flows stay on their next hops
        let before = old.switch.table.lock();
        let mut known = config.switch.table.lock();
        // Entries added by handlers stay, unless the new configuration has the label.
        for &label in before.labels.difference(&before.configured) {
            if !known.configured.contains(&label) {
                config
                    .switch
                    .table
                    .set(&mut known, label, old.switch.table.entry(label));
            }
        }
    }

    const HANDLERS: &'static [Handler<MplsLookup>] = &[
        Handler::shared("table", "an entry per line", |c: &Config, _| Ok(c.show())),
        Handler::shared(
            "lookup",
            "`LABEL`: its next hops; -1 without an entry",
            |c: &Config, v| c.lookup(v),
        ),
        Handler::shared("length", "number of entries", |c: &Config, _| {
            Ok(c.switch.table.lock().labels.len().to_string())
        }),
        Handler::action(
            "add",
            "`ENTRY`: adds an entry for a new label",
            |c: &Config, v| c.control(&format!("add {v}")),
        ),
        Handler::action(
            "set",
            "`ENTRY`: adds or changes an entry",
            |c: &Config, v| c.control(&format!("set {v}")),
        ),
        Handler::action("remove", "`LABEL`: removes an entry", |c: &Config, v| {
            c.control(&format!("remove {v}"))
        }),
        Handler::action(
            "ctrl",
            "add, set and remove lines: all are carried out, or none",
            |c: &Config, lines| c.control(lines),
        ),
        Handler::action("flush", "removes all entries", |c: &Config, _| {
            c.flush();
            Ok(String::new())
        }),
    ];
}

impl Resources for MplsLookup {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (None, config.port_max.map(|port| usize::from(port) + 1))
    }
}

#[cfg(test)]
#[path = "mpls_lookup_tests.rs"]
mod tests;
