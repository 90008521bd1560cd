//! Entry points for fuzzers: each takes any bytes and panics only if the program is wrong.

pub mod balancer;
pub mod capture;
pub mod cluster;
pub mod config;
pub mod control;
pub mod description;
pub mod dps;
pub mod expansion;
pub mod flows;
pub mod fpm;
pub mod graph;
pub mod headers;
pub mod ipsec;
pub mod keep;
pub mod language;
pub mod linux;
pub mod mpls;
pub mod netlink;
pub mod node;
pub mod offload;
pub mod patterns;
pub mod peers;
pub mod probes;
pub mod rewriters;
pub mod routers;
pub mod script;
pub mod socket;
pub mod stream;
pub mod summary;
pub mod xfrm;

/// A target.
pub struct Target {
    /// Name of the target, of its folder of seeds and of its file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Function to run.
    pub run: fn(&[u8]),
}

/// Every target.
pub const ALL: &[Target] = &[
    Target {
        name: "balancer",
        run: balancer::run,
    },
    Target {
        name: "capture",
        run: capture::run,
    },
    Target {
        name: "cluster",
        run: cluster::run,
    },
    Target {
        name: "config",
        run: config::run,
    },
    Target {
        name: "control",
        run: control::run,
    },
    Target {
        name: "description",
        run: description::run,
    },
    Target {
        name: "dps",
        run: dps::run,
    },
    Target {
        name: "expansion",
        run: expansion::run,
    },
    Target {
        name: "flows",
        run: flows::run,
    },
    Target {
        name: "fpm",
        run: fpm::run,
    },
    Target {
        name: "graph",
        run: graph::run,
    },
    Target {
        name: "headers",
        run: headers::run,
    },
    Target {
        name: "ipsec",
        run: ipsec::run,
    },
    Target {
        name: "keep",
        run: keep::run,
    },
    Target {
        name: "language",
        run: language::run,
    },
    Target {
        name: "linux",
        run: linux::run,
    },
    Target {
        name: "mpls",
        run: mpls::run,
    },
    Target {
        name: "netlink",
        run: netlink::run,
    },
    Target {
        name: "node",
        run: node::run,
    },
    Target {
        name: "offload",
        run: offload::run,
    },
    Target {
        name: "patterns",
        run: patterns::run,
    },
    Target {
        name: "peers",
        run: peers::run,
    },
    Target {
        name: "probes",
        run: probes::run,
    },
    Target {
        name: "rewriters",
        run: rewriters::run,
    },
    Target {
        name: "routers",
        run: routers::run,
    },
    Target {
        name: "script",
        run: script::run,
    },
    Target {
        name: "socket",
        run: socket::run,
    },
    Target {
        name: "stream",
        run: stream::run,
    },
    Target {
        name: "summary",
        run: summary::run,
    },
    Target {
        name: "xfrm",
        run: xfrm::run,
    },
];

/// Takes bytes from the front, as a fuzzer's choices; zeros at the end.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    /// Up to `n` bytes.
    pub(crate) fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        front
    }

    /// The rest of the line as text, without its end.
    pub(crate) fn line(&mut self) -> String {
        let end = self.0.iter().position(|&b| b == b'\n');
        let line = self.bytes(end.unwrap_or(self.0.len()));
        self.bytes(1);
        String::from_utf8_lossy(line).into_owned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
