//! Direct Valiant load balancing with local information (RB7, 3.2): the choice of a packet's path at its input node.
//!
//! Packets within the quota of their output node take the direct path. The quota is the input node's rate times the
//! output node's share of all rates, R/N between equal nodes. All other packets are spread over all other nodes by
//! their rates, including the output node, as in Valiant's scheme. (Without the output node, a permutation would load
//! links with (N-1)/(N-2) times 2R/N. Where nodes are several links apart, packets that would come back here take the
//! direct path, too: see [`Ways::stop`].)
//!
//! These shares alone keep the load of other nodes' packets below R/N per link, but quota, phase 1 and phase 2 could
//! still meet on one link. So a node counts what it sends on each of its links, including packets of others. It
//! avoids a link without tokens while another has some. Among links with tokens, a flow takes one that few flows to
//! its output node use. The reason: packets of several nodes to one output node add up on links of an intermediate
//! node, and none of the senders sees these links. A link deep in debt loses some of its flows first, chosen by their
//! hash, and all of them only at the end, so that few flows are reordered. All this information is local.
//!
//! Elements and the simulator call the same [`Spread::choose`].

use crate::address::{NO_NODE, NodeId};
use crate::bucket::{Bucket, BucketTime, Price};
use crate::flowlet::Flowlets;
use crate::map::Ways;

/// Number of intermediate nodes that are tried for one packet. After that the packet takes the best of them and waits
/// in its queue, or is refused.
const TRIES_MAX: u32 = 32;

/// Number of intermediate nodes with room among which the one with the fewest flows to the output node is chosen.
const CANDIDATES_MAX: u32 = 8;

/// Golden ratio as a fraction of 2^32: its multiples are evenly distributed (Weyl sequence), so one word of state
/// spreads as smoothly as round robin.
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

/// Parameters of a node's spreading.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// This worker's share of all rates: 1 divided by the number of workers that spread.
    pub share: f64,
    /// Nanoseconds for which quotas and links may save tokens or go into debt.
    pub burst: u32,
    /// Time in nanoseconds within which packets of a flow keep their path.
    pub delta: u64,
    /// Number of flows whose path is remembered; 0: every packet chooses for itself.
    pub flows: usize,
    /// Seed that makes the choices of different nodes and workers differ.
    pub seed: u32,
}

impl Default for Settings {
    /// One worker, 2 ms of burst, a delta of 100 ms (RB10), and 16,384 flows.
    fn default() -> Settings {
        Settings {
            share: 1.0,
            burst: 2_000_000,
            delta: 100_000_000,
            flows: 16384,
            seed: 0,
        }
    }
}

/// A packet's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The own link by which the packet leaves.
    pub link: u16,
    /// The intermediate node to visit first; [`NO_NODE`] if the packet goes directly to its output node.
    pub via: NodeId,
}

/// Reason why a packet gets no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No path of live links leads to the output node.
    NoPath,
    /// All paths that were tried are loaded beyond their rate.
    Full,
}

/// Number of packets by the reason for their path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Direct path, within the quota.
    pub direct: u64,
    /// Direct path, because spreading chose the output node.
    pub straight: u64,
    /// Number of packets sent to an intermediate node first.
    pub phase1: u64,
    /// Number of packets to an intermediate node that kept their flow's path.
    pub kept: u64,
    /// Number of packets to an intermediate node that left their flow's path, which was full or dead.
    pub moved: u64,
    /// Number of packets refused because no path leads to the output node.
    pub no_path: u64,
    /// Packets refused because all paths are full.
    pub full: u64,
}

/// Spreading state for one output node.
#[derive(Clone, Copy, Debug)]
struct Target {
    quota: Bucket,
    price: Price,
    /// Depth of the quota.
    depth: i64,
    /// Share of all rates, on a scale of 2^32.
    share_of_rates: u32,
    /// Sum of the shares of all nodes except the output node and the input node.
    others_share: i64,
    /// Position on the scale of all rates where the last packet was spread.
    point: u32,
}

/// State of an own link.
#[derive(Clone, Copy, Debug)]
struct Out {
    bucket: Bucket,
    price: Price,
    /// Depth of the bucket.
    depth: i64,
    bytes: u64,
}

/// Spreading of packets by one worker of an input node.
#[derive(Clone, Debug)]
pub struct Spread {
    settings: Settings,
    targets: Vec<Target>,
    outs: Vec<Out>,
    flowlets: Flowlets,
    counts: Counts,
}

impl Spread {
    /// Makes the spreading state for the node of `ways`.
    pub fn new(settings: Settings, ways: &Ways, now: u64) -> Spread {
        let mut spread = Spread {
            flowlets: Flowlets::new(settings.flows, settings.delta),
            settings,
            targets: Vec::new(),
            outs: Vec::new(),
            counts: Counts::default(),
        };
        spread.adapt(ways, now);
        spread
    }

    /// Adapts to a changed map: link rates change, but the debts remain. A change of live links on the same map needs
    /// no such call.
    pub fn adapt(&mut self, ways: &Ways, now: u64) {
        let map = ways.reach().fabric().map();
        let now = BucketTime::of(now);
        let rate = |node: usize| map.nodes.get(node).map_or(0.0, |node| node.rate);
        let own = rate(usize::from(ways.node())) * self.settings.share / map.rate().max(1.0);
        let seed = self.settings.seed ^ u32::from(ways.node()).wrapping_mul(0x85eb_ca6b);
        // A float-to-integer cast saturates: a single node may have the whole rate.
        let share_of_rates =
            |node: usize| (rate(node) / map.rate().max(1.0) * (1u64 << 32) as f64) as u32;
        let others = (0..map.nodes.len()).filter(|&node| node != usize::from(ways.node()));
        let others: i64 = others.map(|node| i64::from(share_of_rates(node))).sum();
        let burst = self.settings.burst;
        let targets = (0..map.nodes.len()).map(|to| {
            let known = self.targets.get(to);
            let price = Price::of(own * rate(to));
            Target {
                price,
                depth: price.depth(burst),
                share_of_rates: share_of_rates(to),
                others_share: others - i64::from(share_of_rates(to)),
                quota: known.map_or(Bucket::new(now), |known| known.quota),
                point: known.map_or_else(|| scramble(seed ^ to as u32), |known| known.point),
            }
        });
        self.targets = targets.collect();
        let outs = ways.rates().iter().enumerate().map(|(link, rate)| {
            let known = self.outs.get(link);
            let price = Price::of(rate * self.settings.share);
            Out {
                price,
                depth: price.depth(burst),
                bucket: known.map_or(Bucket::new(now), |known| known.bucket),
                bytes: known.map_or(0, |known| known.bytes),
            }
        });
        self.outs = outs.collect();
        self.flowlets.count(map.nodes.len());
    }

    /// Chooses the path of a packet of `bytes` bytes to another node.
    ///
    /// # Errors
    /// There is no path, or all are full: the caller drops the packet under that name.
    #[inline]
    pub fn choose(
        &mut self,
        now: u64,
        ways: &Ways,
        to: NodeId,
        bytes: u32,
        flow_hash: u32,
    ) -> Result<Choice, Refusal> {
        let packet = PathRequest {
            now: BucketTime::of(now),
            to,
            bytes,
            flow_hash,
        };
        let place = self.flowlets.lookup(now, flow_hash, to);
        if let Some((place, Some(via))) = place {
            if let Some(choice) = self.keep_path(ways, &packet, via) {
                self.flowlets.keep_path(place, now);
                self.counts.kept += 1;
                return Ok(choice);
            }
            self.counts.moved += 1;
        }
        let choice = match self.direct(ways, &packet) {
            Some(choice) => Ok(choice),
            None => self.balance(ways, &packet),
        };
        match choice {
            Ok(choice) => {
                if let Some((place, _)) = place {
                    self.flowlets
                        .set_path(place, now, flow_hash, to, choice.via);
                }
            }
            Err(Refusal::NoPath) => self.counts.no_path += 1,
            Err(Refusal::Full) => self.counts.full += 1,
        }
        choice
    }

    /// Records the number of bytes that the node has carried for others on an own link since the last call. The
    /// node's own packets yield to these.
    pub fn carried(&mut self, now: u64, link: u16, bytes: u32) {
        if let Some(out) = self.outs.get_mut(usize::from(link)) {
            let depth = out.depth;
            // Own packets within the quota may go into deeper debt, so others cannot take a node's guaranteed share.
            // All other own packets leave the link earlier. Bytes carried beyond this limit would be forgotten, and
            // the link overloaded.
            out.bucket
                .charge(BucketTime::of(now), depth, bytes, out.price, -depth);
        }
    }

    /// Counts of packets by the reason for their path.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Own bytes sent by each own link.
    pub fn sent(&self) -> impl Iterator<Item = u64> {
        self.outs.iter().map(|out| out.bytes)
    }

    /// Number of flows that keep their path now.
    pub fn flows(&self, now: u64) -> usize {
        self.flowlets.live_flows(now)
    }

    /// The path of the packet's flow, if it still leads to the output node and has room for the packet.
    #[inline]
    fn keep_path(&mut self, ways: &Ways, packet: &PathRequest, via: NodeId) -> Option<Choice> {
        let stop = if via == NO_NODE { packet.to } else { via };
        if !ways.allowed(stop, packet.to) {
            return None;
        }
        let link = ways.link_past(stop, packet.flow_hash, avoided_node(stop, packet.to))?;
        let out = self.outs.get_mut(usize::from(link))?;
        let (tokens, depth) = (out.tokens(packet), out.depth);
        // A flow leaves its link at a debt between half the limit and the limit, chosen by bits of the hash that choose
        // neither links nor table places. So only some flows leave a slightly overloaded link, and the others keep
        // their order.
        let stays = (depth * i64::from(packet.flow_hash >> 12 & 0xff)) >> 9;
        if tokens <= -depth / 2 - stays {
            return None;
        }
        out.send(packet, tokens);
        if via == NO_NODE {
            self.counts.straight += 1;
            if let Some(target) = self.targets.get_mut(usize::from(packet.to)) {
                target.use_quota(packet, target.tokens(packet));
            }
        } else {
            self.counts.phase1 += 1;
        }
        Some(Choice { link, via })
    }

    /// Chooses a path for a packet that has none yet, and exceeds the quota.
    #[inline(never)] // so that the code before it keeps its registers
    fn balance(&mut self, ways: &Ways, packet: &PathRequest) -> Result<Choice, Refusal> {
        let mut best: Option<(i64, u16, NodeId)> = None;
        // Best choice among links with room: the intermediate node that most lacks its share of the flows to this
        // output node.
        let mut evenly: Option<(i64, u16, NodeId)> = None;
        let mut looks = 0;
        let nodes = ways.reach().fabric().map().nodes.len();
        let target = self.targets.get(usize::from(packet.to));
        let mut point = target.ok_or(Refusal::NoPath)?.point;
        for tried in 0..TRIES_MAX as usize + nodes {
            let via = if tried < TRIES_MAX as usize {
                point = point.wrapping_add(GOLDEN_RATIO);
                ways.reach().fabric().node_at(point)
            } else if best.is_none() {
                // Random tries have failed: few nodes have room, if any.
                (tried - TRIES_MAX as usize) as NodeId
            } else {
                break;
            };
            // The next packet continues after the first possible node, however many nodes this packet tries. So every
            // node, including the output node, is first equally often.
            if best.is_none()
                && let Some(target) = self.targets.get_mut(usize::from(packet.to))
            {
                target.point = point;
            }
            let via = ways.stop(via, packet.to);
            if !ways.allowed(via, packet.to) {
                continue;
            }
            let Some(link) = ways.link_past(via, packet.flow_hash, avoided_node(via, packet.to))
            else {
                continue;
            };
            let Some((tokens, depth)) = self.tokens(packet, link) else {
                continue;
            };
            // Room in units of the permitted debt, so that links of different rates are comparable.
            let room = tokens.saturating_mul(256) / depth;
            if best.is_none_or(|(most, ..)| room > most) {
                best = Some((room, link, via));
            }
            if tokens >= 0 {
                // A direct path has no deficit: as the first candidate it counts as 0, later it never wins.
                let deficit = match via == packet.to {
                    true if looks == 0 => 0,
                    true => i64::MIN,
                    false => self.deficit(packet.to, via),
                };
                if evenly.is_none_or(|(most, ..)| deficit > most) {
                    evenly = Some((deficit, link, via));
                }
                looks += 1;
                if deficit >= 0 || looks == CANDIDATES_MAX {
                    break;
                }
            }
        }
        if let Some((_, link, stop)) = evenly {
            return Ok(self.send(packet, link, stop));
        }
        match best {
            // Packets carried for others may bring a link to its floor: each of them would admit one more packet.
            Some((room, link, stop)) if room > -256 => Ok(self.send(packet, link, stop)),
            Some(_) => Err(Refusal::Full),
            None => self.detour(ways, packet),
        }
    }

    /// Number of flows that an intermediate node lacks from its share of those to an output node. The unit is the same
    /// for all intermediate nodes, over which the numbers add up to 0.
    #[inline]
    fn deficit(&self, to: NodeId, via: NodeId) -> i64 {
        let (flows, all) = self.flowlets.visitors(to, via);
        let [share_of_rates, others_share] =
            [via, to].map(|node| self.targets.get(usize::from(node)));
        let share_of_rates = share_of_rates.map_or(0, |via| i64::from(via.share_of_rates));
        let others_share = others_share.map_or(0, |to| to.others_share);
        // A table has fewer than 2^31 flows, and parts are 2^32 in all.
        i64::from(all) * share_of_rates - i64::from(flows) * others_share
    }

    /// Direct path within the quota. This is guaranteed: only own packets can take the tokens of its link.
    #[inline]
    fn direct(&mut self, ways: &Ways, packet: &PathRequest) -> Option<Choice> {
        let target = self.targets.get_mut(usize::from(packet.to))?;
        let quota = target.tokens(packet);
        if quota < 0 || !ways.allowed(packet.to, packet.to) {
            return None;
        }
        let link = ways.link(packet.to, packet.flow_hash)?;
        let out = self.outs.get_mut(usize::from(link))?;
        let tokens = out.tokens(packet);
        if tokens <= -out.depth - out.depth / 2 {
            return None;
        }
        out.send(packet, tokens);
        target.use_quota(packet, quota);
        self.counts.direct += 1;
        Some(Choice { link, via: NO_NODE })
    }

    /// Chooses among live links where no intermediate node has both halves of its path at full length.
    #[cold]
    fn detour(&mut self, ways: &Ways, packet: &PathRequest) -> Result<Choice, Refusal> {
        let link = ways.link(packet.to, packet.flow_hash);
        let link = link.ok_or(Refusal::NoPath)?;
        match self.tokens(packet, link) {
            None => Err(Refusal::NoPath),
            Some((tokens, depth)) if tokens <= -depth / 2 => Err(Refusal::Full),
            Some(_) => Ok(self.send(packet, link, packet.to)),
        }
    }

    #[inline]
    fn tokens(&self, packet: &PathRequest, link: u16) -> Option<(i64, i64)> {
        let out = self.outs.get(usize::from(link))?;
        Some((out.tokens(packet), out.depth))
    }

    #[inline]
    fn send(&mut self, packet: &PathRequest, link: u16, stop: NodeId) -> Choice {
        if let Some(out) = self.outs.get_mut(usize::from(link)) {
            out.send(packet, out.tokens(packet));
        }
        let via = if stop == packet.to {
            self.counts.straight += 1;
            NO_NODE
        } else {
            self.counts.phase1 += 1;
            stop
        };
        Choice { link, via }
    }
}

impl Target {
    /// Tokens of the quota.
    #[inline]
    fn tokens(&self, packet: &PathRequest) -> i64 {
        self.quota.tokens(packet.now, self.depth)
    }

    /// Takes a packet from the quota, which has this number of tokens.
    #[inline]
    fn use_quota(&mut self, packet: &PathRequest, tokens: i64) {
        self.quota
            .charge_from(tokens, packet.now, packet.bytes, self.price, -self.depth);
    }
}

impl Out {
    /// Tokens of the link.
    #[inline]
    fn tokens(&self, packet: &PathRequest) -> i64 {
        self.bucket.tokens(packet.now, self.depth)
    }

    /// Counts an own packet on the link, which has this number of tokens.
    #[inline]
    fn send(&mut self, packet: &PathRequest, tokens: i64) {
        self.bucket
            .charge_from(tokens, packet.now, packet.bytes, self.price, i64::MIN);
        self.bytes += u64::from(packet.bytes);
    }
}

/// Node that packets to `stop` should not pass, namely the output node. In Valiant's scheme such packets would return
/// to the output node from `stop`. Here they would already have arrived, so the links of `to` would carry fewer of
/// them and other links more.
#[inline]
fn avoided_node(stop: NodeId, to: NodeId) -> NodeId {
    if stop == to { NO_NODE } else { to }
}

/// A packet that needs a path.
struct PathRequest {
    now: BucketTime,
    to: NodeId,
    bytes: u32,
    flow_hash: u32,
}

/// Mixes the bits of a number, so that small numbers give values all over the range.
fn scramble(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x21f0_aaad);
    let n = (n ^ n >> 15).wrapping_mul(0x735a_2d97);
    n ^ n >> 15
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
