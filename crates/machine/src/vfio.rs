//! The IOMMU, and the programs that use a device.

use crate::bind::VFIO;
use crate::{Device, Machine};
use std::io;
use std::os::unix::fs::MetadataExt;

pub(crate) const GROUPS: &str = "sys/kernel/iommu_groups";
const NOIOMMU: &str = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
const UNSAFE_INTERRUPTS: &str = "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts";

impl Machine {
    /// True if an IOMMU is in use.
    pub(crate) fn has_iommu(&self) -> bool {
        let group = |name: &String| self.files.read(&format!("{GROUPS}/{name}/name"));
        // Groups that vfio makes itself, without an IOMMU, have a name.
        let groups = self.files.list(GROUPS);
        groups
            .iter()
            .any(|name| group(name).as_deref() != Some("vfio-noiommu"))
    }

    /// True if vfio gives devices to programs without an IOMMU.
    pub(crate) fn is_noiommu(&self) -> bool {
        self.files.read(NOIOMMU).as_deref() == Some("Y")
    }

    /// True if this kernel's vfio supports devices without an IOMMU, as far as is known.
    pub(crate) fn knows_noiommu(&self) -> bool {
        !self.files.exists("sys/module/vfio") || self.files.exists(NOIOMMU)
    }

    /// True if vfio refuses devices because interrupts cannot be remapped. A device could then send any interrupt;
    /// vfio can be configured to accept this.
    pub(crate) fn refuses_for_interrupts(&self) -> bool {
        let interrupts = self.files.read("proc/interrupts").unwrap_or_default();
        let remapped = interrupts.contains("IR-") || !interrupts.contains("IO-APIC");
        !remapped && self.files.read(UNSAFE_INTERRUPTS).as_deref() == Some("N")
    }

    /// The file by which a program opens a device's IOMMU group.
    pub(crate) fn group_file(&self, device: &Device) -> Option<String> {
        let group = device.iommu_group?;
        let plain = format!("dev/vfio/{group}");
        let files = [format!("dev/vfio/noiommu-{group}"), plain.clone()];
        let there = files.into_iter().find(|file| self.files.exists(file));
        Some(there.unwrap_or(plain))
    }

    /// Checks that a confined program of a user can open the card at an address: an IOMMU bounds the card's memory
    /// accesses, and the user owns the group's file.
    ///
    /// # Errors
    /// The reason why it cannot, and the remedy; a sentence.
    pub fn is_given_to(&self, address: &str, user: u32) -> Result<(), String> {
        let device = self.device_of(address);
        let device = device.map_err(|_| format!("there is no card {address}"))?;
        if device.driver.as_deref() != Some(VFIO) {
            return Err(format!(
                "{VFIO} does not have {address}: `ashlar ports bind {address}`"
            ));
        }
        let file = device.iommu_group.map(|group| format!("dev/vfio/{group}"));
        let Some(file) = file.filter(|file| self.files.exists(file)) else {
            return Err(format!(
                "no IOMMU bounds the memory that {address} reaches: switch the IOMMU on, or share the card with \
                 [[port]], so that the common process opens it"
            ));
        };
        match std::fs::metadata(self.files.path(&file)) {
            Ok(about) if about.uid() == user => Ok(()),
            _ => Err(format!(
                "/{file}, by which {address} is opened, does not belong to the router's user: `chown {user} /{file}`"
            )),
        }
    }

    /// True if the device's group can be opened, which means that no program has it.
    pub(crate) fn try_group(&self, file: &str) -> io::Result<()> {
        let mut how = std::fs::OpenOptions::new();
        how.read(true)
            .write(true)
            .open(self.files.path(file))
            .map(drop)
    }

    /// Description of the program that has a device open, as far as this user may see it.
    pub fn user_of(&self, device: &Device) -> Option<String> {
        let by_group = device.driver.as_deref() == Some(crate::bind::VFIO);
        by_group.then(|| self.group_holder(device)).flatten()
    }

    /// Description of the process that has a device's group open.
    pub(crate) fn group_holder(&self, device: &Device) -> Option<String> {
        let file = self.group_file(device)?;
        let file = format!("/{file}");
        let processes = self.files.list("proc").into_iter();
        let mut processes = processes.filter(|pid| pid.bytes().all(|b| b.is_ascii_digit()));
        let has = |pid: &String| {
            let open = self.files.list(&format!("proc/{pid}/fd"));
            let target =
                |fd: &String| std::fs::read_link(self.files.path(&format!("proc/{pid}/fd/{fd}")));
            open.iter()
                .any(|fd| target(fd).is_ok_and(|target| target.as_os_str() == file.as_str()))
        };
        let pid = processes.find(has)?;
        let name = self
            .files
            .read(&format!("proc/{pid}/comm"))
            .unwrap_or_default();
        Some(format!("process {pid} ({name})"))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Fake;

    #[test]
    fn card_is_given_to_the_owner_of_its_group() {
        const CARD: &str = "0000:03:00.0";
        let fake = Fake::new();
        let user = rustix::process::getuid().as_raw();
        let said = |user| fake.machine().is_given_to(CARD, user).unwrap_err();
        assert_eq!(said(user), "there is no card 0000:03:00.0");
        fake.card(CARD, 0x8086, 0x10d3, Some("e1000e"));
        assert!(said(user).ends_with("`ashlar ports bind 0000:03:00.0`"));
        fake.symlink(
            "../../../bus/pci/drivers/vfio-pci",
            &format!("sys/devices/pci0000:00/{CARD}/driver"),
        );
        assert!(said(user).starts_with("no IOMMU bounds"));
        fake.symlink(
            "../../../kernel/iommu_groups/5",
            &format!("sys/devices/pci0000:00/{CARD}/iommu_group"),
        );
        // Without an IOMMU.
        fake.write("dev/vfio/noiommu-5", "");
        assert!(said(user).starts_with("no IOMMU bounds"));
        fake.write("dev/vfio/5", "");
        assert!(said(user + 1).ends_with(&format!("`chown {} /dev/vfio/5`", user + 1)));
        assert_eq!(fake.machine().is_given_to(CARD, user), Ok(()));
    }
}
