//! Common part of the rewriting classes: one element over a family of classes.

use super::config::{Bound, Config};
use crate::prelude::*;
use engine::shared::Shared;
use nat::key::{self, Key, Kind};
use nat::set::{FlowSet, MappingInTransit, REAP};
use nat::spec::{BucketConstraint, Input, MappingResult, Spec};
use nat::tcp::{self, class};
use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;
use steer::{KeepsFlows, KeepsFlowsOfClass, SortedBy};
use tables::flows::Side;
use wire::{FlowKey, proto};

drops! {
    DISCARDED = "discarded",
    NOT_REWRITABLE = "not_rewritable",
    FAILED = "mapping_failure",
    FULL = "table_full",
    FRAGMENT = "fragment",
}

/// Default maximum number of mappings per flow set, for about 200 MB of memory.
const FLOWS: usize = 1 << 20;

/// Default interval between removals of expired mappings. Until removal, an expired mapping still counts in statistics,
/// but matches no packet.
const REAP_INTERVAL: Duration = Duration::from_secs(10);
const REAP_INTERVAL_CLICK: Duration = Duration::from_secs(15 * 60);

/// A class of rewriting elements.
pub(super) trait Family: Sized + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    const KIND: Kind;
    const HANDLERS: &'static [Handler<Rewriter<Self>>];
}

/// Shared flow set of this worker that the rewriter `owner` configures.
pub(super) fn flow_set(owner: &str, shared: &Shared) -> Rc<RefCell<FlowSet>> {
    shared.get(owner, || RefCell::new(FlowSet::default()))
}

/// Function from a flow to the bucket of its packets.
pub(super) type BucketOf = Box<dyn Fn(&FlowKey) -> u16>;

/// A rewriter's share of a flow set: the set, its number in the set, and its inputs.
pub(super) struct Joined {
    pub(super) set: Rc<RefCell<FlowSet>>,
    pub(super) space: u16,
    pub(super) inputs: Vec<Input>,
    pub(super) kind: Kind,
    /// Bucket function, if each worker owns the mappings of its buckets.
    pub(super) bucket_of: Option<BucketOf>,
}

impl Joined {
    /// Mapping of a flow. If the flow has none, the specification of `input` makes one.
    #[inline]
    pub(super) fn find_or_make(
        &self,
        set: &mut FlowSet,
        key: Key,
        dst: Key,
        (input, bucket): (usize, u16),
        now: Time,
        random: impl FnMut() -> u32,
    ) -> (MappingResult, bool) {
        if let Some(end) = set.find(&key, now) {
            return (MappingResult::Mapping(end), false);
        }
        if self.kind == Kind::Address
            && let Some(end) = set.find(&dst, now)
        {
            return (MappingResult::Mapping(end), false);
        }
        let spec = &self.inputs[input];
        if key.is_reply() {
            return (
                spec.pass_output()
                    .map_or(MappingResult::Unwanted, MappingResult::Pass),
                false,
            );
        }
        let class = match self.kind {
            Kind::Tcp => class::NO_DATA,
            Kind::Ip if key.proto == proto::TCP => class::NO_DATA,
            _ => class::CONNECTIONLESS,
        };
        let home = BucketConstraint {
            bucket_of: self.bucket_of.as_deref(),
            // Without a bucket function, the bucket annotation is not set.
            bucket: self.bucket_of.as_ref().map_or(0, |_| bucket),
        };
        let flow = (key, self.kind);
        let made = spec.make_mapping(set, flow, input, (class, now), &home, random);
        (made, true)
    }
}

/// Key of a destination address for [`Kind::Address`], whose mappings then apply to replies.
pub(super) fn dst_key(key: Key, dst: u32) -> Key {
    Key { src: 0, dst, ..key }
}

/// A rewriting element.
pub(super) struct Rewriter<F> {
    config: Arc<Config>,
    pub(super) joined: Joined,
    reap: Duration,
    next_reap: Time,
    armed: bool,
    as_click: bool,
    family: PhantomData<F>,
}

impl<F: Family> Element for Rewriter<F> {
    const CONTRACT: Contract = Contract::new(F::CLASS, F::MANUAL)
        .ports(Ports::coded(&["in+"], &["out*"], "h/h"))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .copies(Copies::Owner)
        .extensions(
            const {
                &[
                    &resources::of::<Self>(),
                    &KeepsFlowsOfClass::of::<Self>(),
                    &steer::ROUTER,
                ]
            },
        );

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::parse(F::KIND, args)
    }

    fn new(config: &Arc<Config>, init: &Init) -> Rewriter<F> {
        let mut joined = config.join(init.name, init.shared);
        joined.set.borrow_mut().until_reaped = init.as_click();
        joined.bucket_of = init.attached().map(|SortedBy(sorter)| sorter.function());
        if let Some(capacity) = config.capacity {
            let capacity = match capacity {
                Bound::Configured(capacity) => capacity,
                // Click has no default bound.
                Bound::Default if init.as_click() => usize::MAX,
                Bound::Default => FLOWS,
            };
            joined.set.borrow_mut().set_capacity(capacity, init.now);
        }
        let usual = match init.as_click() {
            true => REAP_INTERVAL_CLICK,
            false => REAP_INTERVAL,
        };
        let reap = config.reap.unwrap_or(usual);
        Rewriter {
            config: Arc::clone(config),
            joined,
            reap,
            next_reap: init.now + reap,
            armed: false,
            as_click: init.as_click(),
            family: PhantomData,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let mut set = self.joined.set.borrow_mut();
        if set.is_large() {
            self.prefetch(&set, batch);
        }
        batch.split(
            cx,
            |packet, cx| self.rewrite(&mut set, input, packet, cx),
            |packet, verdict, cx| cx.send(packet, verdict),
        );
        drop(set);
        self.arm(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        if self.joined.set.borrow_mut().remove_expired(cx.now(), REAP) {
            return cx.set_timer(cx.now() + Duration::from_millis(1));
        }
        self.next_reap = cx.now() + self.reap.max(Duration::from_millis(1));
        cx.set_timer(self.next_reap);
    }

    const HANDLERS: &'static [Handler<Rewriter<F>>] = F::HANDLERS;
}

impl<F: Family> Resources for Rewriter<F> {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(config.specs.len()), None)
    }
}

impl<F: Family> KeepsFlows for Rewriter<F> {
    fn splits(config: &Config) -> bool {
        matches!(F::KIND, Kind::Ip | Kind::Tcp | Kind::Udp) && config.specs.iter().all(Spec::splits)
    }

    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>> {
        self.joined.bucket_of.as_ref()?;
        let given = self.joined.set.borrow_mut().remove_bucket(bucket);
        (!given.is_empty()).then(|| Box::new(given) as Box<dyn Any + Send>)
    }

    fn take_bucket(&mut self, _: u16, state: Box<dyn Any + Send>, cx: &mut Cx) {
        if let Ok(given) = state.downcast::<Vec<MappingInTransit>>() {
            self.joined.set.borrow_mut().take(*given);
        }
        self.arm(cx);
    }
}

impl<F: Family> Rewriter<F> {
    /// Starts the timer that removes expired mappings, at the first packet.
    #[inline]
    fn arm(&mut self, cx: &mut Cx) {
        if !self.armed {
            self.armed = true;
            let behind = cx.now().since(self.next_reap).as_nanos();
            let periods = behind.div_ceil(self.reap.as_nanos().max(1));
            let periods = u32::try_from(periods).unwrap_or(0);
            self.next_reap = self.next_reap + self.reap * periods;
            cx.set_timer(self.next_reap);
        }
    }

    /// Prefetches the mappings of a batch. In a large set each packet misses the caches several times, and the misses
    /// of different packets then overlap.
    #[inline(never)]
    fn prefetch(&self, set: &FlowSet, batch: &Batch) {
        let key = |packet: &Packet| {
            let datagram = crate::ip4::datagram(packet);
            key::key(
                F::KIND,
                datagram,
                key::locate_transport(datagram)?,
                self.joined.space,
            )
        };
        set.prefetch(batch.iter().filter_map(key));
    }

    #[inline]
    fn rewrite(
        &self,
        set: &mut FlowSet,
        input: usize,
        packet: &mut Packet,
        cx: &mut Cx,
    ) -> Verdict {
        let datagram = crate::ip4::datagram(packet);
        let place = key::locate_transport(datagram);
        let found =
            place.and_then(|p| Some((p, key::key(F::KIND, datagram, p, self.joined.space)?)));
        let Some((place, key)) = found else {
            let passes = self.joined.inputs[input].pass_output();
            let reason = match place {
                Some(place) if !place.first => FRAGMENT,
                _ => NOT_REWRITABLE,
            };
            return passes.map_or(Verdict::drop(reason), Verdict::out);
        };
        let dst = dst_key(
            key,
            u32::from_be_bytes([datagram[16], datagram[17], datagram[18], datagram[19]]),
        );
        let now = cx.now();
        let (made, new) =
            self.joined
                .find_or_make(set, key, dst, (input, packet.bucket()), now, || cx.random());
        let end = match made {
            MappingResult::Mapping(end) => end,
            MappingResult::Pass(output) => return Verdict::out(output),
            MappingResult::Unwanted => return Verdict::drop(DISCARDED),
            MappingResult::Failed => return Verdict::drop(FAILED),
            MappingResult::Full => return Verdict::drop(FULL),
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

    /// Rewrites a packet according to its mapping.
    #[inline]
    fn apply(
        &self,
        set: &mut FlowSet,
        end: Side,
        packet: &mut Packet,
        (place, from): (key::TransportPosition, Key),
        now: Time,
    ) -> Verdict {
        let to = set.rewritten(end);
        let length = crate::ip4::datagram(packet).len();
        let datagram = &mut packet.network_mut()[..length];
        let mapping = set.get(end.flow);
        let tcp = place.protocol == proto::TCP && matches!(F::KIND, Kind::Ip | Kind::Tcp);
        let class = if tcp {
            let class = mapping
                .progress
                .tcp(end.side, &datagram[place.at..], self.as_click);
            if let Some(shifts) = &mut mapping.shifts {
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
        // The destination annotation is kept if only the source address was rewritten.
        if self.config.dst_anno && !(F::KIND == Kind::Address && end.side == 0) {
            packet.anno_mut().set_dst4(dst);
        }
        Verdict::out(output)
    }
}
