//! Policy routing (`ip rule`): logs a warning if rules differ from a kernel's defaults, because workers always look up
//! the tables `local` and `main`, in this order.

use std::collections::HashSet;
use tracing::{info, warn};
use wire::netlink::{Rule, TABLE_LOCAL, TABLE_MAIN};

/// State of the kernel's routing rules.
#[derive(Default)]
pub(super) struct Rules {
    /// True if rules have changed and must be dumped.
    pub(super) stale: bool,
    /// Dump state: families with rules, rules besides the kernel's initial ones, and tables of the initial ones.
    families: HashSet<u8>,
    others: usize,
    initial: HashSet<(u8, u32)>,
    /// Number of differences in the last warning.
    warned: usize,
}

impl Rules {
    /// Begins a dump of rules.
    pub(super) fn begin_sync(&mut self) {
        self.others = 0;
        self.families.clear();
        self.initial.clear();
        self.stale = false;
    }

    /// Processes a rule of the dump.
    pub(super) fn process(&mut self, rule: &Rule) {
        self.families.insert(rule.family);
        if rule.is_initial() {
            self.initial.insert((rule.family, rule.table));
        } else {
            self.others += 1;
        }
    }

    /// Ends a dump of rules. Returns the number of rules that are not followed, or missing.
    pub(super) fn end_sync(&mut self) -> usize {
        let missing = |family: &u8| {
            let tables = [TABLE_LOCAL, TABLE_MAIN].into_iter();
            let missing = tables.filter(|table| !self.initial.contains(&(*family, *table)));
            missing.count()
        };
        let differ = self.others + self.families.iter().map(missing).sum::<usize>();
        if differ > self.warned {
            warn!(
                rules = differ,
                "`ip rule` differs from a kernel's initial rules: packets are forwarded by the tables local and main \
                 all the same; move those routes to main, or leave the interfaces to the kernel"
            );
        } else if differ == 0 && self.warned > 0 {
            info!("`ip rule` has a kernel's initial rules only");
        }
        self.warned = differ;
        differ
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::netlink::{AF_INET, AF_INET6};

    fn rule(family: u8, priority: u32, table: u32) -> Rule {
        Rule {
            family,
            priority,
            table,
            matches_all: true,
        }
    }

    #[test]
    fn rules_that_are_added_moved_or_missing_are_counted() {
        let mut rules = Rules::default();
        let initial = [
            rule(AF_INET, 0, 255),
            rule(AF_INET, 32766, 254),
            rule(AF_INET, 32767, 253),
        ];
        let six = [rule(AF_INET6, 0, 255), rule(AF_INET6, 32766, 254)];
        let mut differ = |told: &[Rule]| {
            rules.begin_sync();
            told.iter().for_each(|rule| rules.process(rule));
            rules.end_sync()
        };
        let all = [&initial[..], &six[..]].concat();
        assert_eq!(differ(&all), 0);
        let more = [&all[..], &[rule(AF_INET, 100, 1000)]].concat();
        assert_eq!(differ(&more), 1);
        let moved = [&initial[1..], &[rule(AF_INET, 5, 255)]].concat();
        assert_eq!(differ(&moved), 2, "not where it was");
        assert_eq!(differ(&initial), 0, "of IPv6 there are none");
    }
}
