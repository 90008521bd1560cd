//! Buckets move between the workers of a running router.

use super::{AskError, Router};
use crate::graph::Graph;
use crate::handler::Use;
use crate::plan::Plan;
use crate::steer::{self, Ask, Moved};
use std::sync::{MutexGuard, PoisonError};

impl Ask for Router {
    fn each<R: Send + 'static>(
        &self,
        what: impl Fn(&mut Graph) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        self.ask_all(move |inside| what(inside.graph()))
    }

    fn one<R: Send + 'static>(
        &self,
        worker: usize,
        what: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.ask(worker, move |inside| what(inside.graph()))
    }
}

impl Router {
    /// Keeps buckets where they are, and the plan.
    pub(super) fn no_moves(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a worker own these buckets of a table, named by itself or by an element that steers by it. It
    /// blocks until they have moved, about a millisecond. See [`steer`].
    pub fn move_buckets(&self, table: &str, buckets: &[u16], to: usize) -> Result<Moved, AskError> {
        let _moves = self.no_moves();
        steer::move_buckets(self, &self.plan(), table, buckets, to)
    }

    /// What elements that steer leave to the router: their handler `move`.
    pub(super) fn steer_by_hand(
        &self,
        plan: &Plan,
        node: usize,
        (handler, wanted): (&str, Use),
        value: &str,
    ) -> Option<Result<String, AskError>> {
        let element = &plan.elements[node];
        let table = (element.class.steers)(&element.config)?;
        if handler != "move" || wanted != Use::Write {
            return None;
        }
        let moved = steer::parse_move(value).map_err(AskError::Refused);
        Some(moved.and_then(|(buckets, to)| {
            let moved = self.move_buckets(table.name(), &buckets, to)?;
            Ok(moved.to_string())
        }))
    }
}
