//! Elements whose task exchanges packets with the outside world: the events that wake the task, and overflow reports
//! for its packets.

use crate::element::Element;
use crate::element::extension::{element_of, element_of_mut};
pub use crate::graph::OverflowLosses;
use crate::graph::{Cx, ExternalOfClass};
use std::os::fd::RawFd;

/// A class whose task does input or output outside the router.
pub trait External: Element {
    /// Adds the descriptors that become readable when this element's task has work.
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        let _ = fds;
    }

    /// True if this element's task may find work without a readable descriptor. A worker must then poll it while
    /// idle.
    fn must_poll(&self) -> bool {
        false
    }

    /// Reports `fate`, the outcome of the packets of the task's last run. It is called while an output overflows that
    /// packets of this source reach, and for one second afterwards. A source may pause for a while if all its packets
    /// would be lost anyway, but not while some of them go elsewhere.
    fn overflowed(&mut self, fate: OverflowLosses, cx: &mut Cx) {
        let _ = (fate, cx);
    }
}

/// The extension of a class, for [`Contract::extensions`](crate::element::Contract::extensions).
pub const fn of<E: External>() -> ExternalOfClass {
    ExternalOfClass {
        wait_fds: |element, fds| element_of::<E>(element).wait_fds(fds),
        must_poll: |element| element_of::<E>(element).must_poll(),
        overflowed: |element, fate, cx| element_of_mut::<E>(element).overflowed(fate, cx),
    }
}
