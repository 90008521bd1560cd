//! Information about an element's place in the graph.

use crate::class::Attached;
use crate::clock::Time;
use crate::plan::Plan;
use crate::port::PortDirectory;
use crate::shared::Shared;
use crate::wake::Wakers;
use std::sync::Arc;

/// Information about an element's place in the graph, for making its state.
pub struct Init<'a> {
    /// Name of the element.
    pub name: &'a str,
    /// Worker on which this copy runs.
    pub worker: usize,
    /// Number of workers.
    pub workers: usize,
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// True if input 0 is pull.
    pub input_pull: bool,
    /// True if output 0 is pull.
    pub output_pull: bool,
    /// True if output 0 is connected.
    pub output_used: bool,
    /// True if packets without annotations may reach the element.
    pub bare: bool,
    /// True if a class downstream changes facts about packets, and so accesses their bytes.
    pub facts_change: bool,
    /// True if packets that reach the element may be super-frames. For a receiving element: packets that it receives.
    pub super_frames: bool,
    /// See [`annotates`](Self::annotates).
    pub(crate) annotated: &'a [usize],
    /// See [`attached`](Self::attached).
    pub(crate) attached: &'a Attached,
    /// Queues of the element's device that belong to this copy.
    pub queues: &'a [usize],
    /// Workers that push into this element, ascending.
    pub pushers: &'a [usize],
    /// Workers that pull from this element, ascending. For elements that are not pulled from: workers that run it.
    pub pullers: &'a [usize],
    /// The time.
    pub now: Time,
    /// Current time in nanoseconds since the Unix epoch, as [`Cx::timestamp`] returns it.
    pub timestamp: u64,
    /// Open ports.
    pub ports: &'a dyn PortDirectory,
    /// Wakers of all workers, for this router.
    pub wakers: &'a Arc<Wakers>,
    /// State that elements of this worker share.
    pub shared: &'a Shared,
    pub(crate) plan: &'a Plan,
}

impl Init<'_> {
    /// True if the router runs in the manner of Click's user-level driver.
    pub fn as_click(&self) -> bool {
        self.plan.as_click
    }

    /// True if packets that arrive without annotations must have annotations when they leave by `output`; see
    /// [`Annotates`](super::Annotates).
    pub fn annotates(&self, output: usize) -> bool {
        self.bare && self.annotated.contains(&output)
    }

    /// Value that a pass of the planner has attached to the element.
    pub fn attached<T: 'static>(&self) -> Option<&T> {
        self.attached.get()
    }

    /// Shared configuration of another element, by its full name, if the configuration has type `C`.
    pub fn shared_by<C: Send + Sync + 'static>(&self, name: &str) -> Option<Arc<C>> {
        let peer = &self.plan.elements[self.plan.find(name)?];
        Arc::clone(&peer.config).downcast().ok()
    }
}
