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
//! annotation. Actions:
//!
//! - `swap 200`: label 200 takes the place of the label; with `swap 300/200` label 300 is pushed upon that.
//! - `pop` with a gateway: the label is taken off for the next router (penultimate hop popping).
//! - `pop` without a gateway: the packet was for this router. If there is a further label, that is looked up; if not,
//!   the packet leaves by output `PORT` with its IP header first.
//!
//! Several next hops may follow each other behind `|`, each with its own action and perhaps `WEIGHT n`: a flow, which
//! is told by the IP packet below the labels or else by the labels, always takes the same one.
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

use super::header::{Life, Mode};
use super::syntax;
use super::table::{Entry as Known, Hop, LabelTable};
use crate::prelude::*;
use arguments::Names;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wire::FlowKey;
use wire::mpls::{self, Entry, LEN};

const EXPIRED: u8 = 0;
const NO_LABEL: u8 = 1;
const BAD_STACK: u8 = 2;
const NO_HEADROOM: u8 = 3;
const NO_NEXT_HOP: u8 = 4;
/// As a port: not connected, so that packets are dropped.
const NOWHERE: u8 = u8::MAX;

pub(crate) struct Config {
    table: LabelTable,
    mode: Mode,
    expired: u8,
    no_label: u8,
    names: Names,
    port_max: Option<u8>,
    /// Outputs of the running element; 0 until it runs.
    outputs: AtomicUsize,
    /// Secret, and other than the next router's: else one polarises the flows of the other.
    seed: u32,
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
        let mut known = self.table.lock();
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
            self.table.set(&mut known, label, entry.map(Arc::new));
        }
        Ok(String::new())
    }

    fn show(&self) -> String {
        let known = self.table.lock();
        let entries = known.labels.iter().map(|&label| {
            let entry = self.table.entry(label);
            let entry = entry.map(|entry| syntax::show(&entry));
            format!("{label} {}\n", entry.unwrap_or_default())
        });
        entries.collect()
    }

    fn lookup(&self, label: &str) -> Result<String, String> {
        let entry = self.table.entry(syntax::label(label.trim())?);
        Ok(entry.map_or("-1".to_owned(), |entry| syntax::show(&entry)))
    }

    fn flush(&self) {
        let mut known = self.table.lock();
        for label in known.labels.clone() {
            self.table.set(&mut known, label, None);
        }
    }
}

/// What a packet's stack comes to.
struct Found<'t> {
    hop: &'t Hop,
    /// Bytes of labels that go.
    gone: usize,
    /// The last of them.
    last: Entry,
    /// Time to live and class that the packet came with.
    life: Life,
}

pub(crate) struct MplsLookup {
    config: Arc<Config>,
    outputs: usize,
}

impl MplsLookup {
    /// A hash of the flow that a packet below its labels belongs to.
    #[inline(never)]
    fn hash(&self, data: &[u8], stack: usize) -> u32 {
        let (labels, payload) = data.split_at(stack);
        match FlowKey::of_ip(payload) {
            Some(flow) => flow.hash(self.config.seed),
            None => labels.chunks(LEN).fold(self.config.seed, |hash, entry| {
                // Label alone: class and time to live differ within a flow.
                let label = Entry::read(entry, 0).map_or(0, |entry| entry.label);
                let mixed =
                    (u64::from(hash) << 20 ^ u64::from(label)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 32) as u32
            }),
        }
    }

    /// Follows the labels that are for this router.
    #[inline]
    fn find<'t>(
        &self,
        data: &[u8],
        stack: usize,
        cx: &'t Cx,
        table: &'t LabelTable,
    ) -> Result<Found<'t>, Verdict> {
        let uniform = self.config.mode == Mode::Uniform;
        let mut carried: Option<Life> = None;
        let mut at = 0;
        while let Some(top) = Entry::read(data, at) {
            let Some(entry) = table.find(top.label, cx.reader()) else {
                return Err(Verdict::reject(NO_LABEL, self.config.no_label));
            };
            let own = Life {
                ttl: top.ttl,
                exp: top.exp,
            };
            let life = match carried {
                Some(outer) if uniform => Life {
                    ttl: outer.ttl.min(own.ttl),
                    exp: outer.exp,
                },
                _ => own,
            };
            if life.ttl <= 1 {
                return Err(Verdict::reject(EXPIRED, self.config.expired));
            }
            let hop = entry.hop(|| self.hash(data, stack));
            let hop = hop.ok_or(Verdict::drop(NO_NEXT_HOP))?;
            at += LEN;
            if hop.labels.len() > 0 || hop.gateway.is_some() || top.bottom {
                return Ok(Found {
                    hop,
                    gone: at,
                    last: top,
                    life,
                });
            }
            carried = Some(life);
        }
        Err(Verdict::drop(BAD_STACK))
    }

    /// Does to the packet's labels what the hop says; false if there is no room.
    #[inline]
    fn relabel(&self, packet: &mut Packet, found: &Found) -> bool {
        let (hop, last, life) = (found.hop, found.last, found.life);
        let uniform = self.config.mode == Mode::Uniform;
        let onward = Life {
            ttl: life.ttl - 1,
            exp: life.exp,
        };
        let new = hop.labels.len() * LEN;
        if new == 0 {
            if !packet.pull(found.gone) || !uniform {
                return true;
            }
            let data = packet.data_mut();
            match last.bottom {
                // Where it is looked up next, its time to live is lowered.
                true if hop.gateway.is_none() => life.into_ip(data),
                true => onward.into_ip(data),
                false => {
                    if let Some(mut top) = Entry::read(data, 0) {
                        (top.ttl, top.exp) = (onward.ttl.min(top.ttl), onward.exp);
                        top.write(data, 0);
                    }
                }
            }
            return true;
        }
        let fits = match new.checked_sub(found.gone) {
            None => packet.pull(found.gone - new),
            Some(0) => true,
            Some(more) => packet.push(more).is_some(),
        };
        if fits {
            let data = packet.data_mut();
            for (i, label) in hop.labels.outermost_first().enumerate() {
                let entry = Entry {
                    label,
                    exp: onward.exp,
                    bottom: last.bottom && i + 1 == hop.labels.len(),
                    ttl: onward.ttl,
                };
                entry.write(data, i * LEN);
            }
        }
        fits
    }
}

impl Fuse for MplsLookup {
    /// Swaps the only label of a packet, or the outermost one of two, for another.
    #[inline]
    fn fast(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (table, reader, outputs) = (&self.config.table, cx.reader(), self.outputs);
        #[inline(always)]
        move |packet| {
            let data = packet.data_mut();
            let mut top = Entry::read(data, 0)?;
            let stack = match top.bottom {
                true => LEN,
                false if Entry::read(data, LEN)?.bottom => 2 * LEN,
                false => return None,
            };
            let swap = table.swap(top.label, reader)?;
            if top.ttl <= 1 || usize::from(swap.port) >= outputs {
                return None;
            }
            (top.label, top.ttl) = (swap.label, top.ttl - 1);
            top.write(data, 0);
            packet.set_network_offset(stack);
            if let Some(gateway) = swap.gateway {
                packet.anno_mut().set_dst4(gateway);
            }
            Some(Verdict::out(swap.port))
        }
    }

    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let data = packet.data();
        let Ok(stack) = mpls::stack_len(data) else {
            return Verdict::drop(BAD_STACK);
        };
        let found = match self.find(data, stack, cx, &self.config.table) {
            Ok(found) => found,
            Err(verdict) => {
                packet.set_network_offset(stack);
                return verdict;
            }
        };
        let hop = found.hop;
        if usize::from(hop.port) >= self.outputs {
            return Verdict::drop(NO_NEXT_HOP);
        }
        packet.set_network_offset(stack);
        if !self.relabel(packet, &found) {
            return Verdict::drop(NO_HEADROOM);
        }
        match hop.gateway {
            Some(IpAddr::V4(gateway)) => packet.anno_mut().set_dst4(gateway.octets()),
            Some(IpAddr::V6(gateway)) => packet.anno_mut().set_dst6(gateway.octets()),
            None => {}
        }
        Verdict::out(hop.port) // as the fast path, so that packets keep their order
    }
}

impl Element for MplsLookup {
    const CLASS: &'static str = "MPLSLookup";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out*"], "h/h");
    const SPOILS: Facts = Facts::ALL;
    const GIVES: &'static [Facts] = &[Facts::NETWORK];
    const DROPS: &'static [&'static str] = &[
        "expired",
        "no_label",
        "bad_stack",
        "no_headroom",
        "no_next_hop",
    ];
    const EXTENSIONS: Extensions = &[&resources::of::<Self>()];

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
        if expired == Some(NOWHERE) || no_label == Some(NOWHERE) {
            args.error_in_whole("there is no port 255", "give a lower one");
        }
        let mut config = Config {
            table: LabelTable::new(),
            mode,
            expired: expired.unwrap_or(NOWHERE),
            no_label: no_label.unwrap_or(NOWHERE),
            names: args.names().clone(),
            port_max: expired.max(no_label).filter(|&port| port < NOWHERE),
            outputs: AtomicUsize::new(0),
            seed: RandomState::new().hash_one(0) as u32,
        };
        for arg in &given {
            match syntax::entry(&arg.words().join(" "), &config.names) {
                Ok((label, entry)) => {
                    let ports = entry.hops().iter().map(|hop| hop.port);
                    config.port_max = config.port_max.max(ports.max());
                    let mut known = config.table.lock();
                    if !known.configured.insert(label) {
                        args.error(arg, format!("label {label} has an entry already"));
                    }
                    config.table.set(&mut known, label, Some(Arc::new(entry)));
                }
                Err(wrong) => args.error_with_help(
                    arg,
                    wrong,
                    "write LABEL pop [GATEWAY] PORT or LABEL swap LABELS [GATEWAY] PORT; more next hops may follow behind `|`",
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
        config.seed = old.seed; // flows stay on their next hops
        let before = old.table.lock();
        let mut known = config.table.lock();
        // What handlers have added stays, unless the new text says something else.
        for &label in before.labels.difference(&before.configured) {
            if !known.configured.contains(&label) {
                config.table.set(&mut known, label, old.table.entry(label));
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
            Ok(c.table.lock().labels.len().to_string())
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
