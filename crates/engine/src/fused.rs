//! Fused loops: elements that follow each other, run as one loop over a batch.
//!
//! Between two elements a batch is stored and loaded again, which costs a virtual call, counters, and a loop with its
//! branches. In a [`FusedLoop`] the compiler sees the steps of several classes together, so a packet stays in registers
//! from one element to the next. Nothing else changes. Elements keep their places, names, handlers and counters. A
//! packet that leaves the loop early leaves from the element that chose another output. A packet that reaches a middle
//! element by another edge is processed there. The fused loops are a list of types; the planner finds where a
//! configuration has them.
//!
//! A class that may be part of one implements [`Fuse`].

use crate::element::extension::{element_of, element_of_mut};
use crate::element::{Element, Verdict};
pub use crate::graph::CountsOfClass;
use crate::graph::{Cx, Leaver, LoopCode, Node};
use crate::packet::{Batch, Packet};
pub use crate::plan::FusedLoop;
use crate::plan::PlacedLoop;
use std::any::TypeId;
use std::array::from_fn;

/// A class that may be part of a fused loop. The loop calls [`Element::step`] and never [`Element::process`], so
/// `step` must do all the work.
pub trait Fuse: Element {
    /// The fast path: returns the outputs of common packets. For other packets it returns `None` and leaves the
    /// packet unchanged, so that [`slow`](Self::slow) handles it. It is created again after each slow step. It should
    /// copy the values that it reads from the element, so that they stay in registers.
    #[inline]
    fn fast(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let _ = cx;
        |_: &mut Packet| None
    }

    /// The slow path: handles every packet, with the same result as the fast path. A class without a fast path writes
    /// [`Element::step`] only; a class with one has `step` call [`fused::step`](step).
    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        self.step(packet, cx)
    }

    /// True if the class prefetches, by [`prefetch`](Self::prefetch). At most one class of a loop may.
    const PREFETCHES: bool = Self::STEPS_BATCH;

    /// Shows each packet of a batch to the class before the loop processes the packet. The class may prefetch memory
    /// while earlier elements work. The call is a hint and may be omitted.
    #[inline]
    fn prefetch(&self) -> impl Fn(&Packet) {
        |_: &Packet| ()
    }

    /// True if the class returns the verdicts of a whole batch at once, by [`step_batch`](Self::step_batch). Such a
    /// class prefetches, too.
    const STEPS_BATCH: bool = false;

    /// Returns the verdict of each packet of a batch, in order.
    #[inline]
    fn step_batch(&mut self, batch: &mut Batch, verdicts: &mut Vec<Verdict>, cx: &mut Cx) {
        step_each(self, batch, verdicts, cx);
    }
}

/// [`Element::step`] for a class with a fast path: tries it, then the slow path.
#[inline(always)]
pub fn step<E: Fuse>(element: &mut E, packet: &mut Packet, cx: &mut Cx) -> Verdict {
    let fast = element.fast(cx)(packet);
    fast.unwrap_or_else(|| element.slow(packet, cx))
}

/// [`Element::process`] for a class that prefetches, or returns the verdicts of a whole batch.
#[inline]
pub fn process<E: Fuse>(element: &mut E, batch: &mut Batch, cx: &mut Cx) {
    if !E::STEPS_BATCH {
        batch.iter().for_each(element.prefetch()); // no element before it prefetches packets
    }
    let verdicts = verdicts(element, batch, cx);
    cx.sort_as(batch, &verdicts);
    cx.core.verdicts = verdicts;
}

/// Verdicts of an element for a whole batch, in a buffer that the caller returns to the worker.
#[inline]
fn verdicts<E: Fuse>(element: &mut E, batch: &mut Batch, cx: &mut Cx) -> Vec<Verdict> {
    let mut verdicts = std::mem::take(&mut cx.core.verdicts);
    verdicts.clear();
    element.step_batch(batch, &mut verdicts, cx);
    assert_eq!(verdicts.len(), batch.len(), "a verdict for each packet");
    verdicts
}

/// Verdicts for each packet of a batch, in order, by the fast path or else the slow path.
#[inline]
pub fn step_each<E: Fuse>(
    element: &mut E,
    batch: &mut Batch,
    verdicts: &mut Vec<Verdict>,
    cx: &mut Cx,
) {
    verdicts.resize(batch.len(), Verdict::ON);
    let mut left = batch.iter_mut().zip(verdicts);
    loop {
        let fast = element.fast(cx);
        let slow = left.find_map(|(packet, verdict)| match fast(packet) {
            Some(said) => {
                *verdict = said;
                None
            }
            None => Some((packet, verdict)),
        });
        drop(fast);
        match slow {
            Some((packet, verdict)) => *verdict = element.slow(packet, cx),
            None => return,
        }
    }
}

/// A class that only counts packets and passes them on. A fused loop may skip its elements, and report their counts
/// afterwards.
pub trait Counts: Element {
    /// Counts `packets` packets, at least one, that have passed the element; `bytes` is the sum of their lengths.
    fn count(&mut self, packets: u64, bytes: u64, cx: &mut Cx);

    /// True if the element may count packets after a fused loop has run; otherwise no loop includes it.
    fn counts_later(&self) -> bool {
        true
    }
}

impl CountsOfClass {
    /// The extension of a class, for [`Contract::extensions`](crate::element::Contract::extensions).
    pub const fn of<E: Counts>() -> CountsOfClass {
        CountsOfClass {
            count: |element, packets, bytes, cx| {
                element_of_mut::<E>(element).count(packets, bytes, cx);
            },
            counts_later: |element| element_of::<E>(element).counts_later(),
        }
    }
}

/// A list of fused loops: the element types of each, ended by a semicolon.
#[macro_export]
macro_rules! fused_loops {
    ($($($class:ident)+;)+) => {
        &[$($crate::fused::FusedLoop::of::<($($class),+,)>()),+]
    };
}

impl FusedLoop {
    /// The fused loop of a tuple of element types.
    pub const fn of<S: Stages>() -> FusedLoop {
        FusedLoop {
            kinds: S::kinds,
            code: Code::<S>::CODE,
        }
    }
}

struct Code<S>(S);

impl<S: Stages> Code<S> {
    const CODE: &'static LoopCode = &LoopCode {
        run: S::run::<false>,
        counting: S::run::<true>,
    };
}

/// Tuples of two to eight element types that form a fused loop.
///
/// At most one of the elements may prefetch ([`Fuse::PREFETCHES`]). The elements before it form a first loop, which
/// shows it the packets; it then begins a second loop. If it has [`Fuse::STEPS_BATCH`], or is the last element, it
/// steps the whole batch between the two loops instead. All elements must handle input 0 by [`Element::step`]: their
/// own `process` is not called. The compiler cannot check this, so the author of a list of fused loops must test it.
///
/// No element may call handlers immediately: while a fused loop runs, its elements are absent from the graph. A
/// handler that is called after the loop finds them again.
pub trait Stages {
    /// Index of the class that prefetches; the number of classes if none does.
    const SPLIT: usize;
    /// True if the class steps the whole batch.
    const WHOLE: bool;
    /// The element types.
    fn kinds() -> Vec<TypeId>;
    /// Runs a batch through elements of these types. Packets left in the batch leave by the last element's output 0.
    /// `COUNTING` is true if counting elements ([`Counts`]) stand between them; without them the loop is faster.
    fn run<const COUNTING: bool>(at: &PlacedLoop, batch: &mut Batch, cx: &mut Cx);
}

macro_rules! stages {
    ($n:literal: $($name:ident $element:ident $at:tt),+) => {
        impl<$($element: Fuse),+> Stages for ($($element,)+) {
            const SPLIT: usize = {
                let mut split = $n;
                $(if $element::PREFETCHES { split = $at; })+
                split
            };
            // Without this, a last element with many outputs would send each packet separately.
            const WHOLE: bool = Self::SPLIT == $n - 1 $(|| $element::STEPS_BATCH)+;

            fn kinds() -> Vec<TypeId> {
                const {
                    let splits = 0 $(+ $element::PREFETCHES as usize)+;
                    assert!(splits <= 1, "only one class may prefetch, or step whole batches");
                }
                vec![$(TypeId::of::<$element>()),+]
            }

            fn run<const COUNTING: bool>(at: &PlacedLoop, batch: &mut Batch, cx: &mut Cx) {
                let nodes: [usize; $n] = from_fn(|i| at.nodes[i]);
                let on: [Verdict; $n] = from_fn(|i| at.on[i]);
                let mut held = ($(cx.nodes[nodes[$at]].take(),)+);
                $(let $name = typed::<$element>(&mut held.$at);)+
                let mut left = [0; $n];
                let came = batch.len();
                // For each index, true if a counting element follows; `bytes` sums the packet lengths there.
                let counts: [bool; $n] = from_fn(|i| COUNTING && at.counters.iter().any(|counter| counter.0 == i));
                let mut bytes = [0; $n];
                if const { before(0, Self::SPLIT) } {
                    stages!(@loop $n, 0, Self::SPLIT; batch cx nodes on left counts bytes; $($name $element $at),+);
                }
                $(if const { Self::WHOLE && Self::SPLIT == $at } {
                    cx.this = nodes[$at];
                    let before = batch.len();
                    let verdicts = verdicts($name, batch, cx);
                    match $at + 1 < $n {
                        true => cx.part_as(batch, &verdicts, on[$at]),
                        false => cx.sort_as(batch, &verdicts),
                    }
                    cx.core.verdicts = verdicts;
                    left[$at] = before - batch.len();
                    if COUNTING && counts[$at] {
                        bytes[$at] = batch.bytes();
                    }
                })+
                $(if const { Self::SPLIT == 0 && $at == 0 && !Self::WHOLE } {
                    batch.iter().for_each($name.prefetch()); // no element before it prefetches packets
                })+
                if const { before(Self::SPLIT + Self::WHOLE as usize, $n) } {
                    stages!(@loop $n, Self::SPLIT + Self::WHOLE as usize, $n;
                        batch cx nodes on left counts bytes; $($name $element $at),+);
                }
                note(at, came, &left, cx);
                $(cx.nodes[nodes[$at]] = held.$at;)+
                if COUNTING {
                    count(at, came, &left, &bytes, cx);
                }
            }
        }
    };
    // Elements from one index up to another as one loop.
    (@loop $n:literal, $from:expr, $to:expr;
        $batch:ident $cx:ident $nodes:ident $on:ident $left:ident $counts:ident $bytes:ident;
        $($name:ident $element:ident $at:tt),+
    ) => {
        let mut leavers = std::mem::take(&mut $cx.core.leavers);
        let packets = $batch.iter_mut().into_slice();
        let (len, mut next) = (packets.len(), 0);
        'packets: loop {
            // Fast paths of the elements, with their data held in registers.
            let stop = apart(|| {
                $(let $name = (within($from, $at, $to).then(|| $name.fast($cx)), $name.prefetch());)+
                let (on, counts, bytes) = ($on, $counts, &mut $bytes);
                let mut left = packets[next..].iter_mut();
                while let Some(packet) = left.next() {
                    let (verdict, place) = packet.with_local(#[inline(always)] |packet| {
                        $(if let Some(fast) = &$name.0 {
                            let verdict = fast(packet);
                            if verdict != Some(goes_on::<$element>(on[$at])) {
                                return (verdict, $at);
                            }
                            if COUNTING && counts[$at] {
                                bytes[$at] += packet.len() as u64;
                            }
                        })+
                        $(if const { $element::PREFETCHES && before($from, $at) } {
                            $name.1(packet);
                        })+
                        (Some(Verdict::ON), $n)
                    });
                    if place < $n {
                        let packet = len - left.len() - 1;
                        match verdict {
                            Some(verdict) => leavers.push(Leaver { packet, place, verdict }),
                            None => return Some((packet, place)),
                        }
                    }
                }
                None
            });
            let Some((i, place)) = stop else {
                break;
            };
            next = i + 1;
            let packet = &mut packets[i];
            $(if const { within($from, $at, $to) } && place <= $at {
                $cx.this = $nodes[$at];
                let verdict = match place == $at {
                    true => $name.slow(packet, $cx),
                    false => step($name, packet, $cx),
                };
                if verdict != goes_on::<$element>($on[$at]) {
                    leavers.push(Leaver { packet: i, place: $at, verdict });
                    continue 'packets;
                }
                if COUNTING && $counts[$at] {
                    $bytes[$at] += packet.len() as u64;
                }
            })+
        }
        if !leavers.is_empty() {
            leave(&leavers, $batch, &$nodes, &mut $left, $cx);
            leavers.clear();
        }
        $cx.core.leavers = leavers;
    };
}

stages!(2: a A 0, b B 1);
stages!(3: a A 0, b B 1, c C 2);
stages!(4: a A 0, b B 1, c C 2, d D 3);
stages!(5: a A 0, b B 1, c C 2, d D 3, e E 4);
stages!(6: a A 0, b B 1, c C 2, d D 3, e E 4, f F 5);
stages!(7: a A 0, b B 1, c C 2, d D 3, e E 4, f F 5, g G 6);
stages!(8: a A 0, b B 1, c C 2, d D 3, e E 4, f F 5, g G 6, h H 7);

/// True if one index is less than another. (Written in place, one side would often be 0, and the compiler would
/// warn.)
const fn before(one: usize, other: usize) -> bool {
    one < other
}

/// True if an index lies within a loop.
const fn within(from: usize, place: usize, to: usize) -> bool {
    from <= place && place < to
}

/// Verdict with which packets stay in a fused loop. For most classes it is known at compile time; see `plan::fuse`.
#[inline(always)]
fn goes_on<E: Element>(on: Verdict) -> Verdict {
    match const { E::CONTRACT.ports.any_outputs() } {
        true => on,
        false => Verdict::ON,
    }
}

/// Runs a loop in a function of its own, so that it has all registers.
#[inline(never)]
fn apart<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// Sends packets that leave a fused loop early to their outputs.
#[inline(never)]
fn leave(leavers: &[Leaver], batch: &mut Batch, nodes: &[usize], left: &mut [usize], cx: &mut Cx) {
    let (mut leavers, mut packet) = (leavers.iter().peekable(), 0);
    cx.part(batch, |_, cx| {
        let leaver = leavers.next_if(|leaver| leaver.packet == packet);
        packet += 1;
        leaver.map(|leaver| {
            cx.this = nodes[leaver.place];
            left[leaver.place] += 1;
            leaver.verdict
        })
    });
}

#[inline]
fn typed<E: Element>(node: &mut Option<Box<dyn Node>>) -> &mut E {
    let element = node.as_mut().and_then(|n| n.element_mut().downcast_mut());
    element.expect("the plan has elements of these classes here, and none of them runs")
}

/// Counts the packets that passed each element, as if it had been called separately.
#[inline]
fn note(at: &PlacedLoop, came: usize, left: &[usize], cx: &mut Cx) {
    let mut packets = came;
    for (i, &node) in at.nodes.iter().enumerate() {
        let stats = &mut cx.core.stats[node];
        stats.packets += packets as u64;
        stats.batches += u64::from(packets > 0);
        packets -= left[i];
        if i + 1 < at.nodes.len() {
            stats.sent[at.on[i].port()] += packets as u64;
        }
    }
}

/// Updates the counting elements within a fused loop with the packets that have passed them.
fn count(at: &PlacedLoop, came: usize, left: &[usize], bytes: &[u64], cx: &mut Cx) {
    for &(place, node) in &at.counters {
        let packets = (came - left[..=place].iter().sum::<usize>()) as u64;
        let stats = &mut cx.core.stats[node];
        stats.packets += packets;
        stats.batches += u64::from(packets > 0);
        stats.sent[0] += packets;
        let class: Option<&CountsOfClass> = cx.core.plan.elements[node].class.extension();
        if let Some(class) = class
            && let Some(mut counter) = cx.nodes[node].take_if(|_| packets > 0)
        {
            cx.this = node;
            (class.count)(counter.element_mut(), packets, bytes[place], cx);
            cx.nodes[node] = Some(counter);
        }
    }
}
