//! Kernel state that a running router follows: routes, IPsec state, and the TAP interfaces of its ports.

use super::Control;
use crate::netlink::Netlink;
use crate::netlink::xfrm::Xfrm;
use elements_linux::ipsec::KernelTable;
use engine::plan::Plan;
use forwarding::{Kernel, RouteBound};

impl Control {
    /// Starts following the kernel of the router's namespace if a plan needs it. Returns true if following has just
    /// begun. The error is a sentence.
    pub(crate) fn follow_kernel(&self, plan: &Plan) -> Result<bool, String> {
        let routes = self.follow_routes(plan)?;
        let table = plan.find_router_wide::<KernelTable>();
        let mut xfrm = self.xfrm.lock();
        let Some(table) = table.filter(|table| xfrm.is_none() && table.in_use()) else {
            return Ok(routes);
        };
        match Xfrm::start(table, self.ports.namespace().cloned()) {
            Ok(started) => *xfrm = Some(started),
            Err(why) => {
                drop(xfrm);
                if routes {
                    self.leave_kernel();
                }
                return Err(why);
            }
        }
        Ok(true)
    }

    fn follow_routes(&self, plan: &Plan) -> Result<bool, String> {
        let kernel = plan.router_wide::<Kernel>();
        let mut netlink = self.netlink.lock();
        match &*netlink {
            Some(netlink) => netlink.rematch(),
            None if kernel.in_use() => {
                let namespace = self.ports.namespace().cloned();
                let bound = plan.router_wide::<RouteBound>();
                *netlink = Some(Netlink::start(
                    (kernel, bound),
                    namespace,
                    self.fpm.clone(),
                )?);
                return Ok(true);
            }
            None => {}
        }
        Ok(false)
    }

    /// Stops following a kernel.
    pub(crate) fn leave_kernel(&self) {
        let mut xfrm = self.xfrm.lock();
        let left = xfrm.take();
        drop(xfrm);
        drop(left);
        let mut netlink = self.netlink.lock();
        let left = netlink.take();
        // Dropping the value ends the netlink thread; requests for its counters do not wait for that.
        drop(netlink);
        drop(left);
    }

    /// Counts of following the kernel: kind, name, sentence, value. Empty if it is not followed.
    pub(crate) fn kernel_counts(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
        let of_routes = self.with_netlink(|netlink| netlink.counts().list());
        let of_ipsec = self.with_xfrm(|xfrm| xfrm.counts().list());
        [of_routes, of_ipsec]
            .into_iter()
            .flatten()
            .flatten()
            .collect()
    }

    /// Copies the state of devices to their TAP interfaces. It is called periodically, so no event can be missed.
    pub(crate) fn follow_devices(&self) {
        let kernel = self.router.plan().router_wide::<Kernel>();
        let mut tap_interfaces = self.tap_interfaces.lock();
        if tap_interfaces.follow(&self.ports, &kernel) {
            self.with_netlink(Netlink::rematch);
        }
    }

    /// True if no kernel is followed, or if the following thread makes progress; see [`Netlink::is_alive`].
    pub(crate) fn follows(&self) -> bool {
        // Both will be queried, so both are woken first.
        let both = [
            self.with_netlink(Netlink::is_alive),
            self.with_xfrm(Xfrm::is_alive),
        ];
        both.into_iter().flatten().all(|alive| alive)
    }

    fn with_xfrm<T>(&self, job: impl FnOnce(&Xfrm) -> T) -> Option<T> {
        let xfrm = self.xfrm.lock();
        xfrm.as_ref().map(job)
    }

    fn with_netlink<T>(&self, job: impl FnOnce(&Netlink) -> T) -> Option<T> {
        let netlink = self.netlink.lock();
        netlink.as_ref().map(job)
    }
}
