//! The rules of an element that a port matches by itself: packets that match one come by a queue of the worker
//! that owns their bucket.
//!
//! The element decides, not the port: packets that arrive by another queue are steered anyway. Changes of rules are
//! passed on at once. When buckets change worker, the port keeps its rules until it gets the new ones, because
//! packets in one queue could be overtaken by those of another.

use arguments::Args;
use engine::port::{Directed, Match, Port};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard, Weak};
use steer::Table;
use sync::Lock;

/// An element whose rules a port can apply.
pub(crate) trait Source: Send + Sync {
    /// Rules with their buckets, without those that no port supports.
    fn rules(&self) -> Vec<(Match, u16)>;

    /// Bucket of a rule; `None` if the element has no such rule.
    fn bucket(&self, rule: &Match) -> Option<u16>;
}

/// Receive queues of a port, and the table that maps buckets to workers.
#[derive(Clone)]
pub(crate) struct Receivers {
    pub(crate) table: Arc<Table>,
    /// Receive queues by worker.
    pub(crate) queues: BTreeMap<usize, Vec<usize>>,
}

impl Receivers {
    /// Receive queue of each bucket: one of its owner's queues. Buckets without an owner, or whose owner has no queue,
    /// are spread over all queues.
    pub(crate) fn by_bucket(&self) -> Vec<u16> {
        let (owners, of) = (self.table.owners(), &self.queues);
        let all: Vec<usize> = of.values().flatten().copied().collect();
        if all.is_empty() {
            return Vec::new();
        }
        let each = (0..self.table.buckets()).map(|bucket| {
            let own = owners.get(bucket).and_then(|owner| of.get(owner));
            match own.filter(|queues| !queues.is_empty()) {
                Some(own) => own[bucket / of.len() % own.len()] as u16,
                None => all[bucket % all.len()] as u16,
            }
        });
        each.collect()
    }
}

/// Port name without the optional prefix `dpdk:`.
pub(super) fn port_name(port: &str) -> &str {
    port.strip_prefix("dpdk:").unwrap_or(port)
}

/// Rules of a router's ports, by port name.
#[derive(Default)]
pub(crate) struct ByPort(Lock<HashMap<String, PortEntry>>);

/// Entry of one port.
#[derive(Default)]
struct PortEntry {
    rules: Weak<PortRules>,
    /// Number of times that the rules were created. They may be dropped between two reloads.
    creations: u64,
    teller: LastProgrammer,
}

/// Number of the rules object that last programmed the port. The object of an old plan may be dropped after a new one
/// has programmed the port, and must not remove the new rules.
type LastProgrammer = Arc<Lock<u64>>;

impl ByPort {
    /// Rules of a port, created at the first call.
    pub(crate) fn get(&self, port: &str) -> Arc<PortRules> {
        let mut all = self.0.lock();
        all.retain(|_, known| {
            known.rules.strong_count() > 0 || Arc::strong_count(&known.teller) > 1
        });
        let known = all.entry(port_name(port).to_owned()).or_default();
        if let Some(rules) = known.rules.upgrade() {
            return rules;
        }
        known.creations += 1;
        let rules = Arc::new(PortRules(Lock::new(State {
            source: None,
            port: None,
            queues: Vec::new(),
            number: known.creations,
            teller: Arc::clone(&known.teller),
        })));
        known.rules = Arc::downgrade(&rules);
        rules
    }
}

/// Rules of a port: their source element, and the port that applies them.
#[derive(Default)]
pub(crate) struct PortRules(Lock<State>);

#[derive(Default)]
struct State {
    source: Option<Weak<dyn Source>>,
    port: Option<(Arc<dyn Port>, Receivers)>,
    /// Receive queue of each bucket: the one of its owner, or its previous one until the port has moved it.
    queues: Vec<u16>,
    number: u64,
    teller: LastProgrammer,
}

impl State {
    fn teller(&self) -> MutexGuard<'_, u64> {
        self.teller.lock()
    }

    /// Port, if it supports rules and has several queues.
    fn rule_port(&self) -> Option<&Arc<dyn Port>> {
        let (port, receivers) = self.port.as_ref()?;
        let is_choice = receivers.queues.values().flatten().nth(1).is_some();
        Some(port).filter(|port| is_choice && port.directed().is_some())
    }

    fn queue(&self, bucket: u16) -> Option<u16> {
        self.queues.get(usize::from(bucket)).copied()
    }

    fn source(&self) -> Option<Arc<dyn Source>> {
        self.source.as_ref()?.upgrade()
    }

    /// Sends the port all rules, or those of the buckets `only`.
    fn send_rules(&self, only: Option<&BTreeSet<u16>>) {
        if let (Some(port), Some(source)) = (self.rule_port(), self.source()) {
            let mut rules = source.rules();
            rules.retain(|(_, bucket)| only.is_none_or(|only| only.contains(bucket)));
            let rules = rules.into_iter().map(|(rule, b)| (rule, self.queue(b)));
            port.direct(&rules.collect::<Vec<_>>(), only.is_none());
        }
    }
}

impl Drop for State {
    /// Removes the port's rules, unless another plan has programmed the port since.
    fn drop(&mut self) {
        let teller = self.teller();
        if let Some((port, _)) = &self.port
            && *teller == self.number
        {
            port.direct(&[], true);
        }
    }
}

impl PortRules {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Parses the argument PORT of an element with rules.
    pub(super) fn configure(args: &mut Args) -> Option<Arc<PortRules>> {
        let port: String = args.key_maybe("PORT", "the port from which packets come")?;
        Some(args.router_wide::<ByPort>().get(&port))
    }

    /// Sets the source of the rules; each clone of the source may call this.
    pub(super) fn come_from<S: Source + 'static>(&self, source: &Arc<S>) {
        let source: Weak<dyn Source> = Arc::downgrade(source) as _;
        let mut state = self.lock();
        let known = state.source.as_ref();
        if !known.is_some_and(|known| known.ptr_eq(&source)) {
            state.source = Some(source);
            state.send_rules(None);
        }
    }

    /// Sets the port. If the port is new, its queues have changed or `again` is true, it gets all rules, with these
    /// queues by bucket. Returns true if the port applies rules.
    pub(crate) fn go_to(
        &self,
        port: &Arc<dyn Port>,
        receivers: Receivers,
        queues: &[u16],
        again: bool,
    ) -> bool {
        let mut state = self.lock();
        let known = state.port.as_ref().is_some_and(|(own, known)| {
            Arc::ptr_eq(own, port)
                && Arc::ptr_eq(&known.table, &receivers.table)
                && known.queues == receivers.queues
        });
        if !known || again {
            state.port = Some((Arc::clone(port), receivers));
            *state.teller() = state.number;
            state.queues = queues.to_vec();
            state.send_rules(None);
        }
        state.rule_port().is_some()
    }

    /// Moves the rules of some buckets to other queues of the port.
    pub(crate) fn redirect(&self, receivers: Receivers, buckets: &BTreeSet<u16>, queues: &[u16]) {
        let mut state = self.lock();
        if let Some(known) = &mut state.port {
            known.1 = receivers;
        }
        state.queues = queues.to_vec();
        state.send_rules(Some(buckets));
    }

    /// Buckets that rules refer to.
    pub(crate) fn buckets(&self) -> BTreeSet<u16> {
        let rules = self.lock().source().map(|source| source.rules());
        rules.into_iter().flatten().map(|rule| rule.1).collect()
    }

    /// Passes added, changed or removed rules to the port.
    pub(super) fn changed(&self, rules: impl Iterator<Item = Match>) {
        let state = self.lock();
        if let (Some(port), Some(source)) = (state.rule_port(), state.source()) {
            // The rules are read now, so that the port ends with the last of several changes.
            let queue = |rule: &Match| state.queue(source.bucket(rule)?);
            let rules = rules.map(|rule| (rule, queue(&rule)));
            port.direct(&rules.collect::<Vec<_>>(), false);
        }
    }

    /// Progress of the port in applying the rules, as a sentence.
    pub(crate) fn show(&self) -> String {
        let state = self.lock();
        let Some((port, _)) = &state.port else {
            return "the port is not open".into();
        };
        match (port.directed(), state.rule_port()) {
            (None, _) => "rules are matched in software: the port takes none".into(),
            (_, None) => "rules are matched in software: the port has one queue".into(),
            (Some(now), _) => shown(&now),
        }
    }
}

fn shown(now: &Directed) -> String {
    let mut text = format!("rules in the port: {}", now.held);
    if now.refused > 0 {
        let why = now.why.as_deref().unwrap_or("without a reason");
        text += &format!("; refused: {} (the first: {why})", now.refused);
    }
    if now.waiting > 0 {
        text += &format!("; waiting: {}", now.waiting);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::port::{PortCounter, PortInfo};
    use steer::Tables;

    /// A port that stores its rules.
    #[derive(Default)]
    struct Card {
        rules: Lock<HashMap<Match, u16>>,
        calls: Lock<usize>,
    }

    impl Port for Card {
        fn info(&self) -> PortInfo {
            unreachable!("nobody asks")
        }

        fn link_up(&self) -> bool {
            true
        }

        fn counters(&self) -> Vec<PortCounter> {
            Vec::new()
        }

        fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
            *self.calls.lock() += 1;
            let mut own = self.rules.lock();
            if all {
                own.clear();
            }
            for (rule, queue) in rules {
                match queue {
                    Some(queue) => _ = own.insert(*rule, *queue),
                    None => _ = own.remove(rule),
                }
            }
        }

        fn directed(&self) -> Option<Directed> {
            let held = self.rules.lock().len();
            Some(Directed {
                held,
                refused: 2,
                waiting: 1,
                why: Some("no room".into()),
            })
        }
    }

    struct Rules(Lock<HashMap<Match, u16>>);

    impl Source for Rules {
        fn rules(&self) -> Vec<(Match, u16)> {
            let own = self.0.lock();
            own.iter().map(|(rule, bucket)| (*rule, *bucket)).collect()
        }

        fn bucket(&self, rule: &Match) -> Option<u16> {
            self.0.lock().get(rule).copied()
        }
    }

    fn vlan(id: u16) -> Match {
        Match::Station {
            address: None,
            vlan: Some(id),
        }
    }

    fn receivers(queues: &[(usize, &[usize])]) -> Receivers {
        Receivers {
            table: Tables::default().get("t", 4),
            queues: queues.iter().map(|(w, q)| (*w, q.to_vec())).collect(),
        }
    }

    #[test]
    fn buckets_go_to_a_queue_of_their_owner() {
        let all = receivers(&[(0, &[0, 2]), (1, &[1, 3])]);
        assert_eq!(all.by_bucket(), [0, 2, 1, 3]);
        all.table.assign(&[0, 1]);
        assert_eq!(all.by_bucket(), [0, 1, 2, 3]);
        all.table.assign(&[1]);
        assert_eq!(all.by_bucket(), [1, 1, 3, 3]);
        // Worker 2 has no queue, so its buckets are spread over all queues.
        all.table.assign(&[2]);
        assert_eq!(all.by_bucket(), [0, 2, 1, 3]);
        assert!(receivers(&[]).by_bucket().is_empty());
    }

    #[test]
    fn the_port_has_the_rules_of_its_element_with_the_queues_of_their_buckets() {
        let all = ByPort::default();
        let rules = all.get("dpdk:net_null0");
        assert!(Arc::ptr_eq(&rules, &all.get("net_null0")));
        let card = Arc::new(Card::default());
        let port: Arc<dyn Port> = Arc::clone(&card) as _;
        let told = |id| card.rules.lock().get(&vlan(id)).copied();
        let source = Arc::new(Rules(Lock::new([(vlan(1), 0), (vlan(2), 1)].into())));
        let set = |id, bucket| {
            let mut own = source.0.lock();
            match bucket {
                Some(bucket) => _ = own.insert(vlan(id), bucket),
                None => _ = own.remove(&vlan(id)),
            }
            drop(own);
            rules.changed([vlan(id)].into_iter());
        };
        rules.come_from(&source);
        assert!(rules.show().contains("not open"));
        let both = receivers(&[(0, &[0]), (1, &[1])]);
        both.table.assign(&[0, 1]);
        rules.go_to(&port, both.clone(), &both.by_bucket(), false);
        assert_eq!((told(1), told(2)), (Some(0), Some(1)));
        // Nothing has changed, as on a reload.
        let calls = *card.calls.lock();
        rules.come_from(&source);
        rules.go_to(&port, both.clone(), &both.by_bucket(), false);
        assert_eq!(*card.calls.lock(), calls);
        set(3, Some(3));
        set(1, None);
        assert_eq!((told(1), told(3)), (None, Some(1)));
        let shown = "rules in the port: 2; refused: 2 (the first: no room); waiting: 1";
        assert_eq!(rules.show(), shown);
        // Buckets have moved: a new rule has the queue of its bucket's others, until they may follow.
        both.table.assign(&[0]);
        set(4, Some(1));
        assert_eq!((told(3), told(4)), (Some(1), Some(1)));
        let zero = vec![0; 4];
        rules.redirect(both.clone(), &BTreeSet::from([1]), &zero);
        assert_eq!((told(3), told(4)), (Some(1), Some(0)));
        rules.go_to(&port, both.clone(), &both.by_bucket(), true);
        assert_eq!((told(3), told(4)), (Some(0), Some(0)));
        drop((all, rules));
        assert!(card.rules.lock().is_empty());
    }

    #[test]
    fn dropped_plan_does_not_clear_rules_of_its_successor() {
        let all = ByPort::default();
        let card = Arc::new(Card::default());
        let port: Arc<dyn Port> = Arc::clone(&card) as _;
        let held = || card.rules.lock().len();
        let source = Arc::new(Rules(Lock::new([(vlan(1), 0)].into())));
        let both = receivers(&[(0, &[0]), (1, &[1])]);
        let old = all.get("p");
        old.come_from(&source);
        old.go_to(&port, both.clone(), &both.by_bucket(), false);
        // The last strong reference has gone, but the rules are not dropped yet.
        all.0.lock().get_mut("p").expect("it is known").rules = Weak::new();
        let new = all.get("p");
        assert!(!Arc::ptr_eq(&old, &new));
        new.come_from(&source);
        new.go_to(&port, both.clone(), &both.by_bucket(), false);
        drop(old);
        assert_eq!(held(), 1);
        drop(new);
        assert_eq!(held(), 0);
    }

    #[test]
    fn a_port_that_has_no_choice_is_told_nothing() {
        let rules = PortRules::default();
        let card = Arc::new(Card::default());
        let port: Arc<dyn Port> = Arc::clone(&card) as _;
        let source = Arc::new(Rules(Lock::new([(vlan(1), 0)].into())));
        rules.come_from(&source);
        rules.go_to(&port, receivers(&[(0, &[0])]), &[0; 4], false);
        assert_eq!(*card.calls.lock(), 0);
        assert!(rules.show().contains("one queue"));
    }
}
