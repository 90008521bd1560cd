//! Keeps a record of each flow that is set up, polices flows, and stamps deadlines, by which a DeadlineQueue meets
//! its guarantees.
//!
//! ```click
//! FromDevice(null:64, CORES 0) -> Strip(14) -> CheckIPHeader -> rt :: DirectIPLookup(0/0 0)
//!     -> flows :: FlowTable(BY match, LINK 100Mbps, BIN 1ms)
//!     -> DeadlineQueue(1000, WIDTH 1ms) -> BandwidthRatedUnqueue(100Mbps) -> Discard;
//! Script(write flows.add 10.0.0.1 1000 10.0.9.9 2000 udp RATE 64kbps BURST 1600 PACKET 200 DELAY 20ms);
//! ```
//!
//! A flow is identified by its packets' addresses, ports and protocol (`BY match`, IPv4 and IPv6), or by a tag, with
//! one load. A tag is the outermost MPLS label, with which the data begins (`label`), the flow label of IPv6, the
//! DSCP, the VLAN identifier of the annotation, or the annotation AGGREGATE. With `match` flows are hashed into
//! buckets of at most `K` flows. A further flow of a bucket is refused when it is set up, which bounds the time of
//! every look-up.
//!
//! Flows are set up by the handler `add`:
//!
//! ```text
//! FLOW [PORT n] [RATE bandwidth BURST bytes [PACKET bytes] [DELAY time] [JITTER time] [RESERVE bandwidth] [HOPS n]]
//!     [LEASE time]
//! ```
//!
//! `FLOW` is the tag, or `SADDR SPORT DADDR DPORT PROTOCOL`. Its packets leave by output `PORT` (default 0), which
//! replaces a route lookup. A flow with `RATE` requests guaranteed service (RFC 2212): it promises to send no more
//! than `BURST` bytes and what arrives at `RATE` on top, in packets of at most `PACKET` bytes (default `MTU`). Its
//! reserved rate is `RESERVE`, or the rate needed for a delay of `DELAY` over `HOPS` hops (default 1) like this one,
//! or else `RATE`. With `JITTER` the delays of two packets differ by no more than that. If the link of that output has
//! enough left, the answer is the reserved rate, the delay bound, and the greatest difference of two delays. Otherwise
//! the answer is the reason, and nothing has changed. The bound holds if a DeadlineQueue and a link of `LINK` follow
//! on each hop. It includes the delay of that queue's bins and of a packet being sent; it counts time in the routers,
//! not on cables.
//!
//! A packet beyond its flow's promise leaves by output `EXCESS` without a deadline, or is dropped (`excess`). Inside
//! a network, where bursts have grown and the edge has policed already, `POLICE false` lets all pass. Packets of no
//! flow leave by output `OTHER` without a deadline: a DeadlineQueue sends them when no other packet waits.
//!
//! A flow ends by `remove`, when its `LEASE` is over (`add` the flow again to renew it), or when it was idle for
//! `IDLE`. Workers share all records without locks.
//!
//! Keyword arguments:
//!
//! - `BY`: `match`, `label`, `flow_label`, `dscp`, `vlan` or `anno`. Default match.
//! - `CAPACITY`: maximum number of flows. Default 4096.
//! - `K`: maximum number of flows of a bucket, with `match`. Default 4.
//! - `BUCKETS`: number of buckets, made a power of two. Default four times `CAPACITY`: fewer than one flow in 10,000
//!   is refused.
//! - `LINK`: bandwidth of the link after each output. Without it no flow gets a guarantee.
//! - `RESERVABLE`: part of each link that may be reserved. Default: all of it. Give less if others reserve the rest.
//! - `MTU`: maximum packet length of any flow. Default 1500.
//! - `OVERHEAD`: bytes that the link adds to each packet, which are included in all byte counts. Default 0; 38 for an
//!   IP packet on Ethernet, with preamble and gap.
//! - `BIN`: the `WIDTH` of the DeadlineQueue downstream, 0 if that is exact. Default 1ms.
//! - `POLICE`: true if packets beyond a flow's bucket are removed. Default true.
//! - `IDLE`: time after which an idle flow has ended. Default: never.
//! - `EXCESS`: output for packets beyond their flow's bucket.
//! - `OTHER`: output for packets of no flow. Default 0.

use super::flow_request::FlowTreatment;
use super::key::KeyKind;
use super::records::{AddError, Dimensions, FlowRecord, PacketDecision, Records, Writer};
use crate::prelude::*;
use arguments::units::{Bandwidth, FromArg};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{MutexGuard, OnceLock};
use std::time::Duration;
use sync::Lock;
use tables::guarantee::{Grant, Link};

drops! {
    EXCESS = "excess",
    NO_PORT = "no_port",
}
/// Port number of an unconnected output: packets are dropped.
const UNCONNECTED: u8 = u8::MAX;
/// Expiry interval, and number of flows checked per interval.
const STEP: Duration = Duration::from_millis(100);
const STEP_FLOWS: usize = 4096;

/// Number of refused flows, by reason.
#[derive(Default)]
struct Refused {
    rate: AtomicU64,
    bucket: AtomicU64,
    full: AtomicU64,
}

pub(super) struct Config {
    shape: Dimensions,
    /// Flow records, allocated on first use. A configuration that is only checked, or that takes over existing flows,
    /// allocates none.
    records: OnceLock<Arc<Records>>,
    link: Option<Link>,
    /// Link capacity reserved for traffic outside this table, in bytes per second.
    withheld: u64,
    overhead: u64,
    police: bool,
    idle: Option<u64>,
    excess: u8,
    other: u8,
    /// Number of outputs of the running element; 0 before it runs.
    outputs: AtomicUsize,
    /// Sum of reserved rates by output, in bytes per second.
    reserved: Arc<Lock<BTreeMap<u8, u64>>>,
    refused: Arc<Refused>,
}

impl Config {
    fn records(&self) -> &Arc<Records> {
        let new = || Arc::new(Records::new(self.shape));
        self.records.get_or_init(new)
    }

    fn reserved(&self) -> MutexGuard<'_, BTreeMap<u8, u64>> {
        self.reserved.lock()
    }

    fn reserve(&self, flow: &FlowRecord) {
        if let Some(grant) = flow.grant {
            *self.reserved().entry(flow.wish.port).or_default() += grant.reserved;
        }
    }

    /// Releases the reserved rate of a flow.
    fn unreserve(&self, flow: &FlowRecord) {
        if let Some(grant) = flow.grant
            && let Some(sum) = self.reserved().get_mut(&flow.wish.port)
        {
            *sum = sum.saturating_sub(grant.reserved);
        }
    }

    /// Admission control for a flow that replaces one with reserved rate `instead`. Returns the grant.
    fn admit(&self, wish: &FlowTreatment, instead: u64) -> Result<Option<Grant>, String> {
        let outputs = self.outputs.load(Relaxed);
        if outputs > 0 && usize::from(wish.port) >= outputs {
            return Err(format!(
                "there is no output {}, only 0 to {}",
                wish.port,
                outputs - 1
            ));
        }
        let Some(wanted) = &wish.wanted else {
            return Ok(None);
        };
        let Some(link) = &self.link else {
            let wrong = "no guarantee can be given without knowing the link: write LINK, such as LINK 100Mbps";
            return Err(wrong.to_owned());
        };
        let reserved = self.reserved().get(&wish.port).copied().unwrap_or(0);
        let taken = reserved
            .saturating_sub(instead)
            .saturating_add(self.withheld);
        let grant = link.admit(wanted, taken);
        grant.map(Some).map_err(|refusal| {
            self.refused.rate.fetch_add(1, Relaxed);
            refusal.to_string()
        })
    }

    fn parse(&self, line: &str) -> Result<(super::key::Id, FlowTreatment), String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (id, rest) = self.shape.key_kind.parse(&words)?;
        let mtu = self.link.map_or(0, |link| link.mtu);
        Ok((id, FlowTreatment::parse(rest, mtu)?))
    }

    /// Adds or changes a flow. Returns its former state and its grant.
    fn set_up(
        &self,
        writer: &mut Writer,
        line: &str,
    ) -> Result<(u32, Option<FlowRecord>, String), String> {
        let (id, wish) = self.parse(line)?;
        let old = self.records().find(&id);
        let before = old.and_then(|number| writer.known.get(&number).copied());
        let same_link = before.filter(|before| before.wish.port == wish.port);
        let instead = same_link
            .and_then(|before| before.grant)
            .map_or(0, |grant| grant.reserved);
        let grant = self.admit(&wish, instead)?;
        let flow = FlowRecord {
            id,
            wish,
            grant,
            since: None,
        };
        let number = match old {
            Some(number) => {
                if let Some(before) = &before {
                    self.unreserve(before);
                }
                self.records().change(writer, number, flow);
                number
            }
            None => self
                .records()
                .add(writer, flow)
                .map_err(|why| self.no_place(why))?,
        };
        self.reserve(&flow);
        Ok((number, before, show_grant(grant)))
    }

    /// Sets up flows, one per line: all of them or none.
    fn add(&self, text: &str) -> Result<String, String> {
        let mut writer = self.records().lock();
        let mut done: Vec<(u32, Option<FlowRecord>)> = Vec::new();
        let mut answer = String::new();
        let lines = text.lines().map(str::trim).enumerate();
        for (i, line) in lines.filter(|(_, line)| !line.is_empty()) {
            match self.set_up(&mut writer, line) {
                Ok((number, before, granted)) => {
                    done.push((number, before));
                    answer += &granted;
                    answer.push('\n');
                }
                Err(wrong) => {
                    self.undo(&mut writer, done);
                    return Err(match text.lines().count() {
                        1 => wrong,
                        _ => format!("line {}: {wrong}", i + 1),
                    });
                }
            }
        }
        Ok(answer.trim_end().to_owned())
    }

    fn no_place(&self, why: AddError) -> String {
        match why {
            AddError::Full => {
                self.refused.full.fetch_add(1, Relaxed);
                "there are as many flows as there may be; CAPACITY makes room for more".to_owned()
            }
            AddError::Bucket => {
                self.refused.bucket.fetch_add(1, Relaxed);
                "its bucket holds K flows already; more BUCKETS make this rarer".to_owned()
            }
            AddError::Waits => {
                "flows that were removed have not left all workers yet; try again".to_owned()
            }
        }
    }

    /// Reverts flow set-ups in reverse order.
    fn undo(&self, writer: &mut Writer, done: Vec<(u32, Option<FlowRecord>)>) {
        for (number, before) in done.into_iter().rev() {
            if let Some(flow) = writer.known.get(&number) {
                self.unreserve(flow);
            }
            match before {
                Some(before) => {
                    self.records().change(writer, number, before);
                    self.reserve(&before);
                }
                None => {
                    self.records().remove(writer, number);
                }
            }
        }
    }

    fn remove(&self, text: &str) -> Result<String, String> {
        let mut writer = self.records().lock();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let find = |line: &str| {
            let (id, _) = self.parse(line)?;
            let found = self.records().find(&id);
            found.ok_or_else(|| format!("there is no flow `{}`", id.show()))
        };
        let numbers = lines.map(find).collect::<Result<Vec<u32>, String>>()?;
        for number in numbers {
            if let Some(flow) = self.records().remove(&mut writer, number) {
                self.unreserve(&flow);
            }
        }
        Ok(String::new())
    }

    fn show(&self) -> String {
        let writer = self.records().lock();
        let lines = writer.known.iter().map(|(&number, flow)| {
            let record = self.records().record(number);
            let [packets, bytes, excess] =
                [&record.packets, &record.bytes, &record.excess].map(|count| count.load(Relaxed));
            format!(
                "{} PORT {} {} packets {packets} bytes {bytes} excess {excess}\n",
                flow.id.show(),
                flow.wish.port,
                show_grant(flow.grant)
            )
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort_unstable();
        lines.concat()
    }
}

fn show_grant(grant: Option<Grant>) -> String {
    grant.map_or_else(
        || "no guarantee".to_owned(),
        |grant| {
            let ms = |ns: u64| {
                let text = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            };
            format!(
                "reserved {} bound {}ms jitter {}ms",
                Bandwidth::of(grant.reserved).unparse(),
                ms(grant.bound),
                ms(grant.jitter)
            )
        },
    )
}

pub(super) struct FlowTable {
    config: Arc<Config>,
    records: Arc<Records>,
}

impl Element for FlowTable {
    const CONTRACT: Contract = Contract::new("FlowTable", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let key_kind = args.key("BY", KeyKind::Match, "fields that identify a flow");
        let Capacity(capacity) = args.key("CAPACITY", Capacity(4096), "most flows");
        let k = args.key("K", 4, "most flows of a bucket");
        let buckets = args.key(
            "BUCKETS",
            Capacity(capacity.saturating_mul(4).max(1)),
            "number of buckets",
        );
        let rate: Option<Bandwidth> =
            args.key_maybe("LINK", "bandwidth of the link after each output");
        let reservable: Option<Bandwidth> =
            args.key_maybe("RESERVABLE", "part of each link that may be reserved");
        let mtu: u64 = args.key_in(
            "MTU",
            1500,
            64..=65_535,
            "maximum packet length of any flow",
        );
        let overhead: u16 = args.key("OVERHEAD", 0, "bytes that the link adds to each packet");
        let bin = args.key(
            "BIN",
            Duration::from_millis(1),
            "the WIDTH of the DeadlineQueue downstream",
        );
        let police = args.key(
            "POLICE",
            true,
            "true if packets beyond a flow's bucket are taken out",
        );
        let idle: Option<Duration> =
            args.key_maybe("IDLE", "time after which an idle flow has ended");
        let excess = args.key_maybe("EXCESS", "output for packets beyond their flow's bucket");
        let other = args.key("OTHER", 0, "output for packets of no flow");
        if k == 0 || capacity == 0 {
            args.error_in_whole(
                "CAPACITY and K must not be 0",
                "leave them out for 4096 and 4",
            );
        }
        if rate == Some(Bandwidth::of(0)) {
            args.error_in_whole(
                "LINK must not be 0",
                "give the bandwidth of the link, such as 100Mbps",
            );
        }
        if reservable > rate {
            args.error_in_whole(
                "RESERVABLE is more than LINK",
                "leave it out for all of LINK; without LINK nothing can be reserved",
            );
        }
        let most = u8::max(excess.unwrap_or(0), other);
        if usize::from(most) >= args.outputs().max(1) && args.outputs() > 0 {
            args.error_in_whole(
                format!("EXCESS or OTHER names output {most}, which is not connected"),
                "connect it, or name one that is",
            );
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Config {
            shape: Dimensions {
                key_kind,
                capacity: capacity.max(1),
                buckets: buckets.0.max(1),
                k: k.max(1),
            },
            records: OnceLock::new(),
            link: rate.map(|rate| Link {
                rate: rate.0,
                mtu: mtu.saturating_add(overhead.into()),
                bin: nanoseconds(bin),
            }),
            withheld: match (rate, reservable) {
                (Some(rate), Some(part)) => rate.0.saturating_sub(part.0),
                _ => 0,
            },
            overhead: overhead.into(),
            police,
            idle: idle.map(nanoseconds),
            excess: excess.unwrap_or(UNCONNECTED),
            other,
            outputs: AtomicUsize::new(0),
            reserved: Arc::default(),
            refused: Arc::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> FlowTable {
        config.outputs.store(init.outputs, Relaxed);
        FlowTable {
            records: Arc::clone(config.records()),
            config: Arc::clone(config),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        cx.set_timer(cx.now() + STEP);
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let config = &*self.config;
        let Some(record) = self.records.of_packet(packet) else {
            return Verdict::reject(NO_PORT, config.other);
        };
        let bytes = packet.len() as u64 + config.overhead;
        match record.rule(config.police, cx.now().0, bytes) {
            PacketDecision::Excess => Verdict::reject(EXCESS, config.excess),
            PacketDecision::Send(port) => Verdict::reject(NO_PORT, port),
            PacketDecision::Guaranteed(port, deadline, hop) => {
                let cold = packet.cold_mut();
                cold.set_deadline(deadline);
                cold.set_hop_delay(hop);
                Verdict::reject(NO_PORT, port)
            }
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        for flow in self
            .records
            .expire(cx.now().0, self.config.idle, STEP_FLOWS)
        {
            self.config.unreserve(&flow);
        }
        cx.set_timer(cx.now() + STEP);
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.refused = Arc::clone(&old.refused);
        if config.shape == old.shape {
            config.records.clone_from(&old.records);
            config.reserved = Arc::clone(&old.reserved);
            return;
        }
        // If flows have the same kind of key, they move to the new table, as far as it has room.
        if config.shape.key_kind != old.shape.key_kind {
            return;
        }
        let before = old.records().lock();
        let records = config.records();
        let mut writer = records.lock();
        for flow in before.known.values() {
            if records.add(&mut writer, *flow).is_ok() {
                config.reserve(flow);
            }
        }
    }

    const HANDLERS: &'static [Handler<FlowTable>] = &[
        Handler::action(
            "add",
            "sets flows up, one a line, all or none: see above; answers with the reservation and the bound",
            |c: &Config, text| c.add(text),
        ),
        Handler::action(
            "remove",
            "`FLOW`, one a line: ends flows",
            |c: &Config, text| c.remove(text),
        ),
        Handler::shared(
            "admit",
            "answers as `add` would for one flow, and sets nothing up",
            |c: &Config, text| {
                let (_, wish) = c.parse(text)?;
                Ok(show_grant(c.admit(&wish, 0)?))
            },
        ),
        Handler::shared(
            "flows",
            "a flow per line, with its bound and counts",
            |c: &Config, _| Ok(c.show()),
        ),
        Handler::shared("length", "number of flows", |c: &Config, _| {
            Ok(c.records().lock().known.len().to_string())
        }),
        Handler::shared(
            "reserved",
            "an output per line, with the reserved rate of its link",
            |c: &Config, _| {
                let reserved = c.reserved();
                let lines = reserved
                    .iter()
                    .map(|(port, sum)| format!("{port} {}\n", Bandwidth::of(*sum).unparse()));
                Ok(lines.collect())
            },
        ),
        Handler::shared(
            "refused",
            "flows refused: for want of rate or a delay too short, for a full bucket, for a full table",
            |c: &Config, _| {
                let counts = [&c.refused.rate, &c.refused.bucket, &c.refused.full];
                let [rate, bucket, full] = counts.map(|count| count.load(Relaxed));
                Ok(format!("rate {rate}\nbucket {bucket}\nfull {full}\n"))
            },
        ),
    ];
}

impl Resources for FlowTable {
    fn memory(config: &Config) -> usize {
        Records::memory(&config.shape)
    }
}

#[cfg(test)]
#[path = "flow_table_tests.rs"]
mod tests;
