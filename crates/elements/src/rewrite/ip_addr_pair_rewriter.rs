//! Translates the addresses of pairs of hosts: more than basic NAT, less than NAPT.
//!
//! A mapping is found by source and destination address. Packets of all protocols pass, and fragments, too;
//! checksums of TCP and UDP are updated.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: IPAddrPairRewriter(pattern 192.0.2.1-192.0.2.9 - 0 1, drop) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Arguments: one specification for each input, as for IPRewriter, but with patterns `pattern SADDR DADDR
//! FOUTPUT ROUTPUT`; a dash leaves an address as it is. `SADDR` may be a range or a prefix as for
//! IPAddrRewriter.
//!
//! Keyword arguments:
//!
//! - `TIMEOUT`: lifetime of an unused mapping. Default 5min.
//! - `GUARANTEE`, `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`, `REPLY_ANNO`: as for IPRewriter.

use super::handlers::{handlers, table};
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;
use nat::key::Kind;

pub(super) struct IPAddrPairRewriter;

impl Family for IPAddrPairRewriter {
    const CLASS: &'static str = "IPAddrPairRewriter";
    const MANUAL: &'static str = manual!();
    const KIND: Kind = Kind::Pair;

    const HANDLERS: &'static [Handler<Rewriter<IPAddrPairRewriter>>] =
        handlers![table::<_, 0>("table"), table::<_, 0>("mappings"),];
}
