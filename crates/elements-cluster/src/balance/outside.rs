//! Next hops and stations outside, as learnt by ARP and neighbour discovery.

use super::Peer;
use super::balance_out::Out;
use super::hops::{FRESH, Hops};
use super::shared::Shared;
use super::stations::tick;
use crate::prelude::*;
use std::fmt::Display;
use std::hash::Hash;
use wire::EtherAddr;

/// Next hops of one IP version, and BalanceOut's table of senders.
pub(super) struct Outside<A> {
    pub(super) shared: Arc<Shared>,
    out: Option<Arc<Out>>,
    pub(super) hops: Hops<A>,
}

impl<A: Copy + Eq + Hash + Ord + Display> Outside<A> {
    pub(super) fn new(pool: &Peer, out: &Peer, capacity: usize, init: &Init) -> Outside<A> {
        Outside {
            shared: pool.shared(init),
            out: out.find(init),
            hops: Hops::new(capacity, init.now),
        }
    }

    /// True if the Ethernet address belongs to a back end or the balancer. A message from outside with such a sender is
    /// forged.
    pub(super) fn is_inside(&self, ether: EtherAddr) -> bool {
        let out = self.out.as_ref();
        self.shared.at(ether).is_some() || out.is_some_and(|out| out.is_own(ether))
    }

    /// Records the front port of a sender.
    pub(super) fn hear(&self, ether: EtherAddr, front: usize, now: Time) {
        if let Some(out) = &self.out {
            out.stations.learn(ether, front as u8, tick(now.0));
        }
    }

    /// Ethernet address of a recently heard next hop.
    pub(super) fn fresh(&self, address: A, now: Time) -> Option<EtherAddr> {
        let ether = self.hops.ether(address)?;
        let age = self.out.as_ref()?.stations.age(ether, tick(now.0))?;
        (age <= FRESH).then_some(ether)
    }

    /// Records the Ethernet address of a next hop. Returns the Ethernet addresses of the back ends to inform: those
    /// with a pending request, or all if the address has changed.
    pub(super) fn learn(
        &mut self,
        address: A,
        ether: EtherAddr,
        front: usize,
        now: Time,
    ) -> Vec<EtherAddr> {
        let backends = &self.shared.backends;
        let to = self.hops.learn(address, ether, front, backends.len(), now);
        let known = to.iter().filter_map(|of| backends.get(usize::from(*of)));
        known.map(|backend| backend.ether).collect()
    }
}
