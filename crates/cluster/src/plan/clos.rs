//! Strictly non-blocking network of switches of one size (Clos). Leaves with n external ports have 2n - 1 uplinks, each
//! to a different network of the stage above. Such a network is a single switch, or again a network of this kind.

/// Number of switch ports that cost as much as a server: the paper's prices, 500 and 2000 dollars.
pub const PORTS_PER_SERVER: u32 = 4;

/// Size of a network of switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clos {
    /// Number of switches in the network, including those with unused ports.
    pub switches: u64,
    /// Number of connected ports of the switches.
    pub ports: u64,
    /// Switches that a packet passes.
    pub passes: u32,
}

/// The network of switches with `radix` ports that connects `ports`.
pub fn clos(ports: u32, radix: u32) -> Clos {
    if ports <= radix {
        let ports = u64::from(ports);
        return Clos {
            switches: 1,
            ports,
            passes: 1,
        };
    }
    // n + (2n - 1) ports of a leaf.
    let down = ((radix + 1) / 3).max(1);
    let up = 2 * down - 1;
    let leaves = ports.div_ceil(down);
    let above = clos(leaves, radix);
    Clos {
        switches: u64::from(leaves) + u64::from(up) * above.switches,
        ports: u64::from(ports) + u64::from(up) * (u64::from(leaves) + above.ports),
        passes: above.passes + 2,
    }
}

/// Number of whole switches that hold the ports in use: one switch can act as several small ones.
pub fn packed(net: &Clos, radix: u32) -> u64 {
    net.ports.div_ceil(u64::from(radix))
}

/// Cost of servers and switches together, in servers.
pub fn cost(ports: u32, radix: u32, servers: u32) -> f64 {
    let switch_ports = packed(&clos(ports, radix), radix) * u64::from(radix);
    f64::from(servers) + switch_ports as f64 / f64::from(PORTS_PER_SERVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_switch_serves_as_many_as_it_has_ports() {
        assert_eq!(
            clos(48, 48),
            Clos {
                switches: 1,
                ports: 48,
                passes: 1
            }
        );
        assert_eq!(cost(32, 48, 32), 32.0 + 12.0);
    }

    #[test]
    fn three_stages_have_twice_as_many_paths_up_as_ports_down_but_one() {
        // 49 ports: 4 leaves of 16, 31 switches above.
        let net = clos(49, 48);
        assert_eq!((net.switches, net.passes), (4 + 31, 3));
        assert_eq!(net.ports, 49 + 31 * (4 + 4));
        // 16 * 48 is the most for three stages.
        assert_eq!(clos(768, 48).passes, 3);
        assert_eq!(clos(769, 48).passes, 5);
        assert_eq!(packed(&net, 48), 7, "297 ports");
    }
}
