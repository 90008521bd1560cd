//! Translates addresses, ports and, where another element asks, sequence numbers of TCP packets.
//!
//! It works as IPRewriter does, which see for specifications and what they do, on TCP alone. Beyond that an
//! element such as FTPPortMapper, which changes the length of what a connection carries, may have it shift
//! the sequence numbers that follow, and back again the acknowledgements of the other side, also in SACK
//! blocks (RFC 2018).
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
use super::key::Kind;
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;

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
