//! Outputs of an element, named by the device to which their packets go: people know interfaces by name, the graph has
//! numbers.

use crate::contract::AnyConfig;
use crate::element::{Element, extension::config_of};
use crate::plan::Plan;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};

/// The outputs of one element of a plan.
pub struct Outputs<'p> {
    plan: &'p Plan,
    node: usize,
    names: OnceCell<Vec<Option<String>>>,
}

impl<'p> Outputs<'p> {
    /// Outputs of element `node`.
    pub fn new(plan: &'p Plan, node: usize) -> Outputs<'p> {
        Outputs {
            plan,
            node,
            names: OnceCell::new(),
        }
    }

    fn names(&self) -> &[Option<String>] {
        self.names.get_or_init(|| {
            let outputs = self.plan.elements[self.node].outputs.len();
            (0..outputs).map(|output| self.device_of(output)).collect()
        })
    }

    /// The only device that sends the packets of an output, unless they return to the element first.
    fn device_of(&self, output: usize) -> Option<String> {
        let edges = &self.plan.edges;
        let mut to_do: Vec<usize> = edges
            .from_port((self.node, output))
            .map(|e| e.to.0)
            .collect();
        let (mut seen, mut devices) = (HashSet::from([self.node]), BTreeSet::new());
        while let Some(element) = to_do.pop() {
            if seen.insert(element) {
                let device = self.plan.elements[element].device();
                devices.extend(device.filter(|d| !d.receives).map(|d| d.name));
                to_do.extend(edges.from(element).map(|e| e.to.0));
            }
        }
        match devices.len() {
            1 => devices.pop_first(),
            _ => None,
        }
    }

    /// The device to which an output is connected; `None` if the output is not connected to a device.
    pub fn device(&self, output: usize) -> Option<&str> {
        self.names().get(output)?.as_deref()
    }

    /// The output that leads to a device. The error is a sentence.
    pub fn of(&self, device: &str) -> Result<usize, String> {
        let names = self.names().iter().enumerate();
        let named: Vec<(usize, &str)> = names
            .filter_map(|(n, d)| Some((n, d.as_deref()?)))
            .collect();
        let found: Vec<usize> = named
            .iter()
            .filter(|(_, d)| *d == device)
            .map(|(n, _)| *n)
            .collect();
        match found[..] {
            [output] => Ok(output),
            [] => {
                let all: BTreeSet<&str> = named.into_iter().map(|(_, device)| device).collect();
                let all: Vec<&str> = all.into_iter().collect();
                Err(format!(
                    "no output leads to `{device}` alone; there are: {}",
                    if all.is_empty() {
                        "none".to_owned()
                    } else {
                        all.join(", ")
                    }
                ))
            }
            [first, second, ..] => Err(format!(
                "outputs {first} and {second} lead to `{device}`: say `output {first}` or `output {second}`"
            )),
        }
    }
}

/// A class whose handlers name outputs by devices, for clients outside the graph.
pub trait ByDevice: Element {
    /// Handles a call of a handler; `None` if the handler is an ordinary one.
    fn control(config: &Self::Config, handler: &str, value: &str, outputs: &Outputs) -> Answer;
}

/// Answer or error of a handler; `None` if it did not need the outputs.
pub type Answer = Option<Result<String, String>>;

/// Type-erased [`ByDevice`].
pub struct ByDeviceOfClass {
    /// See [`ByDevice::control`].
    pub control: fn(&AnyConfig, &str, &str, &Outputs) -> Answer,
}

/// The extension of a class, for [`Contract::extensions`](crate::element::Contract::extensions).
pub const fn of<E: ByDevice>() -> ByDeviceOfClass {
    ByDeviceOfClass {
        control: |config, handler, value, outputs| {
            E::control(&config_of::<E>(config), handler, value, outputs)
        },
    }
}
