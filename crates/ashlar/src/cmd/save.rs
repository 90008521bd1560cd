//! `ashlar save`

use super::{Done, print, print_as_it_is, print_json};
use crate::cli::Save;
use control::saved::NOT_KEPT;
use control::view::Info;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(crate) fn save(args: &Save) -> Done {
    let client = args.target.client()?;
    let text = client.get("/v1/saved")?;
    let text = String::from_utf8_lossy(&text);
    let is_setting = |line: &&str| !line.starts_with('#') && !line.contains(".configured ");
    let lines = text.lines().filter(is_setting).count();
    let not_kept: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(NOT_KEPT))
        .collect();
    let file = match &args.to {
        Some(file) if file.as_os_str() == "-" => {
            return print_as_it_is(&text);
        }
        Some(file) => file.clone(),
        None => {
            let info: Info = client.get_json("/v1/info")?;
            info.saved.ok_or(
                "the configuration came from standard input, so a start would not find saved settings: give --to FILE",
            )?
        }
    };
    let shown = file.display();
    if args.json {
        let report = json!({"file": file, "changes": lines, "not_kept": not_kept});
        return write(&file, text.as_bytes(), lines).and_then(|_| print_json(&report));
    }
    let gone = write(&file, text.as_bytes(), lines)?;
    let mut report = match lines {
        0 => {
            let all = match not_kept.is_empty() {
                true => "everything is as configured: ",
                false => "",
            };
            let what = if gone { ", which is removed" } else { "" };
            format!("{all}nothing is kept in {shown}{what}\n")
        }
        _ => {
            let changes = lang::count(lines, "change");
            format!("{changes} in {shown}, which the next start reads\n")
        }
    };
    for path in not_kept {
        let _ = writeln!(
            report,
            "not kept: the setting of {path}; write it into the configuration, or set it again after a start"
        );
    }
    print(&report)
}

/// Writes the file, or removes it if nothing is to be kept; returns true if it was removed.
fn write(file: &Path, text: &[u8], lines: usize) -> Result<bool, String> {
    if lines == 0 {
        return Ok(std::fs::remove_file(file).is_ok());
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file));
    written.map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    Ok(false)
}
