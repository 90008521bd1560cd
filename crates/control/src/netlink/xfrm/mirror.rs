//! Mirror of the kernel's IPsec: messages change the table that workers use.
//!
//! Pure except for the table: messages in, requests out; the caller has the sockets and the clock.

use super::super::counts::XfrmCounts;
use super::known::{Associations, Known};
use super::translate::{Numbers, Refusal, association, policy, rest, shown, wanted};
use esp::policy::Action;
use esp::{Database, Direction, Sa};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use tracing::warn;
use wire::netlink::xfrm::{self, DELSA, Event, Id, POLICY, Template};
use wire::netlink::{Message, Writer};

/// Sequence numbers to skip if another sender with the same keys may still be active: more than a core uses before it
/// reads the table again.
const STILL: u64 = 1 << 16;
/// Sequence numbers to skip after a restart: more than a port sends between two reports to the kernel.
const RESTART: u64 = 1 << 26;
/// Time in nanoseconds for which a removed association is kept, in case it returns with other addresses.
const KEPT: u64 = 2_000_000_000;
/// Time in nanoseconds for which a removed association still decrypts, and encrypts packets that no other association
/// covers. Daemons such as strongSwan remove an association before they add its successor, and the other end uses the
/// old one for seconds.
const FADES: u64 = 1_000_000_000;
/// Minimum interval between requests to the kernel for a missing association, in nanoseconds.
const ASK_AGAIN: u64 = 1_000_000_000;

/// Policy that lacks an association, with its last request to the kernel.
struct Asker {
    raw: [u8; POLICY],
    templates: Vec<u8>,
    wanted: Template,
    asked: u64,
}

/// Mirror of the kernel's IPsec state.
pub struct Mirror {
    database: Arc<Database>,
    counts: Arc<XfrmCounts>,
    numbers: Numbers,
    known: Associations,
    /// Removed associations that remain usable for `FADES` nanoseconds, each with the end of this time.
    fading: Vec<(u64, Arc<Sa>)>,
    askers: HashMap<u32, Asker>,
    /// Policies of a dump, with their index.
    told: Vec<(u32, esp::policy::Policy)>,
    defaults: [bool; 3],
    round: u64,
    unresolved: HashSet<Id>,
    selective: usize,
    strict: usize,
    said: HashSet<String>,
    /// Creation time of the latest association; creation times are unique and increasing.
    made: u64,
    /// True if associations and policies must be dumped.
    pub all_stale: bool,
    /// True if policies must be dumped.
    pub policies_stale: bool,
    /// True if a policy of this dump could not be read.
    unread: bool,
    /// True if an association was refused because of a rival that may be removed.
    has_rivals: bool,
}

impl Mirror {
    /// Empty mirror.
    pub(crate) fn new(database: Arc<Database>, counts: Arc<XfrmCounts>) -> Mirror {
        Mirror {
            database,
            counts,
            numbers: Numbers::default(),
            known: Associations::default(),
            fading: Vec::new(),
            askers: HashMap::new(),
            told: Vec::new(),
            unread: false,
            has_rivals: false,
            defaults: [false; 3],
            round: 0,
            unresolved: HashSet::new(),
            selective: 0,
            strict: 0,
            said: HashSet::new(),
            made: 0,
            all_stale: true,
            policies_stale: true,
        }
    }

    /// A mirror that writes to `database`, with counters of its own.
    pub fn of(database: Arc<Database>) -> Mirror {
        Mirror::new(database, Arc::default())
    }

    /// True if the direction of an association is unknown, because neither of its addresses is local yet.
    pub fn has_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Processes a multicast message. `own` returns true for local addresses; `now` is in nanoseconds since the Unix
    /// epoch.
    pub fn take(&mut self, message: &Message<'_>, own: &mut dyn FnMut(IpAddr) -> bool, now: u64) {
        self.counts.xfrm_messages.add(1);
        match xfrm::event(message, false) {
            Err(_) => {
                self.counts.xfrm_bad_messages.add(1);
                self.all_stale = true;
            }
            Ok(Event::Sa(sa)) => {
                let made = self.sa(&sa, own, now);
                self.database.add_beside(&made);
            }
            Ok(Event::SaGone(id)) => {
                self.unresolved.remove(&id);
                self.lose(&[id], now, u64::MAX, message.kind == DELSA);
            }
            Ok(Event::SasGone(protocol)) => {
                let those = self
                    .known
                    .ids()
                    .filter(|id| [0, id.protocol].contains(&protocol));
                let those: Vec<Id> = those.copied().collect();
                let stays = |id: &Id| ![0, id.protocol].contains(&protocol);
                self.unresolved.retain(stays);
                self.lose(&those, now, u64::MAX, false);
            }
            Ok(Event::Policies | Event::Policy(_)) => self.policies_stale = true,
            Ok(Event::Everything) => self.all_stale = true,
            Ok(Event::Default(_) | Event::Other) => {}
        }
        self.count();
    }

    /// Begins a dump of associations.
    pub fn begin_sas(&mut self) {
        self.round += 1;
        self.unresolved.clear();
        self.selective = 0;
    }

    /// Processes an association of a dump, which lists the latest first. Adds the resulting associations to `made`.
    pub fn dumped_sa(
        &mut self,
        message: &Message<'_>,
        made: &mut Vec<Arc<Sa>>,
        own: &mut dyn FnMut(IpAddr) -> bool,
        now: u64,
    ) {
        match xfrm::event(message, true) {
            Ok(Event::Sa(sa)) => made.extend(self.sa(&sa, own, now)),
            Ok(_) => {}
            Err(_) => self.counts.xfrm_bad_messages.add(1),
        }
    }

    /// Ends an incomplete dump: adds its associations, and removes none.
    pub fn keep_sas(&mut self, made: &[Arc<Sa>]) {
        self.database.add_beside(made.iter().rev());
        self.count();
    }

    /// Ends a dump: removes associations that it did not contain.
    pub fn end_sas(&mut self, made: &[Arc<Sa>], now: u64) {
        // Among equal associations, the last one added is used.
        self.database.add_beside(made.iter().rev());
        let round = self.round;
        let left: Vec<Id> = self.known.ids().copied().collect();
        self.lose(&left, now, round, true);
        self.count();
    }

    /// Begins a dump of policies.
    pub fn begin_policies(&mut self) {
        self.told.clear();
        self.unread = false;
        self.strict = 0;
        self.askers.clear();
    }

    /// Processes a policy of a dump, which lists the latest first, or the default action.
    pub fn dumped_policy(&mut self, message: &Message<'_>) {
        match xfrm::event(message, true) {
            Ok(Event::Policy(said)) => {
                let Some((made, exact)) = policy(&said, &mut self.numbers) else {
                    self.selective += usize::from(said.is_selective);
                    return;
                };
                if !exact {
                    self.strict += 1;
                    self.say(format!(
                        "a policy of the kernel cannot be represented ({}): packets that may match it are dropped",
                        shown(&said.selector)
                    ));
                }
                if let (Direction::Out, Action::Protect(number), Some(wanted)) =
                    (made.direction, made.action, wanted(&said))
                {
                    let (raw, templates) = said.keep();
                    let templates = templates.to_vec();
                    let asker = Asker {
                        raw,
                        templates,
                        wanted,
                        asked: 0,
                    };
                    self.askers.insert(number, asker);
                }
                self.told.push((said.priority, made));
            }
            Ok(Event::Default(blocks)) => self.defaults = blocks,
            Ok(_) => {}
            Err(_) => {
                self.counts.xfrm_bad_messages.add(1);
                // The unreadable policy may match any packet and require protection.
                self.unread = true;
                let what = "a policy of the kernel cannot be read: all packets are dropped while there is one";
                self.say(what.to_owned());
            }
        }
    }

    /// Ends a dump of policies.
    pub fn end_policies(&mut self) {
        self.counts.xfrm_policies.set(self.told.len());
        // Among policies of the same priority, the oldest applies.
        self.told.reverse();
        self.told.sort_by_key(|(priority, _)| *priority);
        let [inward, forward, out] = self.defaults;
        let mut list: Vec<_> = Vec::with_capacity(self.told.len() + 4);
        for (_, policy) in self.told.drain(..) {
            // Policies for local and for forwarded packets are usually equal.
            if list.last() != Some(&policy) {
                list.push(policy);
            }
        }
        if inward || forward {
            list.extend(rest(Direction::In, Action::Discard));
        }
        let beyond = if out { Action::Discard } else { Action::Bypass };
        list.extend(rest(Direction::Out, beyond));
        if self.unread {
            list = [Direction::In, Direction::Out]
                .into_iter()
                .flat_map(|direction| rest(direction, Action::Discard))
                .collect();
        }
        if self.database.snapshot().policies().list() != list {
            self.database.set_policies(list);
        }
        let fading = self.fading.iter().map(|(_, sa)| sa);
        let used = self.known.iter().map(|known| &known.sa).chain(fading);
        self.numbers.forget(used.map(|sa| sa.spec().reqid));
        self.count();
    }

    /// Creates the associations for one of the kernel's, which may apply to both directions.
    fn sa(
        &mut self,
        said: &xfrm::Sa<'_>,
        own: &mut dyn FnMut(IpAddr) -> bool,
        now: u64,
    ) -> Vec<Arc<Sa>> {
        let ways = match said.is_out {
            Some(is_out) => [!is_out, is_out],
            None => [own(said.id.dst), own(said.src)],
        };
        if ways == [false; 2] {
            self.unresolved.insert(said.id);
        } else {
            self.unresolved.remove(&said.id);
        }
        let mut made = Vec::new();
        for (is_out, _) in [false, true].into_iter().zip(ways).filter(|(_, is)| *is) {
            let direction = if is_out {
                Direction::Out
            } else {
                Direction::In
            };
            match association(said, direction, &mut self.numbers) {
                Ok((spec, keys)) => made.extend(self.learn(said, is_out, spec, &keys, now)),
                Err(Refusal::Unborn) => {}
                Err(Refusal::Selective) => self.selective += 1,
                Err(Refusal::Cannot(why)) => self.refuse(said, &why),
            }
        }
        made
    }

    fn refuse(&mut self, said: &xfrm::Sa<'_>, why: &str) {
        self.counts.xfrm_unsupported.add(1);
        self.say(format!(
            "an association of the kernel (SPI {:#x}) is not used: {why}",
            said.id.spi
        ));
    }

    fn say(&mut self, what: String) {
        if self.said.len() < 100 && !self.said.contains(&what) {
            warn!("{what}");
            self.said.insert(what);
        }
    }

    /// Creates the association for one of the kernel's in one direction.
    fn learn(
        &mut self,
        said: &xfrm::Sa<'_>,
        is_out: bool,
        spec: esp::Spec,
        keys: &esp::Keys,
        now: u64,
    ) -> Option<Arc<Sa>> {
        if let Some(known) = self.known.get_mut(&said.id, is_out)
            && known.sa.is(&spec, keys)
        {
            known.round = self.round;
            return None;
        }
        if self.known.has_rival(&spec, said.selector) {
            self.has_rivals = true;
            let why = "another between these ends has its reqid and is for other packets: give each its own reqid";
            self.refuse(said, why);
            return None;
        }
        self.made = now.max(self.made + 1);
        let made = Sa::new(spec, keys, self.made).and_then(|sa| {
            if sa.seals_by_count() && self.made < esp::CLOCK_MIN {
                return Err(
                    "the machine's clock shows a time before 2026, and initialisation vectors count up from it: set \
                        the clock"
                        .to_owned(),
                );
            }
            Ok(sa)
        });
        let sa = match made {
            Ok(sa) => sa,
            Err(why) => {
                self.refuse(said, &why);
                return None;
            }
        };
        // An association with equal keys, in use or recently removed, has changed its addresses or limits.
        match self.known.same_as(&sa) {
            Some(old) => sa.go_on(old, STILL),
            None => {
                if said.replay.sent > 0 {
                    sa.start_at(said.replay.sent.saturating_add(1 + RESTART));
                }
                if said.replay.seen > 0 {
                    sa.begin_after(said.replay.seen);
                }
                sa.count(said.current.packets, said.current.bytes, 0);
            }
        }
        let sa = Arc::new(sa);
        let (packets, bytes) = sa.counts();
        let known = Known {
            src: said.src,
            selector: *said.selector,
            replay: said.replay,
            current: said.current,
            told: (packets, bytes, sa.number()),
            soft: false,
            hard: false,
            round: self.round,
            sa: Arc::clone(&sa),
        };
        // The replaced association may have another address, which packets in flight still use.
        if let Some(old) = self.known.insert(&said.id, is_out, known) {
            self.fading.push((now + FADES, old.sa));
        }
        Some(sa)
    }

    /// Removes associations that the dump `round` did not contain; with `fades`, they remain usable for a while.
    fn lose(&mut self, ids: &[Id], now: u64, round: u64, fades: bool) {
        let mut gone = Vec::new();
        for (id, is_out) in ids.iter().flat_map(|id| [(id, false), (id, true)]) {
            let known = self.known.get(id, is_out);
            if known.is_none_or(|known| known.round == round) {
                continue;
            }
            let Some(sa) = self.known.remove(id, is_out, now) else {
                continue;
            };
            self.all_stale |= std::mem::take(&mut self.has_rivals);
            match fades {
                true => self.fading.push((now + FADES, sa)),
                false => gone.push(sa),
            }
        }
        // All removals form one change of the table, since each change costs as much as many.
        self.database.remove_these(&gone);
    }

    /// Writes reports and requests for the kernel until `writer` is full. Returns true if all were written.
    pub fn tell(&mut self, writer: &mut Writer<'_>, now: u64) -> bool {
        self.known.forget(now, KEPT);
        let over = |fading: &mut (u64, Arc<Sa>)| fading.0 <= now;
        let faded = self.fading.extract_if(.., over).map(|(_, sa)| sa);
        self.database.remove_these(&faded.collect::<Vec<_>>());
        let counts = &self.counts;
        if !self.known.tell(writer, now, counts) {
            return false;
        }
        for number in self.database.take_missing() {
            let Some(asker) = self.askers.get_mut(&number) else {
                continue;
            };
            if now.saturating_sub(asker.asked) < ASK_AGAIN {
                continue;
            }
            asker.asked = now;
            let written = writer.xfrm_acquire(&asker.raw, &asker.templates, &asker.wanted);
            // If `writer` is full, the next packet triggers a request again.
            counts.xfrm_acquired.add(u64::from(written.is_ok()));
        }
        true
    }

    #[cfg(test)]
    pub(super) fn numbers(&self) -> usize {
        self.numbers.len()
    }

    fn count(&self) {
        let counts = &self.counts;
        counts.xfrm_sas.set(self.known.len());
        counts.xfrm_unresolved.set(self.unresolved.len());
        counts.xfrm_selective.set(self.selective);
        counts.xfrm_strict.set(self.strict);
    }
}
