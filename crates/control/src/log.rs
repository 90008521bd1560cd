//! Structured logs on standard error: one event a line, as text or JSON.

pub use tracing::level_filters::LevelFilter as Level;
use tracing_subscriber::fmt;

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging for the process; a second call changes nothing.
pub fn start(format: Format, level: Level) {
    let base = fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(level);
    // The error says that logging runs already.
    let _ = match format {
        Format::Text => tracing::subscriber::set_global_default(base.finish()),
        Format::Json => tracing::subscriber::set_global_default(base.json().finish()),
    };
}
