//! Label operations of MPLSLookup and LinuxMPLSLookup: swap, pop and push.

use super::header::{Life, Mode};
use crate::prelude::*;
use engine::publish::Reader;
use forwarding::label_table::{Hop, LabelTable};
use wire::FlowKey;
use wire::mpls::{self, Entry, LEN};

/// A table of labels, and how it is used.
pub(crate) struct Switch {
    pub(crate) table: Arc<LabelTable>,
    pub(crate) mode: Mode,
    /// Seed of the flow hash. It must be secret and differ from the next router's, or flows polarise there.
    pub(crate) seed: u32,
}

/// Reason why a packet is not switched.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The time to live has expired.
    Expired,
    /// The label has no entry.
    NoLabel,
    /// The stack has no end.
    BadStack,
    /// There is no room for further labels.
    NoHeadroom,
    /// The class wants the packet to go elsewhere, unchanged.
    Verdict(Verdict),
}

/// Route of a packet's label stack.
struct LabelRoute<'t> {
    hop: &'t Hop,
    /// Bytes of labels that are popped.
    popped_bytes: usize,
    /// The last label that is popped.
    last_label: Entry,
    /// Time to live and class that the packet came with.
    ttl_and_class: Life,
}

/// Swaps the only label of a packet, or the outermost one of two, for another, if `out` knows where packets for its
/// port go.
#[inline(always)]
pub(crate) fn swap(
    table: &LabelTable,
    reader: &Reader,
    packet: &mut Packet,
    out: impl FnOnce(u16) -> Option<Verdict>,
) -> Option<Verdict> {
    let data = packet.data_mut();
    let word = u32::from_be_bytes(*data.first_chunk()?);
    let top = Entry::of(word);
    let stack = match top.bottom {
        true => LEN,
        false if Entry::read(data, LEN)?.bottom => 2 * LEN,
        false => return None,
    };
    let swap = table.swap(top.label, reader)?;
    if top.ttl <= 1 {
        return None;
    }
    let verdict = out(swap.port)?;
    *data.first_chunk_mut()? = Entry::swapped(word, swap.label).to_be_bytes();
    packet.set_network_offset(stack);
    if let Some(gateway) = swap.gateway() {
        packet.anno_mut().set_dst4(gateway);
    }
    Some(verdict)
}

impl Switch {
    /// Carries out the entry of the table, if `out` knows the output for its hop. Otherwise, and for all stops, the
    /// packet is unchanged.
    pub(crate) fn slow<'r>(
        &'r self,
        packet: &mut Packet,
        reader: &'r Reader,
        out: impl FnOnce(&Hop) -> Result<Verdict, Verdict>,
    ) -> Result<(&'r Hop, Verdict), Stop> {
        let data = packet.data();
        let stack = mpls::stack_len(data).map_err(|_| Stop::BadStack)?;
        let found = self.find(data, stack, reader);
        packet.set_network_offset(stack);
        let found = found?;
        let verdict = out(found.hop).map_err(Stop::Verdict)?;
        match self.relabel(packet, &found) {
            true => Ok((found.hop, verdict)),
            false => Err(Stop::NoHeadroom),
        }
    }

    /// A hash of the flow that a packet below its labels belongs to.
    #[inline(never)]
    fn hash(&self, data: &[u8], stack: usize) -> u32 {
        let (labels, payload) = data.split_at(stack);
        match FlowKey::of_ip_or_quoted(payload) {
            Some(flow) => flow.hash(self.seed),
            None => labels.chunks(LEN).fold(self.seed, |hash, entry| {
                // The label alone, because class and time to live differ within a flow.
                let label = Entry::read(entry, 0).map_or(0, |entry| entry.label);
                let mixed =
                    (u64::from(hash) << 20 ^ u64::from(label)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 32) as u32
            }),
        }
    }

    /// Follows the labels that are for this router.
    #[inline]
    fn find<'t>(
        &'t self,
        data: &[u8],
        stack: usize,
        reader: &'t Reader,
    ) -> Result<LabelRoute<'t>, Stop> {
        let uniform = self.mode == Mode::Uniform;
        let mut carried: Option<Life> = None;
        let mut at = 0;
        while let Some(top) = Entry::read(data, at) {
            let Some(entry) = self.table.find(top.label, reader) else {
                return Err(Stop::NoLabel);
            };
            let own = Life {
                ttl: top.ttl,
                exp: top.exp,
            };
            let ttl_and_class = match carried {
                Some(outer) if uniform => Life {
                    ttl: outer.ttl.min(own.ttl),
                    exp: outer.exp,
                },
                _ => own,
            };
            if ttl_and_class.ttl <= 1 {
                return Err(Stop::Expired);
            }
            let hop = entry.hop(|| self.hash(data, stack));
            let hop = hop.ok_or(Stop::NoLabel)?;
            at += LEN;
            if !hop.labels.is_empty() || hop.gateway.is_some() || top.bottom {
                return Ok(LabelRoute {
                    hop,
                    popped_bytes: at,
                    last_label: top,
                    ttl_and_class,
                });
            }
            carried = Some(ttl_and_class);
        }
        Err(Stop::BadStack)
    }

    /// Changes the packet's labels as the hop requires; false if there is no room.
    #[inline]
    fn relabel(&self, packet: &mut Packet, found: &LabelRoute) -> bool {
        let (hop, last, life) = (found.hop, found.last_label, found.ttl_and_class);
        let uniform = self.mode == Mode::Uniform;
        let onward = Life {
            ttl: life.ttl - 1,
            exp: life.exp,
        };
        let new = hop.labels.len() * LEN;
        if new == 0 {
            if !packet.pull(found.popped_bytes) || !uniform {
                return true;
            }
            let data = packet.data_mut();
            match last.bottom {
                // The next lookup decrements the TTL.
                true if hop.gateway.is_none() => life.into_ip(data),
                true => onward.into_ip(data),
                false => {
                    if let Some(mut top) = Entry::read(data, 0) {
                        (top.ttl, top.exp) = (onward.ttl.min(top.ttl), onward.exp);
                        top.write(data, 0);
                    }
                }
            }
            return true;
        }
        let fits = match new.checked_sub(found.popped_bytes) {
            None => packet.pull(found.popped_bytes - new),
            Some(0) => true,
            Some(more) => packet.push(more).is_some(),
        };
        if fits {
            let data = packet.data_mut();
            for (i, label) in hop.labels.outermost_first().enumerate() {
                let entry = Entry {
                    label,
                    exp: onward.exp,
                    bottom: last.bottom && i + 1 == hop.labels.len(),
                    ttl: onward.ttl,
                };
                entry.write(data, i * LEN);
            }
        }
        fits
    }
}
