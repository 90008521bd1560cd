//! A cluster's file: any text is refused with places, or each of its servers gets a configuration without mistakes.

use crate::whole::{InMemory, read, registry};
use control::cluster::{Description, Server, generate};
use control::file;
use engine::port::PortDirectory;
use planner::Options;

const TEXT_BYTES_MAX: usize = 8 << 10;

/// The bytes are the file.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(&data[..data.len().min(TEXT_BYTES_MAX)]);
    let parsed = file::parse_cluster("cluster.toml", &text);
    for mistake in &parsed.diagnostics {
        if let Some(span) = mistake.span {
            let place = parsed.map.text(span.file).get(span.range());
            assert!(place.is_some(), "{span:?} is not in the file");
        }
    }
    let (said, errors) = (parsed.text(), parsed.errors());
    assert_eq!(parsed.description.is_none(), errors > 0, "{said}");
    let Some(of) = parsed.description else {
        return;
    };
    // A different server each time: planning takes as long as reading a hundred files.
    plan(&of, data.len() % of.servers.len());
}

/// Checks that a server's configuration is valid, if its devices exist.
fn plan(of: &Description, server: usize) {
    let text = generate::text(of, server, "cluster.toml");
    let ports = InMemory::default();
    if !devices(of, server).all(|device| ports.probe(device).is_ok()) {
        return;
    }
    let options = Options::new(2, &ports);
    let secrets = generate::secrets(of);
    let words = secrets.iter().map(|(name, value)| (&**name, &**value));
    let words: Vec<_> = words.collect();
    let read = read(registry(), &text, &words, &options);
    assert_eq!(read.errors(), 0, "{}\n{text}", read.text());
}

fn devices(of: &Description, server: usize) -> impl Iterator<Item = &str> {
    let Server {
        ports, underlay, ..
    } = &of.servers[server];
    let ports = ports.iter().map(|port| &*port.device);
    let cables = of.links_of(server);
    let cables = cables.filter_map(|(link, end)| link.device(end));
    let underlay = underlay.iter().map(|underlay| &*underlay.device);
    ports.chain(cables).chain(underlay)
}
