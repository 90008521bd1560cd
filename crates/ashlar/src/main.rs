//! The program with Ashlar's own classes.

fn main() -> std::process::ExitCode {
    ashlar::main(&[], &[])
}
