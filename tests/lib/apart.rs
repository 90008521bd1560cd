//! Tests that need their own process: another folder, less memory.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs one test of this program in a separate process, in `folder`, with an environment variable that marks it.
///
/// # Errors
///
/// Returns the process's output if the test fails or no test has this name.
pub fn run_apart(test: &str, variable: (&str, &str), folder: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let child = Command::new(program)
        .args(["--exact", "--nocapture", test])
        .env(variable.0, variable.1)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let said = [child.stdout, child.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if child.status.success() && said.contains("1 passed") {
        return Ok(());
    }
    Err(format!("{said}\n{test}: {}", child.status))
}
