//! An element's configuration: positional and keyword arguments, parsed once, with all mistakes recorded.
//!
//! `configure` requests the arguments that it needs and never fails: a missing or wrong argument is recorded with its
//! place, and a stand-in is returned. Called without arguments, the same function describes the class: names, types,
//! defaults and descriptions of the reference come from it.
//!
//! As in Click, an argument that starts with a known keyword (`ACTIVE false`) belongs to that keyword wherever it
//! stands, and the last one counts. All others are positional.

use crate::router_wide::RouterWide;
use crate::units::{Capacity, FromArg};
use lang::{Config, Diagnostic, Severity, Span, args as text};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use text_file::Seen;

mod entries;
pub mod icmp;
mod names;
pub mod near;
pub mod protocol;
mod router_view;
pub mod router_wide;
pub mod service;
pub mod show;
pub mod text_file;
pub mod units;

pub use entries::{entries, port_entry, port_words};
pub use names::{Kind, Names, names_of_call, with_names};
pub use router_view::{Named, Peer, RouterView};

/// One argument, still as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The argument as written, quotes included, white space trimmed.
    pub raw: String,
    range: Range<usize>,
}

impl Arg {
    /// The argument without quotes.
    pub fn unquoted(&self) -> String {
        text::unquote(&self.raw).into_owned()
    }

    /// The words of the argument, without quotes.
    pub fn words(&self) -> Vec<String> {
        text::unquoted_words(&self.raw)
    }
}

/// An argument that `configure` has requested, for the reference manual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgInfo {
    /// The name, in capitals.
    pub name: &'static str,
    /// Type in words.
    pub kind: &'static str,
    /// Default as text; `None` = required, empty = may be left out.
    pub default: Option<String>,
    /// True if the argument is given only as a keyword.
    pub keyword: bool,
    /// Description in one sentence.
    pub doc: &'static str,
}

struct Item {
    arg: Arg,
    used: bool,
}

fn convert<T: FromArg>(raw: &str, names: &Names) -> Result<T, String> {
    if T::QUOTED {
        T::from_arg(raw, names)
    } else {
        T::from_arg(&text::unquote(raw), names)
    }
}

/// The arguments of one element.
pub struct Args<'a> {
    items: Vec<Item>,
    known: Vec<&'static str>,
    /// Names of addresses and devices that are visible to this element.
    names: Names,
    all_names: &'a Names,
    router_wide: &'a RouterWide,
    config: &'a Config,
    /// The element as errors name it: `ttl :: DecIPTTL`.
    title: String,
    /// Place of the element's declaration.
    declared: Span,
    info: Vec<ArgInfo>,
    diagnostics: Vec<Diagnostic>,
    took_rest: bool,
    /// Numbers of inputs and outputs that are connected.
    pub connected: (usize, usize),
    /// True if the router is to run in the manner of Click's driver.
    pub as_click: bool,
    /// The router around the element, and the element's number there; `None` while a class describes itself.
    router_view: Option<(&'a RouterView<'a>, usize)>,
    named_elements: RefCell<Option<Vec<usize>>>,
    files: Vec<Seen>,
    /// Handlers that the element will write, as `element.handler`.
    pub calls: Vec<String>,
}

/// Click's spelling of a keyword, and this program's.
const SYNONYMS: [(&str, &str); 1] = [("PROMISCUOUS", "PROMISC")];

/// A keyword in this program's spelling, and its value.
fn keyword(raw: &str) -> Option<(&str, &str)> {
    let (word, value) = text::keyword(raw)?;
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == word);
    Some((synonym.map_or(word, |(_, name)| name), value))
}

/// The first of several words, if Click would take it for a keyword, also in lower case.
fn leading_word(raw: &str) -> Option<&str> {
    let (word, rest) = raw.split_once(|c: char| c.is_ascii_whitespace())?;
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "_:?.".contains(c);
    let starts = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts && word.chars().all(is_of_word) && !rest.trim().is_empty()).then_some(word)
}

impl<'a> Args<'a> {
    /// The arguments of a configuration string. `known` are the class's keywords.
    pub fn new(
        (title, declared): (String, Span),
        config: &'a Config,
        names: &'a Names,
        router_wide: &'a RouterWide,
        known: Vec<&'static str>,
    ) -> Args<'a> {
        let ranges = text::split(&config.text).into_iter();
        let items = ranges.map(|range| Item {
            arg: Arg {
                raw: config.text[range.clone()].to_owned(),
                range,
            },
            used: false,
        });
        Args {
            items: items.collect(),
            known,
            names: names.clone(),
            all_names: names,
            router_wide,
            config,
            title,
            declared,
            info: Vec::new(),
            diagnostics: Vec::new(),
            took_rest: false,
            connected: (usize::MAX, usize::MAX),
            as_click: false,
            router_view: None,
            named_elements: RefCell::default(),
            files: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Number of inputs that are connected. Connections may change while the configuration stays, so use the number
    /// only in error messages.
    pub fn inputs(&self) -> usize {
        self.connected.0
    }

    /// Number of outputs that are connected, with the same restriction as [`inputs`](Self::inputs).
    pub fn outputs(&self) -> usize {
        self.connected.1
    }

    /// The value of type `T` that all elements of the router share.
    pub fn router_wide<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.router_wide.get()
    }

    /// The value of type `T` under which this plan is made, such as a limit. A running router does not see it.
    pub fn of_plan<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.router_wide.of_plan()
    }

    /// Gives the element a view of the router around it, in which it has this number.
    pub fn set_around(&mut self, around: &'a RouterView<'a>, index: usize) {
        self.names = self.all_names.seen_by(&around.router.elements[index].name);
        self.router_view = Some((around, index));
    }

    /// Reads a text file that the configuration names. If its content changes, the next reload configures the element
    /// anew.
    ///
    /// # Errors
    /// As [`text_file::named_text`].
    pub fn read_file(&mut self, path: &str) -> std::io::Result<String> {
        let path = Path::new(path);
        let read = text_file::named_text(path);
        let content = read.as_ref().ok().map(String::as_bytes);
        self.files.push(Seen::with_content(path, content));
        read
    }

    /// Records a file on which the configuration depends and that other code reads, in the way of
    /// [`read_file`](Self::read_file).
    pub fn note_file(&mut self, path: &str) {
        self.files.push(Seen::read_now(Path::new(path)));
    }

    /// The files that the configuration names.
    pub fn files(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.files)
    }

    /// Numbers of the elements that the configuration names; `None` if it depends on no other element.
    pub fn named_elements(&self) -> Option<Vec<usize>> {
        self.named_elements.take()
    }

    /// The element's own name; empty where a class describes itself.
    pub fn element(&self) -> &'a str {
        self.router_view
            .map_or("", |(around, index)| &around.router.elements[index].name)
    }

    /// Makes the plan check that `path` is an existing write handler.
    pub fn will_write(&mut self, path: &str) {
        // The named element may appear, disappear or change while this configuration stays the same.
        self.named_elements.borrow_mut().get_or_insert_default();
        self.calls.push(path.to_owned());
    }

    /// The result of `make` for this router, computed once and shared by all elements that request the same type.
    pub fn memoize<T: 'static>(&self, make: impl FnOnce(&Args) -> T) -> Rc<T> {
        let Some((around, _)) = self.router_view else {
            return Rc::new(make(self));
        };
        self.named_elements.borrow_mut().get_or_insert_default();
        let known = around.once.borrow().get(&TypeId::of::<T>()).cloned();
        let known = known.and_then(|known| known.downcast().ok());
        known.unwrap_or_else(|| {
            let made = Rc::new(make(self));
            let known = Rc::clone(&made) as Rc<dyn Any>;
            around.once.borrow_mut().insert(TypeId::of::<T>(), known);
            made
        })
    }

    /// Names for addresses.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Descriptions of the requested arguments.
    pub fn into_info(self) -> Vec<ArgInfo> {
        self.info
    }

    /// The mistakes, including left-over arguments.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        if !self.took_rest {
            let extra: Vec<Arg> = self
                .items
                .iter()
                .filter(|i| !i.used)
                .map(|i| i.arg.clone())
                .collect();
            let mut too_many = None;
            for arg in &extra {
                self.refuse_extra(arg);
                let Some(told) = self.diagnostics.pop() else {
                    continue;
                };
                match leading_word(&arg.raw) {
                    Some(word) => {
                        let click = format!("{word}: unknown argument");
                        self.diagnostics.push(told.click(click));
                    }
                    // Click reports all surplus arguments in one message at the end.
                    None if too_many.is_some() => self.diagnostics.push(told.click_silent()),
                    None => too_many = Some(told.click("too many arguments")),
                }
            }
            self.diagnostics.extend(too_many);
        }
        self.diagnostics
    }

    fn refuse_extra(&mut self, arg: &Arg) {
        if let Some((word, _)) = text::keyword(&arg.raw) {
            let near = crate::near::nearest(word, self.known.iter().copied());
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.known.is_empty() => "this class has no keywords".to_owned(),
                None => format!("its keywords are {}", self.known.join(", ")),
            };
            self.error_with_help(arg, format!("unknown keyword `{word}`"), help);
        } else {
            let positional: Vec<&str> = self
                .info
                .iter()
                .filter(|i| !i.keyword)
                .map(|i| i.name)
                .collect();
            let help = match positional.as_slice() {
                [] => "it takes no arguments by place".to_owned(),
                names => format!("it takes {}", names.join(", ")),
            };
            self.error_with_help(arg, format!("too many arguments: `{}`", arg.raw), help);
        }
    }

    fn note(
        &mut self,
        name: &'static str,
        kind: &'static str,
        default: Option<String>,
        keyword: bool,
        doc: &'static str,
    ) {
        self.info.push(ArgInfo {
            name,
            kind,
            default,
            keyword,
            doc,
        });
    }

    /// Removes and returns the value of `NAME value`; if there are several, the last one.
    fn take_keyword(&mut self, name: &str) -> Option<Arg> {
        let mut found = None;
        for item in self.items.iter_mut().filter(|item| !item.used) {
            let Some((_, value)) = keyword(&item.arg.raw).filter(|(word, _)| *word == name) else {
                continue;
            };
            item.used = true;
            let end = item.arg.range.end;
            found = Some(Arg {
                raw: value.to_owned(),
                range: end - value.len()..end,
            });
        }
        found
    }

    /// Takes the next positional argument, skipping known keywords. An argument that starts with another keyword is
    /// skipped too, unless it must be given (`Message(two words)`) or is a value of type `T`. An argument that can also
    /// be given by its keyword (`named`) is positional only in front of all keywords.
    fn take_place<T: FromArg>(&mut self, is_required: bool, named: bool) -> Option<Arg> {
        let has_keyword = |item: &Item| {
            keyword(&item.arg.raw).is_some_and(|(word, _)| self.known.contains(&word))
        };
        let mut items = self.items.iter().enumerate();
        let (at, item) = items.find(|(_, item)| !item.used && !has_keyword(item))?;
        let is_behind_keyword = self.items[..at].iter().any(has_keyword);
        let is_value = |raw: &str| T::LIST || (!T::QUOTED && T::from_arg(raw, &self.names).is_ok());
        let is_keyword = leading_word(&item.arg.raw).is_some() && !is_value(&item.arg.raw);
        if (named && is_behind_keyword) || (is_keyword && !is_required) {
            return None;
        }
        let item = &mut self.items[at];
        item.used = true;
        // An empty argument between two commas stands for the default.
        (!item.arg.raw.is_empty()).then(|| item.arg.clone())
    }

    fn parse<T: FromArg>(&mut self, name: &str, arg: &Arg) -> Option<T> {
        self.value(name, &arg.raw, arg)
    }

    fn parse_in<T: FromArg + PartialOrd + Display>(
        &mut self,
        name: &str,
        arg: &Arg,
        range: &RangeInclusive<T>,
    ) -> Option<T> {
        let value = self.parse(name, arg)?;
        let Some(wrong) = units::outside(&value, range) else {
            return Some(value);
        };
        self.error(arg, format!("{name} {wrong}"));
        None
    }

    /// Records that an argument is requested, and removes it from the list. It is required if it has no default.
    fn ask<T: FromArg>(
        &mut self,
        name: &'static str,
        default: Option<String>,
        keyword: bool,
        doc: &'static str,
    ) -> Option<Arg> {
        let is_required = default.is_none();
        self.note(name, T::KIND, default, keyword, doc);
        let mut found = self.take_keyword(name);
        if !keyword {
            // If an argument is given in both ways, its keyword's value counts.
            let by_place = self.take_place::<T>(is_required, found.is_some());
            found = found.or(by_place);
        }
        if is_required && found.is_none() {
            let wrong = self.wrong(&format!("required argument {name} is missing"));
            let help = format!("{doc}: {}", T::KIND);
            let click = format!("{name}: required argument missing");
            let wrong = wrong.at(self.config.span()).help(help);
            self.diagnostics.push(wrong.click(click));
        }
        found
    }

    /// A required argument, positional or as `NAME value`.
    pub fn required<T: FromArg>(&mut self, name: &'static str, doc: &'static str) -> T {
        let arg = self.ask::<T>(name, None, false, doc);
        arg.and_then(|arg| self.parse(name, &arg))
            .unwrap_or_else(T::stand_in)
    }

    /// Like [`required`](Self::required), for a value in a range. A wrong value is replaced by the lower end.
    pub fn required_in<T: FromArg + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<T>,
        doc: &'static str,
    ) -> T {
        let arg = self.ask::<T>(name, None, false, doc);
        arg.and_then(|arg| self.parse_in(name, &arg, &range))
            .unwrap_or(range.into_inner().0)
    }

    /// An optional argument, positional or as `NAME value`.
    pub fn optional<T: FromArg>(&mut self, name: &'static str, default: T, doc: &'static str) -> T {
        let arg = self.ask::<T>(name, Some(default.unparse()), false, doc);
        arg.and_then(|arg| self.parse(name, &arg))
            .unwrap_or(default)
    }

    /// Like [`optional`](Self::optional), for a value in a range.
    pub fn optional_in<T: FromArg + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        default: T,
        range: RangeInclusive<T>,
        doc: &'static str,
    ) -> T {
        let arg = self.ask::<T>(name, Some(default.unparse()), false, doc);
        arg.and_then(|arg| self.parse_in(name, &arg, &range))
            .unwrap_or(default)
    }

    /// An optional argument without a default.
    pub fn maybe<T: FromArg>(&mut self, name: &'static str, doc: &'static str) -> Option<T> {
        let arg = self.ask::<T>(name, Some(String::new()), false, doc)?;
        self.parse(name, &arg)
    }

    /// A setting given as `NAME value` only.
    pub fn key<T: FromArg>(&mut self, name: &'static str, default: T, doc: &'static str) -> T {
        let arg = self.ask::<T>(name, Some(default.unparse()), true, doc);
        arg.and_then(|arg| self.parse(name, &arg))
            .unwrap_or(default)
    }

    /// Like [`key`](Self::key), for a value in a range.
    pub fn key_in<T: FromArg + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        default: T,
        range: RangeInclusive<T>,
        doc: &'static str,
    ) -> T {
        let arg = self.ask::<T>(name, Some(default.unparse()), true, doc);
        arg.and_then(|arg| self.parse_in(name, &arg, &range))
            .unwrap_or(default)
    }

    /// `NAME n`: maximum number of packets, flows or entries; see [`Capacity`].
    pub fn capacity(&mut self, name: &'static str, default: usize, doc: &'static str) -> usize {
        self.key(name, Capacity(default), doc).0
    }

    /// A setting given as `NAME value` only, without a default.
    pub fn key_maybe<T: FromArg>(&mut self, name: &'static str, doc: &'static str) -> Option<T> {
        let arg = self.ask::<T>(name, Some(String::new()), true, doc)?;
        self.parse(name, &arg)
    }

    /// All remaining arguments, in order.
    pub fn rest(&mut self, name: &'static str, kind: &'static str, doc: &'static str) -> Vec<Arg> {
        self.note(name, kind, Some(String::new()), false, doc);
        self.took_rest = true;
        let left = self.items.iter_mut().filter(|i| !i.used);
        left.map(|item| {
            item.used = true;
            item.arg.clone()
        })
        .collect()
    }

    /// Parses a word of an argument, for example one of [`rest`](Self::rest); a mistake is recorded.
    pub fn value<T: FromArg>(&mut self, name: &str, word: &str, arg: &Arg) -> Option<T> {
        match convert(word, &self.names) {
            Ok(value) => Some(value),
            Err(_) if self.names.has_mistake(word) => None,
            Err(wrong) => {
                let click = format!("{name}: {}", units::as_click::<T>(word));
                let place = self.config.span_of(arg.range.clone());
                let wrong = self.wrong(&format!("{name} {wrong}")).at(place);
                self.diagnostics.push(wrong.click(click));
                None
            }
        }
    }

    fn wrong(&self, message: &str) -> Diagnostic {
        Diagnostic::error("arguments", message).about(
            &*self.title,
            self.declared,
            Some("configuring"),
        )
    }

    /// Records a mistake in an argument.
    pub fn error(&mut self, arg: &Arg, message: impl AsRef<str>) {
        let place = self.config.span_of(arg.range.clone());
        self.diagnostics
            .push(self.wrong(message.as_ref()).at(place));
    }

    /// Like [`error`](Self::error); `click` is Click's message for the same mistake.
    pub fn error_as(&mut self, arg: &Arg, message: impl AsRef<str>, click: impl Into<String>) {
        self.error(arg, message);
        if let Some(last) = self.diagnostics.pop() {
            self.diagnostics.push(last.click(click));
        }
    }

    /// Records a mistake in an argument, with its remedy.
    pub fn error_with_help(
        &mut self,
        arg: &Arg,
        message: impl AsRef<str>,
        help: impl Into<String>,
    ) {
        self.error(arg, message);
        if let Some(last) = self.diagnostics.pop() {
            self.diagnostics.push(last.help(help));
        }
    }

    /// Records a diagnostic about the configuration with its own code and text.
    pub fn report(&mut self, severity: Severity, message: impl AsRef<str>) {
        let said = Diagnostic {
            severity,
            code: "message",
            ..self.wrong(message.as_ref()).at(self.config.span())
        };
        self.diagnostics.push(said);
    }

    /// Records a mistake of the configuration as a whole.
    pub fn error_in_whole(&mut self, message: impl AsRef<str>, help: impl Into<String>) {
        let wrong = self.wrong(message.as_ref()).at(self.config.span());
        self.diagnostics.push(wrong.help(help));
    }
}
