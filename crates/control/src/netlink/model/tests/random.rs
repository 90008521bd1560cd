//! Random changes of a kernel, followed.

use std::collections::BTreeSet;

use tables::sample::Random;
use wire::netlink::{Change, RouteKind, TABLE_LOCAL};

use super::super::{Doubt, Link, Model};
use super::harness::{Bench, ip, route};
use super::simulated::{SimObject, SimTarget, Verb};

/// A random change of the kernel; says what it was, and whether what it said tells all.
fn happen(bench: &mut Bench, random: &mut Random, plain: bool) -> (String, bool) {
    let mut pick = |n: u64| random.below(n) as usize;
    let is4 = pick(2) == 0;
    let dst = match is4 {
        true => ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.7/32"][pick(4)],
        false => ["::/0", "2001:db8::/32", "2001:db8::/64", "2001:db8::7/128"][pick(4)],
    };
    let gateways = match is4 {
        true => ["10.9.0.1", "10.9.0.2", "fe80::9", ""],
        false => ["fe80::1", "fe80::2", "fe80::3", ""],
    };
    let links: Vec<u32> = bench
        .kernel
        .links
        .iter()
        .filter(|l| l.1.up)
        .map(|l| *l.0)
        .collect();
    let kernel = &mut bench.kernel;
    let index = [1, 2, 9][pick(3)];
    match pick(12) {
        0..6 if !links.is_empty() => {
            let mut hops = BTreeSet::new();
            for _ in 0..1 + pick(3) {
                hops.insert((links[pick(links.len() as u64)], gateways[pick(4)]));
            }
            let hops: Vec<_> = hops.into_iter().collect();
            // IPv6 has no multipath routes with hops that lack a gateway.
            let several = is4 || hops.iter().all(|hop| !hop.1.is_empty());
            let hops = if several { &hops[..] } else { &hops[..1] };
            let mut new = route(dst, [0, 0, 7][pick(3)] + u32::from(!is4), hops);
            new.protocol = [3, 11][pick(2)];
            let objects: Vec<u32> = kernel.objects.keys().copied().collect();
            match pick(8) {
                0 => {
                    (new.kind, new.target) = (RouteKind::Blackhole, SimTarget::None);
                }
                1 => {
                    (new.kind, new.target) = (RouteKind::Unreachable, SimTarget::None);
                }
                2 => {
                    (new.kind, new.target) = (RouteKind::Local, SimTarget::None);
                    new.table = TABLE_LOCAL;
                }
                3 | 4 if !objects.is_empty() => {
                    new.target = SimTarget::Object(objects[pick(objects.len() as u64)]);
                }
                _ => {}
            }
            let verb = match plain {
                true => Verb::Replace,
                false => [Verb::Append, Verb::Prepend, Verb::Replace][pick(3)],
            };
            // Two routes that differ by their protocol alone are one to IPv6.
            if !is4 {
                new.protocol = 3;
            }
            let done = kernel.add(verb, new.clone());
            (format!("{verb:?} {new:?}: {done}"), true)
        }
        6..8 if !kernel.routes.is_empty() => {
            let n = pick(kernel.routes.len() as u64);
            let gone = kernel.routes[n].clone();
            match &gone.target {
                SimTarget::Hops(hops) if !gone.dst.0.is_ipv4() && hops.len() > 1 => {
                    kernel.delete_hop(n, pick(hops.len() as u64));
                }
                _ => kernel.delete(n),
            }
            (format!("delete (of) {gone:?}"), true)
        }
        8 if !links.is_empty() => {
            let id = 1 + pick(5) as u32;
            let plain = |o: &SimObject| matches!(o, SimObject::One(_));
            let known = kernel
                .objects
                .iter()
                .filter(|(_, o)| plain(o))
                .map(|o| *o.0);
            let known: Vec<u32> = known.collect();
            let object = match (id, pick(4)) {
                (4.., _) if known.len() > 1 => {
                    SimObject::Group(vec![(known[0], 1), (known[1], 1 + pick(9) as u16)])
                }
                (4.., _) => return ("nothing".into(), true),
                (3, 0) => SimObject::Blackhole,
                _ => {
                    let gateway = Some(ip(gateways[pick(3)]));
                    SimObject::One((links[pick(links.len() as u64)], gateway, 1))
                }
            };
            let groups = kernel.objects.values();
            let in_group =
                |o: &SimObject| matches!(o, SimObject::Group(m) if m.iter().any(|m| m.0 == id));
            if object == SimObject::Blackhole && groups.into_iter().any(in_group) {
                return ("nothing".into(), true);
            }
            kernel.set_object(id, object.clone());
            (format!("object {id} {object:?}"), true)
        }
        9 => {
            let id = 1 + pick(5) as u32;
            kernel.remove_object(id, false);
            (format!("object {id} gone"), true)
        }
        10 => {
            let was = kernel.links[&index];
            let link = match pick(3) {
                0 => Link { up: !was.up, ..was },
                1 => Link {
                    carrier: !was.carrier,
                    ..was
                },
                _ => Link {
                    number: [Some(3), Some(4), None][pick(3)],
                    ..was
                },
            };
            bench.link(index, link);
            (format!("link {index} {link:?}"), true)
        }
        11 if pick(4) == 0 => {
            kernel.lose_address(index);
            bench.model().address(Change::Gone, true);
            (format!("address of {index}"), false)
        }
        _ => ("nothing".into(), true),
    }
}

#[test]
fn the_image_is_what_the_kernels_table_is_after_every_change() {
    for seed in 0..40 {
        let (mut bench, mut random) = (Bench::new(), Random::new(seed));
        for step in 0..300 {
            let (what, tells_all) = happen(&mut bench, &mut random, false);
            let about = (seed, step, what);
            let lost = random.below(20) == 0;
            if lost {
                bench.kernel.said.clear();
                bench.model().doubt = Doubt::ALL;
            }
            bench.hear();
            if tells_all && !lost {
                bench.agree(&about);
            }
            if bench.model().doubt().any() && random.below(2) == 0 {
                bench.sync(|_| {});
                bench.agree(&("sync", &about));
            } else if !tells_all || lost {
                bench.sync(|_| {});
                bench.agree(&("sync", &about));
            }
        }
    }
}

#[test]
fn what_happens_during_a_sync_is_not_lost() {
    for seed in 0..40 {
        let (mut bench, mut random) = (Bench::new(), Random::new(seed));
        for step in 0..100 {
            let (what, _) = happen(&mut bench, &mut random, true);
            if random.below(4) == 0 {
                bench.kernel.said.clear();
            }
            let mut shadow = Random::new(seed ^ step << 8);
            bench.sync(|kernel| {
                for _ in 0..4 {
                    let mut other = Bench {
                        model: Some(Model::new(false)),
                        ..Bench::default()
                    };
                    std::mem::swap(kernel, &mut other.kernel);
                    let before = other.kernel.clone();
                    let (_, tells_all) = happen(&mut other, &mut shadow, true);
                    // What is silent, or told by other messages, is not meant here.
                    if other.kernel.links != before.links || !tells_all {
                        other.kernel = before;
                    }
                    std::mem::swap(kernel, &mut other.kernel);
                }
            });
            bench.agree(&(seed, step, what));
        }
    }
}
