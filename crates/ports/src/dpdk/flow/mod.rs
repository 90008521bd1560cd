//! Rules that a driver applies by itself (rte_flow): packets that match a rule go to its queue.
//!
//! Rules may change ten thousand times a second, and drivers take their time. So each rule's wanted state is noted
//! once, and a thread of the device tells the driver. A rule that changes while it waits is told in its latest state,
//! and no more wait than there are rules. A driver may refuse any rule, which is counted. When another rule has gone
//! there may be room, and some refused ones are tried again.

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
                // The rank is not the reason for the failure.
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
const TRIES: usize = 4;

/// A rule that the driver has, and its queue.
type Known<H> = (H, u16);

/// State of a rule at the driver.
enum Told<H> {
    /// The driver does not have the rule.
    Nothing,
    /// The driver has the rule, with this queue.
    Held(H, u16),
    /// The driver refused the rule with this queue. The number is the rule's place among the refused ones.
    Refused(u16, u64),
    /// The driver has the rule with the first queue, and cannot remove it for the second.
    Stuck(H, u16, Option<u16>),
}

struct Rule<H> {
    /// The queue that the rule should have.
    wanted: Option<u16>,
    told: Told<H>,
    /// True if the rule waits for its turn, or for the driver's answer.
    waits: bool,
}

impl<H> Rule<H> {
    fn is_done(&self) -> bool {
        match (&self.told, self.wanted) {
            (Told::Nothing, wanted) => wanted.is_none(),
            (Told::Held(_, queue) | Told::Refused(queue, _), wanted) => wanted == Some(*queue),
            (Told::Stuck(_, _, refused), wanted) => wanted == *refused,
        }
    }

    /// True if the rule is not wanted, and the driver does not have it.
    fn is_gone(&self) -> bool {
        matches!(self.told, Told::Nothing) && self.wanted.is_none()
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
    /// `room` is the number of removed rules in whose place refused rules may be tried again; `tries` is the number of
    /// such attempts that may still fail.
    room: usize,
    tries: usize,
    why: Option<String>,
    ends: bool,
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
            room: 0,
            tries: TRIES,
            why: None,
            ends: false,
        }
    }

    fn want(&mut self, of: Match, queue: Option<u16>) {
        if queue.is_none() && !self.rules.contains_key(&of) {
            return;
        }
        let new = Rule {
            wanted: None,
            told: Told::Nothing,
            waits: false,
        };
        self.rules.entry(of).or_insert(new).wanted = queue;
        self.look(of);
    }

    /// Queues a rule if the driver must get it.
    fn look(&mut self, of: Match) {
        if let Some(rule) = self.rules.get_mut(&of)
            && !rule.waits
            && !rule.is_done()
        {
            rule.waits = true;
            self.changed.push_back(of);
        }
    }

    /// Replaces all rules by these; refused ones are tried again.
    fn replace(&mut self, rules: &[(Match, Option<u16>)]) {
        for rule in self.rules.values_mut() {
            rule.wanted = None;
            rule.told = match std::mem::replace(&mut rule.told, Told::Nothing) {
                Told::Refused(..) => Told::Nothing,
                Told::Stuck(handle, queue, _) => {
                    self.held += 1;
                    Told::Held(handle, queue)
                }
                other => other,
            };
        }
        (self.stuck, self.why) = (0, None);
        (self.room, self.tries) = (0, TRIES);
        self.refused.clear();
        for (rule, queue) in rules {
            self.want(*rule, *queue);
        }
        let all: Vec<Match> = self.rules.keys().copied().collect();
        all.into_iter().for_each(|rule| self.look(rule));
        self.rules.retain(|_, rule| rule.waits || !rule.is_gone());
    }

    /// The next rule to give to the driver: its match, the driver's present rule for it, and the queue that it should
    /// name. If rules were removed, the refused rule that has waited longest comes first.
    fn next(&mut self) -> Option<(Match, Option<Known<H>>, Option<u16>)> {
        if let Some(waiting) = self.again() {
            return Some(waiting);
        }
        loop {
            let of = self.changed.pop_front()?;
            let Some(rule) = self.rules.get_mut(&of) else {
                continue;
            };
            if !rule.is_done() {
                let old = match std::mem::replace(&mut rule.told, Told::Nothing) {
                    Told::Held(handle, queue) => {
                        self.held -= 1;
                        Some((handle, queue))
                    }
                    Told::Stuck(handle, queue, _) => {
                        self.stuck -= 1;
                        Some((handle, queue))
                    }
                    Told::Refused(_, number) => {
                        self.refused.remove(&number);
                        None
                    }
                    Told::Nothing => None,
                };
                self.calling += 1;
                return Some((of, old, rule.wanted));
            }
            rule.waits = false;
            if rule.is_gone() {
                self.rules.remove(&of);
            }
        }
    }

    /// Takes the refused rule with the oldest attempt, to be tried again as a new rule. `None` if no attempt is left,
    /// or if no rule was removed that could have made room.
    fn again(&mut self) -> Option<(Match, Option<Known<H>>, Option<u16>)> {
        let waiting = self.refused.first_entry();
        let Some(first) = waiting.filter(|_| self.room > 0 && self.tries > 0) else {
            (self.room, self.tries) = (0, TRIES);
            return None;
        };
        let of = first.remove();
        self.tries -= 1;
        let rule = self.rules.get_mut(&of)?;
        (rule.told, rule.waits) = (Told::Nothing, true);
        self.calling += 1;
        let wanted = rule.wanted;
        Some((of, None, wanted))
    }

    /// Records the driver's answer for a rule, with the reason if it was refused. `had` is true if the driver had the
    /// rule before.
    fn note(&mut self, of: Match, had: bool, mut told: Told<H>, why: Option<String>) {
        self.calling -= 1;
        match &mut told {
            Told::Nothing => self.room += usize::from(had),
            Told::Held(..) => {
                self.held += 1;
                if !had {
                    (self.room, self.tries) = (self.room.saturating_sub(1), TRIES);
                }
            }
            Told::Refused(_, number) => {
                self.numbers += 1;
                *number = self.numbers;
                self.refused.insert(self.numbers, of);
                self.room += usize::from(had);
            }
            Told::Stuck(..) => self.stuck += 1,
        }
        if self.why.is_none() {
            self.why = why;
        }
        if self.refused.is_empty() && self.stuck == 0 {
            self.why = None;
        }
        let Some(rule) = self.rules.get_mut(&of) else {
            return;
        };
        (rule.told, rule.waits) = (told, false);
        match rule.is_gone() {
            true => _ = self.rules.remove(&of),
            false => self.look(of),
        }
    }
}

struct Shared<D: Driver> {
    driver: D,
    state: Lock<State<D::Handle>>,
    bell: Condvar,
}

impl<D: Driver> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D::Handle>> {
        self.state.lock()
    }

    /// Gives waiting rules to the driver until the thread is told to end.
    fn work(&self) {
        let mut state = self.lock();
        while !state.ends {
            let Some((of, old, queue)) = state.next() else {
                let woken = self.bell.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let had = old.is_some();
            let (told, why) = self.tell(&of, old, queue);
            state = self.lock();
            state.note(of, had, told, why);
        }
    }

    /// Tells the driver to change a rule. A rule that it cannot remove stays the only one: with a second one for
    /// another queue, the driver would choose between them.
    fn tell(
        &self,
        of: &Match,
        old: Option<Known<D::Handle>>,
        queue: Option<u16>,
    ) -> (Told<D::Handle>, Option<String>) {
        if let Some((rule, had)) = old
            && let Err((rule, why)) = self.driver.destroy(rule)
        {
            return match queue == Some(had) {
                true => (Told::Held(rule, had), None),
                false => (Told::Stuck(rule, had, queue), Some(why)),
            };
        }
        match queue.map(|queue| (queue, self.driver.create(of, queue))) {
            None => (Told::Nothing, None),
            Some((queue, Ok(rule))) => (Told::Held(rule, queue), None),
            Some((queue, Err(why))) => (Told::Refused(queue, 0), Some(why)),
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
            bell: Condvar::new(),
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
        self.shared.bell.notify_one();
    }

    /// See [`Port::directed`](engine::port::Port::directed).
    pub(super) fn directed(&self) -> Directed {
        let state = self.shared.lock();
        Directed {
            held: state.held,
            refused: state.refused.len() + state.stuck,
            waiting: state.changed.len() + state.calling,
            why: state.why.clone(),
        }
    }
}

impl<D: Driver> Drop for Rules<D> {
    /// The driver has no rule of ours any more, and is not called again.
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.bell.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the driver's remaining rules end with the device.
            let _ = thread.join();
        }
        let rules = std::mem::take(&mut self.shared.lock().rules);
        for rule in rules.into_values() {
            if let Told::Held(handle, _) | Told::Stuck(handle, ..) = rule.told {
                let _ = self.shared.driver.destroy(handle);
            }
        }
    }
}

#[cfg(test)]
mod tests;
