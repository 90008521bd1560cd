//! A radix tree: a binary tree without chains of single children.
//!
//! Each node has a prefix, an id (0: none) and up to two children, whose prefixes it covers; a node without id has
//! two. Memory: 20 bytes per node for IPv4, 28 for IPv6 (rounded up by alignment), and fewer than two nodes per
//! route. Source: D. Morrison's PATRICIA, JACM 15(4), 1968, as in BSD's routing tables (Click's RadixIPLookup). A
//! look-up loads one node per level, each after the previous one.

use std::sync::Arc;

use tables::fib::{Address, Full, NoMemory, Prefix, Routes, Structure, Writer};

const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

#[derive(Debug, Clone)]
struct Node<const N: usize> {
    prefix: Prefix<N>,
    id: u16,
    /// Children by the first bit after the prefix.
    children: [u32; 2],
}

/// The bit of an address at an index from the front.
fn bit<const N: usize>(address: &[u8; N], at: u8) -> usize {
    usize::from(address[usize::from(at / 8)] >> (7 - at % 8) & 1)
}

/// Routes for addresses of `N` bytes in a binary tree.
#[derive(Debug, Clone)]
pub(crate) struct Radix<const N: usize> {
    /// Nodes; the first is the root, with the default route's prefix.
    nodes: Vec<Node<N>>,
    free: Vec<u32>,
}

impl<const N: usize> Default for Radix<N> {
    fn default() -> Self {
        let root = Node {
            prefix: Prefix::ALL,
            id: 0,
            children: [NONE; 2],
        };
        Radix {
            nodes: vec![root],
            free: Vec::new(),
        }
    }
}

impl<const N: usize> Radix<N> {
    /// Index of the child of `node` that leads to the longer `prefix`.
    fn side(&self, node: u32, prefix: &Prefix<N>) -> usize {
        bit(&prefix.address(), self.nodes[node as usize].prefix.length())
    }

    fn add(&mut self, prefix: Prefix<N>, id: u16) -> u32 {
        let node = Node {
            prefix,
            id,
            children: [NONE; 2],
        };
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    fn insert(&mut self, prefix: &Prefix<N>, id: u16) {
        let mut node = ROOT;
        while self.nodes[node as usize].prefix != *prefix {
            let side = self.side(node, prefix);
            let child = self.nodes[node as usize].children[side];
            node = match self.nodes.get(child as usize).map(|child| child.prefix) {
                Some(below) if below.covers(prefix) => child,
                Some(below) => {
                    // The common part of both becomes a node above them; it may equal the new prefix.
                    let fork = self.add(below.common(prefix), 0);
                    let old = self.side(fork, &below);
                    self.nodes[fork as usize].children[old] = child;
                    self.nodes[node as usize].children[side] = fork;
                    fork
                }
                None => {
                    let leaf = self.add(*prefix, 0);
                    self.nodes[node as usize].children[side] = leaf;
                    leaf
                }
            };
        }
        self.nodes[node as usize].id = id;
    }

    fn remove(&mut self, prefix: &Prefix<N>) {
        let mut path = vec![ROOT];
        while let Some(&node) = path.last()
            && self.nodes[node as usize].prefix != *prefix
        {
            let child = self.nodes[node as usize].children[self.side(node, prefix)];
            match self.nodes.get(child as usize) {
                Some(below) if below.prefix.covers(prefix) => path.push(child),
                _ => return,
            }
        }
        if let Some(&node) = path.last() {
            self.nodes[node as usize].id = 0;
        }
        // Removes a node that is neither route nor fork, and then perhaps the fork above it.
        while let [.., above, node] = path[..]
            && self.nodes[node as usize].id == 0
            && let [only, NONE] | [NONE, only] = self.nodes[node as usize].children
        {
            let side = self.side(above, prefix);
            self.nodes[above as usize].children[side] = only;
            self.free.push(node);
            path.pop();
        }
    }
}

impl<const N: usize> Structure<N> for Radix<N> {
    const NAME: &'static str = "radix";
    type Writer = RadixWriter<N>;

    fn lookup(&self, address: impl Address<N>) -> u16 {
        let address = address.octets();
        let (mut node, mut id) = (self.nodes.first(), 0);
        while let Some(here) = node
            && here.prefix.contains(address)
        {
            id = if here.id == 0 { id } else { here.id };
            if here.prefix.length() == Prefix::<N>::BITS {
                break;
            }
            let side = bit(&address, here.prefix.length());
            node = self.nodes.get(here.children[side] as usize);
        }
        id
    }

    fn is_bare(&self) -> bool {
        self.nodes[ROOT as usize].children == [NONE; 2]
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<N>>() + self.free.capacity() * 4
    }
}

/// Updates a tree after changes of routes. A reader that holds [`Rib::fib`](tables::fib::Rib::fib) keeps the tree of
/// that moment; the next change copies it.
pub(crate) struct RadixWriter<const N: usize>(Arc<Radix<N>>);

impl<const N: usize> Writer<N, Radix<N>> for RadixWriter<N> {
    fn new() -> Result<Self, NoMemory> {
        Ok(RadixWriter(Arc::default()))
    }

    fn fib(&self) -> &Arc<Radix<N>> {
        &self.0
    }

    fn follow(&mut self, routes: &Routes<N>, prefix: &Prefix<N>) -> Result<(), Full> {
        let tree = Arc::make_mut(&mut self.0);
        match routes.get(prefix) {
            Some(id) => tree.insert(prefix, id.get()),
            None => tree.remove(prefix),
        }
        Ok(())
    }
}
