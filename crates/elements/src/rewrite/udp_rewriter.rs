//! Translates addresses and ports of UDP packets.
//!
//! Works like IPRewriter; see there for the specifications. But it does not distinguish TCP from UDP: both
//! are rewritten, and a mapping is used for both. Most configurations send it only UDP.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: UDPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Arguments: one specification for each input, as for IPRewriter.
//!
//! Keyword arguments:
//!
//! - `TIMEOUT` (or `UDP_TIMEOUT`): how long an unused mapping lasts. Default 5min.
//! - `STREAMING_TIMEOUT` (or `UDP_STREAMING_TIMEOUT`): the same for flows with three or more packets, in
//!   both directions. Default as `TIMEOUT`.
//! - `GUARANTEE` (or `UDP_GUARANTEE`), `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`, `REPLY_ANNO`: as for
//!   IPRewriter.

use super::handlers::{handlers, lookup, table};
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;
use nat::key::Kind;

pub(super) struct UDPRewriter;

impl Family for UDPRewriter {
    const CLASS: &'static str = "UDPRewriter";
    const MANUAL: &'static str = manual!();
    const KIND: Kind = Kind::Udp;

    const HANDLERS: &'static [Handler<Rewriter<UDPRewriter>>] = handlers![
        table::<_, 0>("table"),
        table::<_, 0>("mappings"),
        lookup::<_, 0>("lookup"),
    ];
}
