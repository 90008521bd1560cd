//! The model follows a kernel with random changes.

use std::collections::BTreeSet;

use testkit::Rng;
use wire::netlink::{Change, RouteKind, TABLE_LOCAL};

use super::super::{Link, Model, StaleParts};
use super::harness::{Bench, ip, route};
use super::simulated::{SimObject, SimRoute, SimTarget, Simulated, Verb};

/// Random changes of a kernel.
struct Chance<'a> {
    random: &'a mut Rng,
    /// True if there is at most one route for a prefix and metric, as with `ip route replace` alone.
    plain: bool,
}

impl Chance<'_> {
    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    /// Makes a random change. Returns its description, and true if the kernel's messages report all of it.
    fn happen(&mut self, bench: &mut Bench) -> (String, bool) {
        let kernel = &mut bench.kernel;
        let up = kernel.links.iter().filter(|link| link.1.up);
        let up: Vec<u32> = up.map(|link| *link.0).collect();
        let index = self.pick(&[1, 2, 9]);
        match self.below(12) {
            0..6 if !up.is_empty() => {
                let verb = match self.plain {
                    true => Verb::Replace,
                    false => self.pick(&[Verb::Append, Verb::Prepend, Verb::Replace]),
                };
                let new = self.route(kernel, &up);
                let done = kernel.add(verb, new.clone());
                (format!("{verb:?} {new:?}: {done}"), true)
            }
            6..8 if !kernel.routes.is_empty() => (self.delete(kernel), true),
            8 => (self.object(kernel), true),
            9 => {
                let id = 1 + self.below(5) as u32;
                kernel.remove_object(id, false);
                (format!("object {id} gone"), true)
            }
            10 => {
                let link = self.link(kernel.links[&index]);
                bench.link(index, link);
                (format!("link {index} {link:?}"), true)
            }
            11 if self.below(4) == 0 => {
                kernel.lose_address(index);
                bench.model().address(Change::Gone, true);
                (format!("address of {index}"), false)
            }
            _ => ("nothing".into(), true),
        }
    }

    fn gateway(&mut self, is4: bool) -> &'static str {
        match is4 {
            true => self.pick(&["10.9.0.1", "10.9.0.2", "fe80::9", ""]),
            false => self.pick(&["fe80::1", "fe80::2", "fe80::3", ""]),
        }
    }

    fn route(&mut self, kernel: &Simulated, up: &[u32]) -> SimRoute {
        let is4 = self.below(2) == 0;
        let dst = match is4 {
            true => self.pick(&["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.7/32"]),
            false => self.pick(&["::/0", "2001:db8::/32", "2001:db8::/64", "2001:db8::7/128"]),
        };
        let hops = 0..1 + self.below(3);
        let hops = hops.map(|_| (self.pick(up), self.gateway(is4)));
        let hops: Vec<_> = hops.collect::<BTreeSet<_>>().into_iter().collect();
        // IPv6 has no multipath routes with hops that lack a gateway.
        let several = is4 || hops.iter().all(|hop| !hop.1.is_empty());
        let hops = if several { &hops[..] } else { &hops[..1] };
        let mut new = route(dst, self.pick(&[0, 0, 7]) + u32::from(!is4), hops);
        // IPv6 treats two routes that differ only in their protocol as one.
        new.protocol = if is4 { self.pick(&[3, 11]) } else { 3 };
        let objects: Vec<u32> = kernel.objects.keys().copied().collect();
        match self.below(9) {
            0 => (new.kind, new.target) = (RouteKind::Blackhole, SimTarget::None),
            1 => (new.kind, new.target) = (RouteKind::Unreachable, SimTarget::None),
            2 => {
                (new.kind, new.target) = (RouteKind::Local, SimTarget::None);
                new.table = TABLE_LOCAL;
            }
            3 if is4 => {
                (new.kind, new.table) = (RouteKind::Broadcast, TABLE_LOCAL);
                new.target = SimTarget::Hops(vec![(self.pick(up), None, 1)]);
            }
            4 | 5 if !objects.is_empty() => new.target = SimTarget::Object(self.pick(&objects)),
            _ => {}
        }
        new
    }

    fn delete(&mut self, kernel: &mut Simulated) -> String {
        let n = self.below(kernel.routes.len());
        let gone = kernel.routes[n].clone();
        match &gone.target {
            SimTarget::Hops(hops) if !gone.dst.0.is_ipv4() && hops.len() > 1 => {
                kernel.delete_hop(n, self.below(hops.len()));
            }
            _ => kernel.delete(n),
        }
        format!("delete (of) {gone:?}")
    }

    fn object(&mut self, kernel: &mut Simulated) -> String {
        // The kernel refuses an object on a link that is down or has no carrier.
        let ready = kernel.links.iter().filter(|(_, l)| l.up && l.carrier);
        let ready: Vec<u32> = ready.map(|(index, _)| *index).collect();
        let id = 1 + self.below(5) as u32;
        let known = kernel.objects.iter();
        let known = known.filter(|(_, object)| matches!(object, SimObject::One(_)));
        let known: Vec<u32> = known.map(|(id, _)| *id).collect();
        let member = |object: &SimObject| matches!(object, SimObject::Group(m) if m.iter().any(|m| m.0 == id));
        let object = match (id, self.below(4)) {
            (4.., _) if known.len() > 1 => {
                let weight = 1 + self.below(9) as u16;
                SimObject::Group(vec![(known[0], 1), (known[1], weight)])
            }
            (4.., _) => return "nothing".into(),
            (3, 0) if kernel.objects.values().any(member) => return "nothing".into(),
            (3, 0) => SimObject::Blackhole,
            _ if ready.is_empty() => return "nothing".into(),
            _ => {
                let gateway = self.pick(&["fe80::1", "fe80::2", "10.9.0.1"]);
                SimObject::One((self.pick(&ready), Some(ip(gateway)), 1))
            }
        };
        kernel.set_object(id, object.clone());
        format!("object {id} {object:?}")
    }

    fn link(&mut self, was: Link) -> Link {
        match self.below(3) {
            0 => Link { up: !was.up, ..was },
            1 => Link {
                carrier: !was.carrier,
                ..was
            },
            _ => Link {
                number: self.pick(&[Some(3), Some(4), None]),
                ..was
            },
        }
    }
}

#[test]
fn the_image_equals_the_kernels_table_after_every_change() {
    for seed in 0..40 {
        let (mut bench, mut random) = (Bench::new(), Rng::seed(seed));
        for step in 0..300 {
            let (what, tells_all) = Chance {
                random: &mut random,
                plain: false,
            }
            .happen(&mut bench);
            let about = (seed, step, what);
            let lost = random.below(20) == 0;
            if lost {
                bench.kernel.sent.clear();
                bench.model().stale_parts = StaleParts::ALL;
            }
            bench.hear();
            if tells_all && !lost {
                bench.agree(&about);
            }
            if bench.model().stale_parts().any() && random.below(2) == 0 {
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
fn changes_during_a_sync_are_not_lost() {
    for seed in 0..40 {
        let (mut bench, mut random) = (Bench::new(), Rng::seed(seed));
        for step in 0..100 {
            let (what, _) = Chance {
                random: &mut random,
                plain: true,
            }
            .happen(&mut bench);
            if random.below(4) == 0 {
                bench.kernel.sent.clear();
            }
            let mut shadow = Rng::seed(seed ^ step << 8);
            bench.sync(|kernel| {
                for _ in 0..4 {
                    let mut other = Bench {
                        model: Some(Model::new(false)),
                        ..Bench::default()
                    };
                    std::mem::swap(kernel, &mut other.kernel);
                    let before = other.kernel.clone();
                    let (_, tells_all) = Chance {
                        random: &mut shadow,
                        plain: true,
                    }
                    .happen(&mut other);
                    // Excludes silent changes, and changes that other messages report.
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

#[test]
fn a_bound_holds_and_omitted_routes_come_back_when_there_is_room() {
    let mut left_out = 0;
    for seed in 0..40 {
        let (mut bench, mut random) = (Bench::new(), Rng::seed(seed));
        let mut most = 3;
        bench.model().set_object_limit(most);
        let mut allowed = [3; 2];
        for step in 0..300 {
            let mut chance = Chance {
                random: &mut random,
                plain: false,
            };
            let (what, tells_all) = chance.happen(&mut bench);
            bench.hear();
            let model = bench.model();
            let count = [model.v4.count(), model.v6.count()];
            assert_eq!(
                count,
                [model.v4.counted(), model.v6.counted()],
                "{seed} {step} {what}"
            );
            let own = bench.kernel.routes.iter();
            let own = own.filter(|route| route.table == TABLE_LOCAL).count();
            for (allowed, count) in allowed.iter_mut().zip(count) {
                assert!(
                    count <= *allowed + own,
                    "{seed} {step} {what}: {count} of {allowed}"
                );
                // Existing routes stay when the limit falls.
                *allowed = most.max(count).min(*allowed);
            }
            if random.below(10) > 0 {
                continue;
            }
            left_out += bench.model().counts().left_out;
            bench.model().set_object_limit(usize::MAX);
            for _ in 0..3 {
                if bench.model().stale_parts().any() || !tells_all {
                    bench.sync(|_| {});
                }
            }
            bench.agree(&(seed, step, what));
            most = random.below(6);
            bench.model().set_object_limit(most);
            let model = bench.model();
            allowed = [model.v4.count(), model.v6.count()].map(|count| count.max(most));
        }
    }
    assert!(left_out > 1000, "the bound was met: {left_out}");
}
