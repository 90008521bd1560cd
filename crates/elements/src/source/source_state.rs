//! Common part of sources: their packet, the number of packets, their activity, and their end.

use super::end_action::End;
use super::template::Template;
use crate::prelude::*;
use arguments::units::{self, FromArg};

/// Settings and counters of a source's packets.
#[derive(Clone)]
pub(crate) struct Supply {
    pub(super) template: Template,
    /// Maximum number of packets; negative for no limit.
    pub(super) limit: i64,
    pub(super) active: bool,
    /// Number of packets created.
    pub(super) count: u64,
    end: End,
    /// True if the end was announced; a puller may ask again afterwards.
    ended: bool,
}

impl Supply {
    /// Parses `STOP` and `END_CALL`; the other settings were parsed before.
    pub(super) fn new(args: &mut Args, template: Template, limit: i64, active: bool) -> Supply {
        Supply {
            template,
            limit,
            active,
            count: 0,
            end: End::parse(args),
            ended: false,
        }
    }

    /// Number of packets that may still be created.
    pub(super) fn remaining(&self) -> usize {
        remaining_before(self.limit, self.count)
    }

    /// True if the limit is reached. The first such call announces the end, with its actions.
    pub(super) fn limit_reached(&mut self, cx: &mut Cx) -> bool {
        let over = self.remaining() == 0;
        if over && !self.ended {
            self.ended = true;
            self.end.handle_end(cx);
        }
        over
    }

    /// Creates up to `n` packets with the timestamp `stamp`; 0 for none. Calls `fill` for each.
    pub(super) fn create(
        &mut self,
        n: usize,
        stamp: u64,
        into: &mut Batch,
        mut fill: impl FnMut(&mut Packet),
    ) -> usize {
        for made in 0..n {
            let Some(mut packet) = self.template.packet() else {
                return made;
            };
            fill(&mut packet);
            // Without a timestamp, the second cache line of the packet's metadata stays untouched.
            if stamp != 0 {
                packet.cold_mut().timestamp = stamp;
            }
            self.count += 1;
            into.push(packet);
        }
        n
    }
}

/// Number of packets that may still be created before `limit`; a negative limit is none.
pub(crate) fn remaining_before(limit: i64, count: u64) -> usize {
    u64::try_from(limit).map_or(usize::MAX, |limit| {
        usize::try_from(limit.saturating_sub(count)).unwrap_or(usize::MAX)
    })
}

/// Class with a [`Supply`], which provides common handlers.
pub(crate) trait Source: Element {
    /// The element's supply.
    fn supply(&self) -> &Supply;

    /// The element's supply, mutable.
    fn supply_mut(&mut self) -> &mut Supply;

    /// Handles a changed setting, after which packets may be due.
    fn changed(&mut self, cx: &mut Cx);
}

/// Changes a setting, after which packets may be due again.
pub(super) fn set<E: Source, T: FromArg>(
    e: &mut E,
    value: &str,
    cx: &mut Cx,
    put: impl FnOnce(&mut E, T),
) -> Result<(), String> {
    let value = units::parse(value)?;
    put(e, value);
    let supply = e.supply_mut();
    // The end comes again only after further packets, as in Click.
    supply.ended &= supply.remaining() == 0;
    e.changed(cx);
    Ok(())
}

pub(super) const fn count<E: Source>() -> Handler<E> {
    Handler::sum("count", "packets made", |e| e.supply().count)
}

pub(super) const fn reset<E: Source>() -> Handler<E> {
    let doc = "counts from zero again, up to LIMIT";
    Handler::set("reset", doc, |e, _, cx| {
        let supply = e.supply_mut();
        (supply.count, supply.ended) = (0, false);
        e.changed(cx);
        Ok(())
    })
}

pub(super) const fn data<E: Source>() -> Handler<E> {
    Handler::text("data", "see DATA", |e, _| {
        Ok(e.supply().template.show_data())
    })
}

pub(super) const fn set_data<E: Source>() -> Handler<E> {
    Handler::set("data", "see DATA", |e, value, _| {
        e.supply_mut().template.set_data(value)
    })
}

pub(super) const fn length<E: Source>() -> Handler<E> {
    Handler::text("length", "see LENGTH", |e, _| {
        Ok(e.supply().template.show_length())
    })
}

pub(super) const fn set_length<E: Source>() -> Handler<E> {
    Handler::set("length", "see LENGTH", |e, value, _| {
        e.supply_mut().template.set_length(value)
    })
}

pub(super) const fn limit<E: Source>() -> Handler<E> {
    Handler::text("limit", "see LIMIT", |e, _| {
        Ok(e.supply().limit.to_string())
    })
}

pub(super) const fn set_limit<E: Source>() -> Handler<E> {
    Handler::set("limit", "see LIMIT", |e, value, cx| {
        set(e, value, cx, |e, limit| e.supply_mut().limit = limit)
    })
}

pub(super) const fn active<E: Source>() -> Handler<E> {
    Handler::text("active", "see ACTIVE", |e, _| {
        Ok(e.supply().active.to_string())
    })
}

pub(super) const fn set_active<E: Source>() -> Handler<E> {
    Handler::set("active", "see ACTIVE", |e, value, cx| {
        set(e, value, cx, |e, active| e.supply_mut().active = active)
    })
}
