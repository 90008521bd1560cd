//! MTU check: warns of devices whose MTU is smaller than the packets that a configuration sends to them. Such packets
//! would be lost without an ICMP error.

use engine::element::AnyConfig;
use engine::plan::Plan;
use engine::port::PortDirectory;
use lang::Diagnostic;
use std::collections::{HashMap, HashSet, VecDeque};

/// Extension: length in bytes of the longest packet that leaves an element of the class by output 0, if its
/// configuration limits it.
pub struct LimitsLength(pub fn(&AnyConfig) -> Option<usize>);

/// Number of bytes of link-layer headers where lengths include them: an Ethernet header with two tags.
const LINK_BYTES: usize = 22;

/// Maximum number of elements that are searched upstream of each device.
const STEPS_MAX: usize = 64;

/// An element whose longest packets exceed a device's MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong<'p> {
    /// Number of the element.
    pub element: usize,
    /// Length in bytes of the longest packet that the element lets through.
    pub longest: usize,
    /// Name of the device.
    pub device: &'p str,
    /// MTU of the device, in bytes.
    pub mtu: usize,
}

impl TooLong<'_> {
    /// Description of the mistake, and its remedy.
    pub fn describe(&self, plan: &Plan) -> (String, String) {
        let TooLong {
            longest,
            device,
            mtu,
            ..
        } = self;
        let name = &plan.elements[self.element].name;
        let text = format!(
            "{name} lets packets of {longest} bytes through, and {device} takes {mtu}: longer ones are lost, and \
                their sender is not told"
        );
        (text, format!("write `{device}:mtu` in place of {longest}"))
    }
}

/// All elements whose longest packets exceed the MTU of a device downstream; `mtu` returns a device's MTU. Only
/// elements a few steps upstream of a device are searched, so time is linear in the number of devices.
pub fn too_long<'p>(plan: &'p Plan, mtu: impl Fn(&str) -> Option<usize>) -> Vec<TooLong<'p>> {
    let mut found = Vec::new();
    let names: HashMap<&str, &'p str> = plan.devices.iter().map(|d| (&*d.name, &*d.name)).collect();
    for (sender, element) in plan.elements.iter().enumerate() {
        let device = element.device().filter(|device| !device.receives);
        let Some(&device) = device.and_then(|device| names.get(&*device.name)) else {
            continue;
        };
        let limits = limits_before(plan, sender);
        if limits.is_empty() {
            continue;
        }
        let Some(mtu) = mtu(device) else {
            continue;
        };
        let long = limits
            .into_iter()
            .filter(|(_, longest)| *longest > mtu + LINK_BYTES);
        found.extend(long.map(|(element, longest)| TooLong {
            element,
            longest,
            device,
            mtu,
        }));
    }
    found
}

/// The elements upstream of another one that limit the length of its packets, with their limits.
fn limits_before(plan: &Plan, element: usize) -> Vec<(usize, usize)> {
    let (mut limits, mut seen) = (Vec::new(), HashSet::new());
    let mut to_do = VecDeque::from([element]);
    while let Some(at) = to_do.pop_front() {
        for edge in plan.edges.edges_to(at) {
            let (from, output) = edge.from;
            if seen.len() == STEPS_MAX || !seen.insert(from) {
                continue;
            }
            let element = &plan.elements[from];
            let class = element
                .class
                .extension::<LimitsLength>()
                .filter(|_| output == 0);
            match class.and_then(|class| (class.0)(&element.config)) {
                Some(longest) => limits.push((from, longest)),
                None => to_do.push_back(from),
            }
        }
    }
    limits
}

/// Warns of elements whose longest packets exceed the known MTU of a device downstream.
pub(super) fn check(plan: &Plan, ports: &dyn PortDirectory, errors: &mut Vec<Diagnostic>) {
    for one in too_long(plan, |device| ports.probe(device).ok().map(|info| info.mtu)) {
        let (text, help) = one.describe(plan);
        let warning = Diagnostic::warning("mtu", text).at(plan.elements[one.element].span);
        errors.push(warning.help(help));
    }
}
