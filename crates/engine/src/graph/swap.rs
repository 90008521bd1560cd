//! Hot swap: replaces a graph by another between batches; elements that stay keep their state.

use super::{BuildContext, Graph, Task};
use crate::plan::Plan;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Number of rounds in which elements that a hot swap removes may still send the packets that they hold.
const DRAIN_ROUNDS: usize = 1000;

impl Graph {
    /// Hot swap: takes this graph down and returns one for `plan` that has taken over the state of
    /// every element that stays.
    pub fn swap(mut self, plan: &Arc<Plan>, site: &BuildContext) -> Graph {
        self.drain_removed_elements(plan);
        let Graph {
            mut nodes,
            mut core,
            ..
        } = self;
        let old_plan = Arc::clone(&core.plan);
        let mut next = Graph::build_with(plan, site, core.reader, core.shared);
        next.core.taps = core.taps;
        next.core.taps.move_to(plan);
        next.core.random = core.random;
        next.core.inbox = core.inbox;
        next.core.held_limit = core.held_limit;
        let tasks_of = |graph: &[Task]| -> HashMap<usize, usize> {
            let each = graph.iter().enumerate();
            each.map(|(at, task)| (task.node, at)).collect()
        };
        let (old_tasks, new_tasks) = (tasks_of(&core.tasks), tasks_of(&next.core.tasks));
        let never_began: HashSet<usize> = core.fresh.into_iter().collect();
        let mut goes_on = HashSet::new();
        for (index, element) in plan.elements.iter().enumerate() {
            let Some(was) = old_plan.find(&element.name) else {
                continue;
            };
            let before = &old_plan.elements[was];
            if before.class.name != element.class.name {
                continue;
            }
            next.core.stats[index].take(&core.stats[was]);
            next.core.notes.packets[index] = core.notes.packets[was];
            next.core.notes.room[index] = core.notes.room[was];
            if next.nodes[index].is_none() {
                continue;
            }
            next.core.pressures[index] = core.pressures[was];
            next.core.back_pressures += core.pressures[was];
            if let Some(at) = core.timer_at[was] {
                next.core.set_timer(index, at);
            }
            if let Some(&old) = old_tasks.get(&was)
                && let Some(&new) = new_tasks.get(&index)
            {
                let (old, new) = (&core.tasks[old], &mut next.core.tasks[new]);
                new.stats = old.stats;
                new.stride = old.stride;
            }
            let Some(old) = nodes[was].take() else {
                continue;
            };
            if element.same_as(before) {
                next.nodes[index] = Some(old);
                if let Some(text) = core.texts.remove(&was) {
                    next.core.texts.insert(index, text);
                }
                // The task continues, unless it has never run.
                if !never_began.contains(&was) {
                    goes_on.insert(index);
                }
            } else if let Some(new) = &mut next.nodes[index] {
                new.take(old.into_any());
            }
        }
        drop(nodes);
        next.core.fresh.retain(|node| !goes_on.contains(node));
        next.core.shared.remove_unused();
        next
    }

    /// Lets elements that `next` does not have send their packets, as far as they can at once.
    fn drain_removed_elements(&mut self, next: &Plan) {
        let plan = Arc::clone(&self.core.plan);
        let stays = |n: usize| {
            next.find(&plan.elements[n].name)
                .is_some_and(|i| next.elements[i].class.name == plan.elements[n].class.name)
        };
        let going: Vec<usize> = (0..plan.elements.len()).filter(|&n| !stays(n)).collect();
        for _ in 0..DRAIN_ROUNDS {
            if going.iter().all(|&n| self.held_by(n) == 0) {
                return;
            }
            for task in 0..self.core.tasks.len() {
                let node = self.core.tasks[task].node;
                if !plan.elements[node].inputs.is_empty() {
                    self.with_node(node, |element, cx| element.task(cx));
                    self.walk();
                }
            }
        }
    }
}
