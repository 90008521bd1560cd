//! Permitted clients of a server: `ALLOW` and `DENY`, two tables of routes.

use crate::prelude::*;
use elements::peer;
use elements::route::{Reach, TABLES4, table4};
use std::net::Ipv4Addr;

/// The arguments: full names of tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    allow: Option<String>,
    deny: Option<String>,
}

impl Lists {
    /// Reads the arguments.
    pub(super) fn parse(args: &mut Args) -> Lists {
        let mut table =
            |keyword, doc| peer::named(args, (keyword, doc), &TABLES4, "IPRouteTable element");
        Lists {
            allow: table("ALLOW", "table of addresses that may send"),
            deny: table("DENY", "table of other addresses that may not"),
        }
    }
}

/// Tables of allowed and of denied addresses.
pub(super) struct AccessTables {
    allow: Option<Arc<dyn Reach>>,
    deny: Option<Arc<dyn Reach>>,
}

impl AccessTables {
    pub(super) fn new(lists: &Lists, init: &Init) -> AccessTables {
        let table = |name: &Option<String>| table4(init, name.as_deref()?);
        AccessTables {
            allow: table(&lists.allow),
            deny: table(&lists.deny),
        }
    }

    /// True if packets from an address are wanted.
    pub(super) fn lets_in(&self, address: Ipv4Addr) -> bool {
        let lists =
            |table: &Option<Arc<dyn Reach>>| table.as_ref().is_some_and(|t| t.has_route(address));
        lists(&self.allow) || !lists(&self.deny)
    }
}
