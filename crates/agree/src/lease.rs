//! A server's lease and its renewals.
//!
//! Renewals are asked for at regular times. They wait neither for each other nor for other requests, so that a late
//! answer costs no lease: it is lost only if no renewal reaches the store in time.

use crate::Millis;
use crate::store::Lease;

/// Duration of a server's lease, in seconds: the time after which another server may lead. etcd, with its default
/// times, grants no shorter one.
pub(crate) const LEASE_SECONDS: u64 = 2;
/// Duration of a lease.
const LEASE: Millis = LEASE_SECONDS * 1000;
/// Time between renewals.
const RENEW: Millis = LEASE / 4;
/// Time between renewals of a lease that has been uncertain for as long as a lease lasts: the store is away.
const RENEW_UNCERTAIN: Millis = 1_000;
/// Maximum number of renewals whose answers are awaited.
const AWAITED_MAX: usize = 16;

/// The lease, if the server has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenure {
    held: Option<Held>,
    /// Renewals without an answer: their numbers, and the times at which they were asked for.
    awaited: Vec<(u64, Millis)>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    lease: Lease,
    renew_at: Millis,
    /// Time until which the store has the lease for certain.
    certain_until: Millis,
}

impl Tenure {
    /// The lease.
    pub(crate) fn lease(&self) -> Option<Lease> {
        self.held.map(|held| held.lease)
    }

    /// Begins with a lease that was asked for at a time.
    pub(crate) fn begin(&mut self, lease: Lease, asked: Millis, now: Millis) {
        self.end();
        self.held = Some(Held {
            lease,
            renew_at: now + RENEW,
            certain_until: asked + LEASE,
        });
    }

    /// Forgets the lease: the store does not have it.
    pub(crate) fn end(&mut self) {
        *self = Tenure::default();
    }

    /// True if the store has the lease for certain.
    pub(crate) fn is_certain(&self, now: Millis) -> bool {
        self.held.is_some_and(|held| now < held.certain_until)
    }

    /// Time of the next renewal; `None` without a lease.
    pub(crate) fn renew_at(&self) -> Option<Millis> {
        self.held.map(|held| held.renew_at)
    }

    /// Lease that is to be renewed now by the request with this number.
    pub(crate) fn renew(&mut self, number: u64, now: Millis) -> Option<Lease> {
        let held = self.held.as_mut().filter(|held| now >= held.renew_at)?;
        let answers = now < held.certain_until + LEASE;
        held.renew_at = now + if answers { RENEW } else { RENEW_UNCERTAIN };
        if self.awaited.len() >= AWAITED_MAX {
            self.awaited.remove(0);
        }
        self.awaited.push((number, now));
        Some(held.lease)
    }

    /// Time at which the renewal with this number was asked for; `None` if its answer is not awaited (any more).
    pub(crate) fn answered(&mut self, number: u64) -> Option<Millis> {
        let index = self.awaited.iter().position(|(of, _)| *of == number)?;
        Some(self.awaited.remove(index).1)
    }

    /// Notes that the store has renewed the lease by a request that was asked for at a time.
    pub(crate) fn renewed(&mut self, asked: Millis) {
        if let Some(held) = &mut self.held {
            held.certain_until = held.certain_until.max(asked + LEASE);
        }
    }
}
