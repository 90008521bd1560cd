use super::*;
use crate::sample::Random;

fn hop(n: u8, weight: u16) -> Member {
    Member {
        gateway: Some(IpAddr::from([10, 0, 0, n])),
        port: u16::from(n),
        labels: wire::mpls::Labels::NONE,
        weight,
    }
}

/// The port for each of many hashes.
fn map(table: &GroupTable, id: GroupId) -> Vec<Option<u16>> {
    let groups = table.groups();
    let hashes = (0..4096u32).map(|i| i << 20 | 0x777);
    hashes
        .map(|h| groups.next_hop(id.get(), h).map(|m| m.port))
        .collect()
}

fn share(map: &[Option<u16>], port: u16) -> f64 {
    map.iter().filter(|p| **p == Some(port)).count() as f64 / map.len() as f64
}

#[test]
fn flows_are_shared_by_weight() {
    let mut table = GroupTable::new();
    let id = table.intern(&[hop(1, 1), hop(2, 2), hop(3, 5)]).unwrap();
    let map = map(&table, id);
    for (port, expected) in [(1, 0.125), (2, 0.25), (3, 0.625)] {
        assert!((share(&map, port) - expected).abs() < 1.0 / 64.0, "{port}");
    }
}

#[test]
fn only_the_flows_of_a_lost_member_move_and_it_takes_back_no_more_than_its_share() {
    let mut random = Random::new(5);
    for members in [2, 3, 5, 8, 40] {
        let mut table = GroupTable::new();
        let hops: Vec<_> = (1..=members)
            .map(|n| hop(n, 1 + random.below(4) as u16))
            .collect();
        let id = table.intern(&hops).unwrap();
        for _ in 0..20 {
            let lost = hops[random.below(u64::from(members)) as usize].port;
            let before = map(&table, id);
            assert_eq!(table.set_up(false, |m| m.port == lost), 1);
            let without = map(&table, id);
            for (b, w) in before.iter().zip(&without) {
                assert!(b == w || *b == Some(lost), "moved without need");
                assert_ne!(*w, Some(lost));
            }
            assert_eq!(table.set_up(true, |m| m.port == lost), 1);
            assert_eq!(table.set_up(true, |m| m.port == lost), 0, "it was up");
            let after = map(&table, id);
            for (w, a) in without.iter().zip(&after) {
                assert!(w == a || *a == Some(lost), "moved without need");
            }
            assert_eq!(share(&after, lost), share(&before, lost));
        }
    }
}

#[test]
fn compact_form_agrees_with_the_full_form() {
    let mut random = Random::new(8);
    let mut table = GroupTable::new();
    let of = |gateway, port| Member {
        gateway,
        ..hop(port, 1)
    };
    let gateways = [None, Some([0; 4].into()), Some([0u8; 16].into())];
    let mut ids: Vec<GroupId> = (1..=20).map(|n| table.add(&[hop(n, 1)]).unwrap()).collect();
    ids.extend(gateways.map(|gateway| table.add(&[of(gateway, 9)]).unwrap()));
    let mut brief = 0;
    for _ in 0..500 {
        let (n, id) = (random.below(21) as u8, ids[random.below(23) as usize]);
        match random.below(4) {
            0 => assert_eq!(table.change(id, &[hop(n, 1), hop(n + 1, 2)]), Ok(true)),
            1 => assert_eq!(table.change(id, &[hop(n, 1)]), Ok(true)),
            2 => drop(table.set_up(false, |m| m.port == n.into())),
            _ => drop(table.set_up(true, |m| m.port == n.into())),
        }
        let groups = table.groups();
        for id in 0..30 {
            let said = groups.view().compact(id);
            let hop = groups.next_hop(id, random.bits() as u32).copied();
            if said.port != CompactHop::ASK.port {
                brief += 1;
                let gateway = said.gateway().map(IpAddr::V4);
                let hop = hop.map(|hop| (hop.gateway, hop.port));
                assert_eq!(hop, Some((gateway, said.port)), "{id}");
            } else if let Some(Member {
                gateway: Some(IpAddr::V4(gateway)),
                ..
            }) = hop
            {
                let several = matches!(groups.choices[usize::from(id) - 1], Choice::Several(_));
                assert!(several || gateway.is_unspecified(), "{id}");
            }
        }
    }
    assert!(brief > 1000, "{brief}");
}

#[test]
fn equal_groups_share_an_id_until_the_last_user_leaves() {
    let mut table = GroupTable::new();
    let a = table.intern(&[hop(1, 1), hop(2, 1)]).unwrap();
    assert_eq!(table.intern(&[hop(2, 1), hop(1, 1)]), Ok(a));
    let b = table.intern(&[hop(1, 1), hop(1, 1), hop(2, 1)]).unwrap();
    assert_ne!(a, b);
    assert!(table.members(b).eq([(hop(1, 2), true), (hop(2, 1), true)]));
    table.release(a);
    assert!(table.groups().next_hop(a.get(), 0).is_some());
    table.release(a);
    assert_eq!(
        (table.groups().next_hop(a.get(), 0), table.len()),
        (None, 1)
    );
    let c = table.intern(&[hop(3, 1)]).unwrap();
    assert_ne!(c, a, "its id may still be on the way");
    let limbo = table.take_limbo();
    table.release_limbo(limbo);
    assert_eq!(table.intern(&[hop(4, 1)]), Ok(a));
}

#[test]
fn a_group_without_live_members_leads_nowhere() {
    let mut table = GroupTable::new();
    let (a, b) = (
        table.intern(&[hop(1, 1)]).unwrap(),
        table.intern(&[hop(1, 1), hop(2, 7)]).unwrap(),
    );
    assert_eq!(table.set_up(false, |m| m.port == 1), 2);
    let groups = table.groups();
    assert_eq!(groups.next_hop(a.get(), 9), None);
    assert_eq!(groups.next_hop(b.get(), 9).map(|m| m.port), Some(2));
    assert_eq!(
        (groups.next_hop(0, 9), groups.next_hop(77, 9)),
        (None, None)
    );
}

#[test]
fn a_group_that_was_added_is_its_owners_alone_and_changes_in_place() {
    let mut table = GroupTable::new();
    let shared = table.intern(&[hop(1, 1)]).unwrap();
    let own = table.add(&[hop(1, 1)]).unwrap();
    assert_ne!(own, shared);
    assert_eq!(table.change(own, &[hop(2, 1)]), Ok(true));
    assert!(map(&table, own).iter().all(|p| *p == Some(2)));
    assert!(map(&table, shared).iter().all(|p| *p == Some(1)));
    assert_eq!(table.change(shared, &[hop(2, 1)]), Ok(false));
    assert_eq!(table.change(own, &[]), Err(GroupError::Empty));
    assert_eq!(table.intern(&[hop(2, 1)]).map(|id| id == own), Ok(false));
    table.release(own);
    assert_eq!((table.len(), table.take_limbo().0), (2, vec![own]));
}

#[test]
fn flows_stay_on_members_that_a_change_leaves_in_the_group() {
    let mut table = GroupTable::new();
    let two = [hop(1, 1), hop(2, 1)];
    let id = table.add(&two).unwrap();
    let before = map(&table, id);
    // With five members there are twice as many buckets.
    let five: Vec<_> = (1..=5).map(|n| hop(n, 1)).collect();
    table.change(id, &five).unwrap();
    let wide = map(&table, id);
    let moved = |a: &[Option<u16>], b: &[Option<u16>]| {
        a.iter().zip(b).filter(|(a, b)| a != b).count() as f64 / a.len() as f64
    };
    assert!(moved(&before, &wide) < 0.62, "three fifths must move");
    table.change(id, &[hop(1, 3), hop(2, 1)]).unwrap();
    let narrow = map(&table, id);
    assert!((share(&narrow, 1) - 0.75).abs() < 1.0 / 64.0);
    let kept = |port| {
        let both = wide.iter().zip(&narrow).filter(|(a, _)| **a == Some(port));
        both.clone().filter(|(a, b)| a == b).count() == both.count()
    };
    assert!(kept(1) && kept(2), "the shares of both have grown");
}

#[test]
fn mistakes_are_refused_and_ids_run_out_politely() {
    let mut table = GroupTable::new();
    assert_eq!(table.intern(&[]), Err(GroupError::Empty));
    assert_eq!(table.intern(&[hop(1, 0)]), Err(GroupError::NoWeight));
    let many: Vec<_> = (0..300)
        .map(|port| Member {
            gateway: None,
            port,
            labels: wire::mpls::Labels::NONE,
            weight: 1,
        })
        .collect();
    assert_eq!(table.intern(&many), Err(GroupError::TooMany));
    assert!(table.intern(&many[..256]).is_ok());
    for port in 0..65534 {
        assert!(
            table
                .intern(&[Member {
                    gateway: None,
                    port,
                    labels: wire::mpls::Labels::NONE,
                    weight: 3
                }])
                .is_ok()
        );
    }
    assert_eq!(table.intern(&[hop(1, 1)]), Err(GroupError::OutOfIds));
    assert_eq!(table.intern(&[hop(1, 1)]), Err(GroupError::OutOfIds));
    let known = table
        .intern(&[Member {
            gateway: None,
            port: 7,
            labels: wire::mpls::Labels::NONE,
            weight: 3,
        }])
        .unwrap();
    table.release(known);
    table.release(known);
    assert_eq!(
        table.intern(&[hop(1, 1)]),
        Err(GroupError::OutOfIds),
        "still in limbo"
    );
    let limbo = table.take_limbo();
    table.release_limbo(limbo);
    assert_eq!(table.intern(&[hop(1, 1)]), Ok(known));
}
