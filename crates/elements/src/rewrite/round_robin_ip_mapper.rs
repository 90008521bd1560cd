//! Makes rewriters use several patterns in turn, to spread flows over servers.
//!
//! A rewriter names this element as the specification of an input. Each new flow gets the next pattern that can
//! make a mapping for it.
//!
//! ```click
//! servers :: RoundRobinIPMapper(- - 10.0.0.2 - 0 1, - - 10.0.0.3 - 0 1);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> balance :: IPRewriter(servers) -> Discard;
//! balance[1] -> Discard;
//! ```
//!
//! Each argument is a pattern and two outputs, as after `pattern` in IPRewriter.

use crate::prelude::*;
use nat::spec;

pub(super) struct RoundRobinIPMapper;

impl Element for RoundRobinIPMapper {
    const CONTRACT: Contract =
        Contract::new("RoundRobinIPMapper", manual!()).ports(Ports::coded(&[], &[], "a"));

    type Config = ();

    fn configure(args: &mut Args) {
        if let Err(wrong) = spec::choices(args) {
            spec::report(args, wrong);
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> RoundRobinIPMapper {
        RoundRobinIPMapper
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_mapper_has_a_pattern() {
        let errors = testkit::errors(crate::CLASSES, "RoundRobinIPMapper()");
        assert!(errors.contains("no patterns given"), "{errors}");
    }
}
