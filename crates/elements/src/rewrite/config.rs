//! Arguments of a rewriter.

use super::rewriter::{Family, Joined, flow_set};
use crate::anno::Anno;
use crate::prelude::*;
use arguments::units::whole_number;
use engine::shared::Shared;
use nat::key::Kind;
use nat::spec::{self, Input, Spec};
use std::time::Duration;

/// Keywords of every rewriting class. A class parses them all when it reads another rewriter's configuration.
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

/// Kind of rewriter for a class name; `None` for any other class.
pub(super) fn kind_of(class: &str) -> Option<Kind> {
    KINDS.iter().find(|k| k.0 == class).map(|k| k.1)
}

const KINDS: [(&str, Kind); 6] = [
    kind::<super::ip_rewriter::IPRewriter>(),
    kind::<super::tcp_rewriter::TCPRewriter>(),
    kind::<super::udp_rewriter::UDPRewriter>(),
    kind::<super::icmp_ping_rewriter::ICMPPingRewriter>(),
    kind::<super::ip_addr_rewriter::IPAddrRewriter>(),
    kind::<super::ip_addr_pair_rewriter::IPAddrPairRewriter>(),
];

const fn kind<F: Family>() -> (&'static str, Kind) {
    (F::CLASS, F::KIND)
}

/// A rewriter's configuration.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) kind: Kind,
    pub(super) specs: Vec<Spec>,
    /// Guarantee and lifetime of each flow class, indexed by [`class`].
    times: [(Duration, Duration); 5],
    /// Interval between removals of expired mappings; `None` for the default.
    pub(super) reap: Option<Duration>,
    /// Maximum number of flows in the rewriter's flow set; `None` if the rewriter uses another rewriter's set.
    pub(super) capacity: Option<Bound>,
    /// Name of the rewriter that owns the flow set.
    pub(super) owner: String,
    pub(super) dst_anno: bool,
    pub(super) reply_anno: Option<Anno<1>>,
}

/// Maximum number of flows of a set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Configured(usize),
    /// The default bound for the router's mode.
    Default,
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
            reap: args.key_maybe(
                "REAP_INTERVAL",
                "time between two removals of expired mappings",
            ),
            capacity,
            owner,
            dst_anno: args.key(
                "DST_ANNO",
                true,
                "true if the destination annotation follows the destination address",
            ),
            reply_anno: args.key_maybe(
                "REPLY_ANNO",
                "annotation of a flow's first packet that is copied to replies",
            ),
        };
        let specs = args.rest("INPUTSPEC", "treatment of new flows", "one for each input");
        for (input, arg) in specs.iter().enumerate() {
            let spec = spec::parse(arg, input, args).and_then(|spec| match kind {
                Kind::Address if spec.sets_destinations() => {
                    Err("the destination must be `-`; IPAddrPairRewriter changes it".to_owned())
                }
                _ => Ok(spec),
            });
            config.specs.push(spec.unwrap_or_else(|wrong| {
                args.error(arg, format!("input spec {input}: {wrong}"));
                Spec::Drop
            }));
        }
        config
    }

    /// Configuration of a placeholder for a rewriter that does not exist.
    pub(super) fn placeholder(kind: Kind) -> Config {
        Config {
            kind,
            specs: Vec::new(),
            times: [(Duration::ZERO, Duration::ZERO); 5],
            reap: None,
            capacity: None,
            owner: String::new(),
            dst_anno: true,
            reply_anno: None,
        }
    }

    /// Joins the rewriter `name` to its flow set, which elements of this worker share, and prepares its inputs.
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
            bucket_of: None,
            set,
            space,
            inputs,
            kind: self.kind,
        }
    }
}

fn times(kind: Kind, args: &mut Args) -> [(Duration, Duration); 5] {
    let secs = Duration::from_secs;
    let mut time = |name, default, doc| args.key(name, default, doc);
    let held = "time for which a mapping is kept after its last packet";
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
        let idle = "lifetime of an unused mapping";
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

/// Bound and owner's name of a rewriter's flow set. `MAPPING_CAPACITY` is a number or the name of another rewriter.
fn owner(args: &mut Args, capacity: Option<String>) -> (Option<Bound>, String) {
    let own = args.element().to_owned();
    let Some(text) = capacity else {
        return (Some(Bound::Default), own);
    };
    if let Some(number) = whole_number::<usize>(&text) {
        return (Some(Bound::Configured(number)), own);
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
            Some(text) if whole_number::<usize>(&text).is_none() => peer = theirs.peer(&text),
            _ => return (None, name),
        }
    }
    args.error_in_whole(
        format!(
            "MAPPING_CAPACITY: '{text}' is not a number or a rewriter with a capacity of its own"
        ),
        "give a number, or name a rewriter such as IPRewriter",
    );
    (Some(Bound::Default), own)
}
