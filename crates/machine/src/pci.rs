//! PCI network devices, whether bound to a Linux driver, to a driver for programs, or to none.

use crate::Machine;
use serde::Serialize;

/// Drivers that leave a device to user-space programs.
pub(crate) const FOR_PROGRAMS: &[&str] = &["vfio-pci", "igb_uio", "uio_pci_generic"];
/// Drivers of Linux beside which DPDK works on the same device.
pub(crate) const SHARED: &[&str] = &["mlx4_core", "mlx5_core", "mana"];

/// A PCI device of the class of network controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// PCI address, such as `0000:01:00.0`.
    pub address: String,
    /// Maker and model in words, or by their numbers.
    pub model: String,
    /// The driver to which the device is bound.
    pub driver: Option<String>,
    /// The only driver that may bind the device.
    pub driver_override: Option<String>,
    /// NUMA node.
    pub node: Option<u32>,
    /// The IOMMU group.
    pub iommu_group: Option<u32>,
    /// Linux interfaces of the device.
    pub interfaces: Vec<String>,
}

impl Device {
    /// True if a program can open the device with its present driver.
    pub fn is_for_programs(&self) -> bool {
        let driver = self.driver.as_deref().unwrap_or_default();
        FOR_PROGRAMS.contains(&driver) || SHARED.contains(&driver)
    }
}

pub(crate) const DEVICES: &str = "sys/bus/pci/devices";
/// The first byte of the class code of network controllers.
const NETWORK: u32 = 0x02;

/// True if a name is a whole PCI address: `0000:01:00.0`.
pub fn is_address(name: &str) -> bool {
    let digits =
        |text: &str, of: usize| text.len() == of && text.bytes().all(|b| b.is_ascii_hexdigit());
    let Some((rest, function)) = name.split_once('.') else {
        return false;
    };
    let parts: Vec<&str> = rest.split(':').collect();
    matches!(parts[..], [domain, bus, device] if digits(domain, 4) && digits(bus, 2) && digits(device, 2))
        && digits(function, 1)
}

impl Machine {
    /// The PCI network devices.
    pub fn devices(&self) -> Vec<Device> {
        let class = |address: &String| self.files.hex(&format!("{DEVICES}/{address}/class"));
        let names = self.files.list(DEVICES).into_iter();
        let network =
            names.filter(|address| class(address).is_some_and(|class| class >> 16 == NETWORK));
        let mut ids = None;
        network
            .map(|address| self.device(address, &mut ids))
            .collect()
    }

    /// True if there is a PCI device at an address.
    pub fn has_device(&self, address: &str) -> bool {
        self.files.exists(&format!("{DEVICES}/{address}"))
    }

    fn device(&self, address: String, ids: &mut Option<String>) -> Device {
        let at = |file: &str| format!("{DEVICES}/{address}/{file}");
        let files = &self.files;
        // Virtio's interfaces are one folder further down.
        let mut interfaces = files.list(&at("net"));
        for below in files.list(&at("")) {
            if below.starts_with("virtio") {
                interfaces.extend(files.list(&at(&format!("{below}/net"))));
            }
        }
        let number = |file: &str| files.hex(&at(file)).unwrap_or(0);
        let set = files.read(&at("driver_override"));
        Device {
            model: self.model(number("vendor"), number("device"), ids),
            driver: files.link(&at("driver")),
            driver_override: set.filter(|name| !name.is_empty() && name != "(null)"),
            node: files.number(&at("numa_node")),
            iommu_group: files.link(&at("iommu_group")).and_then(|n| n.parse().ok()),
            interfaces,
            address,
        }
    }

    /// Maker and model, from the list that distributions install with lspci.
    fn model(&self, vendor: u32, device: u32, ids: &mut Option<String>) -> String {
        let places = ["usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids"];
        let text = ids.get_or_insert_with(|| {
            let read = places.iter().filter_map(|place| {
                let bytes = std::fs::read(self.files.path(place)).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            });
            read.into_iter().next().unwrap_or_default()
        });
        let head = format!("{vendor:04x}  ");
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&head));
        let Some(maker) = lines.next().and_then(|line| line.strip_prefix(&head)) else {
            return format!("{vendor:04x}:{device:04x}");
        };
        let head = format!("\t{device:04x}  ");
        let mut own = lines.take_while(|line| line.starts_with('\t') || line.starts_with('#'));
        match own.find_map(|line| line.strip_prefix(&head)) {
            Some(model) => format!("{maker} {model}"),
            None => format!("{maker} {device:04x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    #[test]
    fn network_devices_are_told_from_others_and_have_their_interfaces() {
        let fake = Fake::new();
        fake.write(
            "usr/share/misc/pci.ids",
            "# a list\n8086  Intel Corporation\n\t10d3  82574L Gigabit Network Connection\n\t\t8086 a01f  a \
                board\n9999  Last\n",
        );
        fake.card("0000:03:00.0", 0x8086, 0x10d3, Some("e1000e"));
        fake.interface("eth0", Some("0000:03:00.0"));
        fake.card("0000:04:00.0", 0x8086, 0xffff, None);
        fake.card("0000:05:00.0", 0x15b3, 0x1017, Some("mlx5_core"));
        fake.card("0000:06:00.0", 0x8086, 0x1521, Some("vfio-pci"));
        fake.write(
            "sys/devices/pci0000:00/0000:06:00.0/driver_override",
            "vfio-pci\n",
        );
        fake.card("0000:07:00.0", 0x8086, 0x1234, None);
        fake.write("sys/devices/pci0000:00/0000:07:00.0/class", "0x030000\n");
        let found = fake.machine().devices();
        let addresses: Vec<&str> = found.iter().map(|d| &*d.address).collect();
        assert_eq!(
            addresses,
            [
                "0000:03:00.0",
                "0000:04:00.0",
                "0000:05:00.0",
                "0000:06:00.0"
            ]
        );
        assert_eq!(
            found[0].model,
            "Intel Corporation 82574L Gigabit Network Connection"
        );
        assert_eq!(found[0].interfaces, ["eth0"]);
        assert_eq!(found[1].model, "Intel Corporation ffff");
        assert_eq!(found[2].model, "15b3:1017");
        let open: Vec<bool> = found.iter().map(Device::is_for_programs).collect();
        assert_eq!(open, [false, false, true, true]);
        assert_eq!(found[3].driver_override.as_deref(), Some("vfio-pci"));
        assert_eq!(found[0].driver_override, None);
    }

    #[test]
    fn addresses_are_whole() {
        assert!(is_address("0000:01:00.0"));
        for wrong in [
            "01:00.0",
            "0000:01:00",
            "eth0",
            "virtio1",
            "0000:01:00.0,x=1",
            "000g:01:00.0",
        ] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }
}
