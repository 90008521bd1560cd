//! The writer's half: every route, and the look-up structure that follows them.

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use super::routes::{Route, Routes};
use super::{Poptrie, Prefix, Structure};

/// The structure's memory is exhausted, or is in limbo and not released yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the routing table has no room for more routes")
    }
}

impl std::error::Error for Full {}

/// The system refuses memory for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory {
    /// Requested address space, in bytes.
    pub bytes: usize,
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.bytes.div_ceil(1 << 20);
        write!(
            f,
            "the system refuses the {mib} MiB of address space of a routing table"
        )
    }
}

impl std::error::Error for NoMemory {}

/// Memory that readers may still be using. Return it with [`Rib::release`] when every reader has passed a quiescent
/// point since it was taken.
#[derive(Debug, Default)]
#[must_use = "memory that is not released is lost to the table"]
pub struct Limbo(pub(super) Vec<u32>);

impl Limbo {
    /// True if no memory waits for readers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// All routes for addresses of `N` bytes, with the exclusive right to change them in the structure `S`.
///
/// [`Rib::insert`] and [`Rib::remove`] take effect at once. For many changes it is cheaper to stage them and publish
/// them together.
pub struct Rib<const N: usize, S: Structure<N> = Poptrie<N>> {
    routes: Routes<N>,
    staged: Vec<Prefix<N>>,
    writer: S::Writer,
}

/// Updates a structure so that it follows the routes; see [`Structure::Writer`].
pub trait Writer<const N: usize, F>: Sized {
    /// An empty structure and its writer.
    fn new() -> Result<Self, NoMemory>;

    /// The structure for readers.
    fn fib(&self) -> &Arc<F>;

    /// Updates the structure after the route of `prefix` has changed in `routes`.
    fn follow(&mut self, routes: &Routes<N>, prefix: &Prefix<N>) -> Result<(), Full>;

    /// Like [`Writer::follow`], for any number of changed routes.
    fn follow_all(&mut self, routes: &Routes<N>, changed: &[Prefix<N>]) -> Result<(), Full> {
        changed
            .iter()
            .try_for_each(|prefix| self.follow(routes, prefix))
    }

    /// Memory that was removed from the structure since the last call.
    fn take_limbo(&mut self) -> Limbo {
        Limbo::default()
    }

    /// Frees memory that no reader can be using.
    fn release(&mut self, _: Limbo) {}

    /// Number of bytes used besides those of the structure and the routes.
    fn memory_bytes(&self) -> usize {
        0
    }
}

impl<const N: usize, S: Structure<N>> Default for Rib<N, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize, S: Structure<N>> Rib<N, S> {
    /// An empty table.
    ///
    /// # Panics
    ///
    /// The system refuses its memory; see [`Rib::try_new`].
    pub fn new() -> Self {
        Self::try_new().unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// An empty table, or an error if the system refuses the memory.
    pub fn try_new() -> Result<Self, NoMemory> {
        Ok(Rib {
            routes: Routes::default(),
            staged: Vec::new(),
            writer: S::Writer::new()?,
        })
    }

    /// The structure for workers. It follows every change.
    pub fn fib(&self) -> &Arc<S> {
        self.writer.fib()
    }

    /// Adds or changes the route of this prefix; returns its previous id.
    pub fn insert(
        &mut self,
        prefix: impl Into<Prefix<N>>,
        id: NonZeroU16,
    ) -> Result<Option<NonZeroU16>, Full> {
        let prefix = prefix.into();
        let old = self.stage_insert(prefix, id);
        if old != Some(id) {
            self.publish_or_undo(prefix, old)?;
        }
        Ok(old)
    }

    /// Removes the route of exactly this prefix; returns its id. It can fail to reach readers only while memory waits
    /// in limbo.
    pub fn remove(&mut self, prefix: impl Into<Prefix<N>>) -> Result<Option<NonZeroU16>, Full> {
        let prefix = prefix.into();
        let old = self.stage_remove(prefix);
        if old.is_some() {
            self.publish_or_undo(prefix, old)?;
        }
        Ok(old)
    }

    fn publish_or_undo(&mut self, prefix: Prefix<N>, old: Option<NonZeroU16>) -> Result<(), Full> {
        self.publish().inspect_err(|_| {
            match old {
                Some(id) => self.routes.insert(prefix, id),
                None => self.routes.remove(&prefix),
            };
            if let [_] = self.staged[..] {
                self.staged.clear(); // readers have not seen the staged changes
            }
        })
    }

    /// Like [`Rib::insert`], visible to readers after [`Rib::publish`].
    pub fn stage_insert(&mut self, prefix: Prefix<N>, id: NonZeroU16) -> Option<NonZeroU16> {
        let old = self.routes.insert(prefix, id);
        if old != Some(id) {
            self.staged.push(prefix);
        }
        old
    }

    /// Like [`Rib::remove`], visible to readers after [`Rib::publish`].
    pub fn stage_remove(&mut self, prefix: Prefix<N>) -> Option<NonZeroU16> {
        let old = self.routes.remove(&prefix);
        if old.is_some() {
            self.staged.push(prefix);
        }
        old
    }

    /// Publishes the staged changes: each address switches from its old route to its new one atomically. If there is
    /// no room, the changes stay staged, and readers may see a part of them.
    pub fn publish(&mut self) -> Result<(), Full> {
        match &self.staged[..] {
            [] => {}
            [one] => self.writer.follow(&self.routes, one)?,
            all => self.writer.follow_all(&self.routes, all)?,
        }
        match self.staged.capacity() {
            0..1024 => self.staged.clear(),
            _ => self.staged = Vec::new(),
        }
        Ok(())
    }

    /// The longest route that covers `prefix` and is shorter than it.
    pub fn covering(&self, prefix: &Prefix<N>) -> Option<Route<N>> {
        self.routes.covering(prefix)
    }

    /// The id of the route of exactly this prefix.
    pub fn get(&self, prefix: &Prefix<N>) -> Option<NonZeroU16> {
        self.routes.get(prefix)
    }

    /// All routes, by address and then by length.
    pub fn iter(&self) -> impl Iterator<Item = Route<N>> {
        self.routes.iter()
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True if there are no routes.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Memory of both halves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.fib().memory_bytes() + self.writer.memory_bytes() + self.routes.memory_bytes()
    }

    /// Memory that must wait until readers have passed a quiescent point from now on.
    pub fn take_limbo(&mut self) -> Limbo {
        self.writer.take_limbo()
    }

    /// Frees groups that no reader can reach.
    pub fn release(&mut self, limbo: Limbo) {
        self.writer.release(limbo);
    }
}

impl<const N: usize, S: Structure<N>> fmt::Debug for Rib<N, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
