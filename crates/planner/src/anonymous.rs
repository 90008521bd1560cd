//! Names of anonymous elements across a reload. The language numbers anonymous elements (`Counter@7`). Without this
//! module, inserting one at the beginning of a file would shift the counts of all later ones.

use engine::plan::Plan;
use lang::Router;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::{HashMap, HashSet};

/// Key of an element for the comparison of two configurations: name without numbers, class, configuration string. Named
/// elements match by name, and anchor the anonymous elements between them.
type Key<'a> = (String, &'a str, &'a str);

/// Gives anonymous elements the names that they have in the running plan.
pub(super) fn keep_names(router: &mut Router, running: &Plan) {
    let old: Vec<Key> = running
        .elements
        .iter()
        .map(|e| (without_numbers(&e.name), e.class.name, &*e.text))
        .collect();
    let new: Vec<Key> = router
        .elements
        .iter()
        .map(|e| (without_numbers(&e.name), &*e.class, &*e.config.text))
        .collect();
    let mut pairs = Vec::new();
    for op in capture_diff_slices(Algorithm::Patience, &old, &new) {
        match op {
            DiffOp::Equal {
                old_index,
                new_index,
                len,
            } => {
                pairs.extend((0..len).map(|n| (old_index + n, new_index + n)));
            }
            // Between the same neighbours, the configurations of elements may have changed.
            DiffOp::Replace {
                old_index,
                old_len,
                new_index,
                new_len,
            } => {
                let both = (
                    &old[old_index..old_index + old_len],
                    &new[new_index..new_index + new_len],
                );
                if both.0.iter().map(|k| &k.0).eq(both.1.iter().map(|k| &k.0)) {
                    pairs.extend((0..new_len).map(|n| (old_index + n, new_index + n)));
                }
            }
            DiffOp::Delete { .. } | DiffOp::Insert { .. } => {}
        }
    }
    // Names of anonymous compound elements are prefixes of the names of elements inside.
    let mut names: HashMap<String, String> = HashMap::new();
    for (old, new) in pairs {
        let (old, new) = (&running.elements[old].name, &router.elements[new].name);
        for (old, new) in prefixes(old).zip(prefixes(new)) {
            if is_anonymous(new) {
                names
                    .entry(new.to_owned())
                    .or_insert_with(|| old.to_owned());
            }
        }
    }
    let mut taken: HashSet<String> = running
        .elements
        .iter()
        .flat_map(|e| prefixes(&e.name))
        .map(str::to_owned)
        .collect();
    taken.extend(
        router
            .elements
            .iter()
            .flat_map(|e| prefixes(&e.name))
            .filter(|name| !is_anonymous(name))
            .map(str::to_owned),
    );
    for element in &mut router.elements {
        let whole = element.name.clone();
        let mut now = String::new();
        for head in prefixes(&whole) {
            now = match names.get(head) {
                Some(name) => name.clone(),
                None if !is_anonymous(head) => join(&now, last_component(head)),
                None => {
                    let name = unused_name(&join(&now, last_component(head)), &taken);
                    taken.insert(name.clone());
                    names.insert(head.to_owned(), name.clone());
                    name
                }
            };
        }
        element.name = now;
    }
}

/// The prefixes of `a/b/c`: `a`, `a/b`, `a/b/c`.
fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.match_indices('/').map(|(at, _)| at);
    ends.chain([name.len()]).map(|end| &name[..end])
}

fn last_component(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn join(scope: &str, own: &str) -> String {
    match scope {
        "" => own.to_owned(),
        _ => format!("{scope}/{own}"),
    }
}

/// True if the last part of a name is a class and a number.
fn is_anonymous(name: &str) -> bool {
    let number = last_component(name)
        .rsplit_once('@')
        .map(|(_, number)| number);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A name without its numbers.
fn without_numbers(name: &str) -> String {
    let part = |part: &str| match is_anonymous(part) {
        true => part
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned(),
        false => part.to_owned(),
    };
    name.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// A free name: the name itself, or with the next free number. A new element must not continue the state of another.
fn unused_name(name: &str, taken: &HashSet<String>) -> String {
    let Some((class, number)) = name.rsplit_once('@') else {
        return name.to_owned();
    };
    let first: usize = number.parse().unwrap_or(0);
    let names = (first..).map(|n| format!("{class}@{n}"));
    let mut free = names.filter(|name| !taken.contains(name));
    free.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(
            prefixes("a/b@1/c").collect::<Vec<_>>(),
            ["a", "a/b@1", "a/b@1/c"]
        );
        assert_eq!(without_numbers("Port@3/q/Counter@12"), "Port@/q/Counter@");
        assert_eq!(without_numbers("x@y/z"), "x@y/z");
        let taken = HashSet::from(["a/Q@2".to_owned(), "a/Q@3".to_owned()]);
        assert_eq!(unused_name("a/Q@2", &taken), "a/Q@4");
        assert_eq!(unused_name("a/Q@1", &taken), "a/Q@1");
    }
}
