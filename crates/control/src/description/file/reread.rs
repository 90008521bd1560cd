//! Rereading of a configuration for a reload.

use super::parse_cluster;
use crate::description::source::Source;
use crate::description::unreadable::cannot_read;
use arguments::text_file;

impl Source {
    /// Rereads the file, with `changes` to its definitions.
    ///
    /// # Errors
    /// The configuration came from standard input, or its file cannot be read or has mistakes; a sentence.
    pub fn reread(&self, changes: &[(String, String)]) -> Result<Source, String> {
        let Some(path) = &self.path else {
            return Err("the configuration came from standard input: name a file".to_owned());
        };
        let text = text_file::named_text(path).map_err(|e| cannot_read(path, &e))?;
        let mut again = Source {
            text: text.into(),
            ..self.clone()
        };
        if let Some(server) = &self.server {
            again.name = path.display().to_string();
            let parsed = parse_cluster(&again.name, &again.text);
            let Some(description) = parsed.description else {
                return Err(parsed.text());
            };
            again = again.of_server(&description, server)?;
        }
        again.define(changes);
        Ok(again)
    }
}
