//! Linux tells the router where packets go: links, neighbours and routes by netlink.

pub mod model;
