//! Rules that choose a routing table (`struct fib_rule_hdr`, `FRA_*` of `linux/fib_rules.h`).

use crate::BadHeader;

use super::attr::{Attributes, ne32};
use super::{TABLE_LOCAL, TABLE_MAIN};

/// The last table that is searched; it is empty by default.
const TABLE_DEFAULT: u32 = 253;
/// Action: look up in a table.
const TO_TABLE: u8 = 1;
/// Flag: the rule applies to packets that do not match.
const INVERT: u32 = 2;

const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PAD: u16 = 18;
const FRA_PROTOCOL: u16 = 21;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Address family.
    pub family: u8,
    /// Priority; the rule with the lowest number is evaluated first.
    pub priority: u32,
    /// Number of the table; it may be above 255.
    pub table: u32,
    /// True if the rule matches all packets and only names the table.
    pub matches_all: bool,
}

impl Rule {
    /// Parses the body of a message.
    pub fn parse(body: &[u8]) -> Result<Rule, BadHeader> {
        let (head, rest) = body.split_first_chunk::<12>().ok_or(BadHeader::TooShort)?;
        let [family, dst_len, src_len, tos, table, _, _, action, ..] = *head;
        let all = [dst_len, src_len, tos] == [0; 3] && ne32(head, 8) & INVERT == 0;
        let mut rule = Rule {
            family,
            priority: 0,
            table: table.into(),
            matches_all: all && action == TO_TABLE,
        };
        for attribute in Attributes::new(rest) {
            let attribute = attribute?;
            match attribute.kind {
                FRA_PRIORITY => rule.priority = attribute.u32()?,
                FRA_TABLE => rule.table = attribute.u32()?,
                FRA_SUPPRESS_IFGROUP | FRA_SUPPRESS_PREFIXLEN => {
                    rule.matches_all &= attribute.u32()? == u32::MAX;
                }
                FRA_PAD | FRA_PROTOCOL => {}
                _ => rule.matches_all = false,
            }
        }
        Ok(rule)
    }

    /// True if the rule is one of the kernel's default rules.
    pub const fn is_initial(&self) -> bool {
        self.matches_all
            && matches!(
                (self.priority, self.table),
                (0, TABLE_LOCAL) | (32766, TABLE_MAIN) | (32767, TABLE_DEFAULT)
            )
    }
}
