//! The optimiser's pass for annotations: finds devices behind which nothing looks at any.
//!
//! What a port notes on each packet costs a cache line that otherwise nobody may touch. Packets that are
//! captured or traced get their annotations all the same.

use super::Plan;
use crate::port::PortDirectory;

/// Marks sources whose packets meet no element that may look at annotations, and what is behind them.
pub(super) fn mark(plan: &mut Plan, ports: &dyn PortDirectory) {
    let Plan {
        elements, edges, ..
    } = plan;
    let kept = |device: crate::placement::Device| {
        !device.receives && ports.keeps_annotations(&device.name)
    };
    let looks = elements
        .iter()
        .map(|e| e.class.annotations || e.device().is_some_and(kept));
    let mut looked_at: Vec<bool> = looks.collect();
    let mut changed = true;
    while changed {
        changed = false;
        for edge in &*edges {
            if looked_at[edge.to.0] && !looked_at[edge.from.0] {
                looked_at[edge.from.0] = true;
                changed = true;
            }
        }
    }
    for (element, looked_at) in elements.iter_mut().zip(looked_at) {
        let receives = element.device().is_some_and(|device| device.receives);
        element.bare = receives && !looked_at;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for edge in &*edges {
            if elements[edge.from.0].bare && !elements[edge.to.0].bare {
                elements[edge.to.0].bare = true;
                changed = true;
            }
        }
    }
}
