//! Notifications between elements: packets to pull, and room to push into (see [`crate::notify`]).

use super::Cx;
use crate::did::Did;
use crate::graph::{Core, wake};
use crate::notify::{Notifies, Signal};

impl Cx<'_> {
    /// Notifier: packets may be pulled from this element. Wakes the tasks that pull from it, if the notifier last said
    /// that there were none.
    #[inline]
    pub fn wake_pullers(&mut self) {
        if !self.core.notes.packets[self.this] {
            self.core.note_packets(self.this);
        }
    }

    /// Notifier: until further notice nothing can be pulled from this element.
    #[inline]
    pub fn note_empty(&mut self) {
        self.core.notes.packets[self.this] = false;
    }

    /// Notifier: this element takes packets again. Wakes the tasks that push into it, if the notifier last said that
    /// there was no room.
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

    /// True if asking upstream of a pull input may give a packet. If not, this element hears when that
    /// changes: its task is woken, or its own notifier becomes active.
    #[inline]
    pub fn input_active(&self, input: usize) -> bool {
        let signal = self.core.plan.elements[self.this].signals.get(input);
        Signal::active(signal, &self.core.notes.packets)
    }

    /// True if an element downstream of a push output has room. Otherwise this element's task is woken when that
    /// changes.
    #[inline]
    pub fn has_room(&self, output: usize) -> bool {
        let signal = self.core.plan.elements[self.this].rooms.get(output);
        Signal::active(signal, &self.core.notes.room)
    }

    /// Result of a task that got nothing from a pull input: `Sleep` if it will be woken, otherwise `Nothing`.
    #[inline]
    pub fn rest(&self, input: usize) -> Did {
        if self.input_active(input) {
            Did::Nothing
        } else {
            Did::Sleep
        }
    }
}

impl Core {
    /// Marks a notifier as active: wakes the elements that pull from it, and the notifiers between.
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
