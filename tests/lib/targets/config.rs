//! Configurations: for any classes and arguments, planning gives a plan or mistakes with places, and a plan can be
//! built on every worker.

use super::Choices;
use crate::whole::{InMemory, read, registry};
use engine::clock::{Clock, Time};
use engine::graph::{BuildContext, Graph, Walker};
use engine::port::PortDirectory;
use engine::publish;
use engine::wake::Wakers;
use planner::Options;
use std::sync::Arc;

const WORKERS: usize = 2;
/// Longer texts are only slower.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The first byte chooses: a whole text, or a class, whose arguments follow.
pub fn run(data: &[u8]) {
    let mut choices = Choices(&data[..data.len().min(TEXT_BYTES_MAX)]);
    let classes = registry().classes();
    let text = match choices.byte() {
        0 | b'\n' => String::from_utf8_lossy(choices.0).into_owned(),
        class => {
            let class = classes[usize::from(class - 1) % classes.len()].name;
            let arguments = String::from_utf8_lossy(choices.0);
            format!("e :: {class}({arguments});")
        }
    };
    plan(&text);
}

/// Plans a text and builds the plan's graphs.
pub fn plan(text: &str) {
    let ports = Arc::new(InMemory::default());
    let options = Options {
        open_inputs: true,
        ..Options::new(WORKERS, &*ports)
    };
    let read = read(registry(), text, &[], &options);
    for mistake in &read.diagnostics {
        if let Some(span) = mistake.span {
            let place = read.map.text(span.file).get(span.range());
            assert!(place.is_some(), "{span:?} is not in its text");
        }
    }
    let _ = read.text();
    let Some(plan) = read.plan else {
        return;
    };
    let _ = control::describe::describe(&plan).to_string();
    for device in &plan.devices {
        if ports.open(&device.name, &device.request).is_err() {
            return;
        }
    }
    let before = engine::packet::pool::balance();
    for worker in 0..WORKERS {
        let site = BuildContext {
            root: Arc::new(engine::graph::root::Plain),
            peers: engine::graph::peers::Peers::new(WORKERS),
            worker,
            walker: Walker::Sweep,
            clock: Clock::at(Time(0)),
            ports: Arc::clone(&ports) as Arc<dyn PortDirectory>,
            wakers: Arc::new(Wakers::none(WORKERS)),
            seed: 1.into(),
        };
        let reader = publish::domain().register();
        drop(reader.map(|reader| Graph::build(&plan, &site, reader)));
    }
    assert_eq!(
        engine::packet::pool::balance(),
        before,
        "building leaked buffers"
    );
}
