//! Binds PCI devices to a driver for user-space programs, and back to Linux's own.
//!
//! The kernel binds a device to the driver named in its `driver_override`, and to no other; without one, to the
//! driver for its model. So no knowledge of models is needed, and clearing that name restores the device.

use crate::pci::{DEVICES, SHARED};
use crate::{Device, Machine};
use std::fmt::Write;

/// The driver that gives a device to a program and restricts, by the IOMMU, its memory access to the program's.
pub const VFIO: &str = "vfio-pci";

impl Machine {
    /// The network device with this PCI address or interface name.
    ///
    /// # Errors
    /// There is no such device; a sentence.
    pub fn device_of(&self, name: &str) -> Result<Device, String> {
        let devices = self.devices();
        // An address without a domain is of domain 0, as in DPDK.
        let full = format!("0000:{name}");
        let is_it = |d: &&Device| {
            d.address == name || d.address == full || d.interfaces.iter().any(|i| i == name)
        };
        if let Some(found) = devices.iter().find(is_it) {
            return Ok(found.clone());
        }
        if self.files.exists(&format!("{DEVICES}/{name}"))
            || self.files.exists(&format!("{DEVICES}/{full}"))
        {
            return Err(format!("the PCI device {name} is no network card"));
        }
        if self.files.exists(&format!("sys/class/net/{name}")) {
            return Err(format!("the interface {name} has no PCI device behind it"));
        }
        let known: Vec<&str> = devices.iter().map(|d| &*d.address).collect();
        let known = match known.is_empty() {
            true => "none".to_owned(),
            false => known.join(", "),
        };
        Err(format!(
            "there is no network card {name}; this machine has: {known}"
        ))
    }

    /// Binds a device to `driver`, so that programs can use it. Returns a text with the changes and the command that
    /// undoes them.
    ///
    /// # Errors
    /// There is no such card, this machine is reached by it (unless `force`), or the driver refuses it; a sentence.
    pub fn bind(&self, name: &str, driver: &str, force: bool) -> Result<String, String> {
        let device = self.device_of(name)?;
        let address = &device.address;
        if let Some(own) = device.driver.as_deref().filter(|own| SHARED.contains(own)) {
            return Err(format!(
                "{address} stays with {own}: DPDK works beside this driver; write `{address}` into the configuration"
            ));
        }
        if device.driver.as_deref() == Some(driver) {
            return Ok(format!("{address} is bound to {driver} already\n"));
        }
        self.check_unused(&device, force)?;
        if !self.files.exists(&format!("sys/bus/pci/drivers/{driver}")) {
            load(driver)?;
        }
        if let Err(why) = self.move_to(&device, driver) {
            // Tries to give the device back to Linux's own driver.
            let _ = self.move_to(&device, "");
            let hint = match driver == VFIO && !self.has_iommu() && !self.is_noiommu() {
                true => "; this machine has no IOMMU that is on: `ashlar doctor` says what to do",
                false => "",
            };
            return Err(format!("{why}{hint}"));
        }
        let mut said = format!("{address} is bound to {driver}");
        if let Some(before) = &device.driver {
            let _ = write!(said, ", and was to {before}");
        }
        if !device.interfaces.is_empty() {
            let _ = write!(
                said,
                "; the interface {} is gone",
                device.interfaces.join(", ")
            );
        }
        let _ = write!(said, "\nundo: ashlar ports unbind {address}\n");
        Ok(said)
    }

    /// Returns a device to Linux's own driver. Returns a report.
    ///
    /// # Errors
    /// There is no such card, or a program uses it; a sentence.
    pub fn unbind(&self, name: &str) -> Result<String, String> {
        let device = self.device_of(name)?;
        let address = &device.address;
        if device.driver.is_some() && !device.is_for_programs() {
            let driver = device.driver.unwrap_or_default();
            return Ok(format!(
                "{address} is bound to Linux's driver {driver} already\n"
            ));
        }
        if let Some(holder) = self.group_holder(&device) {
            // The kernel would wait for the program, and nothing could interrupt that.
            return Err(format!("{holder} has {address}: end it first"));
        }
        self.move_to(&device, "")?;
        let now = self.device_of(address)?;
        Ok(match &now.driver {
            Some(driver) => format!("{address} is bound to {driver}\n"),
            None => format!(
                "{address} has no driver: Linux knows none for it, or its module is not loaded\n"
            ),
        })
    }

    /// Fails if an interface of the device is in use.
    fn check_unused(&self, device: &Device, force: bool) -> Result<(), String> {
        let all = self.interfaces();
        let own = all.iter().filter(|i| device.interfaces.contains(&i.name));
        for interface in own.filter(|_| !force) {
            let name = &interface.name;
            if interface.default_route {
                return Err(format!(
                    "the default route leads through {name}: logins through it would be cut off; --force does it anyway"
                ));
            }
            if let Some(member) = &interface.member {
                return Err(format!(
                    "{name} is part of the {member}: take it out first, or use --force"
                ));
            }
        }
        Ok(())
    }

    /// Binds a device to the named driver; with an empty name, to the driver for its model.
    fn move_to(&self, device: &Device, driver: &str) -> Result<(), String> {
        let address = &device.address;
        let write = |path: &str, text: &str| {
            let done = self.files.write(path, text);
            done.map_err(|e| match e.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    format!("only root may bind devices (/{path}: {e})")
                }
                _ => format!("the kernel does not accept {text:?} in /{path}: {e}"),
            })
        };
        // An empty line clears the name.
        let over = if driver.is_empty() { "\n" } else { driver };
        write(&format!("{DEVICES}/{address}/driver_override"), over)?;
        if self.files.exists(&format!("{DEVICES}/{address}/driver")) {
            write(&format!("{DEVICES}/{address}/driver/unbind"), address)?;
        }
        let probed = write("sys/bus/pci/drivers_probe", address);
        let now = self.files.link(&format!("{DEVICES}/{address}/driver"));
        if driver.is_empty() || now.as_deref() == Some(driver) {
            return Ok(());
        }
        probed?;
        Err(format!(
            "{driver} does not take {address}; the kernel's log may say why (`dmesg | tail`)"
        ))
    }
}

/// Loads a module.
fn load(module: &str) -> Result<(), String> {
    let done = crate::program("modprobe").arg("--").arg(module).output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(format!(
                "the module {module} cannot be loaded: {}",
                said.trim()
            ))
        }
        Err(e) => Err(format!(
            "the module {module} cannot be loaded: modprobe: {e}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    const CARD: &str = "0000:03:00.0";

    fn one_card(driver: &str) -> Fake {
        let fake = Fake::new();
        fake.card(CARD, 0x8086, 0x10d3, Some(driver));
        fake.write("sys/bus/pci/drivers/vfio-pci/unbind", "");
        fake
    }

    #[test]
    fn the_interface_with_the_default_route_stays_unless_it_is_forced() {
        let fake = one_card("e1000e");
        fake.interface("eth0", Some(CARD));
        fake.route("eth0");
        let machine = fake.machine();
        let refused = machine
            .bind("eth0", VFIO, false)
            .expect_err("one is logged in by it");
        assert!(refused.contains("default route"), "{refused}");
        let over = format!("sys/devices/pci0000:00/{CARD}/driver_override");
        assert_eq!(fake.read(&over), "(null)\n", "nothing has been touched");
        // Fake files do not bind devices: vfio-pci does not take the device, so it is returned.
        let refused = machine
            .bind("eth0", VFIO, true)
            .expect_err("nobody binds it");
        assert!(
            refused.contains("vfio-pci does not take 0000:03:00.0"),
            "{refused}"
        );
        assert!(refused.contains("no IOMMU"), "{refused}");
        assert_eq!(fake.read(&over), "\n");
        assert_eq!(fake.read("sys/bus/pci/drivers/e1000e/unbind"), CARD);
        assert_eq!(fake.read("sys/bus/pci/drivers_probe"), CARD);
    }

    #[test]
    fn bound_device_is_left_alone() {
        let machine = |driver: &str| {
            let fake = one_card(driver);
            (fake.machine(), fake)
        };
        let (bound, _files) = machine(VFIO);
        assert!(
            bound
                .bind("03:00.0", VFIO, false)
                .is_ok_and(|said| said.contains("already"))
        );
        let (own, _files) = machine("e1000e");
        assert!(own.unbind(CARD).is_ok_and(|said| said.contains("already")));
        let (shared, _files) = machine("mlx5_core");
        let refused = shared
            .bind(CARD, VFIO, true)
            .expect_err("it works as it is");
        assert!(refused.contains("beside this driver"), "{refused}");
    }

    #[test]
    fn names_without_a_card_are_distinguished() {
        let fake = one_card("e1000e");
        fake.interface("dummy0", None);
        fake.card("0000:04:00.0", 0x8086, 1, None);
        fake.write("sys/devices/pci0000:00/0000:04:00.0/class", "0x030000");
        let why = |name: &str| fake.machine().device_of(name).expect_err("no card");
        assert!(why("dummy0").contains("no PCI device behind it"));
        assert!(why("0000:04:00.0").contains("no network card"));
        assert!(why("0000:09:00.0").contains("this machine has: 0000:03:00.0"));
    }
}
