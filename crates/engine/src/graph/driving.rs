//! The element that decides when the router ends, and elements that receive signals.

use super::{DriverOfClass, Graph};

impl Graph {
    /// Passes stop requests to the element that decides about them. Returns true if the router is to end.
    pub fn stopped(&mut self) -> bool {
        let Some(driver) = self.core.driver else {
            self.core.stopping |= self.core.stops > 0;
            return self.core.stopping;
        };
        if !self.core.is_here(driver) {
            let at = self.core.plan.elements[driver].workers.first();
            for _ in 0..std::mem::take(&mut self.core.stops) {
                self.core.wakers.ask_stop(at.copied().unwrap_or(0));
            }
            return self.core.stopping;
        }
        self.core.stops += self.core.wakers.stops_asked();
        while self.core.stops > 0 && !self.core.stopping {
            self.core.stops -= 1;
            if let Some(class) = self.driver_class(driver) {
                self.with_node(driver, |e, cx| (class.stop_asked)(e.element_mut(), cx));
            }
            self.walk();
        }
        self.core.stopping
    }

    /// Signals that elements want to receive now.
    pub fn signals(&self) -> Vec<i32> {
        let heard = self.listeners().flat_map(|(_, signals)| signals);
        let mut all: Vec<i32> = heard.collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn driver_class(&self, node: usize) -> Option<&'static DriverOfClass> {
        self.core.plan.elements[node].class.extension()
    }

    /// Elements that may receive signals, each with the signals that it wants now.
    fn listeners(&self) -> impl Iterator<Item = (usize, Vec<i32>)> {
        let each = self.nodes.iter().enumerate();
        each.filter_map(|(node, element)| {
            let signals = self.driver_class(node)?.signals;
            Some((node, signals(element.as_ref()?.element())))
        })
    }

    /// Delivers a signal to the elements that wait for it. Returns true if there is one.
    pub fn signal(&mut self, number: i32) -> bool {
        let wants = |(_, signals): &(usize, Vec<i32>)| signals.contains(&number);
        let nodes: Vec<usize> = self.listeners().filter(wants).map(|(n, _)| n).collect();
        for &node in &nodes {
            if let Some(class) = self.driver_class(node) {
                self.with_node(node, |e, cx| (class.signal)(e.element_mut(), number, cx));
            }
            self.walk();
        }
        !nodes.is_empty()
    }
}
