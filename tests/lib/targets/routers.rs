//! Files of routers, one after the other as by reloads, and frames for their shared ports and links.
//!
//! A file ends with a line `---`. After the last one come frames: a length and as many bytes.

use super::Choices;
use control::file::{self, Parsed};
use engine::packet::{Batch, Packet, pool};
use engine::port::{OpenPort, PortDirectory, PortRequest};
use ports::Directory;
use ports::shared_port::{SHARES, SharedPorts, SharingSpec};
use std::path::Path;
use std::sync::Arc;

const BYTES_MAX: usize = 8 << 10;
const END: &[u8] = b"\n---\n";
/// Number of rounds in which a link's ends send what they have received.
const ROUNDS: usize = 3;

/// Feeds a process.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut rest = &data[..data.len().min(BYTES_MAX)];
    let mut files = Vec::new();
    while let Some(end) = rest.windows(END.len()).position(|bytes| bytes == END) {
        files.push(&rest[..end]);
        rest = &rest[end + END.len()..];
    }
    let mut choices = Choices(rest);
    let mut frames = Vec::new();
    while !choices.is_empty() {
        let len = usize::from(choices.byte());
        frames.push(choices.bytes(len));
    }
    let shared_ports = Arc::new(SharedPorts::new(1));
    let process = Directory::new().with_shared_ports(Arc::clone(&shared_ports));
    // Ports stay open while the next file is read, as in a reload.
    let mut open: Vec<(Directory, OpenPort)> = Vec::new();
    for text in files.into_iter().take(4) {
        let parsed = parse(&String::from_utf8_lossy(text));
        if parsed.errors() > 0 {
            continue;
        }
        shared_ports.commit(&parsed.sharing);
        let before = std::mem::replace(&mut open, ports(&process, &parsed));
        for (_, port) in before.iter().chain(&open) {
            exchange(port, &frames);
        }
    }
    drop((open, process));
    shared_ports.commit(&SharingSpec::default());
    assert_eq!(pool::balance(), before, "buffers were leaked");
}

fn parse(text: &str) -> Parsed {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf");
    let parsed = file::parse("routers.toml", text, &folder);
    for mistake in &parsed.diagnostics {
        if let Some(span) = mistake.span {
            let place = parsed.map.text(span.file).get(span.range());
            assert!(place.is_some(), "{span:?} is not in the file");
        }
    }
    let _ = parsed.text();
    let mut names: Vec<_> = parsed.routers.iter().map(|router| &router.name).collect();
    names.sort();
    let all = names.len();
    names.dedup();
    assert!(parsed.errors() > 0 || names.len() == all, "{names:?}");
    parsed
}

/// Routers' ends of a file's ports and links, as far as their devices exist.
fn ports(process: &Directory, parsed: &Parsed) -> Vec<(Directory, OpenPort)> {
    let mut all = Vec::new();
    let mut open = |router: &str, name: &str| {
        let own = process.of_router(router, None);
        let request = PortRequest {
            rx_queues: 1,
            tx_queues: 1,
            descriptors: 0,
            promiscuous: false,
        };
        if let Ok(port) = own.open(name, &request) {
            all.push((own, port));
        }
    };
    for port in &parsed.sharing.ports {
        open(&port.name, &format!("{SHARES}{}", port.name));
        port.shares
            .iter()
            .for_each(|share| open(&share.router, &port.name));
    }
    for link in &parsed.sharing.links {
        link.routers.iter().for_each(|end| open(end, &link.name));
    }
    all
}

/// Sends frames by a port. Returns what the port receives afterwards.
fn exchange(port: &OpenPort, frames: &[&[u8]]) {
    let (Some(mut rx), Some(mut tx)) = (port.rx[0].take(), port.tx[0].take()) else {
        return;
    };
    let mut batch: Batch = frames
        .iter()
        .filter_map(|frame| Packet::from_bytes(frame))
        .collect();
    for _ in 0..ROUNDS {
        tx.transmit(&mut batch, &mut Batch::new());
        rx.receive(&mut batch, 64);
    }
    port.rx[0].put_back(rx);
    port.tx[0].put_back(tx);
    port.port.counters();
}
