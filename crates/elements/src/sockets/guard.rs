//! Who may send to a server: `ALLOW` and `DENY`, two tables of routes.

use crate::peer;
use crate::prelude::*;
use crate::route::{TABLES4, lookup::Config as Routes};
use std::net::Ipv4Addr;

/// The arguments: full names of tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    allow: Option<String>,
    deny: Option<String>,
}

impl Lists {
    /// Reads them.
    pub(super) fn parse(args: &mut Args) -> Lists {
        let mut table =
            |keyword, doc| peer::named(args, (keyword, doc), &TABLES4, "IPRouteTable element");
        Lists {
            allow: table("ALLOW", "table of addresses that may send"),
            deny: table("DENY", "table of other addresses that may not"),
        }
    }
}

/// The tables, to look addresses up.
pub(super) struct Guard {
    allow: Option<Arc<Routes<4>>>,
    deny: Option<Arc<Routes<4>>>,
}

impl Guard {
    pub(super) fn new(lists: &Lists, init: &Init) -> Guard {
        let table = |name: &Option<String>| init.shared_by(name.as_deref()?);
        Guard {
            allow: table(&lists.allow),
            deny: table(&lists.deny),
        }
    }

    /// Whether packets from an address are wanted.
    pub(super) fn lets_in(&self, address: Ipv4Addr) -> bool {
        let lists =
            |table: &Option<Arc<Routes<4>>>| table.as_ref().is_some_and(|t| t.has_route(address));
        lists(&self.allow) || !lists(&self.deny)
    }
}
