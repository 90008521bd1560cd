//! Ended aggregates: elements that number aggregates (AggregateIPFlows) notify those that keep state for each
//! (AggregateLast).
//!
//! Both must run on one worker, as they do if packets go from one to the other without a queue.

use crate::prelude::*;
use elements::peer;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// Classes that assign numbers to aggregates.
const NOTIFIERS: [&str; 2] = ["AggregateIPFlows", "AggregateIPAddrPair"];

type List = RefCell<Vec<u32>>;

/// Listeners of a notifier: the name of each, and its list of unread notices.
#[derive(Default)]
struct Listeners(RefCell<Vec<(String, Weak<List>)>>);

/// Sender of notices.
pub(super) struct Notifier(Rc<Listeners>);

impl Notifier {
    pub(super) fn new(init: &Init) -> Notifier {
        Notifier(init.shared.get(init.name, Listeners::default))
    }

    /// Notifies all listeners that an aggregate has ended.
    pub(super) fn ended(&self, aggregate: u32) {
        for (_, list) in self.0.0.borrow().iter() {
            if let Some(list) = list.upgrade() {
                list.borrow_mut().push(aggregate);
            }
        }
    }

    /// Makes all listeners handle their notices now, instead of with their next packet.
    pub(super) fn handle_now(&self, cx: &mut Cx) {
        for (name, _) in self.0.0.borrow().iter() {
            let handler = format!("{name}.ended");
            cx.defer(move |cx| {
                // A listener that no longer exists needs no call.
                let _ = cx.write(&handler, "");
            });
        }
    }
}

/// Parses the keyword `NOTIFIER`: the full name of an element that assigns numbers to aggregates.
pub(super) fn argument(args: &mut Args) -> Option<String> {
    let doc = "element that numbers aggregates and knows when one has ended";
    let what = "AggregateNotifier element";
    peer::named(args, ("NOTIFIER", doc), &NOTIFIERS, what)
}

/// Receiver of notices.
pub(super) struct Listener {
    list: Rc<List>,
    /// Reference that keeps the common list alive while a listener exists.
    _notifier: Option<Rc<Listeners>>,
}

impl Listener {
    /// Registers a listener with a notifier, if there is one.
    pub(super) fn new(notifier: Option<&str>, init: &Init) -> Listener {
        let list = Rc::<List>::default();
        let shared = notifier.map(|name| init.shared.get(name, Listeners::default));
        if let Some(notifier) = &shared {
            let mut all = notifier.0.borrow_mut();
            all.retain(|(name, list)| name != init.name && list.strong_count() > 0);
            all.push((init.name.to_owned(), Rc::downgrade(&list)));
        }
        Listener {
            list,
            _notifier: shared,
        }
    }

    /// Aggregates that have ended since the last call.
    pub(super) fn take_ended(&self) -> Vec<u32> {
        std::mem::take(&mut self.list.borrow_mut())
    }

    /// True if there are no unread notices.
    pub(super) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }
}
