//! State of the kernel, as reported by control.

use super::interface::Interface;
use super::labels::LabelRoutes;
use super::neighbour_requests::{Ask, RequestChannel};
use super::routes::Routes;
use super::{FORWARDED, INTERFACES, NoMemory};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use sync::Lock;

/// Mirror of the kernel's links, neighbours and routes; empty at first.
#[derive(Debug, Default)]
pub struct Kernel {
    interfaces: Lock<Vec<Arc<Interface>>>,
    generation: AtomicU64,
    routes4: OnceLock<Result<Arc<Routes<4>>, NoMemory>>,
    routes6: OnceLock<Result<Arc<Routes<16>>, NoMemory>>,
    labels: OnceLock<Arc<LabelRoutes>>,
    asks: Arc<RequestChannel>,
    used: AtomicBool,
}

impl Kernel {
    /// All interfaces that elements have named, by number. Interfaces are never removed.
    pub fn interfaces(&self) -> Vec<Arc<Interface>> {
        self.lock().clone()
    }

    /// Version that changes when an interface is added or renamed. Routes to the kernel may then become routes to an
    /// interface.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// IPv4 routes.
    ///
    /// # Errors
    ///
    /// Memory for the table ran out.
    pub fn routes4(&self) -> Result<&Routes<4>, NoMemory> {
        self.shared4().map(|routes| &**routes)
    }

    /// IPv6 routes.
    ///
    /// # Errors
    ///
    /// Memory for the table ran out.
    pub fn routes6(&self) -> Result<&Routes<16>, NoMemory> {
        self.shared6().map(|routes| &**routes)
    }

    /// MPLS routes; `None` until an element uses them.
    pub fn labels(&self) -> Option<&LabelRoutes> {
        self.labels.get().map(|labels| &**labels)
    }

    /// MPLS routes, which the mirror includes from now on.
    pub fn use_labels(&self) -> &Arc<LabelRoutes> {
        self.used.store(true, Ordering::Release);
        self.labels.get_or_init(|| {
            // The new generation makes the mirroring thread read the current MPLS routes.
            self.generation.fetch_add(1, Ordering::AcqRel);
            Arc::default()
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Interface>>> {
        self.interfaces.lock()
    }

    /// True if an element uses the mirror; otherwise it need not follow the kernel.
    pub fn in_use(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// Calls `each` with pending neighbour requests, and clears the doorbell.
    pub fn take_asks(&self, each: &mut dyn FnMut(Ask)) {
        self.asks.take(each);
    }

    /// Descriptor that is readable while neighbour requests are pending, until [`Kernel::take_asks`]. `None` if the
    /// system refuses a descriptor, or no interface was named yet: then poll every few milliseconds.
    pub fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.asks.doorbell()
    }

    /// Number of neighbour requests lost because too many were pending.
    pub fn lost_asks(&self) -> u64 {
        self.asks.lost_requests()
    }

    /// Interface of a name, created at the first call; `None` if there are too many interfaces.
    pub fn interface(&self, name: &str) -> Option<Arc<Interface>> {
        self.asks.enable();
        self.used.store(true, Ordering::Release);
        let mut interfaces = self.lock();
        if let Some(known) = interfaces.iter().find(|i| i.name() == name) {
            return Some(Arc::clone(known));
        }
        let number = u16::try_from(interfaces.len()).ok();
        let number = number.and_then(|n| n.checked_add(INTERFACES))?;
        let number = Some(number).filter(|number| *number < FORWARDED)?;
        let new = Arc::new(Interface::new(name, number, &self.asks));
        interfaces.push(Arc::clone(&new));
        drop(interfaces);
        self.generation.fetch_add(1, Ordering::AcqRel);
        Some(new)
    }

    /// Sets the kernel's name of an interface, by which its link is found from now on.
    pub fn renamed(&self, interface: &Interface, name: &str) {
        if interface.set_known_as(name) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// IPv4 routes, to be kept by an element.
    ///
    /// # Errors
    /// Memory for the table ran out.
    pub fn shared4(&self) -> Result<&Arc<Routes<4>>, NoMemory> {
        let routes = self.routes4.get_or_init(|| Routes::new().map(Arc::new));
        routes.as_ref().map_err(|refused| *refused)
    }

    /// IPv6 routes, to be kept by an element.
    ///
    /// # Errors
    /// Memory for the table ran out.
    pub fn shared6(&self) -> Result<&Arc<Routes<16>>, NoMemory> {
        let routes = self.routes6.get_or_init(|| Routes::new().map(Arc::new));
        routes.as_ref().map_err(|refused| *refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Neighbour;
    use std::net::IpAddr;

    #[test]
    fn an_interface_is_made_once_and_counts_as_news() {
        let kernel = Kernel::default();
        assert!(!kernel.in_use());
        let before = kernel.generation();
        let eth0 = kernel.interface("eth0").expect("room");
        let eth1 = kernel.interface("eth1").expect("room");
        assert_eq!((eth0.number(), eth1.number()), (3, 4));
        let after = kernel.generation();
        assert_ne!(before, after);
        let again = kernel.interface("eth0").expect("room");
        assert!(Arc::ptr_eq(&eth0, &again) && kernel.generation() == after && kernel.in_use());
    }

    #[test]
    fn an_interface_is_as_the_kernel_says() {
        let kernel = Kernel::default();
        let eth0 = kernel.interface("eth0").expect("room");
        assert_eq!((eth0.is_up(), eth0.mac()), (false, None));
        let mac = [0xfe, 1, 2, 3, 4, 5];
        eth0.set_state(true, mac, 9000);
        assert_eq!((eth0.mac().map(|mac| mac.0), eth0.mtu()), (Some(mac), 9000));
        let at = |n: u8| IpAddr::from([192, 0, 2, n]);
        let six = "fe80::1".parse().expect("an address");
        eth0.set_neighbour(at(1), Neighbour::Reachable(mac));
        eth0.set_neighbour(six, Neighbour::Stale(mac));
        eth0.set_neighbour(at(2), Neighbour::Permanent(mac));
        eth0.set_neighbour(at(2), Neighbour::Gone);
        eth0.set_neighbour(at(3), Neighbour::Failed);
        let known = [
            (at(1), Neighbour::Reachable(mac)),
            (six, Neighbour::Stale(mac)),
        ];
        let mut seen = eth0.neighbours();
        seen.sort_unstable_by_key(|(address, _)| *address);
        assert_eq!(seen, known);
        eth0.clear_neighbours();
        assert_eq!(eth0.neighbours(), []);
    }
}
