//! Translates addresses and ports of TCP packets, and sequence numbers if another element requests it.
//!
//! Works like IPRewriter, for TCP only; see there for the specifications. In addition, an element that
//! changes the length of a connection's data, such as FTPPortMapper, can make it shift later sequence numbers,
//! and shift the acknowledgements of the other side back, also in SACK blocks (RFC 2018).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Arguments: one specification for each input, as for IPRewriter.
//!
//! Keyword arguments, as for IPRewriter: `TCP_TIMEOUT`, `TCP_NODATA_TIMEOUT`, `TCP_DONE_TIMEOUT`,
//! `TCP_GUARANTEE` (or `GUARANTEE`), `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`, `REPLY_ANNO`.

use super::handlers::{handlers, lookup, table};
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;
use nat::key::Kind;

pub(super) struct TCPRewriter;

impl Family for TCPRewriter {
    const CLASS: &'static str = "TCPRewriter";
    const MANUAL: &'static str = manual!();
    const KIND: Kind = Kind::Tcp;

    const HANDLERS: &'static [Handler<Rewriter<TCPRewriter>>] = handlers![
        table::<_, 0>("table"),
        table::<_, 0>("mappings"),
        lookup::<_, 0>("lookup"),
    ];
}
