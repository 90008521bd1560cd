//! Translates the source addresses of hosts (basic NAT): each host gets an address from a range.
//!
//! Packets from a host leave with its translated address; packets to that address get the host's address back.
//! Packets of all protocols pass, and fragments, too; checksums of TCP and UDP are updated.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: IPAddrRewriter(pattern 192.0.2.1-192.0.2.99 - 0 1, drop) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Arguments: one specification for each input, as for IPRewriter, but with patterns `pattern SADDR - FOUTPUT
//! ROUTPUT`. `SADDR` is an address, a range `192.0.2.1-192.0.2.99` or the hosts of a prefix `192.0.2.0/24`; a free
//! address is chosen at random, or in turn with `#` after the range. The destination is not changed, so it is written
//! as a dash.
//!
//! Keyword arguments:
//!
//! - `TIMEOUT`: lifetime of an unused mapping. Default 5min.
//! - `GUARANTEE`, `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`, `REPLY_ANNO`: as for IPRewriter.

use super::handlers::{handlers, table};
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;
use nat::key::Kind;

pub(super) struct IPAddrRewriter;

impl Family for IPAddrRewriter {
    const CLASS: &'static str = "IPAddrRewriter";
    const MANUAL: &'static str = manual!();
    const KIND: Kind = Kind::Address;

    const HANDLERS: &'static [Handler<Rewriter<IPAddrRewriter>>] =
        handlers![table::<_, 0>("table"), table::<_, 0>("mappings"),];
}
