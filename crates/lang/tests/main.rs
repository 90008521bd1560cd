//! Tests of the language from outside.

mod golden;
mod property;
