//! What the rewriting classes have in common: one element over a family of classes.

use super::key::{self, Key, Kind};
use super::set::FlowSet;
use super::spec::{self, Input, Made, Spec};
use super::tcp::{self, class};
use crate::anno::Anno;
use crate::prelude::*;
use engine::shared::Shared;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;
use tables::flows::Side;
use wire::proto;

const DISCARDED: u8 = 0;
const NOT_REWRITABLE: u8 = 1;
const FAILED: u8 = 2;

/// Mappings that one timer call removes at most.
const REAP: usize = 1024;

/// Keywords of all classes of the family, to read each other's configurations.
pub(super) const KEYWORDS: &[&str] = &[
    "TCP_TIMEOUT",
    "TCP_DONE_TIMEOUT",
    "TCP_NODATA_TIMEOUT",
    "TCP_GUARANTEE",
    "UDP_TIMEOUT",
    "UDP_STREAMING_TIMEOUT",
    "UDP_GUARANTEE",
    "TIMEOUT",
    "STREAMING_TIMEOUT",
    "GUARANTEE",
    "REAP_INTERVAL",
    "MAPPING_CAPACITY",
    "DST_ANNO",
    "REPLY_ANNO",
];

/// A class of the family.
pub(super) trait Family: Sized + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    const KIND: Kind;
    const HANDLERS: &'static [Handler<Rewriter<Self>>];
}

/// What kind of rewriter a class is, by name.
pub(super) fn kind_of(class: &str) -> Option<Kind> {
    Some(match class {
        "IPRewriter" => Kind::Ip,
        "TCPRewriter" => Kind::Tcp,
        "UDPRewriter" => Kind::Udp,
        "ICMPPingRewriter" => Kind::Ping,
        "IPAddrRewriter" => Kind::Address,
        "IPAddrPairRewriter" => Kind::Pair,
        _ => return None,
    })
}

/// A rewriter's configuration.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) kind: Kind,
    pub(super) specs: Vec<Spec>,
    /// Guarantee and lifetime, by [`class`].
    times: [(Duration, Duration); 5],
    reap: Duration,
    /// Flows that its set may have; `None`: the set is another's.
    capacity: Option<usize>,
    /// The rewriter whose flow set it uses, by name.
    pub(super) owner: String,
    dst_anno: bool,
    reply_anno: Option<Anno<1>>,
}

const MINUTE: u64 = 60;

impl Config {
    /// Parses a rewriter's arguments.
    pub(super) fn parse(kind: Kind, args: &mut Args) -> Config {
        let times = times(kind, args);
        let capacity: Option<String> = args.key_maybe(
            "MAPPING_CAPACITY",
            "most mappings there may be, or the rewriter with which it shares its capacity",
        );
        let (capacity, owner) = owner(args, capacity);
        let mut config = Config {
            kind,
            specs: Vec::new(),
            times,
            reap: args.key(
                "REAP_INTERVAL",
                Duration::from_secs(15 * MINUTE),
                "how often mappings whose time is over are looked for",
            ),
            capacity,
            owner,
            dst_anno: args.key(
                "DST_ANNO",
                true,
                "whether the destination annotation follows the destination address",
            ),
            reply_anno: args.key_maybe(
                "REPLY_ANNO",
                "an annotation that replies are given as the first packet of their flow had it",
            ),
        };
        let specs = args.rest(
            "INPUTSPEC",
            "what to do with new flows",
            "one for each input",
        );
        for (input, arg) in specs.iter().enumerate() {
            let spec = spec::parse(arg, input, kind, args);
            config.specs.push(spec.unwrap_or_else(|wrong| {
                args.error(arg, format!("input spec {input}: {wrong}"));
                Spec::Drop
            }));
        }
        config
    }

    /// What stands for a rewriter that there is not.
    pub(super) fn nothing(kind: Kind) -> Config {
        Config {
            kind,
            specs: Vec::new(),
            times: [(Duration::ZERO, Duration::ZERO); 5],
            reap: Duration::ZERO,
            capacity: None,
            owner: String::new(),
            dst_anno: true,
            reply_anno: None,
        }
    }

    /// What elements of this worker share with this rewriter: its flow set, its number there, its inputs.
    pub(super) fn join(&self, name: &str, shared: &Shared) -> Joined {
        let set = flow_set(&self.owner, shared);
        let space = {
            let mut set = set.borrow_mut();
            let space = set.space(name);
            set.join(space, self.specs.len(), &self.times);
            space
        };
        let inputs = self.specs.iter().map(|s| Input::new(s, shared)).collect();
        Joined {
            set,
            space,
            inputs,
            kind: self.kind,
        }
    }
}

/// The flow set of a rewriter with a capacity of its own, by name.
pub(super) fn flow_set(owner: &str, shared: &Shared) -> Rc<RefCell<FlowSet>> {
    shared.get(owner, || RefCell::new(FlowSet::new()))
}

/// A rewriter's part of a flow set.
pub(super) struct Joined {
    pub(super) set: Rc<RefCell<FlowSet>>,
    pub(super) space: u16,
    pub(super) inputs: Vec<Input>,
    pub(super) kind: Kind,
}

impl Joined {
    /// The mapping of a flow, made as `input` says if there is none.
    #[inline]
    pub(super) fn find_or_make(
        &self,
        set: &mut FlowSet,
        key: Key,
        dst: Key,
        input: usize,
        now: Time,
        random: impl FnMut() -> u32,
    ) -> (Made, bool) {
        if let Some(end) = set.find(&key) {
            return (Made::Mapping(end), false);
        }
        if self.kind == Kind::Address
            && let Some(end) = set.find(&dst)
        {
            return (Made::Mapping(end), false);
        }
        let spec = &self.inputs[input];
        if key.is_reply() {
            return (spec.passes().map_or(Made::Unwanted, Made::Pass), false);
        }
        let class = match self.kind {
            Kind::Tcp => class::NO_DATA,
            Kind::Ip if key.proto == proto::TCP => class::NO_DATA,
            _ => class::PLAIN,
        };
        (
            spec.make(set, (key, self.kind), input, (class, now), random),
            true,
        )
    }
}

/// The other end of [`Kind::Address`]: the packet's destination.
pub(super) fn dst_key(key: Key, dst: u32) -> Key {
    Key { src: 0, dst, ..key }
}

fn times(kind: Kind, args: &mut Args) -> [(Duration, Duration); 5] {
    let secs = Duration::from_secs;
    let mut time = |name, default, doc| args.key(name, default, doc);
    let held = "how long a mapping is safe after each packet";
    let guarantee = time("GUARANTEE", secs(5), held);
    let (mut tcp, mut plain) = ([Duration::ZERO; 4], [Duration::ZERO; 3]);
    if matches!(kind, Kind::Ip | Kind::Tcp) {
        tcp = [
            time("TCP_GUARANTEE", guarantee, held),
            time(
                "TCP_NODATA_TIMEOUT",
                secs(5 * MINUTE),
                "for connections without data in both directions",
            ),
            time(
                "TCP_TIMEOUT",
                secs(24 * 60 * MINUTE),
                "for connections with data in both directions",
            ),
            time(
                "TCP_DONE_TIMEOUT",
                secs(4 * MINUTE),
                "for connections that have ended",
            ),
        ];
    }
    if kind != Kind::Tcp {
        let idle = "for mappings that are not used";
        let timeout = match kind {
            Kind::Ip => time("UDP_TIMEOUT", secs(5 * MINUTE), idle),
            Kind::Udp => {
                let timeout = time("UDP_TIMEOUT", secs(5 * MINUTE), idle);
                time("TIMEOUT", timeout, idle)
            }
            _ => time("TIMEOUT", secs(5 * MINUTE), idle),
        };
        let streams = "for flows with three packets or more, in both directions";
        plain = match kind {
            Kind::Ip => [
                time("UDP_GUARANTEE", guarantee, held),
                timeout,
                time("UDP_STREAMING_TIMEOUT", timeout, streams),
            ],
            Kind::Udp => {
                let streaming = time("UDP_STREAMING_TIMEOUT", timeout, streams);
                let guarantee = time("UDP_GUARANTEE", guarantee, held);
                [
                    guarantee,
                    timeout,
                    time("STREAMING_TIMEOUT", streaming, streams),
                ]
            }
            _ => [guarantee, timeout, timeout],
        };
    }
    [
        (tcp[0], tcp[1]),
        (tcp[0], tcp[2]),
        (tcp[0], tcp[3]),
        (plain[0], plain[1]),
        (plain[0], plain[2]),
    ]
}

/// Capacity and owner of a rewriter's flow set.
fn owner(args: &mut Args, capacity: Option<String>) -> (Option<usize>, String) {
    let own = args.element().to_owned();
    let Some(text) = capacity else {
        return (Some(usize::MAX), own);
    };
    if let Ok(number) = text.parse::<usize>() {
        return (Some(number), own);
    }
    let mut name = text.clone();
    let mut seen = vec![own.clone()];
    let mut peer = args.peer(&name);
    while let Some(at) = peer.filter(|p| kind_of(p.class()).is_some()) {
        name = at.name().to_owned();
        if seen.contains(&name) {
            break;
        }
        seen.push(name.clone());
        let mut theirs = at.args(KEYWORDS);
        match theirs.key_maybe::<String>("MAPPING_CAPACITY", "") {
            Some(text) if text.parse::<usize>().is_err() => peer = theirs.peer(&text),
            _ => return (None, name),
        }
    }
    args.error_in_whole(
        format!(
            "MAPPING_CAPACITY: '{text}' is not a number or a rewriter with a capacity of its own"
        ),
        "give a number, or name a rewriter such as IPRewriter",
    );
    (Some(usize::MAX), own)
}

/// A rewriting element.
pub(super) struct Rewriter<F> {
    config: Arc<Config>,
    pub(super) joined: Joined,
    next_reap: Time,
    armed: bool,
    family: PhantomData<F>,
}

impl<F: Family> Element for Rewriter<F> {
    const CLASS: &'static str = F::CLASS;
    const MANUAL: &'static str = F::MANUAL;
    const PORTS: Ports = Ports::coded(&["in+"], &["out*"], "h/h");
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = &["discarded", "not_rewritable", "mapping_failure"];
    const COPIES: Copies = Copies::Owner;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::parse(F::KIND, args)
    }

    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(config.specs.len()), None)
    }

    fn new(config: &Arc<Config>, init: &Init) -> Rewriter<F> {
        let joined = config.join(init.name, init.shared);
        if let Some(capacity) = config.capacity {
            joined.set.borrow_mut().set_capacity(capacity, init.now);
        }
        Rewriter {
            config: Arc::clone(config),
            joined,
            next_reap: init.now + config.reap,
            armed: false,
            family: PhantomData,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let mut set = self.joined.set.borrow_mut();
        batch.split(
            cx,
            |packet, cx| self.rewrite(&mut set, input, packet, cx),
            |packet, verdict, cx| cx.send(packet, verdict),
        );
        drop(set);
        if !self.armed {
            self.armed = true;
            let behind = cx.now().since(self.next_reap).as_nanos();
            let periods = behind.div_ceil(self.config.reap.as_nanos().max(1));
            let periods = u32::try_from(periods).unwrap_or(0);
            self.next_reap = self.next_reap + self.config.reap * periods;
            cx.set_timer(self.next_reap);
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        if self.joined.set.borrow_mut().reap(cx.now(), REAP) {
            return cx.set_timer(cx.now() + Duration::from_millis(1));
        }
        self.next_reap = cx.now() + self.config.reap.max(Duration::from_millis(1));
        cx.set_timer(self.next_reap);
    }

    const HANDLERS: &'static [Handler<Rewriter<F>>] = F::HANDLERS;
}

impl<F: Family> Rewriter<F> {
    #[inline]
    fn rewrite(
        &self,
        set: &mut FlowSet,
        input: usize,
        packet: &mut Packet,
        cx: &mut Cx,
    ) -> Verdict {
        let datagram = crate::ip4::datagram(packet);
        let place = key::place(datagram);
        let found =
            place.and_then(|p| Some((p, key::key(F::KIND, datagram, p, self.joined.space)?)));
        let Some((place, key)) = found else {
            let passes = self.joined.inputs[input].passes();
            return passes.map_or(Verdict::drop(NOT_REWRITABLE), Verdict::out);
        };
        let dst = dst_key(
            key,
            u32::from_be_bytes([datagram[16], datagram[17], datagram[18], datagram[19]]),
        );
        let now = cx.now();
        let (made, new) = self
            .joined
            .find_or_make(set, key, dst, input, now, || cx.random());
        let end = match made {
            Made::Mapping(end) => end,
            Made::Pass(output) => return Verdict::out(output),
            Made::Unwanted => return Verdict::drop(DISCARDED),
            Made::Failed => return Verdict::drop(FAILED),
        };
        if let Some(anno) = self.config.reply_anno {
            if new {
                [set.get(end.flow).reply_anno] = anno.get(packet);
            } else if end.side == 1 {
                anno.set(packet, [set.get(end.flow).reply_anno]);
            }
        }
        let from = if F::KIND == Kind::Address && end.side == 1 {
            dst
        } else {
            key
        };
        self.apply(set, end, packet, (place, from), now)
    }

    /// Rewrites a packet as its mapping says.
    #[inline]
    fn apply(
        &self,
        set: &mut FlowSet,
        end: Side,
        packet: &mut Packet,
        (place, from): (key::Place, Key),
        now: Time,
    ) -> Verdict {
        let to = set.rewritten(end);
        let length = crate::ip4::datagram(packet).len();
        let datagram = &mut packet.network_mut()[..length];
        let mapping = set.get(end.flow);
        let tcp = place.protocol == proto::TCP && matches!(F::KIND, Kind::Ip | Kind::Tcp);
        let class = if tcp {
            let class = mapping.progress.tcp(end.side, &datagram[place.at..]);
            if let Some(shifts) = &mapping.shifts {
                tcp::shift(datagram, place, end.side, shifts);
            }
            class
        } else {
            mapping.progress.plain(end.side)
        };
        key::rewrite(datagram, place, &from, &to, F::KIND);
        let dst = [datagram[16], datagram[17], datagram[18], datagram[19]];
        let output = mapping.outputs[end.side];
        set.touch(end.flow, self.joined.space, class, now);
        if self.config.dst_anno {
            packet.anno_mut().set_dst4(dst);
        }
        Verdict::out(output)
    }
}
