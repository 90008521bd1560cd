//! Whose turn it is among the children of a node: deficit round robin with a place in front for those that just came.
//!
//! A child sends while its deficit is above 0; then it gets its quantum and waits for the next round, behind all others.
//! As a quantum is a packet or more, each child that is listed may send, and to find the next one takes one look. A
//! child that had nothing to send, and has not used its quantum of this round, is served before those that wait (as
//! "new" flows of RFC 8290), but in a round it never gets more than one quantum.

/// No child.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing below it has something to send.
    Idle,
    /// It is in a list of its parent.
    Listed,
    /// It may send again when its time has come.
    Waiting,
}

/// What a node is to its parent.
pub(super) struct Link {
    /// Bytes that it may send in this round.
    pub(super) deficit: i32,
    pub(super) quantum: u32,
    /// The parent's round in which it may send those.
    pub(super) round: u32,
    next: u32,
    /// When its ceiling lets it send, in ticks.
    pub(super) due: u64,
    pub(super) parent: u32,
    /// Which ceiling; 0 is none.
    pub(super) ceiling: u16,
    pub(super) state: State,
    /// Of a queue: whether CoDel looks at it.
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

    /// Who comes behind it in its list.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Another quantum, at the end of its turn.
    #[inline]
    fn refill(&mut self) {
        while self.deficit <= 0 {
            self.deficit += self.quantum as i32; // more than once only for packets beyond the MTU
        }
    }
}

/// What is in lists.
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
    /// Those that just came.
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

    /// Whose turn it is; `NONE` if there is no child.
    #[inline]
    pub(super) fn first(&self) -> u32 {
        match self.new.head {
            NONE => self.old.head,
            child => child,
        }
    }

    /// A child has something to send, and may.
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

    /// The child whose turn it is has sent; it goes on, or is in this state now.
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
