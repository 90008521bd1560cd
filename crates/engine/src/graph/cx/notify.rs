//! Notifications between elements: packets to pull, and room to push into (see [`crate::notify`]).

use super::Cx;
use crate::graph::{Core, wake};
use crate::notify::{Notifies, Signal};
use crate::run_result::Did;

impl Cx<'_> {
    /// Signals that packets may be pulled from this element. Wakes the tasks that pull from it, if it had signalled
    /// that there were none.
    #[inline]
    pub fn wake_pullers(&mut self) {
        if !self.core.notes.packets[self.this] {
            self.core.note_packets(self.this);
        }
    }

    /// Signals that nothing can be pulled from this element until further notice.
    #[inline]
    pub fn note_empty(&mut self) {
        self.core.notes.packets[self.this] = false;
    }

    /// Signals that this element has room again. Wakes the tasks that push into it, if it had signalled that it was
    /// full.
    #[inline]
    pub fn wake_pushers(&mut self) {
        if !self.core.notes.room[self.this] {
            self.core.note_room(self.this);
        }
    }

    /// Signals that this element is full: it drops pushed packets until further notice.
    #[inline]
    pub fn note_full(&mut self) {
        self.core.notes.room[self.this] = false;
    }

    /// True if pulling through a pull input may return a packet. If not, this element is notified when that changes:
    /// its task is woken, or its own notifier becomes active.
    #[inline]
    pub fn input_active(&self, input: usize) -> bool {
        let signal = self.core.plan.elements[self.this].signals.get(input);
        Signal::active(signal, &self.core.notes.packets)
    }

    /// True if an element downstream of a push output has room. Otherwise this element's task is woken when that
    /// changes.
    #[inline]
    pub fn has_room(&self, output: usize) -> bool {
        let signal = self.core.plan.elements[self.this].room_signals.get(output);
        Signal::active(signal, &self.core.notes.room)
    }

    /// Result of a task that got nothing from a pull input: `Sleep` if it will be woken, otherwise `Nothing`.
    #[inline]
    pub fn idle_result(&self, input: usize) -> Did {
        if self.input_active(input) {
            Did::Nothing
        } else {
            Did::Sleep
        }
    }
}

impl Core {
    /// Marks a notifier as active; wakes the elements that pull from it, and activates the notifiers between.
    fn note_packets(&mut self, node: usize) {
        self.notes.packets[node] = true;
        for i in 0..self.plan.elements[node].listeners.len() {
            let listener = self.plan.elements[node].listeners[i];
            wake(&mut self.tasks, &mut self.schedule, listener);
            if Notifies::of(self.plan.elements[listener].class).packets
                && !self.notes.packets[listener]
            {
                self.note_packets(listener);
            }
        }
    }

    fn note_room(&mut self, node: usize) {
        self.notes.room[node] = true;
        for &filler in &self.plan.elements[node].fillers {
            wake(&mut self.tasks, &mut self.schedule, filler);
        }
    }
}
