//! Captures through a whole router: every packet of a file is accounted for.
