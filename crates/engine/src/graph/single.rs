//! A graph that runs on the calling thread, without workers.

use crate::clock::Clock;
use crate::graph::peers::Peers;
use crate::graph::root::Plain;
use crate::graph::{BuildContext, Graph, Walker};
use crate::plan::Plan;
use crate::port::PortDirectory;
use crate::publish;
use crate::random::Seed;
use crate::wake::Wakers;
use std::sync::Arc;

/// A graph on the calling thread, for tests, scripts and `ashlar click`: one worker, any walker.
pub fn single(
    plan: &Arc<Plan>,
    ports: Arc<dyn PortDirectory>,
    walker: Walker,
    clock: Clock,
    seed: impl Into<Seed>,
) -> Result<Graph, String> {
    plan.must_initialize(None)?;
    let site = BuildContext {
        worker: 0,
        walker,
        clock,
        ports,
        wakers: Arc::new(Wakers::none(plan.workers)),
        seed: seed.into(),
        root: Arc::new(Plain),
        peers: Peers::new(1),
    };
    single_at(plan, &site)
}

/// Like [`single`], for a plan that is already initialised, with parameters from the caller.
pub fn single_at(plan: &Arc<Plan>, site: &BuildContext) -> Result<Graph, String> {
    plan.open_devices(&*site.ports)?;
    Ok(Graph::build(plan, site, publish::register()?))
}
