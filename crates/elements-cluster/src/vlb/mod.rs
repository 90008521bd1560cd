//! Many servers, one router: Direct Valiant load balancing between nodes (RouteBricks, sections 3 and 6).
//!
//! The rules are in the crate `cluster`; these classes move packets by them. VLBNode holds what the others share.

mod description;
mod leave;
mod memory;
pub(crate) mod output;
mod tagged;
pub(crate) mod vlb_heartbeat;
pub(crate) mod vlb_input;
pub(crate) mod vlb_node;
pub(crate) mod vlb_output;
pub(crate) mod vlb_output6;
pub(crate) mod vlb_resequencer;
pub(crate) mod vlb_transit;

use crate::prelude::*;
use arguments::units::FromArg;
use engine::element::Class;
pub(crate) use vlb_node::Node;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<vlb_heartbeat::VlbHeartbeat>(),
    Class::of::<vlb_input::VlbInput>(),
    Class::of::<vlb_node::VlbNode>(),
    Class::of::<output::Output<vlb_output::VlbOutput>>(),
    Class::of::<output::Output<vlb_output6::VlbOutput6>>(),
    Class::of::<vlb_resequencer::VlbResequencer>(),
    Class::of::<vlb_transit::VlbTransit>(),
];

/// Length of an Ethernet header, in bytes.
const ETHER_LEN: usize = 14;

/// Reference to the VLBNode of an element.
pub(crate) struct Member {
    /// Full name of the VLBNode; `None` if it does not exist.
    name: Option<String>,
}

impl Member {
    /// Parses the first argument, the name of a VLBNode. Returns the reference and the node's description. Errors are
    /// recorded.
    fn named(args: &mut Args) -> (Member, Option<description::Description>) {
        let name: String = args.required("VLB", "the VLBNode that it belongs to");
        let peer = args.peer(&name).filter(|peer| peer.class() == "VLBNode");
        let Some(peer) = peer else {
            if !args.element().is_empty() && !name.is_empty() {
                args.error_in_whole(
                    format!("VLB must be a VLBNode, not `{name}`"),
                    "name an element of the class VLBNode",
                );
            }
            return (Member { name: None }, None);
        };
        let full = peer.name().to_owned();
        // The VLBNode reports its own errors.
        let described = description::Description::parse(&mut peer.args(description::KEYWORDS));
        (Member { name: Some(full) }, Some(described))
    }

    /// Shared state of the node's elements. A plan with an unknown VLBNode is never built.
    fn node(&self, init: &Init) -> Arc<Node> {
        let node = self.name.as_deref().and_then(|name| init.shared_by(name));
        node.unwrap_or_else(|| Arc::new(Node::alone()))
    }
}

/// Parses port numbers with their gateways. Returns the gateways by port.
fn gateways<A: FromArg>(args: &mut Args) -> Vec<Vec<A>> {
    let mut gateways: Vec<Vec<A>> = Vec::new();
    for arg in args.rest(
        "GATEWAYS",
        "a port and its gateways",
        "a port's number, then addresses",
    ) {
        let words = arg.words();
        let Some((port, list)) = words.split_first() else {
            continue;
        };
        let Some(port) = args.value::<u8>("the port", port, &arg) else {
            continue;
        };
        let port = usize::from(port);
        while gateways.len() <= port {
            gateways.push(Vec::new());
        }
        for word in list {
            gateways[port].extend(args.value::<A>("a gateway", word, &arg));
        }
    }
    if gateways.len() > args.outputs() {
        args.error_in_whole(
            format!(
                "there are gateways of port {}, which has no output",
                gateways.len() - 1
            ),
            "connect an output for each external port, and one more for the node itself",
        );
    }
    gateways
}
