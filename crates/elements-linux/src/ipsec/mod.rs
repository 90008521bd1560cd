//! IPsec: encryption and decryption of packets (RFC 4301, RFC 4303). The rules, without packets, are the crate `esp`.

mod ipsec_check;
mod ipsec_decap;
mod ipsec_encap;
mod ipsec_mtu;
mod ipsec_table;
mod key_file;
mod static_database;
mod syntax;

use crate::prelude::*;
use engine::element::Class;
use esp::{Database, Sa};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub use static_database::StaticDatabase;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<ipsec_check::IPsecCheck>(),
    Class::of::<ipsec_decap::IPsecDecap>(),
    Class::of::<ipsec_encap::IPsecEncap>(),
    Class::of::<ipsec_mtu::IPsecMTU>(),
    Class::of::<ipsec_table::IPsecTable>(),
];

/// The kernel's associations and policies in the router's namespace. It is router-wide: control, which follows the
/// kernel, finds it by the plan.
#[derive(Debug)]
pub struct KernelTable {
    database: Arc<Database>,
    used: AtomicBool,
}

impl Default for KernelTable {
    fn default() -> KernelTable {
        KernelTable {
            database: Arc::new(Database::of_kernel()),
            used: AtomicBool::new(false),
        }
    }
}

impl KernelTable {
    /// True if a configuration uses it; otherwise the kernel need not be followed.
    pub fn in_use(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// The associations and policies.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }
}

/// The IPsecTable that an element names.
pub(super) struct Table {
    name: String,
    found: OnceLock<Arc<Database>>,
}

impl Table {
    /// Reads the argument.
    fn named(args: &mut Args) -> Table {
        let name = elements::peer::named(
            args,
            ("TABLE", "the IPsecTable that it works by"),
            &["IPsecTable"],
            "IPsecTable",
        );
        if name.is_none() && !args.element().is_empty() {
            args.error_in_whole(
                "TABLE is missing",
                "write `TABLE ipsec`, with `ipsec :: IPsecTable(...)`",
            );
        }
        Table {
            name: name.unwrap_or_default(),
            found: OnceLock::new(),
        }
    }

    /// Database of the named table.
    fn database(&self, init: &Init) -> Arc<Database> {
        let found = self.found.get_or_init(|| {
            let table = init.shared_by::<ipsec_table::Config>(&self.name);
            table.map(|table| table.database(init)).unwrap_or_default()
        });
        Arc::clone(found)
    }
}

/// Number of packets whose associations are looked up before the first packet is encrypted or decrypted.
const TOGETHER: usize = 64;

/// Looks up associations for the packets of a burst. No look-up waits for another one: if packets have different
/// associations among thousands, the processor fetches several at once.
#[derive(Default)]
struct BurstLookup<'t> {
    /// The last association, and the number by which it was found.
    last_association: Option<(u32, &'t Sa)>,
    others: usize,
}

impl<'t> BurstLookup<'t> {
    /// The association of a number, which `find` looks up unless the packet before had the same.
    #[inline]
    fn find(&mut self, number: u32, find: impl FnOnce() -> Option<&'t Arc<Sa>>) -> Option<&'t Sa> {
        if let Some((_, sa)) = self.last_association.filter(|(last, _)| *last == number) {
            return Some(sa);
        }
        let sa: &Sa = find()?;
        sa.prefetch();
        self.others += 1;
        self.last_association = Some((number, sa));
        Some(sa)
    }

    /// Ends the look-ups, and prefetches the keys of all associations.
    #[inline]
    fn end<'s>(self, all: impl Iterator<Item = &'s Sa>) {
        if self.others > 1 {
            all.for_each(Sa::prefetch_keys);
        }
    }
}

/// Strips the bytes before the network header.
#[inline]
fn at_network(packet: &mut Packet) -> bool {
    packet.pull(packet.network_offset())
}

/// Sends a batch's packets where verdicts, given in order, say.
#[inline]
fn sort(batch: &mut Batch, verdicts: &[Verdict], cx: &mut Cx) {
    // Usually all packets pass, and none need be examined.
    if verdicts.iter().any(|verdict| *verdict != Verdict::ON) {
        let mut verdicts = verdicts.iter().copied();
        cx.sort(batch, |_, _| verdicts.next().unwrap_or(Verdict::ON));
    }
}

#[cfg(test)]
mod tests;
