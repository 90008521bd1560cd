//! Translates addresses and ports of TCP and UDP packets (NAPT), flow by flow.
//!
//! A packet of a known flow is rewritten by its mapping, and leaves by the output of the mapping. Replies are
//! rewritten back, and leave by the mapping's output for replies. For a packet of a new flow, the specification of
//! its input decides; usually it makes a mapping for both directions. Checksums are updated (RFC 1624).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Arguments: one specification for each input.
//!
//! - `drop` (or `discard`): new flows are dropped, as `discarded`.
//! - `pass OUTPUT`: packets without a mapping leave unchanged, also those that are neither TCP nor UDP, and
//!   fragments except the first; no mapping is made.
//! - `keep FOUTPUT ROUTPUT`: a mapping that changes nothing, with outputs for both directions.
//! - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: a mapping to these addresses and ports; `-` leaves a
//!   field as it is. `SPORT` may be a range, `1024-65535`: the flow's own port if it is free there, else a
//!   random free one; `1024-65535?` is always random, `1024-65535#` goes through the range in turn. A port is
//!   free for a flow if replies to it cannot belong to another flow. So one port can serve flows to many
//!   destinations. Without a free port the packet is dropped, as `mapping_failure`.
//! - `pattern NAME FOUTPUT ROUTPUT`: a pattern of IPRewriterPatterns.
//! - `ELEMENT`: a mapper chooses the pattern: RoundRobinIPMapper, SourceIPHashMapper, or PortIPMapper.
//!
//! The fragments of a datagram except the first have no ports, and are dropped, as `fragment`. Put IPReassembler before
//! the rewriter, and IPFragmenter where packets leave.
//!
//! ICMPError after a rewriter quotes the rewritten packet. Send such errors through ICMPRewriter, so that the
//! packet's sender recognises it.
//!
//! Keyword arguments:
//!
//! - `TCP_TIMEOUT`, `TCP_NODATA_TIMEOUT`, `TCP_DONE_TIMEOUT`: lifetime of an unused mapping of a TCP
//!   connection: one that has carried data in both directions (24h), one that has not (5min), and one that has ended
//!   with RST or with FIN from both sides (4min).
//! - `UDP_TIMEOUT`, `UDP_STREAMING_TIMEOUT`: the same for UDP (5min), and for flows with three or more
//!   packets, in both directions (as `UDP_TIMEOUT`).
//! - `TCP_GUARANTEE`, `UDP_GUARANTEE`, or `GUARANTEE` for both: time after each packet in which a mapping cannot
//!   be replaced by that of another flow. Default 5s.
//! - `REAP_INTERVAL`: time between two removals of expired mappings. Default 10s, 15min with `ashlar click`. A mapping
//!   that has expired has no effect before that, but tables and counts still show it.
//! - `MAPPING_CAPACITY`: maximum number of mappings, or the name of another rewriter with which the capacity is
//!   shared. If the table is full, a new flow replaces the mapping that expires first among those whose guarantee is
//!   over; if there is none, the packet is dropped as `table_full`. Default 1048576, some 200 MB; with `ashlar click`
//!   there is no bound, as in Click.
//! - `DST_ANNO`: true if the destination annotation follows the rewritten destination. Default true.
//! - `REPLY_ANNO`: an annotation (`PAINT`, or a byte's number) that the first packet of a flow sets on all
//!   replies.
//!
//! The two directions of a flow may arrive on different workers. If all packets come through Steers with one
//! table, sorted by BucketByHash with a symmetric key (`FromDevice(..., CLASSIFY hash)`), each worker has the
//! flows of its buckets. A flow then gets a port for which the replies are in the flow's bucket: with 64512
//! ports and 256 buckets a flow has about 252 ports to choose from, for each destination. Every worker then has
//! its own `MAPPING_CAPACITY`. The patterns must have a range of ports, and fragments are not supported.
//!
//! Otherwise there is one copy, which has all flows. If several workers send packets to it, or to elements that
//! share its flows, the packets cross to one worker through queues that the plan puts before the inputs; the
//! order within flows is kept.

use super::handlers::{handlers, lookup, table};
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;
use nat::key::Kind;
use wire::proto;

pub(super) struct IPRewriter;

impl Family for IPRewriter {
    const CLASS: &'static str = "IPRewriter";
    const MANUAL: &'static str = manual!();
    const KIND: Kind = Kind::Ip;

    const HANDLERS: &'static [Handler<Rewriter<IPRewriter>>] = handlers![
        table::<_, { proto::TCP }>("tcp_table"),
        table::<_, { proto::UDP }>("udp_table"),
        table::<_, { proto::TCP }>("tcp_mappings"),
        table::<_, { proto::UDP }>("udp_mappings"),
        lookup::<_, { proto::TCP }>("tcp_lookup"),
        lookup::<_, { proto::UDP }>("udp_lookup"),
    ];
}
