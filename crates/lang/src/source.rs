//! Source texts and positions in them.
//!
//! A [`SourceMap`] owns every text that takes part in one configuration: the file, its libraries, the
//! command line's definitions. A [`Span`] is a range of bytes in one of them, small enough to copy into
//! every node of the graph.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Index of a text in a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// A range of bytes in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Text that contains the range.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// Index after the last byte.
    pub end: u32,
}

impl FileId {
    /// The first text of a map.
    pub(crate) const FIRST: FileId = FileId(0);
}

impl Span {
    /// The bytes `range` of `file`.
    pub fn new(file: FileId, range: Range<usize>) -> Span {
        Span {
            file,
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    /// Span from the start of `self` to the end of `last`, if both are in the same text; else `self`.
    pub fn to(self, last: Span) -> Span {
        if self.file != last.file || last.end < self.start {
            return self;
        }
        Span {
            end: last.end,
            ..self
        }
    }

    /// The empty place before the first byte.
    pub fn before(self) -> Span {
        Span {
            end: self.start,
            ..self
        }
    }

    /// The empty place after the last byte.
    pub fn after(self) -> Span {
        Span {
            start: self.end,
            ..self
        }
    }

    /// The bytes, as a range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A position as line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the file; a line directive may have changed it.
    pub file: Arc<str>,
    /// Line from 1; a line directive may have changed it.
    pub line: u32,
    /// Column from 1, in characters; a tab is one character.
    pub column: u32,
}

/// Line directive `# 100 "file.click"`: text after `offset` came from another file.
#[derive(Clone, Debug)]
pub(crate) struct LineDirective {
    /// First byte of the line after the directive.
    pub(crate) offset: usize,
    pub(crate) line: u32,
    pub(crate) name: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
struct File {
    name: Arc<str>,
    text: Arc<str>,
    /// Offsets of the first byte of each line.
    lines: Vec<u32>,
    /// Number of characters before each block of bytes, to find a column in a long line quickly.
    characters: Vec<u32>,
    directives: Vec<LineDirective>,
    /// Place that requires this library.
    required_at: Option<Span>,
    /// Text with keys masked, computed on first use.
    masked: OnceLock<Arc<str>>,
}

/// The texts of one configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<File>,
}

/// Maximum length of a text, in bytes: positions are 32 bits wide.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// Number of bytes of a block whose characters are counted.
const BLOCK: usize = 1024;

impl SourceMap {
    /// A map without texts.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a text. It is cut off at [`TEXT_BYTES_MAX`].
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let (name, mut text): (String, String) = (name.into(), text.into());
        if text.len() > TEXT_BYTES_MAX {
            let fits = (0..=TEXT_BYTES_MAX)
                .rev()
                .find(|&at| text.is_char_boundary(at));
            text.truncate(fits.unwrap_or(0));
        }
        let breaks = text.bytes().enumerate().filter(|&(_, b)| b == b'\n');
        let lines = std::iter::once(0)
            .chain(breaks.map(|(at, _)| at as u32 + 1))
            .collect();
        let mut before = 0;
        let blocks = text.as_bytes().chunks(BLOCK).map(|block| {
            before += begun(block);
            before
        });
        let characters = std::iter::once(0).chain(blocks).collect();
        self.files.push(File {
            name: name.into(),
            text: text.into(),
            lines,
            characters,
            directives: Vec::new(),
            required_at: None,
            masked: OnceLock::new(),
        });
        FileId(self.files.len() as u32 - 1)
    }

    /// The file's name as given to [`SourceMap::add`].
    pub fn name(&self, file: FileId) -> &str {
        self.files.get(file.0 as usize).map_or("", |f| &f.name)
    }

    /// The whole text of a file.
    pub fn text(&self, file: FileId) -> &str {
        self.files.get(file.0 as usize).map_or("", |f| &f.text)
    }

    /// Text of a file with keys masked, of the same length.
    pub(crate) fn masked(&self, file: FileId) -> &str {
        let Some(file) = self.files.get(file.0 as usize) else {
            return "";
        };
        file.masked
            .get_or_init(|| match crate::secret::masked(&file.text) {
                Cow::Borrowed(_) => Arc::clone(&file.text),
                Cow::Owned(masked) => masked.into(),
            })
    }

    /// All texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.text)
    }

    /// Length of all texts together, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.files.iter().map(|file| file.text.len()).sum()
    }

    pub(crate) fn shared_text(&self, file: FileId) -> Arc<str> {
        self.files
            .get(file.0 as usize)
            .map_or_else(|| "".into(), |f| f.text.clone())
    }

    pub(crate) fn set_directives(&mut self, file: FileId, mut directives: Vec<LineDirective>) {
        // Directives in an unterminated configuration string are read twice, so they may be out of order.
        directives.sort_by_key(|directive| directive.offset);
        let mut name = None;
        for directive in &mut directives {
            name = directive.name.take().or(name);
            directive.name.clone_from(&name);
        }
        if let Some(file) = self.files.get_mut(file.0 as usize) {
            file.directives = directives;
        }
    }

    /// Notes that a library is read at a place of another text.
    pub(crate) fn set_required_at(&mut self, library: FileId, place: Span) {
        if let Some(file) = self.files.get_mut(library.0 as usize) {
            file.required_at = Some(place);
        }
    }

    /// Key that sorts positions as they are read: a library is read where it is required.
    pub fn reading_order(&self, span: Span) -> Vec<u32> {
        let mut order = vec![span.start];
        let mut file = span.file;
        while let Some(place) = self.files.get(file.0 as usize).and_then(|f| f.required_at) {
            order.push(place.start);
            file = place.file;
        }
        order.reverse();
        order
    }

    /// The text at a position; empty if the position belongs to another map.
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.file).get(span.range()).unwrap_or("")
    }

    /// Start of a place.
    pub fn start(&self, span: Span) -> Location {
        self.locate(span.file, span.start)
    }

    /// End of a span: the position of the character after it.
    pub fn end(&self, span: Span) -> Location {
        self.locate(span.file, span.end)
    }

    fn locate(&self, id: FileId, offset: u32) -> Location {
        let Some(file) = self.files.get(id.0 as usize) else {
            return Location {
                file: "".into(),
                line: 1,
                column: 1,
            };
        };
        let index = line_index(file, offset);
        let start = file.lines[index];
        let mut location = Location {
            file: file.name.clone(),
            line: index as u32 + 1,
            column: characters(file, offset).saturating_sub(characters(file, start)) + 1,
        };
        let directives = &file.directives;
        let behind = directives.partition_point(|d| d.offset <= offset as usize);
        if let Some(directive) = directives[..behind].last() {
            let first = line_index(file, directive.offset as u32);
            location.line = directive.line.saturating_add((index - first) as u32);
            if let Some(name) = &directive.name {
                location.file = name.clone();
            }
        }
        location
    }

    /// The line on which a span starts, without its end of line, and the line's span.
    pub fn line_of(&self, span: Span) -> (&str, Span) {
        let Some(file) = self.files.get(span.file.0 as usize) else {
            return ("", span.before());
        };
        let index = line_index(file, span.start);
        let start = file.lines[index] as usize;
        let next = file.lines.get(index + 1).map(|&at| at as usize);
        let line = &file.text[start..next.unwrap_or(file.text.len())];
        let line = line.trim_end_matches(['\n', '\r']);
        (line, Span::new(span.file, start..start + line.len()))
    }
}

/// Number of characters that begin among these bytes.
fn begun(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count() as u32
}

/// Number of characters that begin before a byte.
fn characters(file: &File, offset: u32) -> u32 {
    let offset = (offset as usize).min(file.text.len());
    let block = offset / BLOCK;
    let rest = &file.text.as_bytes()[block * BLOCK..offset];
    file.characters.get(block).copied().unwrap_or(0) + begun(rest)
}

fn line_index(file: &File, offset: u32) -> usize {
    file.lines.partition_point(|&at| at <= offset).max(1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let mut map = SourceMap::new();
        let file = map.add("a.click", "one\n\tzwö x\r\nthree");
        let x = map.text(file).find('x').expect("x is there");
        let place = map.start(Span::new(file, x..x + 1));
        assert_eq!((place.line, place.column), (2, 6));
        assert_eq!(map.line_of(Span::new(file, x..x + 1)).0, "\tzwö x");
        let end = map.text(file).len();
        assert_eq!(map.start(Span::new(file, end..end)).line, 3);
    }

    #[test]
    fn a_line_directive_renames_the_following_lines() {
        let mut map = SourceMap::new();
        let file = map.add("a.click", "x\n# 100 \"b\"\ny\nz");
        map.set_directives(
            file,
            vec![LineDirective {
                offset: 12,
                line: 100,
                name: Some("b".into()),
            }],
        );
        assert_eq!(map.start(Span::new(file, 0..1)).line, 1);
        let z = map.start(Span::new(file, 14..15));
        assert_eq!((&*z.file, z.line), ("b", 101));
    }
}
