use super::{FIELDS, Rule, Test, Tree};
use crate::classbench::{grow, hit, key, naive, parse_rules, parse_trace};
use crate::sample::Random;

fn shared(name: &str) -> String {
    let root = match std::env::var_os("ASHLAR_SHARED") {
        Some(root) => std::path::PathBuf::from(root),
        None => std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = root.join("data/rules").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; leave out what needs it: cargo test -- --skip shared_data",
            path.display()
        )
    })
}

#[test]
fn rule_sets_of_shared_data_are_decided_as_expected() {
    for name in ["acl1_1k", "fw1_1k"] {
        let [rules, trace, expected] =
            ["rules", "trace", "expected"].map(|kind| shared(&format!("{name}.{kind}")));
        let rules: Vec<Rule> = parse_rules(&rules)
            .unwrap()
            .iter()
            .map(|r| r.rule())
            .collect();
        let tree = Tree::new(&rules);
        let expected = expected.lines().map(|n| n.parse().ok());
        for (key, expected) in parse_trace(&trace).unwrap().iter().zip(expected) {
            assert_eq!(tree.first(key), expected, "{name} {key:?}");
        }
    }
}

fn random_test(random: &mut Random) -> Test {
    let mut below = |n: u64| random.below(n) as u32;
    let field = [0, 1, 2, 2, 5][below(5) as usize];
    let mask = match below(5) {
        0 => u32::MAX << below(32),
        1 => 0xffff << (16 * below(2)),
        2 => 0xff00_ff00,
        3 => 1 << below(32),
        _ => u32::MAX,
    };
    // Few distinct values, so that rules overlap.
    let mut value = || (below(4) << 30 | below(3) << 15 | below(4)) & mask;
    let (a, b) = (value(), value());
    let lo = a.min(b);
    Test {
        field,
        mask,
        lo,
        hi: if below(2) == 0 { lo } else { a.max(b) },
    }
}

#[test]
fn a_tree_finds_the_first_rule_that_matches_whatever_the_tests() {
    let mut random = Random::new(11);
    for _ in 0..150 {
        let count = 1 + random.below(60);
        let rules: Vec<Rule> = (0..count)
            .map(|_| {
                (0..random.below(5))
                    .map(|_| random_test(&mut random))
                    .collect()
            })
            .collect();
        let tree = Tree::new(&rules);
        let known = Test {
            field: 2,
            mask: 0x0001_8000,
            lo: 0x8000,
            hi: 0x8000,
        };
        let knowing = Tree::assuming(&rules, &[known]);
        for _ in 0..300 {
            let mut key = [0; FIELDS];
            for field in [0, 1, 2, 5] {
                let [a, b, c] = [4, 3, 4].map(|n| random.below(n) as u32);
                key[field] = a << 30 | b << 15 | c;
            }
            assert_eq!(tree.first(&key), naive(&rules, &key), "{rules:?} {key:?}");
            if known.matches(&key) {
                assert_eq!(
                    knowing.first(&key),
                    naive(&rules, &key),
                    "{rules:?} {key:?}"
                );
            }
        }
    }
}

#[test]
fn no_rules_match_nothing_and_rules_without_tests_everything() {
    let key = [7; FIELDS];
    assert_eq!(Tree::new(&[]).first(&key), None);
    assert_eq!(Tree::new(&[vec![], vec![]]).first(&key), Some(0));
}

/// Generated five-tuple rules: networks and hosts, services, some wildcards.
fn plain_rules(random: &mut Random, n: usize) -> Vec<crate::classbench::FiveTuple> {
    let mut rule = || {
        let mut prefix = || match random.below(4) {
            0 => (0, 0),
            1 => ((10 << 24) + ((random.below(40) as u32) << 16), 16),
            _ => ((10 << 24) + (random.below(4000) as u32), 32),
        };
        let (src, dst) = (prefix(), prefix());
        let port = random.below(1024) as u16;
        crate::classbench::FiveTuple {
            src,
            dst,
            src_port: if random.below(3) == 0 {
                (1024, 65_535)
            } else {
                (0, 65_535)
            },
            dst_port: [(0, 65_535), (port, port), (port, port + 99)][random.below(3) as usize],
            protocol: [(6, 255), (17, 255), (0, 0)][random.below(3) as usize],
        }
    };
    (0..n).map(|_| rule()).collect()
}

#[test]
fn grown_rule_sets_are_decided_as_one_by_one() {
    let mut random = Random::new(5);
    let seed = plain_rules(&mut random, 150);
    let grown = grow(&seed, 800, &mut random);
    assert!(grown.len() > 700, "{}", grown.len());
    let rules: Vec<Rule> = grown.iter().map(|r| r.rule()).collect();
    let tree = Tree::new(&rules);
    for rule in &grown {
        let key = hit(rule, &mut random);
        let found = tree.first(&key);
        assert!(found.is_some());
        assert_eq!(found, naive(&rules, &key));
    }
    for _ in 0..500 {
        let [a, b, c, d] = [0; 4].map(|_| random.below(1 << 32) as u32);
        let key = key(
            10 << 24 | a >> 16,
            10 << 24 | b >> 16,
            c as u16,
            (c >> 16) as u16,
            d as u8,
        );
        assert_eq!(tree.first(&key), naive(&rules, &key));
    }
}
