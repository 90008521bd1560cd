//! The two halves of a routing table: the structure that workers read, and the writer's data.
//!
//! Workers read the structure, by default a [`Fib`], whose words are atomic, then the published [`Groups`]. The
//! writer works under a lock that no worker takes. Data that a worker may still read is kept until all workers have
//! passed a quiescent point: the table's memory, and ids of groups. So a worker that took an id from the table finds
//! its group, even if the route has changed between the two reads.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use sync::Lock;
use sync::publish::{Epoch, Published, domain};
use tables::fib::{Fib, Full, Limbo, NoMemory, Rib, Structure};
use tables::groups::{GroupId, GroupTable, Groups, Member};

/// A routing table: the writer's state, which includes `W`, and the structure `S` in which workers look up addresses.
pub struct Store<const N: usize, W, S: Structure<N> = Fib<N>> {
    fib: Arc<S>,
    groups: Published<Groups>,
    writer: Lock<Writer<N, W, S>>,
}

/// Writer's half of a table, for the control thread.
pub struct Writer<const N: usize, W, S: Structure<N> = Fib<N>> {
    /// The routes.
    pub rib: Rib<N, S>,
    /// The groups of next hops.
    pub groups: GroupTable,
    /// Table-specific state besides routes and groups.
    pub table_state: W,
    retired: VecDeque<(Epoch, Limbo, Vec<GroupId>)>,
    /// Ids without a route that readers may still find, because their removal is not published yet for lack of room.
    untold: Vec<GroupId>,
}

impl<const N: usize, W, S: Structure<N>> Store<N, W, S> {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// Memory for the lookup structure ran out.
    pub fn new(table_state: W) -> Result<Self, NoMemory> {
        let rib = Rib::try_new()?;
        Ok(Store {
            fib: Arc::clone(rib.fib()),
            groups: Published::new(domain(), Groups::default()),
            writer: Lock::new(Writer {
                rib,
                groups: GroupTable::new(),
                table_state,
                retired: VecDeque::new(),
                untold: Vec::new(),
            }),
        })
    }

    /// Memory of the table in bytes.
    pub fn memory(&self) -> usize {
        self.lock().rib.memory_bytes()
    }

    /// Structure in which workers look up addresses.
    #[inline]
    pub fn fib(&self) -> &S {
        &self.fib
    }

    /// Groups by id, as workers read them.
    #[inline]
    pub fn groups(&self) -> &Published<Groups> {
        &self.groups
    }

    /// Locks the writer's half.
    pub fn lock(&self) -> MutexGuard<'_, Writer<N, W, S>> {
        self.writer.lock()
    }
}

impl<const N: usize, W, S: Structure<N>> Writer<N, W, S> {
    /// The members of a group.
    pub fn hops(&self, id: GroupId) -> Vec<Member> {
        self.groups.members(id).map(|(member, _)| member).collect()
    }

    /// Frees retired memory and ids that no worker can reach.
    pub fn free_retired(&mut self) {
        while let Some((epoch, ..)) = self.retired.front()
            && domain().has_passed(*epoch)
            && let Some((_, limbo, ids)) = self.retired.pop_front()
        {
            self.rib.release(limbo);
            ids.into_iter().for_each(|id| self.groups.release(id));
            let free = self.groups.take_limbo();
            self.groups.release_limbo(free);
        }
    }

    /// True if retired memory or ids wait until workers have passed their epoch.
    pub fn unsettled(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Retires ids that no route has, and table memory that is no longer in use.
    pub fn retire(&mut self, ids: Vec<GroupId>) {
        let limbo = self.rib.take_limbo();
        if !ids.is_empty() || !limbo.is_empty() {
            self.retired.push_back((domain().advance(), limbo, ids));
        }
    }

    /// Retires ids that no route has, once the removal of their routes is `published`.
    pub fn part_with(&mut self, ids: Vec<GroupId>, published: Result<(), Full>) {
        self.untold.extend(ids);
        let gone = match published {
            Ok(()) => std::mem::take(&mut self.untold),
            Err(Full) => Vec::new(),
        };
        self.retire(gone);
    }
}
