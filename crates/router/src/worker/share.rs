//! Shares of a worker: the choice of the router that runs next, by strict priority, then by stride scheduling on the
//! used time. Members of a group divide the group's share: each is charged in proportion to the tickets of all members
//! that have work.

use std::collections::HashMap;

/// Number of priorities: 0 to 7, as in IEEE 802.1Q.
pub const PRIORITIES: u8 = 8;

/// Priority of a shared port's router with `scheme = "inline"`: it runs only when no other router has work, so that
/// packets are processed in order of arrival.
pub const IN_LINE: u8 = u8::MAX - 1;
/// Priority of a shared port's router with `scheme = "queues"`: it gets a turn before each turn of another router.
pub const AHEAD: u8 = u8::MAX;
const LEVELS: usize = PRIORITIES as usize + 2;

/// A router's share of every worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Tickets, at least 1: routers of the same priority that always have work get time in this proportion.
    pub tickets: u32,
    /// A router runs only while no router of a greater priority has work. 0 to 7, [`IN_LINE`] or [`AHEAD`].
    pub priority: u8,
    /// Group of the router; its members divide the group's share by their tickets.
    pub group: Option<Group>,
    /// Maximum number of packets that the router may hold; its sources pause at this number. `None` = no bound.
    pub buffers: Option<u32>,
}

/// Group of routers with a common share; only members of the same priority divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of the group.
    pub number: u32,
    /// Tickets of the group, at least 1, relative to other groups and to routers without one.
    pub tickets: u32,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            tickets: 1,
            priority: 0,
            group: None,
            buffers: None,
        }
    }
}

impl Share {
    fn level(self) -> usize {
        match self.priority {
            IN_LINE => 0,
            AHEAD => LEVELS - 1,
            priority => 1 + usize::from(priority.min(PRIORITIES - 1)),
        }
    }

    pub(super) fn buffers(self) -> Option<usize> {
        self.buffers.map(|most| most as usize)
    }

    /// True if the router polls a shared port.
    pub(super) fn polls_shared_port(self) -> bool {
        self.priority >= IN_LINE
    }

    /// True if others get a turn even while the router has work.
    #[inline]
    pub(super) fn is_ahead(self) -> bool {
        self.priority == AHEAD
    }
}

/// Time account of a router on a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) share: Share,
    /// Used time divided by tickets (stride scheduling): the router with the lowest pass runs first.
    pass: u128,
    /// Sequence number of the last run: of two routers with the same pass, the one that ran earlier goes first.
    run_number: u64,
    /// True if the router counts as active in its group: it had work in its last turn.
    counted: bool,
}

/// Sort key of a router: the lowest runs first.
pub(super) type Key = (std::cmp::Reverse<usize>, u128, u64);

/// Fractional bits of a pass: even a turn of one nanosecond divided by the maximum number of tickets is not rounded to
/// zero.
const PASS_FRACTION_BITS: u32 = 32;

/// The order in which a worker's routers run.
#[derive(Debug, Default)]
pub(super) struct ShareScheduler {
    /// For each priority, the pass of the router that last had work. A router that becomes active again starts with
    /// this pass, so idle time gives no credit.
    passes: [u128; LEVELS],
    runs: u64,
    /// Tickets of routers that had work in their last turn, by group and level.
    groups: HashMap<(u32, usize), u64>,
}

impl ShareScheduler {
    /// Opens the account of a router that is new on this worker.
    pub(super) fn open(&self, share: Share) -> Account {
        Account {
            share,
            pass: self.passes[share.level()],
            run_number: self.runs,
            counted: false,
        }
    }

    /// Changes a router's share from now on.
    pub(super) fn change(&mut self, account: &mut Account, share: Share) {
        self.count(account, false);
        if share.level() != account.share.level() {
            account.pass = self.passes[share.level()];
        }
        account.share = share;
    }

    /// Removes a router from this worker.
    pub(super) fn close(&mut self, account: &mut Account) {
        self.count(account, false);
    }

    /// Counts a router as active in its group if `works` is true, else as idle. Returns the tickets of all active
    /// members.
    fn count(&mut self, account: &mut Account, works: bool) -> u64 {
        let Some(group) = account.share.group else {
            return 0;
        };
        let (key, tickets) = (
            (group.number, account.share.level()),
            u64::from(account.share.tickets),
        );
        let all = self.groups.entry(key).or_default();
        match (account.counted, works) {
            (false, true) => *all += tickets,
            (true, false) => *all -= tickets,
            _ => {}
        }
        account.counted = works;
        let all = *all;
        if all == 0 {
            self.groups.remove(&key);
        }
        all
    }

    /// Sort key of a router.
    pub(super) fn key(account: &Account) -> Key {
        let level = std::cmp::Reverse(account.share.level());
        (level, account.pass, account.run_number)
    }

    /// Charges a router for `time` nanoseconds.
    pub(super) fn charge(&mut self, account: &mut Account, time: u64, worked: bool) {
        let working = match (worked, account.counted) {
            (false, false) => 0,
            _ => self.count(account, worked),
        };
        let at = &mut self.passes[account.share.level()];
        self.runs += 1;
        account.run_number = self.runs;
        if worked {
            // Turns too short for the clock's resolution count as one nanosecond.
            let time = u128::from(time.max(1)) << PASS_FRACTION_BITS;
            *at = account.pass.max(*at);
            let tickets = u128::from(account.share.tickets.max(1));
            account.pass += match account.share.group {
                None => time / tickets,
                Some(group) => {
                    time * u128::from(working) / (tickets * u128::from(group.tickets.max(1)))
                }
            };
        } else {
            account.pass = account.pass.max(*at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time used by each router after `turns` turns of the worker. A router is given by tickets, priority and
    /// nanoseconds per turn (0: no work). Each turn of the worker runs the first router in order that has work.
    fn after(turns: usize, routers: &[(u32, u8, u64)]) -> Vec<u64> {
        let mut order = ShareScheduler::default();
        let share = |&(tickets, priority, _): &(u32, u8, u64)| Share {
            tickets,
            priority,
            ..Share::default()
        };
        let mut accounts: Vec<_> = routers.iter().map(|r| order.open(share(r))).collect();
        let mut used_ns = vec![0; routers.len()];
        for _ in 0..turns {
            turn(&mut order, &mut accounts, &mut used_ns, |n| routers[n].2);
        }
        used_ns
    }

    fn turn(
        order: &mut ShareScheduler,
        accounts: &mut [Account],
        had: &mut [u64],
        time: impl Fn(usize) -> u64,
    ) {
        let mut all: Vec<usize> = (0..accounts.len()).collect();
        all.sort_by_key(|&n| ShareScheduler::key(&accounts[n]));
        for n in all {
            order.charge(&mut accounts[n], time(n), time(n) > 0);
            had[n] += time(n);
            if time(n) > 0 {
                return;
            }
        }
    }

    #[test]
    fn busy_routers_get_time_by_their_tickets() {
        assert_eq!(after(4000, &[(1, 0, 100), (3, 0, 100)]), [100_000, 300_000]);
        assert_eq!(
            after(6000, &[(1, 0, 9), (2, 0, 9), (3, 0, 9)]),
            [9_000, 18_000, 27_000]
        );
    }

    #[test]
    fn routers_share_time_and_not_turns() {
        let used_ns = after(10_000, &[(1, 0, 8_000), (1, 0, 500)]);
        assert!(used_ns[0].abs_diff(used_ns[1]) <= 8_000, "{used_ns:?}");
        let used_ns = after(10_000, &[(1, 0, 8_000), (3, 0, 500)]);
        assert!(
            (3 * used_ns[0]).abs_diff(used_ns[1]) <= 3 * 8_000,
            "{used_ns:?}"
        );
    }

    #[test]
    fn tickets_beyond_the_nanoseconds_of_a_turn_count() {
        let used_ns = after(40_000, &[(1_000_000, 0, 7), (3_000_000, 0, 7)]);
        assert_eq!(used_ns, [70_000, 210_000]);
    }

    #[test]
    fn greater_priority_runs_first_and_unused_time_is_shared() {
        assert_eq!(after(100, &[(9, 0, 5), (1, 1, 5)]), [0, 500]);
        assert_eq!(
            after(100, &[(1, 0, 5), (3, 0, 5), (1, 7, 0)]),
            [125, 375, 0]
        );
    }

    #[test]
    fn idle_router_gets_no_time_for_the_past() {
        let mut order = ShareScheduler::default();
        let mut accounts = [(); 2].map(|()| order.open(Share::default()));
        let mut used_ns = [0; 2];
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut used_ns, |n| [10, 0][n]);
        }
        assert_eq!(used_ns, [10_000, 0]);
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut used_ns, |_| 10);
        }
        assert!(
            used_ns[0].abs_diff(10_000 + used_ns[1]) <= 20,
            "{used_ns:?}"
        );
    }

    #[test]
    fn new_or_changed_router_starts_at_the_pass_of_the_others() {
        let mut order = ShareScheduler::default();
        let mut accounts = vec![order.open(Share::default())];
        let mut used_ns = [0; 2];
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut used_ns, |_| 10);
        }
        accounts.push(order.open(Share::default()));
        let share = Share {
            tickets: 3,
            ..Share::default()
        };
        order.change(&mut accounts[1], share);
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut used_ns, |_| 10);
        }
        assert!(used_ns[1].abs_diff(7_500) <= 30, "{used_ns:?}");
    }

    /// Time used by each router after several turns of 10 ns. Routers are given by their tickets and groups; `works`
    /// tells whether a router, the first argument, has work in a turn, the second one.
    fn in_groups<const N: usize>(
        routers: [(u32, Option<(u32, u32)>); N],
        works: impl Fn(usize, usize) -> bool,
    ) -> [u64; N] {
        let mut order = ShareScheduler::default();
        let mut accounts = routers.map(|(tickets, group)| {
            let group = group.map(|(number, tickets)| Group { number, tickets });
            order.open(Share {
                tickets,
                group,
                ..Share::default()
            })
        });
        let mut used_ns = [0; N];
        for now in 0..12_000 {
            turn(&mut order, &mut accounts, &mut used_ns, |n| {
                10 * u64::from(works(n, now))
            });
        }
        accounts.iter_mut().for_each(|account| order.close(account));
        assert!(order.groups.is_empty(), "nothing stays of groups");
        used_ns
    }

    fn is_near<const N: usize>(had: [u64; N], ought: [u64; N]) {
        let near = |(had, ought): (u64, u64)| had.abs_diff(ought) <= 100;
        assert!(
            had.into_iter().zip(ought).all(near),
            "{had:?}, not {ought:?}"
        );
    }

    #[test]
    fn group_share_does_not_depend_on_the_number_of_busy_members() {
        let (gold, iron) = (Some((0, 2)), Some((1, 1)));
        // Gold gets two thirds, which its two members divide 1:3; iron's three members get one third.
        let all = [(1, gold), (3, gold), (1, iron), (1, iron), (1, iron)];
        let used_ns = in_groups(all, |_, _| true);
        is_near(used_ns, [20_000, 60_000, 13_333, 13_333, 13_333]);
        // Unused parts of a share go to other members of the group.
        let used_ns = in_groups(all, |n, _| n != 1 && n != 4);
        is_near(used_ns, [80_000, 0, 20_000, 20_000, 0]);
        // If all members of gold are idle, iron gets everything. A router without a group competes with the groups.
        is_near(
            in_groups([(1, gold), (1, iron), (1, iron)], |n, _| n > 0),
            [0, 60_000, 60_000],
        );
        is_near(
            in_groups([(1, gold), (1, gold), (1, None)], |_, _| true),
            [40_000, 40_000, 40_000],
        );
        // A member that is sometimes idle gets no more than its part while it is active.
        let used_ns = in_groups([(1, gold), (1, gold), (2, None)], |n, now| {
            n != 1 || now >= 6_000
        });
        is_near(used_ns, [45_000, 15_000, 60_000]);
    }
}
