//! Files that dump elements read and write. `-` is the standard input or output.

use arguments::Names;
use arguments::show::reason;
use arguments::units::FromArg;
use lang::args::{quote, unquoted_words};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Write};
use std::process::{Child, Stdio};

/// Name of a file: one word, or text in quotes.
pub(super) struct Filename(pub(super) String);

impl FromArg for Filename {
    const KIND: &'static str = "a file's name; one with spaces needs quotes";
    const QUOTED: bool = true;

    fn from_arg(raw: &str, _: &Names) -> Result<Filename, String> {
        match <[String; 1]>::try_from(unquoted_words(raw)) {
            Ok([name]) => Ok(Filename(name)),
            Err(_) => Err(format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Filename {
        Filename(String::new())
    }

    fn unparse(&self) -> String {
        quote(&self.0)
    }
}

/// Size of the buffer in bytes.
const BUFFER: usize = 64 * 1024;

/// An open file to read.
pub(super) struct Input {
    /// Name for messages.
    pub(super) name: String,
    /// Content, uncompressed.
    pub(super) reader: Box<dyn BufRead + Send>,
    /// Length in bytes, if it is known and not hidden by compression.
    pub(super) size: Option<u64>,
}

/// A program that unpacks a file.
struct Unpacker(Child);

impl Read for Unpacker {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0.stdout {
            Some(output) => output.read(into),
            None => Ok(0),
        }
    }
}

impl Drop for Unpacker {
    fn drop(&mut self) {
        // The child may have ended by itself: then only its status is collected.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Input {
    /// Opens a file, which gzip or bzip2 may have packed. The error is a sentence.
    pub(super) fn open(name: &str) -> Result<Input, String> {
        if name == "-" {
            return Ok(Input {
                name: "<stdin>".into(),
                reader: Box::new(BufReader::with_capacity(BUFFER, io::stdin())),
                size: None,
            });
        }
        let wrong = |e: io::Error| format!("{name}: {}", reason(&e));
        let file = File::open(name).map_err(wrong)?;
        let kind = file.metadata().map_err(wrong)?;
        if kind.is_dir() {
            return Err(format!("{name}: Is a directory"));
        }
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let start = reader.fill_buf().map_err(wrong)?;
        if let Some(program) = packer(start) {
            return Input::unpack(name, program);
        }
        Ok(Input {
            name: name.to_owned(),
            reader: Box::new(reader),
            size: kind.is_file().then_some(kind.len()),
        })
    }

    fn unpack(name: &str, program: &str) -> Result<Input, String> {
        let wrong = |e: io::Error| format!("{name}: {program}: {}", reason(&e));
        let child = machine::program(program)
            .stdin(File::open(name).map_err(wrong)?)
            .stdout(Stdio::piped())
            .spawn();
        let unpacker = Unpacker(child.map_err(wrong)?);
        Ok(Input {
            name: name.to_owned(),
            reader: Box::new(BufReader::with_capacity(BUFFER, unpacker)),
            size: None,
        })
    }

    /// Input from text in the configuration.
    pub(super) fn text(data: Vec<u8>) -> Input {
        Input {
            name: "<data>".into(),
            size: Some(data.len() as u64),
            reader: Box::new(Cursor::new(data)),
        }
    }

    /// True if the file is empty. Waits for the first bytes.
    pub(super) fn is_empty(&mut self) -> bool {
        self.reader.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}

/// The program that unpacks a file which starts so.
fn packer(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, ..] => Some("zcat"),
        [b'B', b'Z', b'h', ..] => Some("bzcat"),
        _ => None,
    }
}

/// An open file to write.
pub(crate) enum Output {
    /// The standard output, unbuffered, because other parts of this program write to it as well.
    Standard,
    /// A file.
    File(BufWriter<File>),
}

impl Output {
    /// Makes a file, or empties it. The error is a sentence.
    pub(crate) fn create(name: &str) -> Result<Output, String> {
        if name == "-" {
            return Ok(Output::Standard);
        }
        match File::create(name) {
            Ok(file) => Ok(Output::File(BufWriter::with_capacity(BUFFER, file))),
            Err(e) => Err(format!("{name}: {}", reason(&e))),
        }
    }

    /// Writes bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Standard => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Output::File(file) => file.write_all(bytes),
        }
    }

    /// Passes buffered data to the operating system.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Standard => io::stdout().flush(),
            Output::File(file) => file.flush(),
        }
    }
}
