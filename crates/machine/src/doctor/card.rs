//! PCI devices: drivers, vfio, the IOMMU.

use super::{Finding, Level, Remedy, Wanted};
use crate::bind::VFIO;
use crate::pci::SHARED;
use crate::vfio::GROUPS;
use crate::{Device, Machine};
use std::io::ErrorKind;

/// Reason why a program cannot open a card now, with the remedy; `None` if no obstacle is known.
pub fn why_not(machine: &Machine, address: &str) -> Option<String> {
    let mut found = Vec::new();
    machine.card(address, &mut found);
    let worst = found.iter().find(|finding| finding.level == Level::Error)?;
    let mend = worst
        .mend
        .as_ref()
        .map(|mend| format!(": {}", mend.command));
    Some(format!(
        "{} ({}){}",
        worst.what,
        worst.why,
        mend.unwrap_or_default()
    ))
}

impl Machine {
    pub(super) fn cards(&self, wanted: &Wanted, found: &mut Vec<Finding>) {
        for address in &wanted.cards {
            self.card(address, found);
        }
    }

    fn card(&self, address: &str, found: &mut Vec<Finding>) {
        let device = match self.device_of(address) {
            Ok(device) => device,
            Err(what) => {
                let why = "`ashlar ports` lists cards, and the name of each";
                found.push(Finding::new(Level::Error, address, what, why));
                return;
            }
        };
        let about = &*device.address;
        match device.driver.as_deref() {
            Some(own) if SHARED.contains(&own) => return,
            Some(VFIO) => {}
            // The older drivers do not use IOMMU groups.
            Some(_) if device.is_for_programs() => return,
            other => {
                let what = match other {
                    Some(driver) => format!("Linux's driver {driver} has {about}"),
                    None => format!("{about} has no driver"),
                };
                let why = format!("a program can open it once {VFIO} has it");
                let mend = Remedy::new(
                    format!("ashlar ports bind {about}"),
                    format!("ashlar ports unbind {about}"),
                );
                found.push(Finding::new(Level::Error, about, what, why).with_remedy(mend));
                self.iommu(about, found);
                return;
            }
        }
        self.iommu(about, found);
        self.group(&device, found);
    }

    /// True if vfio can be used at all.
    fn iommu(&self, about: &str, found: &mut Vec<Finding>) {
        if self.is_noiommu() {
            let what = "vfio gives cards to programs without an IOMMU";
            let why = "with the card, such a program can read and write all memory of this machine";
            found.push(Finding::new(Level::Note, about, what, why));
            return;
        }
        if !self.has_iommu() {
            let what = "this machine has no IOMMU, or it is off";
            let why = "vfio lets a card reach only the program's memory, and needs the IOMMU for it (DPDK then says \
                       \"failed to select IOMMU type\"): switch VT-d or AMD-Vi on in the firmware, and boot with \
                       `intel_iommu=on iommu=pt` (AMD: `iommu=pt`); where there is none, as in most virtual machines, \
                       there \
                       are ways without it, and a program with the card can then reach all memory";
            let command = match self.knows_noiommu() {
                true => "modprobe vfio && echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode".to_owned(),
                // Debian's kernels are built without vfio's noiommu mode.
                false => format!("ashlar ports bind --driver uio_pci_generic {about}"),
            };
            found.push(
                Finding::new(Level::Error, about, what, why).with_remedy(Remedy::by_hand(command)),
            );
            return;
        }
        let loaded = self.files.exists("sys/module/vfio_iommu_type1");
        if !loaded && self.files.exists("sys/bus/pci/drivers/vfio-pci") {
            let what = "the module vfio_iommu_type1 is not loaded";
            let why =
                "vfio uses the IOMMU by it; without it DPDK says \"failed to select IOMMU type\"";
            let mend = Remedy::new("modprobe vfio_iommu_type1", "modprobe -r vfio_iommu_type1");
            found.push(Finding::new(Level::Error, about, what, why).with_remedy(mend));
        }
        if self.refuses_for_interrupts() {
            let what = "this machine cannot remap interrupts";
            let why = "a card could send any interrupt, so vfio refuses it (DPDK then says \"failed to select IOMMU \
                       type\" or \"Operation not permitted\"), unless it is told to trust the programs that have cards";
            let command =
                "echo Y > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts";
            found.push(
                Finding::new(Level::Error, about, what, why).with_remedy(Remedy::by_hand(command)),
            );
        }
    }

    /// True if the device's group can be opened.
    fn group(&self, device: &Device, found: &mut Vec<Finding>) {
        let about = &*device.address;
        let Some(group) = device.iommu_group else {
            return;
        };
        for other in self.files.list(&format!("{GROUPS}/{group}/devices")) {
            let driver = self
                .files
                .link(&format!("{}/{other}/driver", crate::pci::DEVICES));
            let driver = driver.unwrap_or_default();
            if other == about || ["", VFIO, "pcieport", "pci-stub"].contains(&&*driver) {
                continue;
            }
            let what =
                format!("{other}, which {driver} has, is in the IOMMU group {group} of {about}");
            let why = "the IOMMU cannot tell the devices of a group apart, so all of them go to programs or none";
            let mend = Remedy::by_hand(format!("ashlar ports bind {other}"));
            found.push(Finding::new(Level::Error, about, what, why).with_remedy(mend));
        }
        let Some(file) = self.group_file(device) else {
            return;
        };
        if let Some(holder) = self.group_holder(device) {
            let what = format!("{holder} has {about}");
            let why = "a card belongs to one program";
            found.push(Finding::new(Level::Error, about, what, why));
            return;
        }
        match self.try_group(&file) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                let what = format!("this user may not open /{file}");
                let why = "a program has a card by that file";
                let mend = Remedy::by_hand(format!("chown USER /{file}"));
                found.push(Finding::new(Level::Error, about, what, why).with_remedy(mend));
            }
            Err(e) => {
                let what = format!("/{file} cannot be opened: {e}");
                let why = "another program may have the card";
                found.push(Finding::new(Level::Error, about, what, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    const CARD: &str = "0000:03:00.0";

    fn bound() -> Fake {
        let fake = Fake::new();
        fake.card(CARD, 0x8086, 0x10d3, Some(VFIO));
        fake.write("sys/kernel/iommu_groups/5/type", "DMA");
        fake.symlink(
            "../../../kernel/iommu_groups/5",
            &format!("sys/devices/pci0000:00/{CARD}/iommu_group"),
        );
        fake.symlink("x", &format!("sys/kernel/iommu_groups/5/devices/{CARD}"));
        fake.write(
            "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts",
            "Y",
        );
        fake.write("dev/vfio/5", "");
        fake.write("proc/interrupts", " 1:  0  IO-APIC  1-edge\n");
        fake
    }

    fn lacks(fake: &Fake) -> Vec<String> {
        let mut found = Vec::new();
        fake.machine().card(CARD, &mut found);
        found.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn ready_card_has_no_obstacle() {
        let fake = bound();
        assert_eq!(lacks(&fake), Vec::<String>::new());
        assert_eq!(why_not(&fake.machine(), CARD), None);
    }

    #[test]
    fn every_obstacle_is_reported() {
        let fake = bound();
        fake.card("0000:03:00.1", 0x8086, 0x10d3, Some("e1000e"));
        fake.symlink("x", "sys/kernel/iommu_groups/5/devices/0000:03:00.1");
        assert_eq!(
            lacks(&fake),
            ["0000:03:00.1, which e1000e has, is in the IOMMU group 5 of 0000:03:00.0"]
        );
        let fake = bound();
        fake.write(
            "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts",
            "N",
        );
        assert_eq!(lacks(&fake), ["this machine cannot remap interrupts"]);
        fake.write("proc/interrupts", " 1:  0  IR-IO-APIC  1-edge\n");
        assert_eq!(lacks(&fake), Vec::<String>::new());
        let fake = bound();
        fake.write("proc/77/comm", "ashlar\n");
        fake.symlink("/dev/vfio/5", "proc/77/fd/9");
        assert_eq!(lacks(&fake), ["process 77 (ashlar) has 0000:03:00.0"]);
        let fake = bound();
        fake.symlink(
            "../../../bus/pci/drivers/e1000e",
            &format!("sys/devices/pci0000:00/{CARD}/driver"),
        );
        assert_eq!(lacks(&fake), ["Linux's driver e1000e has 0000:03:00.0"]);
        let said = why_not(&fake.machine(), CARD).expect("it is not ready");
        assert!(said.ends_with(": ashlar ports bind 0000:03:00.0"), "{said}");
    }

    #[test]
    fn without_an_iommu_there_are_two_ways_out() {
        let fake = Fake::new();
        fake.card(CARD, 0x8086, 0x10d3, Some(VFIO));
        assert_eq!(lacks(&fake), ["this machine has no IOMMU, or it is off"]);
        let mend = || {
            let mut found = Vec::new();
            fake.machine().card(CARD, &mut found);
            found.remove(0).mend.map(|mend| mend.command)
        };
        assert!(mend().is_some_and(|line| line.starts_with("modprobe vfio ")));
        // vfio is loaded, but built without noiommu mode.
        fake.write("sys/module/vfio/refcnt", "0");
        assert!(mend().is_some_and(|line| line.contains("--driver uio_pci_generic")));
        fake.write("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y");
        assert_eq!(
            lacks(&fake),
            ["vfio gives cards to programs without an IOMMU"]
        );
    }
}
