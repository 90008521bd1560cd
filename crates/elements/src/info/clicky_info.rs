//! Contains styles for a program that draws the router.
//!
//! ```click
//! ClickyInfo(STYLE #d { decorations: activity });
//! InfiniteSource(LIMIT 3) -> d :: Discard;
//! ```
//!
//! The arguments are for that program, Clicky, which reads them with the handler `ClickyInfo.config`; the
//! router ignores them.

use crate::prelude::*;

pub(super) struct ClickyInfo;

impl Element for ClickyInfo {
    const CONTRACT: Contract = Contract::new("ClickyInfo", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .copies(Copies::One);

    type Config = ();

    fn configure(args: &mut Args) {
        args.rest(
            "STYLE",
            "a style",
            "what a program that draws the router reads",
        );
    }

    fn new(_: &Arc<()>, _: &Init) -> ClickyInfo {
        ClickyInfo
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn configuration_is_kept_as_written() {
        let text = "i :: ClickyInfo(STYLE #a { b: c } d { e: 5 }, 7); Idle -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        assert_eq!(bench.read("i.config"), "STYLE #a { b: c } d { e: 5 }, 7");
    }
}
