//! Layout of one frame's content in layers, after Sugiyama, Tagawa and Toda (1981). Back edges are reversed, and each
//! item gets the layer of its longest path from a source. A connection occupies a place in each layer that it crosses.
//! Places in a layer are sorted to reduce crossings, and then moved to shorten connections, by least squares.
//!
//! rust-sugiyama 0.4.0 was tried instead: it did not end for 1 of 300 random graphs of 10 vertices, and it has neither
//! ports nor places for bends.

mod coordinates;
mod crossings;
mod rank;

/// Distance of two items in a layer.
pub(super) const GAP: f64 = 18.0;
/// Distance of a passing connection to its neighbour in a layer.
const PASS_GAP: f64 = 9.0;
/// Distance of two layers.
pub(super) const LAYER_GAP: f64 = 38.0;

/// An item to be laid out: an element, a frame, or a gate of this frame.
pub(super) struct Item {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Border of the frame at which a gate is; `None` for other items.
    pub(super) border: Option<Border>,
    /// True for a frame in which packets begin: connections to it lead back.
    pub(super) begins: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Border {
    Top,
    Bottom,
}

/// An end of a connection: an item, and how far from its left side.
pub(super) type End = (usize, f64);

/// A vertical segment of a connection from `from` to `to`; `to` is above `from` in a back edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) x: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Segment {
    pub(super) fn moved(self, x: f64, y: f64) -> Segment {
        Segment {
            x: self.x + x,
            from: self.from + y,
            to: self.to + y,
        }
    }
}

/// Coordinates of items and connections, from the left and the top.
pub(super) struct Arranged {
    /// Left and top of each item.
    pub(super) items: Vec<(f64, f64)>,
    /// Vertical segments of each connection, in its direction.
    pub(super) routes: Vec<Vec<Segment>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A place in a layer: an item, or a passing connection.
struct Place {
    width: f64,
    layer: usize,
    passes: bool,
    /// Item of this layer that the connection passes.
    beside: Option<usize>,
}

/// A step of a connection from a layer to the next one. Ends are places.
struct Step {
    above: End,
    below: End,
}

/// Layers with their places in order.
type Rows = Vec<Vec<usize>>;

/// Arranges items and the connections between them.
pub(super) fn arrange(items: &[Item], connections: &[(End, End)]) -> Arranged {
    let ranked = rank::rank(items, connections);
    let mut places: Vec<Place> = items
        .iter()
        .zip(&ranked.layers)
        .map(|(item, &layer)| Place {
            width: item.width,
            layer,
            passes: false,
            beside: None,
        })
        .collect();
    let mut steps = Vec::new();
    let chains: Vec<Vec<usize>> = connections
        .iter()
        .zip(&ranked.reversed)
        .map(|(ends, &turned)| chain(&mut places, &mut steps, ends, turned))
        .collect();
    let layers = places.iter().map(|place| place.layer + 1).max();
    let mut rows = vec![Vec::new(); layers.unwrap_or(0)];
    let mut by_rank: Vec<usize> = (0..places.len()).collect();
    by_rank.sort_by_key(|&place| match places[place].beside {
        Some(item) => ranked.ranks[item],
        None => ranked.ranks.get(place).copied().unwrap_or(usize::MAX),
    });
    for place in by_rank {
        rows[places[place].layer].push(place);
    }
    crossings::sort(&mut rows, &places, &steps);
    let lefts = coordinates::spread(&rows, &places, &steps);
    finish(items, connections, &chains, &places, &lefts)
}

/// Adds the places that a connection passes, and the steps between its ends. Returns these places in its direction.
fn chain(
    places: &mut Vec<Place>,
    steps: &mut Vec<Step>,
    &(from, to): &(End, End),
    turned: bool,
) -> Vec<usize> {
    let (first, last) = (places[from.0].layer, places[to.0].layer);
    let passed = if turned {
        last..first + 1
    } else {
        first + 1..last
    };
    let mut chain = Vec::new();
    for layer in passed.clone() {
        let beside = match turned {
            true if layer == passed.start => Some(to.0),
            true if layer + 1 == passed.end => Some(from.0),
            _ => None,
        };
        chain.push(places.len());
        places.push(Place {
            width: 0.0,
            layer,
            passes: true,
            beside,
        });
    }
    let passes = chain.iter().map(|&place| (place, 0.0));
    let ends: Vec<End> = match turned {
        true => passes.collect(),
        false => std::iter::once(from).chain(passes).chain([to]).collect(),
    };
    steps.extend(ends.windows(2).map(|pair| Step {
        above: pair[0],
        below: pair[1],
    }));
    if turned {
        chain.reverse();
    }
    chain
}

/// Assigns vertical positions to layers, and vertical segments to connections.
fn finish(
    items: &[Item],
    connections: &[(End, End)],
    chains: &[Vec<usize>],
    places: &[Place],
    lefts: &[f64],
) -> Arranged {
    let layers = places.iter().map(|place| place.layer + 1).max();
    let mut heights = vec![0.0_f64; layers.unwrap_or(0)];
    for (item, place) in items.iter().zip(places) {
        heights[place.layer] = heights[place.layer].max(item.height);
    }
    let mut tops = Vec::new();
    let mut bottom = 0.0;
    for height in &heights {
        tops.push(bottom);
        bottom += height + LAYER_GAP;
    }
    let middle = |layer: usize| tops[layer] + heights[layer] / 2.0;
    let item_at = |item: usize| {
        let (layer, height) = (places[item].layer, items[item].height);
        (lefts[item], middle(layer) - height / 2.0)
    };
    let way = |(&(from, to), chain): (&(End, End), &Vec<usize>)| {
        let layer_bottom = |layer: usize| tops[layer] + heights[layer];
        let leaves = Segment {
            x: lefts[from.0] + from.1,
            from: item_at(from.0).1 + items[from.0].height,
            to: layer_bottom(places[from.0].layer),
        };
        let enters = Segment {
            x: lefts[to.0] + to.1,
            from: tops[places[to.0].layer],
            to: item_at(to.0).1,
        };
        let up = places[from.0].layer >= places[to.0].layer;
        let passes = chain.iter().map(|&place| {
            let (top, bottom) = (tops[places[place].layer], layer_bottom(places[place].layer));
            Segment {
                x: lefts[place],
                from: if up { bottom } else { top },
                to: if up { top } else { bottom },
            }
        });
        let all = std::iter::once(leaves).chain(passes).chain([enters]);
        all.collect()
    };
    let rights = places
        .iter()
        .zip(lefts)
        .map(|(place, left)| left + place.width);
    Arranged {
        items: (0..items.len()).map(item_at).collect(),
        routes: connections.iter().zip(chains).map(way).collect(),
        width: rights.fold(0.0, f64::max),
        height: (bottom - LAYER_GAP).max(0.0),
    }
}

#[cfg(test)]
mod tests;
