use super::*;

const G: f64 = 1e9;

/// The paper's cards: two ports of 10 Gbit/s or eight of 1 Gbit/s.
fn nics() -> Vec<Nic> {
    [(2, 10.0), (8, 1.0)]
        .map(|(ports, rate)| Nic {
            ports,
            rate: rate * G,
        })
        .to_vec()
}

fn wanted(ports: u32, external: f64, slots: u32) -> Wanted {
    let processing = 3.0 * external * 10.0 * G;
    let server = Server {
        processing,
        slots,
        nics: nics(),
        latency: 24_000,
    };
    Wanted {
        ports,
        rate: 10.0 * G,
        c: 3.0,
        server,
    }
}

fn mesh_most(external: f64, slots: u32) -> u32 {
    let mesh =
        |&n: &u32| plan(&wanted(n, external, slots)).is_ok_and(|p| p.topology == Topology::Mesh);
    (2..=2048).filter(mesh).max().unwrap()
}

#[test]
fn meshes_reach_as_far_as_the_papers_rule_says() {
    // 4 cards of 8 ports: 32 others; 19 cards: 152 others; and two ports at each of 153 servers.
    assert_eq!(mesh_most(1.0, 5), 33);
    assert_eq!(mesh_most(1.0, 20), 153);
    assert_eq!(mesh_most(2.0, 20), 306);
}

#[test]
fn a_thousand_ports_on_current_servers_take_two_servers_more_for_each_and_96_us() {
    let plan = plan(&wanted(1024, 1.0, 5)).unwrap();
    assert_eq!(plan.topology, Topology::Fly { k: 32, stages: 2 });
    assert_eq!((plan.port_servers, plan.transit_servers()), (1024, 2048));
    assert_eq!(plan.latency().0, 96_000);
}

#[test]
fn impossible_plans_are_refused_with_the_reason() {
    let slow = Wanted {
        c: 3.1,
        ..wanted(4, 1.0, 5)
    };
    assert!(matches!(plan(&slow), Err(Refused::Slow { .. })));
    assert_eq!(plan(&wanted(4, 1.0, 1)), Err(Refused::Slots));
    assert!(matches!(
        plan(&wanted(0, 1.0, 5)),
        Err(Refused::InvalidNumber(_))
    ));
    assert!(matches!(
        plan(&wanted(5000, 1.0, 5)),
        Err(Refused::Large { .. })
    ));
    let mut narrow = wanted(64, 1.0, 2);
    narrow.server.nics = vec![Nic {
        ports: 1,
        rate: 10.0 * G,
    }];
    assert_eq!(plan(&narrow), Err(Refused::FanOut));
}

#[test]
fn one_server_is_a_router_without_links() {
    let plan = plan(&wanted(2, 2.0, 1)).unwrap();
    assert_eq!(
        (plan.topology, plan.servers(), plan.links()),
        (Topology::Single, 1, 0)
    );
}

/// Pseudo-random numbers from a seed.
fn next(state: &mut u64, below: u32) -> u32 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    ((*state >> 33) % u64::from(below)) as u32
}

#[test]
fn every_plan_respects_the_capacity_of_its_servers() {
    let (mut state, mut planned) = (1, [0; 3]);
    for _ in 0..2000 {
        let mut draw = |below| next(&mut state, below);
        let most = 1 << (1 + draw(11));
        let mut asked = wanted(1 + draw(most), 1.0, 1 + draw(24));
        asked.server.processing = f64::from(20 + draw(200)) * G;
        asked.c = 2.0 + f64::from(draw(11)) / 10.0;
        let Ok(plan) = plan(&asked) else { continue };
        let server = &asked.server;
        let s = f64::from(plan.ports_per_server);
        assert!(
            s * asked.c * asked.rate <= server.processing * 1.000_001,
            "{plan:?}"
        );
        assert!(plan.port_servers * plan.ports_per_server >= asked.ports);
        assert!(plan.slots.0 + plan.slots.1 <= server.slots, "{plan:?}");
        assert!(
            plan.fan_out() * plan.trunk <= plan.slots.1 * plan.nic.ports,
            "{plan:?}"
        );
        assert!(
            plan.link <= f64::from(plan.trunk) * plan.nic.rate * 1.000_001,
            "{plan:?}"
        );
        match plan.topology {
            Topology::Single => planned[0] += 1,
            Topology::Mesh => planned[1] += 1,
            Topology::Fly { k, stages } => {
                planned[2] += 1;
                assert!(
                    u64::from(k).pow(stages) >= u64::from(plan.port_servers),
                    "{plan:?}"
                );
                // The links of a column carry both phases of the traffic that its servers receive.
                assert!(f64::from(k) * plan.link >= 2.0 * s * asked.rate * 0.999_999);
                assert!(plan.transit_load() <= server.processing);
            }
        }
    }
    assert!(
        planned.iter().all(|&n| n > 50),
        "all kinds occurred: {planned:?}"
    );
}

#[test]
fn an_n_fly_has_as_many_links_in_as_out_and_reaches_each_from_each() {
    for (n, slots) in [(34, 5), (64, 5), (200, 5), (160, 20)] {
        let plan = plan(&wanted(n, 1.0, slots)).unwrap();
        let Topology::Fly { k, stages } = plan.topology else {
            panic!("no n-fly for {n}: {plan:?}");
        };
        let map = plan.map();
        assert_eq!(map.nodes.len(), plan.servers() as usize);
        assert_eq!(map.links.len() as u64, plan.links());
        let mut degree = vec![0; map.nodes.len()];
        for link in &map.links {
            link.ends
                .iter()
                .for_each(|&end| degree[usize::from(end)] += 1);
        }
        assert!(degree.iter().all(|&d| d == 2 * k), "{n}");
        // Packets go forward only, from the first node.
        let m = n as usize;
        let mut reached = vec![false; m];
        reached[0] = true;
        for column in 0..=stages as usize {
            let mut next = vec![false; m];
            let (from, to) = (column * m, (column + 1) % (stages as usize + 1) * m);
            for link in &map.links {
                let [a, b] = link.ends.map(usize::from);
                for (a, b) in [(a, b), (b, a)] {
                    if (from..from + m).contains(&a)
                        && (to..to + m).contains(&b)
                        && reached[a - from]
                    {
                        next[b - to] = true;
                    }
                }
            }
            reached = next;
        }
        assert!(reached.into_iter().all(|r| r), "{n}");
    }
}
