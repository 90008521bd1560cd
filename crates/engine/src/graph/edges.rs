//! The edges of a graph, as packets follow them.

use crate::notify::PullWires;
use crate::plan::Plan;
use std::ops::Range;

/// An input at the end of an edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    node: u32,
    inbox: u32,
    rank: u32,
    port: u16,
}

impl Target {
    /// Input `port` of a node of `plan`, before which packets wait in `inbox`.
    pub(crate) fn new(plan: &Plan, (node, port): (usize, usize), inbox: usize) -> Target {
        Target {
            node: node as u32,
            inbox: inbox as u32,
            rank: plan.rank[node] as u32,
            port: port as u16,
        }
    }

    /// The node's rank in the topological order.
    #[inline]
    pub(crate) fn rank(self) -> usize {
        self.rank as usize
    }

    #[inline]
    pub(crate) fn node(self) -> usize {
        self.node as usize
    }

    #[inline]
    pub(crate) fn port(self) -> usize {
        usize::from(self.port)
    }

    #[inline]
    pub(crate) fn inbox(self) -> usize {
        self.inbox as usize
    }
}

/// The edges of a graph, by node and port.
pub(crate) struct Edges {
    /// For each node, the target of output 0, if it is a push output.
    on: Vec<Option<Target>>,
    /// Targets of push outputs, ordered by node.
    outputs: Vec<Option<Target>>,
    /// For each node, the index of its first output in `outputs`, and its number of outputs.
    own_outputs: Vec<(u32, u32)>,
    /// For each pull input, the output that it pulls from: node and port.
    inputs: Vec<Vec<Option<(u32, u16)>>>,
    /// First inbox of a node.
    first_inbox: Vec<u32>,
    /// Nodes and their inboxes by topological rank.
    ranked: Vec<(u32, Range<u32>)>,
}

impl Edges {
    pub(crate) fn of(plan: &Plan) -> (Edges, usize) {
        let mut first_inbox = Vec::new();
        let mut inboxes = 0;
        for element in &plan.elements {
            first_inbox.push(inboxes as u32);
            inboxes += element.inputs.len();
        }
        let mut own_outputs = Vec::new();
        let mut ports = 0;
        for element in &plan.elements {
            own_outputs.push((ports as u32, element.outputs.len() as u32));
            ports += element.outputs.len();
        }
        let mut outputs = vec![None; ports];
        let mut inputs: Vec<Vec<_>> = plan
            .elements
            .iter()
            .map(|e| vec![None; e.inputs.len()])
            .collect();
        for edge in &plan.edges {
            if edge.pull {
                let from = skip_wires(plan, edge.from);
                inputs[edge.to.0][edge.to.1] = from.map(|(up, port)| (up as u32, port as u16));
            } else {
                let inbox = first_inbox[edge.to.0] as usize + edge.to.1;
                let at = own_outputs[edge.from.0].0 as usize + edge.from.1;
                outputs[at] = Some(Target::new(plan, edge.to, inbox));
            }
        }
        let ranked = plan.order.iter().map(|&node| {
            let first = first_inbox[node];
            let inputs = plan.elements[node].inputs.len() as u32;
            (node as u32, first..first + inputs)
        });
        let ranked: Vec<_> = ranked.collect();
        let on = own_outputs.iter().map(|&(first, own)| match own {
            0 => None,
            _ => outputs[first as usize],
        });
        (
            Edges {
                on: on.collect(),
                outputs,
                own_outputs,
                inputs,
                first_inbox,
                ranked,
            },
            inboxes,
        )
    }

    #[inline]
    pub(crate) fn output(&self, node: usize, port: usize) -> Option<Target> {
        if port == 0 {
            return self.on[node];
        }
        let (first, own) = self.own_outputs[node];
        match port < own as usize {
            true => self.outputs[first as usize + port],
            false => None,
        }
    }

    /// Output that a pull input pulls from, if connected: node and port.
    #[inline]
    pub(crate) fn input(&self, node: usize, port: usize) -> Option<(usize, usize)> {
        let (up, port) = self.inputs[node].get(port).copied().flatten()?;
        Some((up as usize, usize::from(port)))
    }

    /// The node of a topological rank, and its inboxes.
    #[inline]
    pub(crate) fn at_rank(&self, rank: usize) -> (usize, Range<usize>) {
        let (node, inboxes) = &self.ranked[rank];
        (*node as usize, inboxes.start as usize..inboxes.end as usize)
    }

    #[inline]
    pub(crate) fn inbox(&self, node: usize, input: usize) -> usize {
        self.first_inbox[node] as usize + input
    }
}

/// The output that provides the packets of a pull output, beyond elements that are plain wires; `None` if nothing is
/// connected there.
fn skip_wires(plan: &Plan, mut from: (usize, usize)) -> Option<(usize, usize)> {
    // A path of wires has at most as many wires as there are elements; a longer one is a cycle and leads nowhere.
    for _ in 0..=plan.elements.len() {
        let wires = plan.elements[from.0].class.extension::<PullWires>();
        let mut wires = wires.into_iter().flat_map(|wires| wires.0);
        let Some(&(_, input)) = wires.find(|wire| wire.0 == from.1) else {
            return Some(from);
        };
        let to = (from.0, input);
        from = plan.edges.to_port(to).find(|e| e.pull)?.from;
    }
    None
}
