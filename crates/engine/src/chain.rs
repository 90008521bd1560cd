//! Chains: elements that follow each other, run as one loop over a batch.
//!
//! Between elements a batch is written down and taken up again: a virtual call, counts, a loop with
//! its branches. In a [`Chain`] the compiler sees the steps of several classes together, so a packet
//! stays in registers from one to the next. Nothing else changes: elements keep their places, names,
//! handlers and counts, packets that leave on the way leave from the element that sent them away, and
//! what reaches one in the middle by another edge is handled there. Which chains exist is a list of
//! types; where a plan has them, `plan::fuse` finds them.

use crate::class::Node;
use crate::cx::Cx;
use crate::element::{Element, Verdict};
use crate::packet::Batch;
use crate::plan::Fused;
use std::any::TypeId;
use std::array::from_fn;

/// Elements of these classes, one behind the other, as one loop.
pub struct Chain {
    pub(crate) kinds: fn() -> Vec<TypeId>,
    pub(crate) run: fn(&Fused, &mut Batch, &mut Cx),
    /// The same with elements between them that only count.
    pub(crate) counting: fn(&Fused, &mut Batch, &mut Cx),
}

impl Chain {
    /// The chain of a tuple of element types.
    pub const fn of<S: Sequence>() -> Chain {
        Chain {
            kinds: S::kinds,
            run: S::run::<false>,
            counting: S::run::<true>,
        }
    }
}

/// Tuples of two to eight element types, of which one may look ahead ([`Element::foresee`]): those before it are a loop by
/// themselves, in which it does, and it begins another, or steps the whole batch between them
/// ([`Element::STEPS_ALL`], or if it is the last). All must handle input 0 by [`Element::step`]: an [`Element::process`] of their own is not
/// called, so it may only do at once what steps do. The compiler cannot tell; who lists chains must test it.
///
/// None may call handlers on the spot: while a row runs all of its elements are out of their places. What is called
/// behind a row finds them back there.
pub trait Sequence {
    /// The place of the one that looks ahead; behind the last if none does.
    const SPLIT: usize;
    /// Whether that one steps the whole batch.
    const WHOLE: bool;
    /// The element types.
    fn kinds() -> Vec<TypeId>;
    /// Runs a batch through elements of these types; what stays in it goes on by the last one's output 0. `COUNTING` says whether
    /// some of what stands between them counts ([`Element::COUNTS`]): a loop that need not ask is faster.
    fn run<const COUNTING: bool>(at: &Fused, batch: &mut Batch, cx: &mut Cx);
}

/// A packet that leaves a row on the way: its place in the batch, that of who sends it away in the row, and whither.
pub(crate) struct Leaver {
    packet: usize,
    place: usize,
    verdict: Verdict,
}

macro_rules! sequence {
    ($n:literal: $($name:ident $element:ident $at:tt),+) => {
        impl<$($element: Element),+> Sequence for ($($element,)+) {
            const SPLIT: usize = {
                let mut split = $n;
                $(if $element::FORESEES { split = $at; })+
                split
            };
            // As the last, whose packets leave by many outputs, it would send each away by itself.
            const WHOLE: bool = Self::SPLIT == $n - 1 $(|| $element::STEPS_ALL)+;

            fn kinds() -> Vec<TypeId> {
                const {
                    let splits = 0 $(+ $element::FORESEES as usize)+;
                    assert!(splits <= 1, "only one may look ahead, or step whole batches");
                }
                vec![$(TypeId::of::<$element>()),+]
            }

            fn run<const COUNTING: bool>(at: &Fused, batch: &mut Batch, cx: &mut Cx) {
                let nodes: [usize; $n] = from_fn(|i| at.nodes[i]);
                let on: [Verdict; $n] = from_fn(|i| at.on[i]);
                let mut held = ($(cx.nodes[nodes[$at]].take(),)+);
                $(let $name = typed::<$element>(&mut held.$at);)+
                let mut left = [0; $n];
                let came = batch.len();
                // Whether bytes are counted behind a place, and how many.
                let counts: [bool; $n] = from_fn(|i| COUNTING && at.counters.iter().any(|counter| counter.0 == i));
                let mut bytes = [0; $n];
                if const { before(0, Self::SPLIT) } {
                    sequence!(@loop $n, 0, Self::SPLIT; batch cx nodes on left counts bytes; $($name $element $at),+);
                }
                $(if const { Self::WHOLE && Self::SPLIT == $at } {
                    cx.this = nodes[$at];
                    let before = batch.len();
                    let verdicts = cx.step_all($name, batch);
                    match $at + 1 < $n {
                        true => cx.part_as(batch, &verdicts, on[$at]),
                        false => cx.sort_as(batch, &verdicts),
                    }
                    cx.keep_verdicts(verdicts);
                    left[$at] = before - batch.len();
                    if COUNTING && counts[$at] {
                        bytes[$at] = batch.bytes();
                    }
                })+
                $(if const { Self::SPLIT == 0 && $at == 0 && !Self::WHOLE } {
                    batch.iter().for_each($name.foresee()); // nobody else shows it packets
                })+
                if const { before(Self::SPLIT + Self::WHOLE as usize, $n) } {
                    sequence!(@loop $n, Self::SPLIT + Self::WHOLE as usize, $n; batch cx nodes on left counts bytes; $($name $element $at),+);
                }
                note(at, came, &left, cx);
                $(cx.nodes[nodes[$at]] = held.$at;)+
                if COUNTING {
                    count(at, came, &left, &bytes, cx);
                }
            }
        }
    };
    // Elements from one place up to another as one loop.
    (@loop $n:literal, $from:expr, $to:expr; $batch:ident $cx:ident $nodes:ident $on:ident $left:ident $counts:ident $bytes:ident; $($name:ident $element:ident $at:tt),+) => {
        let mut leavers = std::mem::take(&mut $cx.core.leavers);
        let packets = $batch.iter_mut().into_slice();
        let (len, mut next) = (packets.len(), 0);
        'packets: loop {
            // What is known at once, by the elements' own data held in registers.
            let stop = apart(|| {
                $(let $name = (within($from, $at, $to).then(|| $name.quick($cx)), $name.foresee());)+
                let (on, counts, bytes) = ($on, $counts, &mut $bytes);
                let mut rest = packets[next..].iter_mut();
                while let Some(packet) = rest.next() {
                    let (verdict, place) = packet.held(#[inline(always)] |packet| {
                        $(if let Some(quick) = &$name.0 {
                            let verdict = quick(packet);
                            if verdict != Some(goes_on::<$element>(on[$at])) {
                                return (verdict, $at);
                            }
                            if COUNTING && counts[$at] {
                                bytes[$at] += packet.len() as u64;
                            }
                        })+
                        $(if const { $element::FORESEES && before($from, $at) } {
                            $name.1(packet);
                        })+
                        (Some(Verdict::ON), $n)
                    });
                    if place < $n {
                        let packet = len - rest.len() - 1;
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
                    true => $name.step(packet, $cx),
                    false => $name.verdict(packet, $cx),
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

sequence!(2: a A 0, b B 1);
sequence!(3: a A 0, b B 1, c C 2);
sequence!(4: a A 0, b B 1, c C 2, d D 3);
sequence!(5: a A 0, b B 1, c C 2, d D 3, e E 4);
sequence!(6: a A 0, b B 1, c C 2, d D 3, e E 4, f F 5);
sequence!(7: a A 0, b B 1, c C 2, d D 3, e E 4, f F 5, g G 6);
sequence!(8: a A 0, b B 1, c C 2, d D 3, e E 4, f F 5, g G 6, h H 7);

/// Of places in a row. (Written out, one side would often be 0, and the compiler would warn.)
const fn before(one: usize, other: usize) -> bool {
    one < other
}

/// Whether a place is one of a loop.
const fn within(from: usize, place: usize, to: usize) -> bool {
    from <= place && place < to
}

/// By what verdict packets stay in a row: known when this is compiled, for most; see `plan::fuse`.
#[inline(always)]
fn goes_on<E: Element>(on: Verdict) -> Verdict {
    match const { E::PORTS.any_outputs() } {
        true => on,
        false => Verdict::ON,
    }
}

/// A loop by itself, that it has all registers.
#[inline(never)]
fn apart<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// Sends packets away that do not stay in a row.
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
    let element = node.as_mut().and_then(|n| n.element().downcast_mut());
    element.expect("the plan has elements of these classes here, and none of them runs")
}

/// Counts what passed each element, as if it had been visited.
#[inline]
fn note(at: &Fused, came: usize, left: &[usize], cx: &mut Cx) {
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

/// Has those between a row's elements count what has passed them, if anything has.
fn count(at: &Fused, came: usize, left: &[usize], bytes: &[u64], cx: &mut Cx) {
    for &(place, node) in &at.counters {
        let packets = (came - left[..=place].iter().sum::<usize>()) as u64;
        let stats = &mut cx.core.stats[node];
        stats.packets += packets;
        stats.batches += u64::from(packets > 0);
        stats.sent[0] += packets;
        if let Some(mut counter) = cx.nodes[node].take_if(|_| packets > 0) {
            cx.this = node;
            counter.count(packets, bytes[place], cx);
            cx.nodes[node] = Some(counter);
        }
    }
}
