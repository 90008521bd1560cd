//! Gives patterns names that rewriters of the whole configuration can use.
//!
//! Inputs that name the same pattern share its sequence of ports.
//!
//! ```click
//! IPRewriterPatterns(world 192.0.2.1 1024-65535# - -);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: IPRewriter(pattern world 0 1) -> Discard;
//! nat[1] -> Discard;
//! ```
//!
//! Each argument is a name and `SADDR SPORT DADDR DPORT`, or `SADDR DADDR` for addresses alone; see
//! IPRewriter. A name must not be given twice in a configuration.

use crate::prelude::*;
use nat::pattern::{NamedPatterns, Pattern};

pub(super) struct IPRewriterPatterns;

impl Element for IPRewriterPatterns {
    const CONTRACT: Contract =
        Contract::new("IPRewriterPatterns", manual!()).ports(Ports::coded(&[], &[], "a"));

    type Config = ();

    fn configure(args: &mut Args) {
        let entries = args.rest("NAME", "a name, then SADDR SPORT DADDR DPORT", "a pattern");
        let all = args.memoize(NamedPatterns::new);
        let named = |name: &str| all.0.get(name).map_or(0, |(_, count)| *count);
        for (i, entry) in entries.iter().enumerate() {
            let words = entry.words();
            match words.split_first() {
                Some((name, _)) if named(name) > 1 => {
                    args.error(entry, format!("pattern '{name}' is defined more than once"));
                }
                Some((_, pattern)) if pattern.len() >= 2 => {
                    if let Err(wrong) = Pattern::parse(pattern, "", args) {
                        args.error(entry, format!("pattern {i}: {wrong}"));
                    }
                }
                _ => args.error(entry, format!("pattern {i}: bad pattern spec")),
            }
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> IPRewriterPatterns {
        IPRewriterPatterns
    }
}
