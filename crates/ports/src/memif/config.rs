//! Configuration of a memif port: the part of its name after `memif:`.

use arguments::units::parse;
use std::path::PathBuf;
use wire::EtherAddr;

/// The number of an interface at a socket.
pub(super) type Id = u32;

/// A name in the file system that a socket can have, and its end.
const PATH_MAX: usize = 107;
const SECRET: usize = 24;
/// Buffers of a ring: least and most, as logarithms.
const RING_SIZE_LOG2: std::ops::RangeInclusive<u8> = 5..=14;
const BUFFER: std::ops::RangeInclusive<usize> = 128..=65_536;

/// Parsed configuration of a memif port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemifConfig {
    /// True if this end listens; the client makes the memory.
    pub is_server: bool,
    pub id: Id,
    pub socket: PathBuf,
    pub secret: [u8; SECRET],
    /// Length of a buffer in bytes.
    pub buffer: usize,
    /// Number of buffers of a ring, as a logarithm to base 2; 0: as many as the port request says.
    pub ring: u8,
    /// Maximum number of a client's receive rings; 0: one for each queue of the port.
    pub rings: usize,
    pub mac: [u8; 6],
    /// User that must own the server, for a client.
    pub peer: Option<u32>,
    /// The largest network-layer packet; `None`: as of other ports.
    pub mtu: Option<usize>,
}

/// Reads `role=client,id=0,socket=PATH,...`.
///
/// # Errors
/// A sentence: which word is wrong, and what to write.
pub(super) fn read(text: &str) -> Result<MemifConfig, String> {
    let mut words = MemifConfig {
        is_server: false,
        id: 0,
        socket: PathBuf::new(),
        secret: [0; SECRET],
        buffer: 2048,
        ring: 0,
        rings: 0,
        mac: [0; 6],
        peer: None,
        mtu: None,
    };
    let mut mac = None;
    for word in text.split(',').filter(|word| !word.trim().is_empty()) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let (key, value) = (key.trim(), value.trim());
        let wrong = |right: &str| Err(format!("memif:{text}: `{word}` is wrong: write {right}"));
        match key {
            "role" => match value {
                "server" | "master" => words.is_server = true,
                "client" | "slave" => words.is_server = false,
                _ => return wrong("role=server, which listens, or role=client"),
            },
            "id" => match value.parse() {
                Ok(id) => words.id = id,
                Err(_) => return wrong("id=N, the same number at both ends"),
            },
            "socket" => words.socket = value.into(),
            "secret" => match value.len() {
                1..SECRET => words.secret[..value.len()].copy_from_slice(value.as_bytes()),
                _ => return wrong("secret=WORD, of 1 to 23 bytes"),
            },
            "bsize" => match value.parse() {
                Ok(bytes) if BUFFER.contains(&bytes) => words.buffer = bytes,
                _ => return wrong("bsize=BYTES, from 128 to 65536"),
            },
            "rsize" => match value.parse() {
                Ok(log) if RING_SIZE_LOG2.contains(&log) => words.ring = log,
                _ => {
                    return wrong(
                        "rsize=N: a ring has 2 to the power of N buffers, N from 5 to 14",
                    );
                }
            },
            "rings" => match value.parse() {
                Ok(rings @ 1..=super::QUEUES_MAX) => words.rings = rings,
                _ => return wrong("rings=N, from 1 to 64: the server's queues to send by"),
            },
            "mac" => match parse::<EtherAddr>(value) {
                Ok(address) => mac = Some(address.0),
                Err(_) => return wrong("mac=02:00:00:00:00:01"),
            },
            "peer" => match value.parse() {
                Ok(user) => words.peer = Some(user),
                Err(_) => return wrong("peer=NUMBER, of the user that must listen at the socket"),
            },
            "mtu" => match value.parse() {
                Ok(bytes @ 68..=65_535) => words.mtu = Some(bytes),
                _ => return wrong("mtu=BYTES, from 68 to 65535"),
            },
            "socket-abstract" if value == "no" => {}
            "socket-abstract" => {
                return wrong(
                    "socket=PATH instead: everybody in this network namespace could connect",
                );
            }
            "zero-copy" if value == "no" => {}
            _ => {
                return wrong(
                    "role, id, socket, secret, bsize, rsize, rings, mac, mtu and peer only, each as WORD=VALUE",
                );
            }
        }
    }
    if !words.socket.is_absolute() || words.socket.as_os_str().len() > PATH_MAX {
        return Err(format!(
            "memif:{text}: the socket's path must be absolute, such as socket=/run/a.sock, and of at most {PATH_MAX} \
                bytes"
        ));
    }
    words.mac = mac.unwrap_or_else(|| address_of(text));
    Ok(words)
}

/// Locally administered unicast address, derived from the name: the same in each run, and different at both ends.
fn address_of(text: &str) -> [u8; 6] {
    let step = |d: u64, b: u8| (d ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let mut mac = [0; 6];
    mac.copy_from_slice(&digest.to_be_bytes()[2..]);
    mac[0] = mac[0] & !1 | 2;
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_describe_a_port() {
        let words = read(
            "role=server,id=3,socket=/run/a.sock,secret=abc,bsize=4096,rsize=9,\
                          mac=02:00:00:00:00:07,socket-abstract=no",
        )
        .unwrap();
        assert!(words.is_server);
        assert_eq!((words.id, words.buffer, words.ring), (3, 4096, 9));
        assert_eq!(&words.secret[..4], b"abc\0");
        assert_eq!(words.mac, [2, 0, 0, 0, 0, 7]);
        let client = read("socket=/run/a.sock").unwrap();
        assert!(!client.is_server);
        assert_eq!(client.mac[0] & 3, 2);
        assert_ne!(
            client.mac,
            read("role=server,socket=/run/a.sock").unwrap().mac
        );
    }

    #[test]
    fn a_wrong_word_is_named_with_a_remedy() {
        for (text, right) in [
            ("id=0", "must be absolute"),
            ("socket=a.sock", "must be absolute"),
            ("socket=/a,role=x", "role=server"),
            ("socket=/a,id=-1", "id=N"),
            ("socket=/a,secret=", "secret=WORD"),
            ("socket=/a,bsize=1", "bsize=BYTES"),
            ("socket=/a,rsize=30", "rsize=N"),
            ("socket=/a,rings=0", "rings=N"),
            ("socket=/a,rings=65", "rings=N"),
            ("socket=/a,mac=zz", "mac=02"),
            ("socket=/a,peer=red", "peer=NUMBER"),
            ("socket=/a,mtu=1", "mtu=BYTES"),
            ("socket=/a,socket-abstract=yes", "socket=PATH instead"),
            ("socket=/a,colour=red", "role, id, socket"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(right), "{said}");
        }
    }
}
