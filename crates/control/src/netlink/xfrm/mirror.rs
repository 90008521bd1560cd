//! Mirror of the kernel's IPsec: messages change the table that workers use.
//!
//! Pure except for the table: messages in, requests out; the caller has the sockets and the clock.

use super::super::counts::XfrmCounts;
use super::associations::{Associations, TrackedSa};
use super::translate::{
    Numbers, Refusal, association, default_policies, policy, required_template, selector_text,
};
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
const ACTIVE_SENDER_SKIP: u64 = 1 << 16;
/// Sequence numbers to skip after a restart: more than a port sends between two reports to the kernel.
const RESTART_SKIP: u64 = 1 << 26;
/// Time in nanoseconds for which a removed association is kept, in case it returns with other addresses.
const REMOVED_KEPT_NS: u64 = 2_000_000_000;
/// Time in nanoseconds for which a removed association still decrypts, and encrypts packets that no other association
/// covers. Daemons such as strongSwan remove an association before they add its successor, and the other end uses the
/// old one for seconds.
const REMOVED_USABLE_NS: u64 = 1_000_000_000;
/// Minimum interval between requests to the kernel for a missing association, in nanoseconds.
const ACQUIRE_INTERVAL_NS: u64 = 1_000_000_000;

/// Policy that lacks an association, with its last request to the kernel.
struct AcquireRequest {
    raw: [u8; POLICY],
    templates: Vec<u8>,
    wanted: Template,
    requested_at: u64,
}

/// Mirror of the kernel's IPsec state.
pub struct Mirror {
    database: Arc<Database>,
    counts: Arc<XfrmCounts>,
    numbers: Numbers,
    associations: Associations,
    /// Removed associations that remain usable for `REMOVED_USABLE_NS` nanoseconds, each with the end of this time.
    usable_until: Vec<(u64, Arc<Sa>)>,
    askers: HashMap<u32, AcquireRequest>,
    /// Policies of a dump, with their index.
    dumped_policies: Vec<(u32, esp::policy::Policy)>,
    defaults: [bool; 3],
    dump_number: u64,
    unresolved: HashSet<Id>,
    selective: usize,
    strict: usize,
    logged: HashSet<String>,
    /// Creation time of the latest association; creation times are unique and increasing.
    last_created: u64,
    /// True if associations and policies must be dumped.
    pub all_stale: bool,
    /// True if policies must be dumped.
    pub policies_stale: bool,
    /// True if a policy of this dump could not be read.
    policy_unreadable: bool,
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
            associations: Associations::default(),
            usable_until: Vec::new(),
            askers: HashMap::new(),
            dumped_policies: Vec::new(),
            policy_unreadable: false,
            has_rivals: false,
            defaults: [false; 3],
            dump_number: 0,
            unresolved: HashSet::new(),
            selective: 0,
            strict: 0,
            logged: HashSet::new(),
            last_created: 0,
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
    pub fn process(
        &mut self,
        message: &Message<'_>,
        own: &mut dyn FnMut(IpAddr) -> bool,
        now: u64,
    ) {
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
                self.remove_missing(&[id], now, u64::MAX, message.kind == DELSA);
            }
            Ok(Event::SasGone(protocol)) => {
                let ids = self
                    .associations
                    .ids()
                    .filter(|id| [0, id.protocol].contains(&protocol));
                let ids: Vec<Id> = ids.copied().collect();
                let stays = |id: &Id| ![0, id.protocol].contains(&protocol);
                self.unresolved.retain(stays);
                self.remove_missing(&ids, now, u64::MAX, false);
            }
            Ok(Event::Policies | Event::Policy(_)) => self.policies_stale = true,
            Ok(Event::Everything) => self.all_stale = true,
            Ok(Event::Default(_) | Event::Other) => {}
        }
        self.count();
    }

    /// Begins a dump of associations.
    pub fn begin_sas(&mut self) {
        self.dump_number += 1;
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
        let round = self.dump_number;
        let left: Vec<Id> = self.associations.ids().copied().collect();
        self.remove_missing(&left, now, round, true);
        self.count();
    }

    /// Begins a dump of policies.
    pub fn begin_policies(&mut self) {
        self.dumped_policies.clear();
        self.policy_unreadable = false;
        self.strict = 0;
        self.askers.clear();
    }

    /// Processes a policy of a dump, which lists the latest first, or the default action.
    pub fn dumped_policy(&mut self, message: &Message<'_>) {
        match xfrm::event(message, true) {
            Ok(Event::Policy(sa_message)) => {
                let Some((made, exact)) = policy(&sa_message, &mut self.numbers) else {
                    self.selective += usize::from(sa_message.is_selective);
                    return;
                };
                if !exact {
                    self.strict += 1;
                    self.log_once(format!(
                        "a policy of the kernel cannot be represented ({}): packets that may match it are dropped",
                        selector_text(&sa_message.selector)
                    ));
                }
                if let (Direction::Out, Action::Protect(number), Some(wanted)) =
                    (made.direction, made.action, required_template(&sa_message))
                {
                    let (raw, templates) = sa_message.keep();
                    let templates = templates.to_vec();
                    let asker = AcquireRequest {
                        raw,
                        templates,
                        wanted,
                        requested_at: 0,
                    };
                    self.askers.insert(number, asker);
                }
                self.dumped_policies.push((sa_message.priority, made));
            }
            Ok(Event::Default(blocks)) => self.defaults = blocks,
            Ok(_) => {}
            Err(_) => {
                self.counts.xfrm_bad_messages.add(1);
                // The unreadable policy may match any packet and require protection.
                self.policy_unreadable = true;
                let what = "a policy of the kernel cannot be read: all packets are dropped while there is one";
                self.log_once(what.to_owned());
            }
        }
    }

    /// Ends a dump of policies.
    pub fn end_policies(&mut self) {
        self.counts.xfrm_policies.set(self.dumped_policies.len());
        // Among policies of the same priority, the oldest applies.
        self.dumped_policies.reverse();
        self.dumped_policies.sort_by_key(|(priority, _)| *priority);
        let [inward, forward, out] = self.defaults;
        let mut list: Vec<_> = Vec::with_capacity(self.dumped_policies.len() + 4);
        for (_, policy) in self.dumped_policies.drain(..) {
            // Policies for local and for forwarded packets are usually equal.
            if list.last() != Some(&policy) {
                list.push(policy);
            }
        }
        if inward || forward {
            list.extend(default_policies(Direction::In, Action::Discard));
        }
        let beyond = if out { Action::Discard } else { Action::Bypass };
        list.extend(default_policies(Direction::Out, beyond));
        if self.policy_unreadable {
            list = [Direction::In, Direction::Out]
                .into_iter()
                .flat_map(|direction| default_policies(direction, Action::Discard))
                .collect();
        }
        if self.database.snapshot().policies().list() != list {
            self.database.set_policies(list);
        }
        let fading = self.usable_until.iter().map(|(_, sa)| sa);
        let used = self
            .associations
            .iter()
            .map(|known| &known.sa)
            .chain(fading);
        self.numbers.free_unused(used.map(|sa| sa.spec().reqid));
        self.count();
    }

    /// Creates the associations for one of the kernel's, which may apply to both directions.
    fn sa(
        &mut self,
        kernel_sa: &xfrm::Sa<'_>,
        own: &mut dyn FnMut(IpAddr) -> bool,
        now: u64,
    ) -> Vec<Arc<Sa>> {
        let directions = match kernel_sa.is_out {
            Some(is_out) => [!is_out, is_out],
            None => [own(kernel_sa.id.dst), own(kernel_sa.src)],
        };
        if directions == [false; 2] {
            self.unresolved.insert(kernel_sa.id);
        } else {
            self.unresolved.remove(&kernel_sa.id);
        }
        let mut made = Vec::new();
        for (is_out, _) in [false, true]
            .into_iter()
            .zip(directions)
            .filter(|(_, is)| *is)
        {
            let direction = if is_out {
                Direction::Out
            } else {
                Direction::In
            };
            match association(kernel_sa, direction, &mut self.numbers) {
                Ok((spec, keys)) => made.extend(self.learn(kernel_sa, is_out, spec, &keys, now)),
                Err(Refusal::Larval) => {}
                Err(Refusal::Selective) => self.selective += 1,
                Err(Refusal::Cannot(why)) => self.refuse(kernel_sa, &why),
            }
        }
        made
    }

    fn refuse(&mut self, kernel_sa: &xfrm::Sa<'_>, why: &str) {
        self.counts.xfrm_unsupported.add(1);
        self.log_once(format!(
            "an association of the kernel (SPI {:#x}) is not used: {why}",
            kernel_sa.id.spi
        ));
    }

    fn log_once(&mut self, what: String) {
        if self.logged.len() < 100 && !self.logged.contains(&what) {
            warn!("{what}");
            self.logged.insert(what);
        }
    }

    /// Creates the association of the data path for a kernel's association, in one direction.
    fn learn(
        &mut self,
        kernel_sa: &xfrm::Sa<'_>,
        is_out: bool,
        spec: esp::Spec,
        keys: &esp::Keys,
        now: u64,
    ) -> Option<Arc<Sa>> {
        if let Some(known) = self.associations.get_mut(&kernel_sa.id, is_out)
            && known.sa.is(&spec, keys)
        {
            known.dump_number = self.dump_number;
            return None;
        }
        if self.associations.has_rival(&spec, kernel_sa.selector) {
            self.has_rivals = true;
            let why = "another between these ends has its reqid and is for other packets: give each its own reqid";
            self.refuse(kernel_sa, why);
            return None;
        }
        self.last_created = now.max(self.last_created + 1);
        let made = Sa::new(spec, keys, self.last_created).and_then(|sa| {
            if sa.seals_by_count() && self.last_created < esp::CLOCK_MIN {
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
                self.refuse(kernel_sa, &why);
                return None;
            }
        };
        // An association with equal keys, in use or recently removed, has changed its addresses or limits.
        match self.associations.same_as(&sa) {
            Some(old) => sa.go_on(old, ACTIVE_SENDER_SKIP),
            None => {
                if kernel_sa.replay.sent > 0 {
                    sa.start_at(kernel_sa.replay.sent.saturating_add(1 + RESTART_SKIP));
                }
                if kernel_sa.replay.seen > 0 {
                    sa.begin_after(kernel_sa.replay.seen);
                }
                sa.count(kernel_sa.current.packets, kernel_sa.current.bytes, 0);
            }
        }
        let sa = Arc::new(sa);
        let (packets, bytes) = sa.counts();
        let known = TrackedSa {
            src: kernel_sa.src,
            selector: *kernel_sa.selector,
            replay: kernel_sa.replay,
            current: kernel_sa.current,
            last_reported: (packets, bytes, sa.number()),
            soft: false,
            hard: false,
            dump_number: self.dump_number,
            sa: Arc::clone(&sa),
        };
        // The replaced association may have another address, which packets in flight still use.
        if let Some(old) = self.associations.insert(&kernel_sa.id, is_out, known) {
            self.usable_until.push((now + REMOVED_USABLE_NS, old.sa));
        }
        Some(sa)
    }

    /// Removes associations that the dump `round` did not contain; with `fades`, they remain usable for a while.
    fn remove_missing(&mut self, ids: &[Id], now: u64, round: u64, fades: bool) {
        let mut removed = Vec::new();
        for (id, is_out) in ids.iter().flat_map(|id| [(id, false), (id, true)]) {
            let known = self.associations.get(id, is_out);
            if known.is_none_or(|known| known.dump_number == round) {
                continue;
            }
            let Some(sa) = self.associations.remove(id, is_out, now) else {
                continue;
            };
            self.all_stale |= std::mem::take(&mut self.has_rivals);
            match fades {
                true => self.usable_until.push((now + REMOVED_USABLE_NS, sa)),
                false => removed.push(sa),
            }
        }
        // All removals form one change of the table, since each change costs as much as many.
        self.database.remove_these(&removed);
    }

    /// Writes reports and requests for the kernel until `writer` is full. Returns true if all were written.
    pub fn report(&mut self, writer: &mut Writer<'_>, now: u64) -> bool {
        self.associations.expire_removed(now, REMOVED_KEPT_NS);
        let over = |fading: &mut (u64, Arc<Sa>)| fading.0 <= now;
        let faded = self.usable_until.extract_if(.., over).map(|(_, sa)| sa);
        self.database.remove_these(&faded.collect::<Vec<_>>());
        let counts = &self.counts;
        if !self.associations.report(writer, now, counts) {
            return false;
        }
        for number in self.database.take_missing() {
            let Some(asker) = self.askers.get_mut(&number) else {
                continue;
            };
            if now.saturating_sub(asker.requested_at) < ACQUIRE_INTERVAL_NS {
                continue;
            }
            asker.requested_at = now;
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
        counts.xfrm_sas.set(self.associations.len());
        counts.xfrm_unresolved.set(self.unresolved.len());
        counts.xfrm_selective.set(self.selective);
        counts.xfrm_strict.set(self.strict);
    }
}
