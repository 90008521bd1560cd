//! Declares the alignment of packets at the inputs of elements.
//!
//! ```click
//! AlignmentInfo(d 4 2);
//! InfiniteSource(LIMIT 3) -> Align(4, 2) -> d :: Discard;
//! ```
//!
//! Each argument is the name of an element, then a modulus and an offset for each of its inputs. Click's tools
//! write this for processors that cannot read a word at any address. The processors that Ashlar runs on can, so
//! AlignmentInfo is checked and has no effect.

use crate::prelude::*;

pub(super) struct AlignmentInfo;

impl Element for AlignmentInfo {
    const CONTRACT: Contract =
        Contract::new("AlignmentInfo", manual!()).ports(Ports::coded(&[], &[], "a"));

    type Config = ();

    fn configure(args: &mut Args) {
        for entry in args.rest("ELEMENT", "a name, then pairs of numbers", "an entry") {
            let words = entry.words();
            let numbers: Option<Vec<u32>> = words.iter().skip(1).map(|w| w.parse().ok()).collect();
            let pairs =
                numbers.is_some_and(|n| n.len() % 2 == 0 && n.chunks(2).all(|p| p[0] > p[1]));
            if words.is_empty() || !pairs {
                args.error_with_help(
                    &entry,
                    format!("`{}` is no alignment", entry.raw),
                    "write an element's name, then for each input a modulus and a lesser offset",
                );
            }
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> AlignmentInfo {
        AlignmentInfo
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_entry_is_a_name_and_pairs_of_modulus_and_offset() {
        let good = "AlignmentInfo(s 8 2, d 4 0 8 6, e); s :: Idle -> d :: Discard";
        testkit::Bench::new(crate::CLASSES, good);
        for wrong in ["s 8", "s 8 8", "s eight 2"] {
            testkit::errors(
                crate::CLASSES,
                &format!("AlignmentInfo({wrong}); Idle -> Discard"),
            );
        }
    }
}
