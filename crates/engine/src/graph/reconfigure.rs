//! Live reconfiguration, as in Click: an element gets another configuration string between two packets.
//!
//! Only routers that run in the manner of Click's driver, with one worker, have it. The element is made anew and takes
//! over the state of the old one, as at a reload ([`swap`](super::swap)); all other elements continue unchanged. A
//! handler that is an argument ([`Handler::argument`](crate::element::Handler::argument)) also changes the
//! configuration string: the value replaces the argument, or is appended as a keyword.

use super::call::{Deferred, JobCx};
use super::standard::may_be_reconfigured;
use super::{Cx, make, wake};
use crate::handler_info::AskError;
use crate::port::NoPorts;
use lang::args as text;
use std::sync::Arc;

impl JobCx<'_> {
    /// Replaces the configuration of an element.
    pub(super) fn reconfigure(
        &mut self,
        node: usize,
        configuration: &str,
    ) -> Result<String, AskError> {
        let Some(old) = self.nodes[node].take() else {
            // The element is running: the change is deferred until it has returned.
            let configuration = configuration.to_owned();
            let later: Deferred = Box::new(move |cx| {
                if let Err(wrong) = cx.reconfigure(node, &configuration) {
                    cx.say(&wrong.to_string());
                }
            });
            self.core.deferred.push((node, later));
            return Ok(String::new());
        };
        let running = Arc::clone(&self.core.plan);
        let name = &running.elements[node].name;
        let plan = match self.core.root.reconfigure(name, configuration, &running) {
            Ok(plan) => plan,
            Err(wrong) => {
                self.nodes[node] = Some(old);
                return Err(AskError::Refused(wrong));
            }
        };
        let context = self.core.build_context(Arc::new(NoPorts));
        let mut element = make(&plan, node, &context, &self.core.shared);
        element.take(old.into_any());
        self.core.taps.move_to(&plan);
        self.core.plan = plan;
        self.core.texts.remove(&node);
        wake(&mut self.core.tasks, &mut self.core.schedule, node);
        let mark = self.core.stack.len();
        if !self.core.fresh.contains(&node) {
            self.core.running += 1;
            element.start(&mut Cx {
                nodes: self.nodes,
                core: self.core,
                this: node,
            });
            self.core.running -= 1;
        }
        self.nodes[node] = Some(element);
        self.finish_run(mark);
        Ok(String::new())
    }

    /// Records a handler's change in the configuration string, as the argument with the handler's name.
    pub(super) fn note_argument(&mut self, node: usize, handler: &str, value: &str) {
        let plan = Arc::clone(&self.core.plan);
        let element = &plan.elements[node];
        if !may_be_reconfigured(&plan, element) {
            return;
        }
        let arguments = element.class.arguments();
        let keyword = handler.to_ascii_uppercase();
        let mut by_place = arguments.iter().filter(|a| !a.keyword);
        let place = by_place.position(|a| a.name == keyword);
        let old = self.core.texts.get(&node).unwrap_or(&element.text);
        let said =
            |argument: &str| text::keyword(argument).is_some_and(|(word, _)| word == keyword);
        let mut kept: Vec<String> = text::split(old)
            .into_iter()
            .map(|range| old[range].to_owned())
            .filter(|argument| !said(argument))
            .collect();
        let places = kept
            .iter()
            .take_while(|a| text::keyword(a).is_none())
            .count();
        match place.filter(|&place| place < places) {
            Some(place) => kept[place] = value.trim().to_owned(),
            None => kept.push(format!("{keyword} {}", value.trim())),
        }
        self.core.texts.insert(node, kept.join(", "));
    }
}
