//! Scripts: any text is parsed, and valid ones run to their end or wait.

/// Longer texts are only slower.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Runs bytes as a script, without effect.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(&data[..data.len().min(TEXT_BYTES_MAX)]);
    let said = scripts::dry_run(&text);
    // The same text gives the same result.
    assert_eq!(said, scripts::dry_run(&text));
}
