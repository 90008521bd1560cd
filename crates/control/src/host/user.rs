//! Users of this machine.

use std::fs::read_to_string;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Number of the user.
    pub id: u32,
    /// The number of its group.
    pub group: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl User {
    /// A user by its name in /etc/passwd. The error is a sentence.
    pub fn named(name: &str) -> Result<User, String> {
        let read = |path| read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"));
        User::of(name, &read("/etc/passwd")?, &read("/etc/group")?).ok_or_else(|| {
            format!(
                "there is no user {name} in /etc/passwd: make one with `useradd --system {name}`"
            )
        })
    }

    /// Looks up a user in the texts of passwd(5) and group(5).
    fn of(name: &str, users: &str, groups: &str) -> Option<User> {
        let mut lines = users.lines().map(|line| line.split(':'));
        let mut fields = lines.find_map(|mut f| (f.next() == Some(name)).then_some(f))?;
        let mut number = |skip: usize| fields.nth(skip)?.parse().ok();
        let (id, group) = (number(1)?, number(0)?);
        let member = |line: &str| {
            let mut fields = line.split(':').skip(2);
            let (id, members) = (fields.next()?, fields.next()?);
            members
                .split(',')
                .any(|m| m == name)
                .then(|| id.parse().ok())?
        };
        let groups = groups.lines().filter_map(member).collect();
        Some(User { id, group, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nrouter:x:990:980::/:/usr/sbin/nologin\n";
    const GROUPS: &str = "root:x:0:\nrouter:x:980:\nvfio:x:970:other,router\nkvm:x:960:routers\n";

    #[test]
    fn a_user_has_the_groups_that_name_it() {
        let (id, group, groups) = (990, 980, vec![970]);
        assert_eq!(
            User::of("router", USERS, GROUPS),
            Some(User { id, group, groups })
        );
        assert_eq!(User::of("route", USERS, GROUPS), None);
        assert_eq!(User::of("", USERS, GROUPS), None);
        assert_eq!(User::of("broken", "broken:x:1\n", GROUPS), None);
    }
}
