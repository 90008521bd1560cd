//! Type-erased elements, and their constructor.

use super::{BuildContext, Cx, Init, Job, Walker};
use crate::class::Class;
use crate::contract::AnyConfig;
use crate::packet::Batch;
use crate::plan::Plan;
use crate::run_result::Did;
use crate::shared::Shared;
use std::any::Any;
use std::sync::Arc;

/// Constructor of elements from a configuration, on a worker.
pub(crate) struct NodeMaker(pub(crate) fn(&AnyConfig, &Init) -> Box<dyn Node>);

impl NodeMaker {
    /// The constructor for a class.
    pub(crate) fn of(class: &Class) -> &'static NodeMaker {
        let maker = class.maker.downcast_ref();
        maker.unwrap_or_else(|| unreachable!("`Class::of` is all that makes classes"))
    }
}

/// An element with its type erased.
pub(crate) trait Node {
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx);
    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx);
    fn task(&mut self, cx: &mut Cx) -> Did;
    fn start(&mut self, cx: &mut Cx);
    fn timer(&mut self, cx: &mut Cx);
    fn held(&self) -> usize;
    fn read(&self, handler: usize, argument: &str) -> Result<String, String>;
    fn job(&self, handler: usize, value: &str) -> Option<Job>;
    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String>;
    fn take(&mut self, old: Box<dyn Any>);
    /// The element itself, for callers that know its type.
    fn element(&self) -> &dyn Any;
    /// Mutable form of [`element`](Self::element).
    fn element_mut(&mut self) -> &mut dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Makes one element's state for a worker.
pub(super) fn make(
    plan: &Arc<Plan>,
    index: usize,
    site: &BuildContext,
    shared: &Shared,
) -> Box<dyn Node> {
    let element = &plan.elements[index];
    let init = Init {
        name: &element.name,
        worker: site.worker,
        workers: plan.workers,
        inputs: element.inputs.len(),
        outputs: element.outputs.len(),
        input_pull: element.input_pull(),
        output_pull: element.output_pull(),
        output_used: plan.edges.from_port((index, 0)).next().is_some(),
        bare: element.bare && site.walker == Walker::Sweep,
        facts_change: element.facts_change,
        annotated: &element.annotated,
        super_frames: element.super_frames,
        queues: element.queues_of(site.worker),
        pushers: &element.pushers,
        pullers: &element.pullers,
        ports: &*site.ports,
        wakers: &site.wakers,
        shared,
        attached: &element.attached,
        now: site.clock.now(),
        timestamp: site.clock.wall_ns(site.clock.now()),
        plan,
    };
    let node = NodeMaker::of(element.class).0(&element.config, &init);
    match element.cuts() {
        true => Box::new(Segmenting(node)),
        false => node,
    }
}

/// Wrapper for an element that must get segments instead of super-frames.
struct Segmenting(Box<dyn Node>);

impl Node for Segmenting {
    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        cx.segment(batch);
        self.0.process(input, batch, cx);
    }

    fn pull(&mut self, output: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        self.0.pull(output, max, into, cx);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        self.0.task(cx)
    }

    fn start(&mut self, cx: &mut Cx) {
        self.0.start(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.0.timer(cx);
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn read(&self, handler: usize, argument: &str) -> Result<String, String> {
        self.0.read(handler, argument)
    }

    fn job(&self, handler: usize, value: &str) -> Option<Job> {
        self.0.job(handler, value)
    }

    fn write(&mut self, handler: usize, value: &str, cx: &mut Cx) -> Result<(), String> {
        self.0.write(handler, value, cx)
    }

    fn take(&mut self, old: Box<dyn Any>) {
        self.0.take(old);
    }

    fn element(&self) -> &dyn Any {
        self.0.element()
    }

    fn element_mut(&mut self) -> &mut dyn Any {
        self.0.element_mut()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.0.into_any()
    }
}
