//! The rewriting classes on packets.

mod classes;
mod flows;
mod lifetimes;
mod specifications;
