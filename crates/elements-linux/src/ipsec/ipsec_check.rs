//! Drops packets that should have come through a tunnel and came without protection.
//!
//! ```click
//! ipsec :: IPsecTable(policy in src 10.2.0.0/16 dst 10.1.0.0/16 protect 1,
//!                     policy in src 0.0.0.0/0 dst 0.0.0.0/0 bypass);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> IPsecCheck(TABLE ipsec) -> Discard;
//! ```
//!
//! Put it on the path of unencrypted packets from the untrusted side (RFC 4301, 5.2): those that IPsecDecap does not
//! take, and those for others. A packet that the first inbound policy for it protects or discards is dropped
//! (`policy`). A packet that is to be bypassed, or that no policy matches, passes.
//!
//! Keyword arguments:
//!
//! - `TABLE`: the IPsecTable with the policies.

use super::Table;
use crate::prelude::*;
use esp::policy::Action;
use esp::{Database, Direction};

drops! {
    POLICY = "policy",
}

pub(super) struct IPsecCheck(Arc<Database>);

impl Element for IPsecCheck {
    const CONTRACT: Contract = Contract::new("IPsecCheck", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .drops(DROPS);

    type Config = Table;

    fn configure(args: &mut Args) -> Table {
        Table::named(args)
    }

    fn new(config: &Arc<Table>, init: &Init) -> IPsecCheck {
        IPsecCheck(config.database(init))
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let policies = self.0.read(cx.reader()).policies();
        match policies.find(Direction::In, packet.network()) {
            Some(Action::Protect(_) | Action::Discard) => Verdict::drop(POLICY),
            Some(Action::Bypass) | None => Verdict::ON,
        }
    }
}
