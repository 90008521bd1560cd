//! The flows of one rewriter, or of several that share a capacity.

use super::free_values::FreeTracker;
use super::key::{Key, Kind};
use super::tcp::{BothShifts, Progress};
use engine::clock::Time;
use std::time::Duration;
use tables::flows::{Class, Flow, Flows, Side};

/// Maximum number of mappings removed per run of the reaper.
pub const REAP: usize = 1024;

/// State of a mapping, apart from its keys.
#[derive(Debug)]
pub struct Mapping {
    /// Output for packets of each side.
    pub outputs: [u8; 2],
    /// Progress of the TCP connection.
    pub progress: Progress,
    /// Value of the annotation REPLY_ANNO on replies.
    pub reply_anno: u8,
    /// The input whose specification made the mapping.
    pub input: u16,
    space: u16,
    bucket: u16,
    /// Creation sequence number.
    creation_number: u64,
    /// Shifts of sequence numbers.
    pub shifts: BothShifts,
}

/// Counters of the mappings made by one input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Mappings made.
    pub mappings: u64,
    /// Packets for which no mapping could be made.
    pub failures: u64,
}

/// A rewriter's share of a flow set.
#[derive(Debug)]
pub struct Space {
    name: String,
    /// Counters by input.
    pub inputs: Vec<Counts>,
    classes: [Class; 5],
}

/// Flow table shared by several rewriters. A flow's group is the bucket of its packets.
pub struct FlowSet {
    flows: Flows<Key, Mapping>,
    /// Shares of the rewriters.
    pub spaces: Vec<Space>,
    born: u64,
    free: FreeTracker,
    /// True if a mapping whose time is over counts until it is reaped, as in Click.
    pub until_reaped: bool,
}

/// A mapping in transit from one worker's flow set to another's.
pub struct MappingInTransit {
    /// Name of the rewriter.
    space: String,
    /// Index of the flow class in the rewriter.
    class: usize,
    bucket: u16,
    keys: [Key; 2],
    mapping: Mapping,
    touched: u64,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts a removed mapping and marks its value free.
macro_rules! gone {
    ($set:ident) => {{
        let (spaces, free) = (&mut $set.spaces, &mut $set.free);
        move |[_, reply]: [Key; 2], mapping: Mapping| {
            let input = usize::from(mapping.input);
            if let Some(counts) = spaces[usize::from(mapping.space)].inputs.get_mut(input) {
                counts.mappings = counts.mappings.saturating_sub(1);
            }
            free.release(&reply, mapping.bucket);
        }
    }};
}

/// Side of the mapping that matches `key`; `None` if the mapping has expired or does not exist.
#[inline]
pub fn find(flows: &Flows<Key, Mapping>, key: &Key, now: Time) -> Option<Side> {
    flows
        .find(key)
        .filter(|end| !flows.is_over(end.flow, now.0))
}

impl Default for FlowSet {
    fn default() -> FlowSet {
        FlowSet {
            flows: Flows::new(usize::MAX),
            spaces: Vec::new(),
            born: 0,
            free: FreeTracker::default(),
            until_reaped: false,
        }
    }
}

impl FlowSet {
    /// A flow set without rewriters and without a capacity limit.
    /// Number of the rewriter `name` in this set; assigned at the first call.
    pub fn space(&mut self, name: &str) -> u16 {
        let known = self.spaces.iter().position(|s| s.name == name);
        let at = known.unwrap_or_else(|| {
            let classes = [(); 5].map(|()| self.flows.add_class(0, u64::MAX));
            self.spaces.push(Space {
                name: name.to_owned(),
                inputs: Vec::new(),
                classes,
            });
            self.spaces.len() - 1
        });
        at as u16
    }

    /// Sets a rewriter's number of inputs, and the guarantee and lifetime of its five flow classes.
    pub fn join(&mut self, space: u16, inputs: usize, times: &[(Duration, Duration); 5]) {
        let space = &mut self.spaces[usize::from(space)];
        space.inputs.resize(inputs, Counts::default());
        for (&class, &(guarantee, lifetime)) in space.classes.iter().zip(times) {
            self.flows
                .set_class(class, nanos(guarantee), nanos(lifetime));
        }
    }

    /// Side of the mapping that matches `key`. Expired mappings do not match, although they occupy the table until
    /// removal.
    #[inline]
    pub fn find(&self, key: &Key, now: Time) -> Option<Side> {
        find(&self.flows, key, self.time_of_ends(now))
    }

    /// True if [`prefetch`](Self::prefetch) pays.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.flows.is_large()
    }

    /// Prefetches the mappings of these keys, which packets of a burst have.
    pub fn prefetch(&self, keys: impl Iterator<Item = Key>) {
        self.flows.prefetch(keys);
    }

    /// Time by which a mapping must have ended to be none.
    #[inline]
    pub(crate) fn time_of_ends(&self, now: Time) -> Time {
        if self.until_reaped { Time(0) } else { now }
    }

    /// The mapping of a flow.
    #[inline]
    pub fn get(&mut self, flow: Flow) -> &mut Mapping {
        self.flows.value_mut(flow)
    }

    /// Rewritten key for packets that match this side.
    #[inline]
    pub fn rewritten(&self, end: Side) -> Key {
        self.flows.keys(end.flow)[1 - end.side].reversed()
    }

    /// Restarts the lifetime of a mapping and moves it to flow class `class`.
    #[inline]
    pub fn touch(&mut self, flow: Flow, space: u16, class: usize, now: Time) {
        let class = self.spaces[usize::from(space)].classes[class];
        self.flows.touch(flow, class, now.0);
    }

    /// Adds a mapping from `key` to `to`, and the reverse mapping for replies. `None` if the set is full.
    pub fn add(
        &mut self,
        key: Key,
        to: Key,
        (input, outputs): (usize, [u8; 2]),
        (class, bucket): (usize, u16),
        now: Time,
    ) -> Option<Side> {
        self.born += 1;
        let mapping = Mapping {
            outputs,
            progress: Progress::default(),
            reply_anno: 0,
            input: input as u16,
            space: key.space,
            bucket,
            creation_number: self.born,
            shifts: None,
        };
        let class = self.spaces[usize::from(key.space)].classes[class];
        let keys = [key, to.reversed()];
        let flow = self
            .flows
            .insert(keys, mapping, (class, bucket), now.0, gone!(self))?;
        if let Some(counts) = self.spaces[usize::from(key.space)].inputs.get_mut(input) {
            counts.mappings += 1;
        }
        Some(Side { flow, side: 0 })
    }

    /// Removes up to `max` expired mappings. Returns true if more may remain.
    pub fn remove_expired(&mut self, now: Time, max: usize) -> bool {
        self.flows.expire(now.0, max, gone!(self))
    }

    /// Sets the capacity in flows.
    pub fn set_capacity(&mut self, capacity: usize, now: Time) {
        self.flows.set_capacity(capacity, now.0, gone!(self));
    }

    /// Maximum number of mappings.
    pub fn capacity(&self) -> usize {
        self.flows.capacity()
    }

    /// Number of mappings.
    pub fn count(&self) -> usize {
        self.flows.len()
    }

    /// The flow table, and the free values tracked for new flows.
    pub(crate) fn free_values(&mut self) -> (&Flows<Key, Mapping>, &mut FreeTracker) {
        (&self.flows, &mut self.free)
    }

    /// Removes the mappings of a bucket and returns them for another worker's set. The time is linear in the bucket's
    /// mappings.
    pub fn remove_bucket(&mut self, bucket: u16) -> Vec<MappingInTransit> {
        let mut all: Vec<Flow> = self.flows.of_group(bucket).collect();
        // The receiving set adds mappings in their order of creation.
        all.reverse();
        let give = |flow| {
            let keys = *self.flows.keys(flow);
            let (class, touched) = self.flows.use_of(flow);
            let mapping = self.flows.remove(flow);
            self.free.release(&keys[1], bucket);
            let space = &mut self.spaces[usize::from(mapping.space)];
            if let Some(counts) = space.inputs.get_mut(usize::from(mapping.input)) {
                counts.mappings = counts.mappings.saturating_sub(1);
            }
            let class = space.classes.iter().position(|&c| c == class);
            MappingInTransit {
                space: space.name.clone(),
                class: class.unwrap_or(0),
                bucket,
                keys,
                mapping,
                touched,
            }
        };
        all.into_iter().map(give).collect()
    }

    /// Inserts mappings that another worker's set has given up.
    pub fn take(&mut self, moving: Vec<MappingInTransit>) {
        for mut one in moving {
            let space = self.space(&one.space);
            one.keys.iter_mut().for_each(|key| key.space = space);
            self.born += 1;
            (one.mapping.space, one.mapping.creation_number) = (space, self.born);
            let input = usize::from(one.mapping.input);
            let class = self.spaces[usize::from(space)].classes[one.class];
            let place = (class, one.bucket);
            let added = self
                .flows
                .insert(one.keys, one.mapping, place, one.touched, gone!(self));
            if let Some(counts) = self.spaces[usize::from(space)].inputs.get_mut(input)
                && added.is_some()
            {
                counts.mappings += 1;
            }
        }
    }

    /// Removes all mappings of a rewriter.
    pub fn clear(&mut self, space: u16) {
        let own = self.flows.iter().filter(|(_, _, m)| m.space == space);
        let own: Vec<Flow> = own.map(|(flow, ..)| flow).collect();
        for flow in own {
            let keys = *self.flows.keys(flow);
            let mapping = self.flows.remove(flow);
            gone!(self)(keys, mapping);
        }
    }

    /// Both directions of a rewriter's mappings, one per line, in the order of creation. If `proto` is not 0, only
    /// mappings of that protocol.
    pub fn table(&self, space: u16, kind: Kind, proto: u8) -> String {
        let all = self.flows.iter();
        let own =
            all.filter(|(_, keys, m)| m.space == space && (proto == 0 || keys[0].proto == proto));
        let mut own: Vec<_> = own.collect();
        own.sort_unstable_by_key(|(_, _, mapping)| mapping.creation_number);
        let mut text = String::new();
        for (_, keys, mapping) in own {
            let [f, r] = mapping.outputs;
            let input = mapping.input;
            // A flow that is its own reply has one entry, that of the reply.
            let first = usize::from(kind != Kind::Address && keys[0] == keys[1]);
            for (side, outputs) in [format!("[*{f} {r}]"), format!("[{f} *{r}]")]
                .iter()
                .enumerate()
                .skip(first)
            {
                let (from, to) = (keys[side].show(kind), keys[1 - side].reversed().show(kind));
                text.push_str(&format!("{from} => {to} {outputs} i{input}\n"));
            }
        }
        text
    }
}
