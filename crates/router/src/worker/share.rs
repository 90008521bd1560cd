//! Shares of a worker: which of its routers runs next. Strict priority first, then stride scheduling by the time
//! that each has had.

/// How many priorities there are: 0 to 7, as in IEEE 802.1Q.
pub const PRIORITIES: u8 = 8;

/// What polls a shared port in line: only when no router has anything to do, so that packets are worked on in the
/// order in which they came.
pub const IN_LINE: u8 = u8::MAX - 1;
/// What polls a shared port before others: a turn before each turn of another router.
pub const AHEAD: u8 = u8::MAX;
const LEVELS: usize = PRIORITIES as usize + 2;

/// A router's share of every worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Tickets, 1 at least: routers of the same priority that always have work get time in this proportion.
    pub tickets: u32,
    /// A router runs only while no router of a greater priority has work. 0 to 7, [`IN_LINE`] or [`AHEAD`].
    pub priority: u8,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            tickets: 1,
            priority: 0,
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

    /// Whether it polls a shared port.
    pub(super) fn is_of_port(self) -> bool {
        self.priority >= IN_LINE
    }

    /// Whether others get a turn though it has work.
    #[inline]
    pub(super) fn is_ahead(self) -> bool {
        self.priority == AHEAD
    }
}

/// What a router has had of a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) share: Share,
    /// Time over tickets: who has the least runs first.
    pass: u128,
    /// When it last ran, counted in runs: of two with the same pass the other one runs first.
    ran: u64,
}

/// The place of a router in the order.
pub(super) type Key = (std::cmp::Reverse<usize>, u128, u64);

/// Fractions of a nanosecond in a pass, so that a turn counts whatever the tickets are.
const FRACTION: u32 = 32;

/// The order in which a worker's routers run.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By priority: the pass of the router that last had work. A router that has had none for a while begins here:
    /// it gets no time for the past.
    passes: [u128; LEVELS],
    runs: u64,
}

impl Order {
    /// An account of a router that is new on this worker.
    pub(super) fn open(&self, share: Share) -> Account {
        Account {
            share,
            pass: self.passes[share.level()],
            ran: self.runs,
        }
    }

    /// Changes a router's share from now on.
    pub(super) fn change(&self, account: &mut Account, share: Share) {
        if share.level() != account.share.level() {
            account.pass = self.passes[share.level()];
        }
        account.share = share;
    }

    /// What routers are sorted by: the first one runs first.
    pub(super) fn key(account: &Account) -> Key {
        let level = std::cmp::Reverse(account.share.level());
        (level, account.pass, account.ran)
    }

    /// A router has run for so many nanoseconds.
    pub(super) fn charge(&mut self, account: &mut Account, time: u64, worked: bool) {
        let at = &mut self.passes[account.share.level()];
        self.runs += 1;
        account.ran = self.runs;
        if worked {
            // Turns that the clock is too coarse for count, too.
            let time = u128::from(time.max(1)) << FRACTION;
            *at = account.pass.max(*at);
            account.pass += time / u128::from(account.share.tickets.max(1));
        } else {
            account.pass = account.pass.max(*at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Routers of these tickets, priorities, and nanoseconds of a turn (0: it has no work). Gives the time that each
    /// has had after so many turns of the worker, in which routers are asked in order until one has work.
    fn after(turns: usize, routers: &[(u32, u8, u64)]) -> Vec<u64> {
        let mut order = Order::default();
        let share = |&(tickets, priority, _): &(u32, u8, u64)| Share { tickets, priority };
        let mut accounts: Vec<_> = routers.iter().map(|r| order.open(share(r))).collect();
        let mut had = vec![0; routers.len()];
        for _ in 0..turns {
            turn(&mut order, &mut accounts, &mut had, |n| routers[n].2);
        }
        had
    }

    fn turn(
        order: &mut Order,
        accounts: &mut [Account],
        had: &mut [u64],
        time: impl Fn(usize) -> u64,
    ) {
        let mut all: Vec<usize> = (0..accounts.len()).collect();
        all.sort_by_key(|&n| Order::key(&accounts[n]));
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
    fn it_is_time_that_is_shared_and_not_turns() {
        let had = after(10_000, &[(1, 0, 8_000), (1, 0, 500)]);
        assert!(had[0].abs_diff(had[1]) <= 8_000, "{had:?}");
        let had = after(10_000, &[(1, 0, 8_000), (3, 0, 500)]);
        assert!((3 * had[0]).abs_diff(had[1]) <= 3 * 8_000, "{had:?}");
    }

    #[test]
    fn tickets_beyond_the_nanoseconds_of_a_turn_count() {
        let had = after(40_000, &[(1_000_000, 0, 7), (3_000_000, 0, 7)]);
        assert_eq!(had, [70_000, 210_000]);
    }

    #[test]
    fn a_greater_priority_goes_first_and_what_it_leaves_is_shared() {
        assert_eq!(after(100, &[(9, 0, 5), (1, 1, 5)]), [0, 500]);
        assert_eq!(
            after(100, &[(1, 0, 5), (3, 0, 5), (1, 7, 0)]),
            [125, 375, 0]
        );
    }

    #[test]
    fn who_had_no_work_gets_no_time_for_the_past() {
        let mut order = Order::default();
        let mut accounts = [(); 2].map(|()| order.open(Share::default()));
        let mut had = [0; 2];
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut had, |n| [10, 0][n]);
        }
        assert_eq!(had, [10_000, 0]);
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut had, |_| 10);
        }
        assert!(had[0].abs_diff(10_000 + had[1]) <= 20, "{had:?}");
    }

    #[test]
    fn who_joins_later_or_changes_its_share_begins_with_the_others() {
        let mut order = Order::default();
        let mut accounts = vec![order.open(Share::default())];
        let mut had = [0; 2];
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut had, |_| 10);
        }
        accounts.push(order.open(Share::default()));
        let share = Share {
            tickets: 3,
            ..Share::default()
        };
        order.change(&mut accounts[1], share);
        for _ in 0..1000 {
            turn(&mut order, &mut accounts, &mut had, |_| 10);
        }
        assert!(had[1].abs_diff(7_500) <= 30, "{had:?}");
    }

    /// Nanoseconds of a look at a header, and of a router's work on a packet.
    const LOOK: u64 = 4;
    const WORK: u64 = 96;
    /// What a port or a router takes at a time, and what waits before it at most.
    const BURST: usize = 64;
    const WAITING: usize = 512;
    const SECONDS: u64 = 50_000_000;

    /// How packets come to two routers on one worker.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Scheme {
        /// From one queue, told apart by a port's router of this priority.
        Software(u8),
        /// Each from a queue of its own.
        Queues,
    }

    /// Packets that each of two routers has forwarded in simulated time, as parts of what the worker could do without a
    /// look at headers: the first of two tickets and the second of one, with 40 and 60 % of `offered` such parts.
    fn forwarded(scheme: Scheme, offered: f64) -> [f64; 2] {
        let mut order = Order::default();
        let share = |tickets, priority| Share { tickets, priority };
        let shares = [share(2, 0), share(1, 0)];
        let mut accounts: Vec<_> = shares.iter().map(|&share| order.open(share)).collect();
        if let Scheme::Software(priority) = scheme {
            accounts.push(order.open(share(1, priority)));
        }
        let (mut port, mut queues) = (Vec::<usize>::new(), [0usize; 2]);
        let (mut now, mut came, mut done) = (0u64, 0u64, [0u64; 2]);
        let mut arrive = |now: u64, port: &mut Vec<usize>, queues: &mut [usize; 2]| {
            while (came as f64) < now as f64 * offered / WORK as f64 {
                let to = [1, 0, 1, 0, 1][came as usize % 5];
                came += 1;
                if scheme != Scheme::Queues {
                    if port.len() < 2 * WAITING {
                        port.push(to);
                    }
                } else if queues[to] < WAITING {
                    queues[to] += 1;
                }
            }
        };
        while now < SECONDS {
            let mut all: Vec<usize> = (0..accounts.len()).collect();
            all.sort_by_key(|&n| Order::key(&accounts[n]));
            let mut worked = false;
            for n in all {
                let ahead = accounts[n].share.is_ahead();
                let begin = now;
                loop {
                    arrive(now, &mut port, &mut queues);
                    let (taken, each) = match n {
                        2 => {
                            let taken = port.len().min(BURST);
                            for to in port.drain(..taken) {
                                queues[to] = (queues[to] + 1).min(WAITING);
                            }
                            (taken, LOOK)
                        }
                        n => {
                            let taken = queues[n].min(BURST);
                            queues[n] -= taken;
                            done[n] += taken as u64;
                            (taken, WORK)
                        }
                    };
                    let time = taken as u64 * each;
                    now += time;
                    order.charge(&mut accounts[n], time, taken > 0);
                    worked |= taken > 0;
                    if taken == 0 || !ahead || now - begin >= super::super::TURN {
                        break;
                    }
                }
                if worked && !ahead {
                    break;
                }
            }
            now += if worked { 0 } else { WORK };
        }
        done.map(|n| (n * WORK) as f64 / now as f64)
    }

    /// What each should have, where the worker can do so much.
    fn ideal(capacity: f64, offered: f64) -> [f64; 2] {
        let (high, low) = (0.4 * offered, 0.6 * offered);
        let its = high.min((capacity * 2.0 / 3.0).max(capacity - low));
        [its, low.min(capacity - its)]
    }

    /// How far the two are from that, at most, over loads from half to three times of what the worker can do.
    fn error(scheme: Scheme) -> f64 {
        let each = (5..=30).map(|tenths| {
            let offered = f64::from(tenths) / 10.0;
            let looks = match scheme {
                Scheme::Software(_) => offered * LOOK as f64 / WORK as f64,
                Scheme::Queues => 0.0,
            };
            let (is, ought) = (forwarded(scheme, offered), ideal(1.0 - looks, offered));
            is.iter()
                .zip(ought)
                .map(|(is, ought)| (is - ought).abs())
                .fold(0.0, f64::max)
        });
        each.fold(0.0, f64::max)
    }

    #[test]
    fn queues_hold_two_to_one_whatever_is_offered_and_a_port_in_line_does_not() {
        let [queues, hardware] = [Scheme::Software(AHEAD), Scheme::Queues].map(error);
        assert!(queues <= 0.02, "{queues}");
        assert!(hardware <= 0.02, "{hardware}");
        let inline = error(Scheme::Software(IN_LINE));
        assert!(inline > 0.2, "{inline}");
        // As in the paper, what is forwarded follows what comes.
        let [high, low] = forwarded(Scheme::Software(IN_LINE), 3.0);
        assert!((high / low - 2.0 / 3.0).abs() < 0.02, "{high} {low}");
    }

    #[test]
    fn ten_times_its_share_for_one_costs_the_other_nothing() {
        // The second one is offered ten times what it may have, the first one what is within its share.
        let offered = 0.33 / 0.4;
        let alone = forwarded(Scheme::Software(AHEAD), offered)[0];
        assert!((alone - 0.33).abs() < 0.01, "{alone}");
        let [high, _] = forwarded(Scheme::Software(AHEAD), 1.5);
        assert!((high - 0.6).abs() < 0.01, "all that comes: {high}");
    }
}
