//! A fake machine made of files, for tests.

use crate::{Kernel, Machine, Offload};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[derive(Clone, Default)]
pub(crate) struct Told {
    pub(crate) driver: Option<String>,
    pub(crate) offloads: Vec<Offload>,
    pub(crate) addresses: Vec<(String, IpAddr)>,
}

impl Kernel for Told {
    fn driver(&self, _: &str) -> Option<String> {
        self.driver.clone()
    }

    fn queues(&self, _: &str) -> Option<(usize, usize)> {
        None
    }

    fn offloads(&self, _: &str) -> Vec<Offload> {
        self.offloads.clone()
    }

    fn addresses(&self) -> Vec<(String, IpAddr)> {
        self.addresses.clone()
    }
}

/// A folder that stands for `/`; it is removed on drop.
pub(crate) struct Fake {
    root: PathBuf,
    pub(crate) told: Told,
}

impl Fake {
    pub(crate) fn new() -> Fake {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let root =
            std::env::temp_dir().join(format!("ashlar-machine-{}-{number}", std::process::id()));
        fs::create_dir_all(&root).expect("a temporary folder");
        Fake {
            root,
            told: Told::default(),
        }
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine::at(&self.root, Box::new(self.told.clone()))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    pub(crate) fn symlink(&self, target: &str, path: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let _ = fs::remove_file(&path);
        symlink(target, path).expect("a link");
    }

    /// Adds a PCI device of the class of network controllers.
    pub(crate) fn card(&self, address: &str, vendor: u32, device: u32, driver: Option<&str>) {
        let at = |file: &str| format!("sys/devices/pci0000:00/{address}/{file}");
        self.write(&at("class"), "0x020000\n");
        self.write(&at("vendor"), &format!("{vendor:#06x}\n"));
        self.write(&at("device"), &format!("{device:#06x}\n"));
        self.write(&at("driver_override"), "(null)\n");
        self.write(&at("numa_node"), "-1\n");
        let link = format!("sys/bus/pci/devices/{address}");
        self.symlink(&format!("../../../devices/pci0000:00/{address}"), &link);
        self.write("sys/bus/pci/drivers_probe", "");
        if let Some(driver) = driver {
            self.write(&format!("sys/bus/pci/drivers/{driver}/unbind"), "");
            self.symlink(&format!("../../../bus/pci/drivers/{driver}"), &at("driver"));
        }
    }

    /// Adds an interface that is up.
    pub(crate) fn interface(&self, name: &str, pci: Option<&str>) {
        let at = |file: &str| format!("sys/class/net/{name}/{file}");
        for (file, text) in [
            ("type", "1"),
            ("flags", "0x1003"),
            ("carrier", "1"),
            ("mtu", "1500"),
            ("address", "02:00:00:00:00:01"),
            ("queues/rx-0/x", ""),
            ("queues/tx-0/x", ""),
        ] {
            self.write(&at(file), text);
        }
        if let Some(address) = pci {
            self.symlink(
                &format!("../../../devices/pci0000:00/{address}"),
                &at("device"),
            );
            self.write(
                &format!("sys/devices/pci0000:00/{address}/net/{name}/type"),
                "1",
            );
        }
    }

    /// A default route.
    pub(crate) fn route(&self, interface: &str) {
        let line = format!(
            "Iface\tDestination\n{interface}\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        );
        self.write("proc/thread-self/net/route", &line);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
