//! Structures that readers get as a whole: simple ones, for small tables and for comparison.

use std::num::NonZeroU16;
use std::sync::Arc;

use super::rib::{Full, NoMemory, Writer};
use super::routes::Routes;
use super::{Prefix, Structure};

/// A structure that is changed in place while no reader has it.
pub trait Whole<const N: usize>: Structure<N> + Clone + Default {
    /// Gives `prefix` this id, or takes its route away.
    fn change(&mut self, prefix: &Prefix<N>, id: Option<NonZeroU16>);
}

/// Keeps a [`Whole`] structure in step with the routes. A reader that holds [`Rib::fib`](super::Rib::fib) keeps
/// what it is at that moment; the first change after that copies it.
pub struct WholeWriter<S>(Arc<S>);

impl<const N: usize, S: Whole<N>> Writer<N, S> for WholeWriter<S> {
    fn new() -> Result<Self, NoMemory> {
        Ok(WholeWriter(Arc::default()))
    }

    fn fib(&self) -> &Arc<S> {
        &self.0
    }

    fn follow(&mut self, routes: &Routes<N>, prefix: &Prefix<N>) -> Result<(), Full> {
        Arc::make_mut(&mut self.0).change(prefix, routes.get(prefix));
        Ok(())
    }
}
