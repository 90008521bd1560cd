//! Makes rewriters choose a pattern by source address, to spread clients over servers.
//!
//! A rewriter names this element as the specification of an input. A client gets the pattern for which a hash
//! of client address and node is highest (rendezvous hashing). So when a pattern is added or removed, only the
//! clients of this pattern move, if all patterns have numbers of nodes.
//!
//! ```click
//! servers :: SourceIPHashMapper(100 1, - - 10.0.0.2 - 0 1 2, - - 10.0.0.3 - 0 1 3);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> balance :: IPRewriter(servers) -> Discard;
//! balance[1] -> Discard;
//! ```
//!
//! Arguments: `NNODES SEED`, then patterns with two outputs each, as after `pattern` in IPRewriter, and the number
//! of the node. Without a number, a pattern's place in the list counts. `SEED` changes the hash; `NNODES`, the points
//! of a node on the ring of Click, has no effect.

use crate::prelude::*;
use nat::spec;

pub(super) struct SourceIPHashMapper;

impl Element for SourceIPHashMapper {
    const CONTRACT: Contract =
        Contract::new("SourceIPHashMapper", manual!()).ports(Ports::coded(&[], &[], "a"));

    type Config = ();

    fn configure(args: &mut Args) {
        if let Err(wrong) = spec::hash_choices(args) {
            spec::report(args, wrong);
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> SourceIPHashMapper {
        SourceIPHashMapper
    }
}
