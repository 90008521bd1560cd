//! Tests of the built program, in one test program: linking the router takes longer than most of them.

mod balance;
mod bench;
mod click;
mod cluster;
mod common;
mod described;
mod element_tables;
mod newcomer;
mod offline;
mod online;
mod operator;
mod reloads;
mod shell;
mod terminal;
