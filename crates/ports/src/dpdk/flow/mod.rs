//! Rules that a driver applies by itself (rte_flow): packets that match a rule go to its queue.
//!
//! Rules may change ten thousand times a second, and drivers take their time. So only the latest requested state of
//! each rule is stored, and a thread of the device passes it to the driver. At most as many changes are pending as
//! there are rules. A driver may refuse any rule, which is counted. After another rule's removal, some refused rules
//! are retried, since the driver may have room.

mod items;
mod sys;

use super::sys::Device;
use engine::port::{Directed, Match};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use sync::Lock;
use sys::Handle;

/// A driver that takes rules.
pub(super) trait Driver: Send + Sync + 'static {
    type Handle: Send + 'static;
    fn create(&self, rule: &Match, queue: u16) -> Result<Self::Handle, String>;
    /// Removes a rule. On failure the rule is returned with the driver's text.
    fn destroy(&self, rule: Self::Handle) -> Result<(), (Self::Handle, String)>;
}

impl Driver for Device {
    type Handle = Handle;

    fn create(&self, rule: &Match, queue: u16) -> Result<Handle, String> {
        let mut pattern = items::of(rule)?;
        sys::create(*self, &pattern, queue).or_else(|why| {
            let wanted = pattern.rank;
            let takes = |rank| {
                pattern.rank = rank;
                sys::takes(*self, &pattern, queue)
            };
            match nearest(wanted, takes) {
                Some(rank) if rank < wanted => {
                    pattern.rank = rank;
                    sys::create(*self, &pattern, queue)
                }
                // Rank 0 fails, too, so the rank is not the reason.
                _ => Err(why),
            }
        })
    }

    fn destroy(&self, rule: Handle) -> Result<(), (Handle, String)> {
        sys::destroy(*self, rule)
    }
}

/// The priority nearest to `wanted` that the driver accepts. Drivers accept priorities up to some limit; a driver
/// without priorities accepts only 0. If several priorities become one, the driver chooses which of two rules matches.
/// A rule never gets a higher priority than it should have.
fn nearest(wanted: u32, mut takes: impl FnMut(u32) -> bool) -> Option<u32> {
    if takes(wanted) {
        return Some(wanted);
    }
    let (mut taken, mut refused) = (takes(0).then_some(0)?, wanted);
    while refused - taken > 1 {
        let middle = taken + (refused - taken) / 2;
        match takes(middle) {
            true => taken = middle,
            false => refused = middle,
        }
    }
    Some(taken)
}

/// Refused rules that are tried in vain after one has gone: drivers keep rules of several kinds in tables of their own,
/// so the next one may not fit where there is room.
const RETRIES_MAX: usize = 4;

/// A rule that the driver has, and its queue.
type DriverRule<H> = (H, u16);

/// State of a rule at the driver.
enum DriverState<H> {
    /// The driver does not have the rule.
    Absent,
    /// The driver has the rule, with this queue.
    Present(H, u16),
    /// The driver refused the rule with this queue. The number is the rule's place among the refused ones.
    Refused(u16, u64),
    /// The driver has the rule with the first queue, and cannot remove it for the second.
    Stuck(H, u16, Option<u16>),
}

struct Rule<H> {
    /// Requested queue of the rule; `None` if the rule is to be removed.
    requested: Option<u16>,
    driver_state: DriverState<H>,
    /// True if the rule waits for its turn, or for the driver's answer.
    is_queued: bool,
}

impl<H> Rule<H> {
    fn is_done(&self) -> bool {
        match (&self.driver_state, self.requested) {
            (DriverState::Absent, wanted) => wanted.is_none(),
            (DriverState::Present(_, queue) | DriverState::Refused(queue, _), wanted) => {
                wanted == Some(*queue)
            }
            (DriverState::Stuck(_, _, refused), wanted) => wanted == *refused,
        }
    }

    /// True if the rule is not wanted, and the driver does not have it.
    fn is_gone(&self) -> bool {
        matches!(self.driver_state, DriverState::Absent) && self.requested.is_none()
    }
}

struct State<H> {
    rules: HashMap<Match, Rule<H>>,
    /// Rules that wait for their turn.
    changed: VecDeque<Match>,
    /// Number of calls of the driver that have not returned.
    calling: usize,
    held: usize,
    /// Number of rules that the driver cannot remove.
    stuck: usize,
    /// Rules that the driver refuses, in the order of their last attempts.
    refused: BTreeMap<u64, Match>,
    numbers: u64,
    /// `retries_allowed` is the number of removed rules in whose place refused rules may be tried again; `tries` is the
    /// number of such attempts that may still fail.
    retries_allowed: usize,
    tries: usize,
    last_reason: Option<String>,
    stops: bool,
}

impl<H> State<H> {
    fn new() -> State<H> {
        State {
            rules: HashMap::new(),
            changed: VecDeque::new(),
            calling: 0,
            held: 0,
            stuck: 0,
            refused: BTreeMap::new(),
            numbers: 0,
            retries_allowed: 0,
            tries: RETRIES_MAX,
            last_reason: None,
            stops: false,
        }
    }

    fn want(&mut self, rule: Match, queue: Option<u16>) {
        if queue.is_none() && !self.rules.contains_key(&rule) {
            return;
        }
        let new = Rule {
            requested: None,
            driver_state: DriverState::Absent,
            is_queued: false,
        };
        self.rules.entry(rule).or_insert(new).requested = queue;
        self.queue_rule(rule);
    }

    /// Queues a rule if the driver must get it.
    fn queue_rule(&mut self, rule: Match) {
        if let Some(entry) = self.rules.get_mut(&rule)
            && !entry.is_queued
            && !entry.is_done()
        {
            entry.is_queued = true;
            self.changed.push_back(rule);
        }
    }

    /// Replaces all rules by these; refused ones are tried again.
    fn replace(&mut self, rules: &[(Match, Option<u16>)]) {
        for rule in self.rules.values_mut() {
            rule.requested = None;
            rule.driver_state = match std::mem::replace(&mut rule.driver_state, DriverState::Absent)
            {
                DriverState::Refused(..) => DriverState::Absent,
                DriverState::Stuck(handle, queue, _) => {
                    self.held += 1;
                    DriverState::Present(handle, queue)
                }
                other => other,
            };
        }
        (self.stuck, self.last_reason) = (0, None);
        (self.retries_allowed, self.tries) = (0, RETRIES_MAX);
        self.refused.clear();
        for (rule, queue) in rules {
            self.want(*rule, *queue);
        }
        let all: Vec<Match> = self.rules.keys().copied().collect();
        all.into_iter().for_each(|rule| self.queue_rule(rule));
        self.rules
            .retain(|_, rule| rule.is_queued || !rule.is_gone());
    }

    /// The next rule to give to the driver: its match, the driver's present rule for it, and the queue that it should
    /// name. If rules were removed, the refused rule that has waited longest comes first.
    fn next(&mut self) -> Option<(Match, Option<DriverRule<H>>, Option<u16>)> {
        if let Some(waiting) = self.take_retry() {
            return Some(waiting);
        }
        loop {
            let of = self.changed.pop_front()?;
            let Some(rule) = self.rules.get_mut(&of) else {
                continue;
            };
            if !rule.is_done() {
                let old = match std::mem::replace(&mut rule.driver_state, DriverState::Absent) {
                    DriverState::Present(handle, queue) => {
                        self.held -= 1;
                        Some((handle, queue))
                    }
                    DriverState::Stuck(handle, queue, _) => {
                        self.stuck -= 1;
                        Some((handle, queue))
                    }
                    DriverState::Refused(_, number) => {
                        self.refused.remove(&number);
                        None
                    }
                    DriverState::Absent => None,
                };
                self.calling += 1;
                return Some((of, old, rule.requested));
            }
            rule.is_queued = false;
            if rule.is_gone() {
                self.rules.remove(&of);
            }
        }
    }

    /// Takes the refused rule with the oldest attempt, for a retry. `None` if no attempt is left, or if no rule was
    /// removed that could have made room.
    fn take_retry(&mut self) -> Option<(Match, Option<DriverRule<H>>, Option<u16>)> {
        let waiting = self.refused.first_entry();
        let Some(first) = waiting.filter(|_| self.retries_allowed > 0 && self.tries > 0) else {
            (self.retries_allowed, self.tries) = (0, RETRIES_MAX);
            return None;
        };
        let of = first.remove();
        self.tries -= 1;
        let rule = self.rules.get_mut(&of)?;
        (rule.driver_state, rule.is_queued) = (DriverState::Absent, true);
        self.calling += 1;
        let wanted = rule.requested;
        Some((of, None, wanted))
    }

    /// Records the driver's answer for a rule, with the reason if it was refused. `had` is true if the driver had the
    /// rule before.
    fn record_answer(
        &mut self,
        rule: Match,
        had: bool,
        mut state: DriverState<H>,
        why: Option<String>,
    ) {
        self.calling -= 1;
        match &mut state {
            DriverState::Absent => self.retries_allowed += usize::from(had),
            DriverState::Present(..) => {
                self.held += 1;
                if !had {
                    (self.retries_allowed, self.tries) =
                        (self.retries_allowed.saturating_sub(1), RETRIES_MAX);
                }
            }
            DriverState::Refused(_, number) => {
                self.numbers += 1;
                *number = self.numbers;
                self.refused.insert(self.numbers, rule);
                self.retries_allowed += usize::from(had);
            }
            DriverState::Stuck(..) => self.stuck += 1,
        }
        if self.last_reason.is_none() {
            self.last_reason = why;
        }
        if self.refused.is_empty() && self.stuck == 0 {
            self.last_reason = None;
        }
        let Some(entry) = self.rules.get_mut(&rule) else {
            return;
        };
        (entry.driver_state, entry.is_queued) = (state, false);
        match entry.is_gone() {
            true => _ = self.rules.remove(&rule),
            false => self.queue_rule(rule),
        }
    }
}

struct Shared<D: Driver> {
    driver: D,
    state: Lock<State<D::Handle>>,
    work_available: Condvar,
}

impl<D: Driver> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D::Handle>> {
        self.state.lock()
    }

    /// Gives waiting rules to the driver until the thread is told to end.
    fn work(&self) {
        let mut state = self.lock();
        while !state.stops {
            let Some((of, old, queue)) = state.next() else {
                let woken = self.work_available.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let had = old.is_some();
            let (told, why) = self.apply_change(&of, old, queue);
            state = self.lock();
            state.record_answer(of, had, told, why);
        }
    }

    /// Makes the driver change a rule. If the driver cannot remove the old rule, no second rule for another queue is
    /// added: the driver would choose between the two.
    fn apply_change(
        &self,
        of: &Match,
        old: Option<DriverRule<D::Handle>>,
        queue: Option<u16>,
    ) -> (DriverState<D::Handle>, Option<String>) {
        if let Some((rule, had)) = old
            && let Err((rule, why)) = self.driver.destroy(rule)
        {
            return match queue == Some(had) {
                true => (DriverState::Present(rule, had), None),
                false => (DriverState::Stuck(rule, had, queue), Some(why)),
            };
        }
        match queue.map(|queue| (queue, self.driver.create(of, queue))) {
            None => (DriverState::Absent, None),
            Some((queue, Ok(rule))) => (DriverState::Present(rule, queue), None),
            Some((queue, Err(why))) => (DriverState::Refused(queue, 0), Some(why)),
        }
    }
}

/// The rules of a device.
pub(super) struct Rules<D: Driver = Device> {
    shared: Arc<Shared<D>>,
    /// Thread that calls the driver. It starts when the device is opened, because a thread started with the first rule
    /// could run on the core of the worker that made the rule.
    thread: Option<JoinHandle<()>>,
}

impl Rules {
    /// Rules of a running device; `None` if its driver supports none.
    pub(super) fn new(device: Device) -> Option<Rules> {
        sys::is_known(device).then(|| Rules::of(device)).flatten()
    }
}

impl<D: Driver> Rules<D> {
    /// `None` if there can be no thread.
    fn of(driver: D) -> Option<Rules<D>> {
        let shared = Arc::new(Shared {
            driver,
            state: Lock::new(State::new()),
            work_available: Condvar::new(),
        });
        let thread = std::thread::Builder::new().name("rte_flow".into());
        let theirs = Arc::clone(&shared);
        Some(Rules {
            shared,
            thread: Some(thread.spawn(move || theirs.work()).ok()?),
        })
    }

    /// See [`Port::direct`](engine::port::Port::direct).
    pub(super) fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
        let mut state = self.shared.lock();
        match all {
            true => state.replace(rules),
            false => rules.iter().for_each(|(rule, q)| state.want(*rule, *q)),
        }
        drop(state);
        self.shared.work_available.notify_one();
    }

    /// See [`Port::directed`](engine::port::Port::directed).
    pub(super) fn directed(&self) -> Directed {
        let state = self.shared.lock();
        Directed {
            held: state.held,
            refused: state.refused.len() + state.stuck,
            waiting: state.changed.len() + state.calling,
            why: state.last_reason.clone(),
        }
    }
}

impl<D: Driver> Drop for Rules<D> {
    /// Stops the thread, after which the driver has none of these rules and is not called again.
    fn drop(&mut self) {
        self.shared.lock().stops = true;
        self.shared.work_available.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the driver's remaining rules end with the device.
            let _ = thread.join();
        }
        let rules = std::mem::take(&mut self.shared.lock().rules);
        for rule in rules.into_values() {
            if let DriverState::Present(handle, _) | DriverState::Stuck(handle, ..) =
                rule.driver_state
            {
                let _ = self.shared.driver.destroy(handle);
            }
        }
    }
}

#[cfg(test)]
mod tests;
