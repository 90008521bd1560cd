//! Ports around other ports, for tests and experiments: `fault:`, `record:` and `pace:` before the
//! name of the port that they change, as in `fault:loss=0.01,seed=7/eth0`.

mod fault;
mod pace;
mod record;

use crate::events::Events;
use crate::parts::Parts;
use engine::port::{Port, PortCounter, PortInfo};
use std::sync::Arc;

/// A wrapper with its settings.
pub(crate) enum Wrap {
    Fault(fault::Rates),
    Record(String),
    Pace(f64),
}

/// Splits the name of a wrapped port into the wrapper and the port inside; `None` if the name means
/// no wrapper.
///
/// # Errors
/// The wrapper's settings are wrong; a sentence.
pub(crate) fn parse(name: &str) -> Result<Option<(Wrap, &str)>, String> {
    let Some((kind, rest)) = name.split_once(':') else {
        return Ok(None);
    };
    let inside = |settings: Option<(_, _)>, form: &str| {
        settings.ok_or_else(|| format!("{name} names no port to work on: write {form}"))
    };
    let wrapped = match kind {
        "fault" => {
            let (rates, port) = inside(
                rest.split_once('/'),
                "fault:loss=0.01,dup=0.01,corrupt=0.01,seed=7/PORT",
            )?;
            (Wrap::Fault(fault::Rates::parse(rates)?), port)
        }
        "record" => {
            // Paths also contain slashes, so the path ends with the file's extension.
            let (file, port) = inside(rest.split_once(".pcap/"), "record:FILE.pcap/PORT")?;
            (Wrap::Record(format!("{file}.pcap")), port)
        }
        "pace" => {
            let (rate, port) = inside(rest.split_once('/'), "pace:PACKETS_PER_SECOND/PORT")?;
            (Wrap::Pace(pace::parse(rate)?), port)
        }
        _ => return Ok(None),
    };
    Ok(Some(wrapped))
}

impl Wrap {
    /// Puts the wrapper around an open port.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub(crate) fn around(&self, parts: Parts, events: &Events) -> Result<Parts, String> {
        match self {
            Wrap::Fault(rates) => Ok(fault::around(*rates, parts)),
            Wrap::Record(file) => record::around(file, parts, events),
            Wrap::Pace(rate) => Ok(pace::around(*rate, parts)),
        }
    }
}

/// The control side of a wrapped port: the inner one, with more counters.
struct Wrapped<C> {
    inner: Arc<dyn Port>,
    what: &'static str,
    more: C,
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
        all.extend((self.more)());
        all
    }
}
