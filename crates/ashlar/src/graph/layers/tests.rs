use super::*;
use testkit::Rng;

fn item(width: f64, height: f64) -> Item {
    Item {
        width,
        height,
        border: None,
        begins: false,
    }
}

/// Items and connections at random, some of which lead back or to their own item.
fn random(rng: &mut Rng, n: usize) -> (Vec<Item>, Vec<(End, End)>) {
    let items: Vec<Item> = (0..n)
        .map(|_| Item {
            begins: rng.range(0..20) == 0,
            ..item(rng.range(20..120) as f64, rng.range(20..200) as f64)
        })
        .collect();
    let end = |rng: &mut Rng, n: usize| (n, rng.range(0..items[n].width as usize + 1) as f64);
    let pairs: Vec<(usize, usize)> = (1..n)
        .flat_map(|to| {
            let chance = match rng.range(0..4) {
                0 => Some((rng.range(0..n), rng.range(0..n))),
                _ => None,
            };
            [(to - 1 - rng.range(0..to.min(6)), to)]
                .into_iter()
                .chain(chance)
        })
        .collect();
    let connections = pairs
        .iter()
        .map(|&(from, to)| (end(rng, from), end(rng, to)))
        .collect();
    (items, connections)
}

#[test]
fn nothing_overlaps_and_connections_begin_and_end_at_their_items() {
    let mut rng = Rng::seed(7);
    for round in 0..200 {
        let n = if round == 0 { 300 } else { rng.range(1..40) };
        let (items, connections) = random(&mut rng, n);
        let arranged = arrange(&items, &connections);
        let boxed = |n: usize| {
            let (x, y) = arranged.items[n];
            (x, y, x + items[n].width, y + items[n].height)
        };
        for a in 0..n {
            let one = boxed(a);
            assert!(one.0 > -0.01 && one.1 > -0.01, "round {round}: {one:?}");
            assert!(
                one.2 < arranged.width + 0.01 && one.3 < arranged.height + 0.01,
                "round {round}: {one:?}"
            );
            for b in a + 1..n {
                let other = boxed(b);
                let apart =
                    one.2 < other.0 || other.2 < one.0 || one.3 < other.1 || other.3 < one.1;
                assert!(apart, "round {round}: {one:?} {other:?}");
            }
        }
        for ((from, to), way) in connections.iter().zip(&arranged.routes) {
            let (first, last) = (way[0], way[way.len() - 1]);
            assert_eq!(
                (first.x, first.from),
                (boxed(from.0).0 + from.1, boxed(from.0).3),
                "round {round}"
            );
            assert_eq!(
                (last.x, last.to),
                (boxed(to.0).0 + to.1, boxed(to.0).1),
                "round {round}"
            );
            // The middle legs all lead in one direction, up or down, and cross no item.
            let middle = &way[1..way.len() - 1];
            assert!(
                middle.iter().all(|leg| leg.from <= leg.to)
                    || middle.iter().all(|leg| leg.from >= leg.to)
            );
            for leg in middle {
                let (top, bottom) = (leg.from.min(leg.to), leg.from.max(leg.to));
                let hit = (0..n)
                    .map(boxed)
                    .find(|b| b.0 < leg.x && leg.x < b.2 && b.1 < bottom && top < b.3);
                assert_eq!(hit, None, "round {round}: {leg:?}");
            }
        }
    }
}

#[test]
fn without_a_cycle_all_connections_lead_down() {
    let mut rng = Rng::seed(8);
    for _ in 0..100 {
        let n = rng.range(2..40);
        let items: Vec<Item> = (0..n).map(|_| item(50.0, 20.0)).collect();
        let pairs: Vec<(usize, usize)> = (0..2 * n)
            .map(|_| (rng.range(0..n), rng.range(0..n)))
            .filter(|(a, b)| a < b)
            .collect();
        let connections: Vec<(End, End)> =
            pairs.iter().map(|&(a, b)| ((a, 25.0), (b, 25.0))).collect();
        let arranged = arrange(&items, &connections);
        for (a, b) in pairs {
            assert!(arranged.items[a].1 < arranged.items[b].1, "{a} -> {b}");
        }
    }
}

#[test]
fn connections_to_sources_lead_back() {
    let mut items: Vec<Item> = (0..3).map(|_| item(50.0, 20.0)).collect();
    items[1].begins = true;
    items[2].begins = true;
    let both_ways = [
        ((0, 25.0), (1, 25.0)),
        ((0, 25.0), (2, 25.0)),
        ((1, 25.0), (0, 25.0)),
        ((2, 25.0), (0, 25.0)),
    ];
    let arranged = arrange(&items, &both_ways);
    let y: Vec<f64> = arranged.items.iter().map(|place| place.1).collect();
    assert!(y[1] == y[2] && y[1] < y[0], "{y:?}");
    assert!(
        arranged.items[1].0 < arranged.items[2].0,
        "in the order of the configuration"
    );
}

#[test]
fn avoidable_crossings_are_avoided() {
    let items: Vec<Item> = (0..4).map(|_| item(50.0, 20.0)).collect();
    let arranged = arrange(&items, &[((0, 25.0), (3, 25.0)), ((1, 25.0), (2, 25.0))]);
    let x: Vec<f64> = arranged.items.iter().map(|place| place.0).collect();
    assert_eq!(x[0] < x[1], x[3] < x[2], "{x:?}");
    assert!(
        (x[0] - x[3]).abs() < 0.01 && (x[1] - x[2]).abs() < 0.01,
        "upright: {x:?}"
    );
}

#[test]
fn nothing_has_no_size() {
    let arranged = arrange(&[], &[]);
    assert_eq!((arranged.width, arranged.height), (0.0, 0.0));
}
