//! Hugepages.

use super::{Finding, Level, Remedy, Wanted};
use crate::Machine;

/// Hugepage size in bytes that can be reserved without a reboot.
const HUGEPAGE_BYTES: usize = 2 << 20;
const PAGES: &str = "sys/kernel/mm/hugepages";
const NODES: &str = "sys/devices/system/node";

/// Hugepages of one size: total and free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) bytes: usize,
    pub(crate) total: usize,
    pub(crate) free: usize,
}

impl Machine {
    /// Hugepages listed in a folder of /sys.
    fn pages(&self, folder: &str) -> Vec<Pages> {
        let names = self.files.list(folder).into_iter();
        let pages = names.filter_map(|name| {
            let kib: usize = name
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()?;
            let number = |file: &str| self.files.number(&format!("{folder}/{name}/{file}"));
            // Pages reserved by programs that have not touched them yet. Nodes do not report them.
            let promised = number("resv_hugepages").unwrap_or(0);
            Some(Pages {
                bytes: kib << 10,
                total: number("nr_hugepages")?,
                free: number("free_hugepages")?.saturating_sub(promised),
            })
        });
        pages.collect()
    }

    /// Number of bytes in free hugepages.
    pub fn free_hugepages(&self) -> usize {
        let pages = self.pages(PAGES).into_iter();
        pages.map(|p| p.bytes * p.free).sum()
    }

    /// Number of hugepages of 2 MiB that must exist so that `bytes` more bytes fit.
    pub fn hugepages_for(&self, bytes: usize) -> (usize, usize) {
        let pages = self.pages(PAGES);
        let have = pages
            .iter()
            .find(|p| p.bytes == HUGEPAGE_BYTES)
            .map_or(0, |p| p.total);
        let free: usize = pages.iter().map(|p| p.bytes * p.free).sum();
        (
            have,
            have + bytes.saturating_sub(free).div_ceil(HUGEPAGE_BYTES),
        )
    }

    pub(super) fn memory(&self, wanted: &Wanted, found: &mut Vec<Finding>) {
        if wanted.memory == 0 {
            return;
        }
        let mib = |bytes: usize| bytes >> 20;
        let pages = self.pages(PAGES);
        let free = self.free_hugepages();
        let total: usize = pages.iter().map(|p| p.bytes * p.total).sum();
        if free < wanted.memory {
            let (have, want) = self.hugepages_for(wanted.memory);
            // Without an IOMMU a card needs physical addresses, which are fixed and contiguous only in hugepages.
            let level = match wanted.cards.is_empty() || self.has_iommu() {
                true => Level::Warning,
                false => Level::Error,
            };
            let what = format!(
                "{} MiB of hugepages are free of {}, and DPDK needs {}",
                mib(free),
                mib(total),
                mib(wanted.memory)
            );
            let why = match level {
                Level::Error => {
                    "cards cannot reach memory without an IOMMU unless it lies in hugepages"
                }
                _ => {
                    "DPDK works without them, but slower; --buffers N asks for fewer packet buffers"
                }
            };
            let command = format!("sysctl -w vm.nr_hugepages={want}");
            let undo = format!("sysctl -w vm.nr_hugepages={have}");
            found.push(
                Finding::new(level, "hugepages", what, why).with_remedy(Remedy::new(command, undo)),
            );
            return;
        }
        self.far_memory(wanted, found);
    }

    /// Cards whose own NUMA node has no hugepages.
    fn far_memory(&self, wanted: &Wanted, found: &mut Vec<Finding>) {
        let nodes = self.files.list(NODES).into_iter();
        let nodes: Vec<String> = nodes
            .filter(|name| {
                name.strip_prefix("node")
                    .is_some_and(|n| n.parse::<u32>().is_ok())
            })
            .collect();
        if nodes.len() < 2 {
            return;
        }
        for device in self
            .devices()
            .iter()
            .filter(|d| wanted.cards.contains(&d.address))
        {
            let Some(node) = device.node else { continue };
            let folder = format!("{NODES}/node{node}/hugepages");
            let free: usize = self.pages(&folder).iter().map(|p| p.bytes * p.free).sum();
            if free >= wanted.memory {
                continue;
            }
            let file = format!("/{folder}/hugepages-2048kB/nr_hugepages");
            let have: usize = self.files.number(file.trim_start_matches('/')).unwrap_or(0);
            let missing = (wanted.memory - free).div_ceil(HUGEPAGE_BYTES);
            let what = format!(
                "{} is on NUMA node {node}, where {} MiB of hugepages are free",
                device.address,
                free >> 20
            );
            let why = "packet buffers on another node cost every access a way between processors";
            let mend = Remedy::new(
                format!("echo {} > {file}", have + missing),
                format!("echo {have} > {file}"),
            );
            found.push(Finding::new(Level::Warning, "hugepages", what, why).with_remedy(mend));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    const CARD: &str = "0000:03:00.0";

    fn pages(fake: &Fake, folder: &str, total: usize, free: usize) {
        fake.write(
            &format!("{folder}/hugepages-2048kB/nr_hugepages"),
            &total.to_string(),
        );
        fake.write(
            &format!("{folder}/hugepages-2048kB/free_hugepages"),
            &free.to_string(),
        );
    }

    fn lacks(fake: &Fake, cards: &[&str]) -> Vec<Finding> {
        let wanted = Wanted {
            memory: 200 << 20,
            cards: cards.iter().map(|card| card.to_string()).collect(),
            ..Wanted::default()
        };
        let mut found = Vec::new();
        fake.machine().memory(&wanted, &mut found);
        found
    }

    #[test]
    fn pages_that_are_missing_are_added_to_those_in_use() {
        let fake = Fake::new();
        pages(&fake, PAGES, 50, 10);
        let found = lacks(&fake, &[]);
        assert_eq!(
            found[0].what,
            "20 MiB of hugepages are free of 100, and DPDK needs 200"
        );
        assert_eq!(found[0].level, Level::Warning);
        let mend = found[0].mend.as_ref().expect("a command");
        assert_eq!(mend.command, "sysctl -w vm.nr_hugepages=140");
        assert_eq!(mend.undo.as_deref(), Some("sysctl -w vm.nr_hugepages=50"));
        assert_eq!(lacks(&fake, &[CARD])[0].level, Level::Error, "and no IOMMU");
        pages(&fake, PAGES, 100, 100);
        assert!(lacks(&fake, &[]).is_empty());
        // Another program, such as a virtual machine, has reserved pages that it has not touched.
        fake.write(&format!("{PAGES}/hugepages-2048kB/resv_hugepages"), "30");
        assert_eq!(fake.machine().free_hugepages(), 70 * HUGEPAGE_BYTES);
        assert!(
            lacks(&fake, &[])[0]
                .what
                .starts_with("140 MiB of hugepages are free of 200")
        );
    }

    #[test]
    fn a_card_wants_pages_of_its_own_node() {
        let fake = Fake::new();
        fake.card(CARD, 0x8086, 0x10d3, Some("vfio-pci"));
        fake.write(&format!("sys/devices/pci0000:00/{CARD}/numa_node"), "1");
        pages(&fake, PAGES, 200, 200);
        pages(&fake, "sys/devices/system/node/node0/hugepages", 200, 200);
        pages(&fake, "sys/devices/system/node/node1/hugepages", 0, 0);
        let found = lacks(&fake, &[CARD]);
        assert_eq!(found.len(), 1);
        let mend = found[0].mend.as_ref().expect("a command");
        assert!(
            mend.command
                .starts_with("echo 100 > /sys/devices/system/node/node1/")
        );
        pages(&fake, "sys/devices/system/node/node1/hugepages", 100, 100);
        assert!(lacks(&fake, &[CARD]).is_empty());
    }
}
