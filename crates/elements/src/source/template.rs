//! The packet that a source makes repeatedly, and the settings that sources share.

use crate::prelude::*;
use arguments::units::Bytes;

/// Click's default data, whose length and words configurations and tests rely on.
const DEFAULT_DATA: &[u8] =
    b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";
/// Maximum length of a packet, in bytes.
const LENGTH_MAX: usize = 65_000;

/// Content and length of packets.
#[derive(Clone, Default)]
pub(super) struct Template {
    data: Vec<u8>,
    length: Option<usize>,
    bytes: Vec<u8>,
}

impl Template {
    /// Parses the argument `DATA`.
    pub(super) fn data(args: &mut Args) -> Vec<u8> {
        let default = Bytes(DEFAULT_DATA.to_vec());
        args.optional("DATA", default, "bytes of each packet").0
    }

    /// Parses the argument `LENGTH`, for packets with this data.
    pub(super) fn parse(args: &mut Args, data: Vec<u8>) -> Template {
        let length = args.key_maybe("LENGTH", "length of each packet");
        Template::checked(args, data, length)
    }

    /// Template for packets with exactly this data.
    pub(super) fn exact(args: &mut Args, data: Vec<u8>) -> Template {
        Template::checked(args, data, None)
    }

    /// Template for packets of `length` bytes with arbitrary content.
    pub(super) fn blank(args: &mut Args, length: usize) -> Template {
        Template::checked(args, Vec::new(), Some(length))
    }

    fn checked(args: &mut Args, data: Vec<u8>, length: Option<usize>) -> Template {
        Template::new(data, length).unwrap_or_else(|wrong| {
            args.error_in_whole(wrong, "make packets shorter");
            Template::default()
        })
    }

    fn new(data: Vec<u8>, length: Option<usize>) -> Result<Template, String> {
        let n = length.unwrap_or(data.len());
        if n > LENGTH_MAX {
            return Err(format!(
                "packets of {n} bytes cannot be made, the longest have {LENGTH_MAX} bytes"
            ));
        }
        let filler: &[u8] = if data.is_empty() { &[0] } else { &data };
        let bytes = filler.iter().copied().cycle().take(n).collect();
        Ok(Template {
            data,
            length,
            bytes,
        })
    }

    /// Value of the handler `data`.
    pub(super) fn show_data(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }

    /// Replaces the data.
    pub(super) fn set_data(&mut self, value: &str) -> Result<(), String> {
        let data = arguments::units::parse::<Bytes>(value)?.0;
        *self = Template::new(data, self.length)?;
        Ok(())
    }

    /// Value of the handler `length`; -1 for the length of the data.
    pub(super) fn show_length(&self) -> String {
        self.length.map_or("-1".to_owned(), |n| n.to_string())
    }

    /// Sets the length; negative for the length of the data.
    pub(super) fn set_length(&mut self, value: &str) -> Result<(), String> {
        let length = usize::try_from(arguments::units::parse::<i64>(value)?).ok();
        *self = Template::new(self.data.clone(), length)?;
        Ok(())
    }

    /// Length of a packet, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Creates a packet; `None` without a free buffer.
    pub(super) fn packet(&self) -> Option<Packet> {
        Packet::from_bytes(&self.bytes)
    }
}
