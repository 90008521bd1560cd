//! A balancer's file: any text is refused with places, or becomes a router without mistakes. Frames of any bytes then
//! come by all its ports: nothing panics.

use crate::whole::{InMemory, read, registry};
use control::balancer::{Description, generate};
use control::file;
use engine::port::PortDirectory;
use planner::Options;
use std::path::Path;

const TEXT_BYTES_MAX: usize = 8 << 10;

/// The bytes are the file.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(&data[..data.len().min(TEXT_BYTES_MAX)]);
    let parsed = file::parse("edge.toml", &text, Path::new("/nonexistent"));
    for mistake in &parsed.diagnostics {
        if let Some(span) = mistake.span {
            let place = parsed.map.text(span.file).get(span.range());
            assert!(place.is_some(), "{span:?} is not in the file");
        }
    }
    assert!(parsed.errors() == 0 || parsed.balancer.is_none());
    if let Some(of) = parsed.balancer {
        plan(&of);
    }
}

/// Checks that the balancer's configuration is valid, if its devices exist.
fn plan(of: &Description) {
    let ports = InMemory::default();
    let fronts = of.ports.iter().map(|port| &port.device);
    if !fronts
        .chain(&of.back)
        .all(|device| ports.probe(device).is_ok())
    {
        return;
    }
    let text = generate::text(of);
    let read = read(registry(), &text, &[], &Options::new(2, &ports));
    assert_eq!(read.errors(), 0, "{}\n{text}", read.text());
}
