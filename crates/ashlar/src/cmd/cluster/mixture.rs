//! Programs and descriptions that differ between the servers of a cluster.

use agree::View;
use control::view::Member;
use std::collections::BTreeMap;

/// Versions that a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) server: String,
    /// Version of the program.
    pub(super) program: String,
    /// Version of the description, 0 for the file with which the server joined.
    pub(super) description: u64,
}

impl Versions {
    /// Versions of a server's own account.
    pub(super) fn of_member(member: &Member) -> Versions {
        Versions {
            server: member.server.clone(),
            program: member.program.clone(),
            description: member.version,
        }
    }
}

/// Versions that members have reported to the store.
pub(super) fn of_view(view: &View) -> Vec<Versions> {
    let told = view.present().filter_map(|name| {
        let state = view.state(name)?;
        Some(Versions {
            server: name.to_owned(),
            program: state.program.clone(),
            description: state.version,
        })
    });
    told.collect()
}

/// A mixture, in words: which servers have which version.
pub(super) struct Mixture {
    pub(super) programs: Option<String>,
    pub(super) descriptions: Option<String>,
}

/// Mixtures of these versions.
pub(super) fn mixture(all: &[Versions]) -> Mixture {
    Mixture {
        programs: differing(all, |versions| versions.program.clone()),
        descriptions: differing(all, |versions| description_text(versions.description)),
    }
}

/// A version of the description that a server runs, in words.
pub(super) fn description_text(version: u64) -> String {
    match version {
        0 => "the file it joined with".to_owned(),
        version => format!("version {version}"),
    }
}

/// List of what differs, each with its servers; `None` if all are equal.
fn differing(all: &[Versions], of: impl Fn(&Versions) -> String) -> Option<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for versions in all {
        groups
            .entry(of(versions))
            .or_default()
            .push(&versions.server);
    }
    let each = groups
        .iter()
        .map(|(what, servers)| format!("{what} on {}", servers.join(", ")));
    (groups.len() > 1).then(|| each.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_where_their_versions_differ() {
        let of = |server: &str, program: &str, description| Versions {
            server: server.to_owned(),
            program: program.to_owned(),
            description,
        };
        let equal = mixture(&[of("a", "1", 3), of("b", "1", 3)]);
        assert_eq!((equal.programs, equal.descriptions), (None, None));
        let mixed = mixture(&[of("a", "1", 3), of("b", "2", 0), of("c", "1", 3)]);
        assert_eq!(mixed.programs.as_deref(), Some("1 on a, c; 2 on b"));
        assert_eq!(
            mixed.descriptions.as_deref(),
            Some("the file it joined with on b; version 3 on a, c")
        );
    }
}
