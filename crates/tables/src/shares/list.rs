//! Scheduling of a node's children: deficit round robin, with priority for newly active children.
//!
//! A child sends while its deficit is above 0. Then it gets its quantum and waits for the next round, after all
//! others. A quantum is at least a packet, so every listed child may send, and finding the next one takes constant
//! time. A child that was idle, and has not used its quantum of this round, is served before those that wait (as
//! "new" flows of RFC 8290). It never gets more than one quantum in a round.

/// Index that means no child.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The node and all its descendants have no packet to send.
    Idle,
    /// The node is in a list of its parent.
    Listed,
    /// The node waits until its ceiling lets it send.
    Waiting,
}

/// Scheduling state of a node, as seen by its parent.
pub(super) struct Link {
    /// Number of bytes that the node may send in this round.
    pub(super) deficit: i32,
    pub(super) quantum: u32,
    /// The parent's round for which the deficit is valid.
    pub(super) round: u32,
    next: u32,
    /// Time in ticks from which the node's ceiling lets it send.
    pub(super) due: u64,
    pub(super) parent: u32,
    /// Index of the node's ceiling; 0 = none.
    pub(super) ceiling: u16,
    pub(super) state: State,
    /// True if CoDel watches the queue; false for other nodes.
    pub(super) watched: bool,
}

impl Link {
    pub(super) fn new(quantum: u32, ceiling: u16, parent: u32) -> Link {
        Link {
            deficit: quantum as i32,
            quantum,
            round: 0,
            next: NONE,
            due: 0,
            parent,
            ceiling,
            state: State::Idle,
            watched: false,
        }
    }

    /// The next child in the list.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Adds a quantum at the end of the child's turn.
    #[inline]
    fn refill(&mut self) {
        while self.deficit <= 0 {
            self.deficit += self.quantum as i32; // more than once only for packets beyond the MTU
        }
    }
}

/// A node that is a member of its parent's lists.
pub(super) trait Child {
    fn link(&mut self) -> &mut Link;
    fn round(&self) -> u32;
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: List = List {
        head: NONE,
        tail: NONE,
    };

    #[inline]
    fn push<C: Child>(&mut self, children: &mut [C], child: u32) {
        children[child as usize].link().next = NONE;
        match self.head {
            NONE => self.head = child,
            _ => children[self.tail as usize].link().next = child,
        }
        self.tail = child;
    }

    #[inline]
    fn pop<C: Child>(&mut self, children: &mut [C]) {
        self.head = children[self.head as usize].link().next;
    }
}

/// The children of a node that may send.
#[derive(Clone, Copy)]
pub(super) struct Lists {
    /// Newly active children.
    new: List,
    old: List,
    round: u32,
}

impl Lists {
    pub(super) const EMPTY: Lists = Lists {
        new: List::EMPTY,
        old: List::EMPTY,
        round: 0,
    };

    /// The next child to be served; `NONE` if there is none.
    #[inline]
    pub(super) fn first(&self) -> u32 {
        match self.new.head {
            NONE => self.old.head,
            child => child,
        }
    }

    /// Adds a child that has something to send and may send.
    #[inline]
    pub(super) fn add<C: Child>(&mut self, children: &mut [C], child: u32) {
        let link = children[child as usize].link();
        link.state = State::Listed;
        let ahead = link.round.wrapping_sub(self.round) as i32;
        if ahead < 0 {
            (link.deficit, link.round) = (link.quantum as i32, self.round);
        }
        if ahead <= 0 && link.deficit > 0 {
            return self.new.push(children, child);
        }
        if link.deficit <= 0 {
            link.refill();
            link.round = self.round.wrapping_add(1);
        }
        self.old.push(children, child);
    }

    /// Records that the served child has sent, and is now in `state`.
    #[inline]
    pub(super) fn served<C: Child>(&mut self, children: &mut [C], child: u32, state: State) {
        let is_old = self.new.head == NONE;
        if is_old {
            self.round = children[child as usize].round();
        }
        let link = children[child as usize].link();
        link.state = state;
        if state == State::Listed && link.deficit > 0 {
            return;
        }
        let list = if is_old { &mut self.old } else { &mut self.new };
        list.pop(children);
        if state == State::Listed {
            let link = children[child as usize].link();
            link.refill();
            link.round = self.round.wrapping_add(1);
            self.old.push(children, child);
        }
    }
}
