//! Number of boxes of a multistage router (the paper's Fig. 7).

/// Demand, and capacity of one box of each kind. Rates are packets per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Front ports.
    pub ports: u32,
    /// Load of each port.
    pub rate: f64,
    /// Capacity of a back end.
    pub backend: f64,
    /// Capacity of a balancer towards the back ends, with as many packets on their way back.
    pub balancer: f64,
    /// Front ports that a balancer has room for.
    pub fronts: u32,
    /// Back ports of a balancer.
    pub backs: u32,
    /// Number of back ends beyond those that the load needs.
    pub spare: u32,
    /// Number of ports of a switch.
    pub switch: u32,
}

/// The boxes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Balancers.
    pub balancers: u32,
    /// Number of back ends, including spare ones.
    pub backends: u32,
    /// Cables to the switches.
    pub cables: u32,
    /// Switches; several form one Ethernet.
    pub switches: u32,
    /// Capacity of all boxes together, without the spare ones.
    pub carried: f64,
}

/// Maximum number of boxes of a router.
const BOXES_MAX: f64 = 1e6;

/// The smallest number of boxes that carries the load. The error is a sentence.
pub fn plan(demand: &Demand) -> Result<Layout, String> {
    if demand.ports == 0 || demand.fronts == 0 || demand.backs == 0 || demand.switch == 0 {
        return Err("ports, fronts, backs and switch are at least 1".to_owned());
    }
    let load = demand.rate * f64::from(demand.ports);
    let by_ports = f64::from(demand.ports.div_ceil(demand.fronts));
    // Rounding errors must not add a box to a load that is a whole number of boxes.
    let boxes = |each: f64| (load / each - 1e-9).ceil().max(1.0);
    let (balancers, backends) = (
        by_ports.max(boxes(demand.balancer)),
        boxes(demand.backend) + f64::from(demand.spare),
    );
    if balancers + backends > BOXES_MAX {
        return Err(format!("that would be more than {BOXES_MAX} boxes"));
    }
    let used = backends - f64::from(demand.spare);
    let cables = balancers * f64::from(demand.backs) + backends;
    Ok(Layout {
        balancers: balancers as u32,
        backends: backends as u32,
        cables: cables as u32,
        switches: (cables / f64::from(demand.switch)).ceil() as u32,
        carried: (balancers * demand.balancer).min(used * demand.backend),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Demand = Demand {
        ports: 1,
        rate: 1_488_000.0,
        backend: 640_000.0,
        balancer: 1_488_000.0,
        fronts: 24,
        backs: 3,
        spare: 0,
        switch: 48,
    };

    /// Section IV.B of the paper: one balancer and three routers carry one port at line rate, four balancers and ten
    /// routers four ports.
    #[test]
    fn the_paper_s_routers_are_planned() {
        let of = |ports| plan(&Demand { ports, ..PAPER }).map(|of| (of.balancers, of.backends));
        assert_eq!(of(1), Ok((1, 3)));
        assert_eq!(of(4), Ok((4, 10)));
        let two = Demand {
            rate: 1_280_000.0,
            ..PAPER
        };
        assert_eq!(
            plan(&two).map(|of| (of.backends, of.carried)),
            Ok((2, 1_280_000.0))
        );
    }

    #[test]
    fn many_slow_ports_need_balancers_for_their_number() {
        let slow = Demand {
            ports: 100,
            rate: 1000.0,
            ..PAPER
        };
        let layout = plan(&slow).expect("it is right");
        assert_eq!(
            (
                layout.balancers,
                layout.backends,
                layout.cables,
                layout.switches
            ),
            (5, 1, 16, 1)
        );
        let safe = plan(&Demand { spare: 2, ..slow }).expect("it is right");
        assert_eq!(safe.backends, 3);
    }

    #[test]
    fn invalid_demands_are_refused() {
        assert!(plan(&Demand { ports: 0, ..PAPER }).is_err());
        assert!(
            plan(&Demand {
                rate: 1e12,
                ..PAPER
            })
            .is_err()
        );
    }
}
