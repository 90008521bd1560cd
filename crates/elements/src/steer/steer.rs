//! Hands packets to the workers that own their buckets.
//!
//! ```click
//! FromDevice(null:64) -> Steer -> ToDevice(null:);
//! ```
//!
//! An element before Steer (BucketByHash, SetBucket ...) assigns each packet to a bucket. An indirection table
//! assigns each bucket to a worker, its owner. A packet whose bucket belongs to the worker that has it goes on
//! at once, in the same batch. Any other packet crosses a ring to its owner, and the owner's copy of Steer
//! sends it on. So all packets of a bucket, and with them all packets of a flow, keep their order and meet on
//! one worker, whatever port and queue they came by.
//!
//! Each pair of workers has its own ring. Back-pressure: while a ring is nearly full, the worker that fills it does
//! not poll its sources. Packets then wait in the rings of its devices until the other worker has caught up or
//! buckets have moved. These pauses add up to 100 ms at most, until no ring has been nearly full for a second. After
//! that a packet that finds a ring full is dropped (`full`) and counted for its bucket, so that packets for other
//! workers do not wait for those of an overloaded worker.
//!
//! At the start buckets are assigned to the workers in turn. All elements downstream of Steer have copies only on the
//! workers that own buckets.
//!
//! Buckets can move to another worker while packets come, by hand (`ashlar set NAME.move "BUCKETS WORKER"`) or
//! by the balancer. During a move the packets of these buckets wait here, up to 4096 on each worker; when so
//! many wait, the worker does not poll its sources. If the old owner does not empty its rings within 20 times
//! `limit`, the buckets stay where they are. So a packet never reaches a worker that does not have the state of
//! its flow.
//!
//! Arguments:
//!
//! - `BUCKETS`: number of buckets, up to 4096. Default 256. A packet with a higher bucket number is in the
//!   bucket of that number modulo `BUCKETS`.
//!
//! Keyword arguments:
//!
//! - `TABLE`: name of the indirection table. Steers with the same `TABLE` and the same number of buckets share
//!   it, so that packets of a flow that come by different ports meet. Default is the element's own name.
//! - `CORES`: the workers that own buckets. Default all.
//! - `CAPACITY`: packets that a ring from one worker to another holds. Default 1024.

use super::back_pressure::{BackPressure, RING_CHECK_INTERVAL};
use super::waiting_packets::{HELD, HeldPackets};
use super::worker_rings::{Ends, FreeSpace, Mesh};
use crate::prelude::*;
use arguments::units::Cores;
use engine::packet::BUCKETS_MAX;
use engine::packet::anno::Anno;
use std::sync::atomic::AtomicU64;
use steer::{Held, Steering, Steers, SteersOfClass, Table, Tables, add};

drops! {
    FULL = "full",
}
/// Pseudo-owner of a bucket that does not exist.
const NOBODY: u16 = HELD - 1;

pub(crate) struct Config {
    table: Arc<Table>,
    workers: Option<Cores>,
    capacity: usize,
    mesh: Mesh,
}

pub(crate) struct Steer {
    table: Arc<Table>,
    worker: usize,
    workers: usize,
    /// Owner of each bucket number that a packet can carry, which saves a bounds check.
    owners: Box<[u16; BUCKETS_MAX]>,
    buckets: usize,
    /// Ring ends; `None` with a single worker.
    ends: Option<Ends>,
    held: HeldPackets,
    back_pressure: BackPressure,
    /// Number of packets received from one worker at a time. It equals a device's burst, so that an overloaded worker
    /// serves both equally.
    burst: usize,
    /// True if packets may arrive without annotations.
    bare: bool,
}

impl Element for Steer {
    const CONTRACT: Contract = Contract::new("Steer", manual!())
        .ports(Ports::coded(&["in"], &["out"], "h/h"))
        .drops(DROPS)
        .runs(Runs::AsTask)
        .extensions(
            const {
                &[
                    &resources::of::<Self>(),
                    &SteersOfClass::of::<Self>(),
                    &steer::PASS,
                    &steer::ROUTER,
                ]
            },
        )
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let buckets = args.optional_in("BUCKETS", 256, 1..=BUCKETS_MAX, "number of buckets");
        let name: Option<String> = args.key_maybe("TABLE", "name of the indirection table");
        let name = name.unwrap_or_else(|| args.element().to_owned());
        Config {
            table: args.router_wide::<Tables>().get(&name, buckets),
            workers: args.key_maybe("CORES", "workers that own buckets"),
            capacity: args.capacity(
                "CAPACITY",
                1024,
                "packets that a ring between workers holds",
            ),
            mesh: Mesh::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> Steer {
        let all = || (0..init.workers).collect();
        let named = config.workers.as_ref().filter(|_| !init.as_click());
        let owners = named.map_or_else(all, |workers| workers.0.clone());
        let assigned = config.table.assign(&owners);
        let mut owners = Box::new([NOBODY; BUCKETS_MAX]);
        let places = owners.iter_mut().zip(&assigned);
        places.for_each(|(place, owner)| *place = *owner as u16);
        config.table.counts(init.workers);
        let many = init.workers > 1;
        let ends = || {
            config.mesh.ends(
                init.worker,
                init.workers,
                config.capacity.max(1),
                &config.table,
            )
        };
        Steer {
            table: Arc::clone(&config.table),
            worker: init.worker,
            workers: init.workers,
            owners,
            buckets: assigned.len(),
            ends: many.then(ends),
            held: HeldPackets::default(),
            back_pressure: BackPressure::default(),
            burst: crate::burst::burst(init),
            bare: init.bare,
        }
    }

    #[inline]
    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let seen = self.table.counts(self.workers)[self.worker].packet_counts();
        let packets = batch.iter().as_slice();
        // In most batches all packets are this worker's own; such a batch passes unchanged.
        if !all_ours(packets, &self.owners, seen, (self.worker, self.buckets)) {
            self.separate_foreign(batch, cx);
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        let Some(ends) = &mut self.ends else {
            return Did::Sleep;
        };
        let mut batch = cx.spare();
        ends.receive(self.burst, &mut batch);
        let came = !batch.is_empty();
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if self.back_pressure.goes_on() {
            match self
                .back_pressure
                .try_end(cx.now(), ends.free_space() == FreeSpace::MoreThanHalf)
            {
                true => cx.back_pressure(false),
                false => cx.set_timer(cx.now() + RING_CHECK_INTERVAL),
            }
        }
        if self.held.send_on(&mut *self.owners, ends, cx) || came {
            Did::Work
        } else {
            Did::Nothing
        }
    }

    fn held(&self) -> usize {
        self.held.waiting() + self.ends.as_ref().map_or(0, Ends::waiting)
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.mesh.inherit(&old.mesh);
    }

    fn take(&mut self, old: Steer) {
        self.back_pressure = old.back_pressure;
        let is_same = Arc::ptr_eq(&self.table, &old.table);
        let owners = is_same.then_some(&mut self.owners[..]);
        self.held = old.held.moved(&*old.owners, owners);
    }

    const HANDLERS: &'static [Handler<Steer>] = &[
        Handler::shared(
            "table",
            "which worker owns which buckets",
            |c: &Config, _| Ok(c.table.show()),
        ),
        Handler::action(
            "move",
            "buckets and their new owner, such as `0-3 7 1`",
            |_, _| Err("buckets move only while workers run".into()),
        ),
        Handler::shared(
            "limit",
            "longest time that a move waits for earlier packets to leave the old owner",
            |c: &Config, _| Ok(arguments::units::FromArg::unparse(&c.table.limit())),
        ),
        Handler::action("limit", "changes it; at first 50ms", |c: &Config, value| {
            c.table.set_limit(arguments::units::parse(value)?);
            Ok(String::new())
        }),
        Handler::sum("parked", "packets that wait for a move", |e| {
            e.held.waiting() as u64
        }),
        Handler::sum("crossed", "packets handed to other workers", |e| {
            e.ends.as_ref().map_or(0, Ends::crossed)
        }),
        Handler::sum(
            "rests",
            "times that sources paused because a ring was nearly full",
            |e| e.back_pressure.count(),
        ),
        Handler::shared("buckets", "number of buckets", |c: &Config, _| {
            Ok(c.table.buckets().to_string())
        }),
        Handler::shared("loads", "packets by bucket", |c: &Config, _| {
            Ok(list(&c.table.loads()))
        }),
        Handler::shared(
            "lost",
            "packets by bucket that found a ring full",
            |c: &Config, _| Ok(list(&c.table.lost_packets())),
        ),
    ];
}

impl Resources for Steer {
    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.workers.as_ref().map(|c| c.0.clone()),
            gathers: true,
            ..Placement::default()
        }
    }
}

impl Steers for Steer {
    fn table(config: &Config) -> Arc<Table> {
        Arc::clone(&config.table)
    }

    fn steering(&mut self) -> &mut dyn Steering {
        self
    }
}

impl Steering for Steer {
    fn hold(&mut self, buckets: &[u16]) {
        self.held.hold(buckets, &mut *self.owners);
    }

    fn release(&mut self, buckets: &[u16], to: usize) {
        self.held.release(buckets, to, &mut *self.owners);
    }

    fn sent(&self, to: usize) -> usize {
        self.ends.as_ref().map_or(0, |ends| ends.sent(to))
    }

    fn has_arrived(&self, to: usize, sent: usize) -> bool {
        let ends = self.ends.as_ref();
        ends.is_none_or(|ends| ends.has_arrived(to, sent))
    }

    fn held(&self) -> Held {
        self.held.count()
    }
}

/// Array with an element for each bucket number that a packet can carry.
type Each<T> = [T; BUCKETS_MAX];

/// Counts packets by bucket. Returns true if this worker owns the buckets of all packets.
///
/// Every packet takes this path, so instructions count. Owners are compared in memory, the loop is unrolled eight
/// times, and a separate function keeps its state in registers.
#[inline(never)]
fn all_ours(
    packets: &[Packet],
    owners: &Each<u16>,
    seen: &Each<AtomicU64>,
    (me, buckets): (usize, usize),
) -> bool {
    let me = me as u16;
    let look = |packet: &Packet| {
        let bucket = usize::from(packet.bucket());
        let ours = owners[bucket] == me;
        if ours {
            add(&seen[bucket], 1);
        }
        ours
    };
    let (eights, rest) = packets.as_chunks::<8>();
    let mut eights = eights.iter();
    while let Some([a, b, c, d, e, f, g, h]) = eights.next() {
        let half = look(a) && look(b) && look(c) && look(d);
        if !(half && look(e) && look(f) && look(g) && look(h)) {
            let left = 8 * (eights.len() + 1) + rest.len();
            let found = &packets[packets.len() - left..];
            return count_from_first_other(found, owners, seen, (me, buckets));
        }
    }
    let other = rest.iter().position(|packet| !look(packet));
    other
        .inspect(|&at| count(&rest[at..], seen, buckets))
        .is_none()
}

/// Counts the remaining packets after [`all_ours`] has found one of another worker among the first eight. Returns
/// false.
#[inline(never)]
fn count_from_first_other(
    packets: &[Packet],
    owners: &Each<u16>,
    seen: &Each<AtomicU64>,
    (me, buckets): (u16, usize),
) -> bool {
    let mut counted = packets.iter();
    let other = counted.position(|packet| owners[usize::from(packet.bucket())] != me);
    count(&packets[other.unwrap_or(0)..], seen, buckets);
    false
}

/// Counts packets by bucket. A bucket number beyond the last one wraps around.
#[inline(never)]
fn count(packets: &[Packet], seen: &Each<AtomicU64>, buckets: usize) {
    for packet in packets {
        let bucket = usize::from(packet.bucket());
        let bucket = match bucket < buckets {
            true => bucket,
            false => bucket % buckets,
        };
        add(&seen[bucket], 1);
    }
}

/// Bucket of a packet. A number beyond the last bucket wraps around, and is written back to the packet.
#[inline]
fn bucket_of(packet: &mut Packet, buckets: usize) -> usize {
    let bucket = usize::from(packet.bucket());
    if bucket < buckets {
        return bucket;
    }
    let bucket = bucket % buckets;
    packet.set_bucket(bucket as u16);
    bucket
}

fn list(counts: &[u64]) -> String {
    let words: Vec<String> = counts.iter().map(u64::to_string).collect();
    words.join(" ")
}

impl Steer {
    /// Removes packets of other workers' buckets from the batch, and sets them aside.
    #[inline(never)]
    fn separate_foreign(&mut self, batch: &mut Batch, cx: &mut Cx) {
        let (owners, buckets, me) = (&*self.owners, self.buckets, self.worker as u16);
        let held = &mut self.held;
        let Some(ends) = &mut self.ends else {
            // With a single worker, the other packets have nonexistent buckets.
            batch
                .iter_mut()
                .for_each(|packet| _ = bucket_of(packet, buckets));
            return;
        };
        let mut away = false;
        let part = |packet: &mut Packet, _: &mut Cx| match owners[bucket_of(packet, buckets)] == me
        {
            true => Verdict::ON,
            false => Verdict::out(1),
        };
        let clean = self.bare && !cx.watched();
        batch.split(cx, part, |mut packet, _, cx| {
            if clean {
                // Elements that begin to read annotations after a reload must not see stale buffer contents.
                *packet.anno_mut() = Anno::EMPTY;
            }
            match owners[usize::from(packet.bucket())] {
                HELD => held.hold_packet(packet, cx),
                owner => {
                    away = true;
                    ends.set_aside(usize::from(owner), packet);
                }
            }
        });
        if away {
            self.send(cx);
        }
    }

    /// Sends the packets set aside for other workers.
    #[inline(never)]
    fn send(&mut self, cx: &mut Cx) {
        let full = self.table.counts(self.workers)[self.worker].full();
        let Some(ends) = &mut self.ends else {
            return;
        };
        let room = ends.send(cx, |packet, cx| {
            add(&full[usize::from(packet.bucket())], 1);
            cx.drop(packet, FULL);
        });
        if room != FreeSpace::MoreThanHalf {
            self.table.note_ring(match room {
                FreeSpace::Little => 0.75,
                _ => 0.5,
            });
            if room == FreeSpace::Little && self.back_pressure.begins(cx.now()) {
                cx.back_pressure(true);
                cx.set_timer(cx.now() + RING_CHECK_INTERVAL);
            }
        }
    }
}

#[cfg(test)]
#[path = "steer_tests.rs"]
mod tests;
