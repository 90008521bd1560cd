//! Ports around other ports, for tests and experiments: `fault:`, `record:` and `pace:` before the
//! name of the port that they change, as in `fault:loss=0.01,seed=7/eth0`.

mod fault;
mod pace;
mod record;

use engine::port::{Port, PortCounter, PortInfo};
pub(crate) use fault::Fault;
pub(crate) use pace::Pace;
pub(crate) use record::Record;
use std::sync::Arc;

/// Splits the part of a name behind the scheme into the settings and the inner port, at `separator`.
///
/// # Errors
/// The name has no inner port; the sentence shows `form`.
fn split<'n>(rest: &'n str, separator: &str, form: &str) -> Result<(&'n str, &'n str), String> {
    let (scheme, _) = form.split_once(':').unwrap_or_default();
    let parts = rest.split_once(separator);
    parts.ok_or_else(|| format!("{scheme}:{rest} names no port to work on: write {form}"))
}

/// The control side of a wrapped port: the inner one, with more counters.
struct Wrapped<C> {
    inner: Arc<dyn Port>,
    what: &'static str,
    extra_counters: C,
}

impl<C: Fn() -> Vec<PortCounter> + Send + Sync> Port for Wrapped<C> {
    fn info(&self) -> PortInfo {
        let mut info = self.inner.info();
        info.driver = format!("{} over {}", self.what, info.driver);
        info.super_frames = false;
        info
    }

    fn link_up(&self) -> bool {
        self.inner.link_up()
    }

    fn is_settling(&self) -> bool {
        self.inner.is_settling()
    }

    fn counters(&self) -> Vec<PortCounter> {
        let mut all = self.inner.counters();
        all.extend((self.extra_counters)());
        all
    }
}
