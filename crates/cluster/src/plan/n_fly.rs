//! The k-ary n-fly: columns of servers, each with links to k of the next column.
//!
//! All columns have as many servers as the column with external ports, so an inner server carries both phases of one
//! server's ports: 2sR. From server `x` links go to `kx + j` (mod M), for `j` below `k`. So as many links arrive at a
//! server as leave it, for any M. After n columns every server is reachable if k to the power of n is at least M.

use super::{Server, wire};
use crate::address::NodeId;
use crate::map::{Link, Map, Node};

/// The smallest fan-out `k`, and the number of stages, for `servers` of rate `rate` with `free` slots.
pub(super) fn shape(server: &Server, free: u32, rate: f64, servers: u32) -> Option<(u32, u32)> {
    let fits = |k: u32| {
        let wiring = wire(server, k, 2.0 * rate / f64::from(k));
        wiring.is_some_and(|w| w.slots <= free)
    };
    let ports = server
        .nics
        .iter()
        .map(|nic| nic.ports.saturating_mul(free))
        .max()?;
    let most = (2..=ports).rev().find(|&k| fits(k))?;
    let reach = |k: u32, n: u32| u64::from(k).saturating_pow(n) >= u64::from(servers);
    let stages = (2..)
        .find(|&n| reach(most, n))
        .expect("2 to the power of 32 is more than there are");
    // A smaller k means fewer but faster links. It is chosen if the same number of stages still reaches all servers,
    // and the links fit.
    let k = (2..=most)
        .find(|&k| reach(k, stages) && fits(k))
        .unwrap_or(most);
    Some((k, stages))
}

/// Nodes by column, and the cables between columns; the last column is connected to the first.
pub(super) fn map(servers: u32, rate: f64, k: u32, stages: u32) -> Map {
    let (m, columns) = (servers as usize, stages as usize + 1);
    let node = |at: usize| Node {
        rate: if at < m { rate } else { 0.0 },
    };
    let link = 2.0 * rate / f64::from(k);
    let id = |column: usize, x: usize| (column % columns * m + x % m) as NodeId;
    let cable = |column: usize, x: usize, j: usize| {
        let mut ends = [id(column, x), id(column + 1, k as usize * x + j)];
        ends.sort_unstable();
        Link { ends, rate: link }
    };
    let all = (0..columns).flat_map(|c| (0..m).map(move |x| (c, x)));
    Map {
        nodes: (0..columns * m).map(node).collect(),
        links: all
            .flat_map(|(c, x)| (0..k as usize).map(move |j| (c, x, j)))
            .map(|(c, x, j)| cable(c, x, j))
            .collect(),
    }
}
