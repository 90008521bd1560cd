//! Prints a message when the router is configured.
//!
//! ```click
//! Message("All addresses are those of the laboratory.");
//! ```
//!
//! Arguments:
//!
//! - `MESSAGE`: the text.
//! - `TYPE`: `MESSAGE`, the default; `WARNING`; or `ERROR`, with which the configuration is refused.

use crate::prelude::*;
use lang::Severity;

pub(super) struct Message;

impl Element for Message {
    const CONTRACT: Contract = Contract::new("Message", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .copies(Copies::One);

    type Config = ();

    fn configure(args: &mut Args) {
        let message: String = args.required("MESSAGE", "the text");
        let kind: String = args.optional("TYPE", "MESSAGE".to_owned(), "MESSAGE, WARNING or ERROR");
        match kind.to_ascii_uppercase().as_str() {
            "MESSAGE" => args.report(Severity::Note, message),
            "WARNING" => args.report(Severity::Warning, message),
            "ERROR" => args.report(Severity::Error, message),
            _ => args.error_in_whole(
                "unrecognized TYPE",
                "the types are MESSAGE, WARNING and ERROR",
            ),
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> Message {
        Message
    }
}

#[cfg(test)]
mod tests {
    use planner::{Options, Registry, compile};

    /// Messages about a configuration: Ashlar's and Click's.
    fn said(text: &str) -> (String, String) {
        let mut map = lang::SourceMap::new();
        let file = map.add("A.click", text);
        let (router, mistakes) = lang::parse(&mut map, file, &[]);
        assert_eq!(mistakes, []);
        let options = Options {
            as_click: true,
            ..Options::new(1, &engine::port::NoPorts)
        };
        let (_, said) = compile(&router, &Registry::new(crate::with_basics()), &options);
        (
            lang::render_all(&said, &map),
            lang::render_click(&said, &map),
        )
    }

    #[test]
    fn a_message_is_said_with_its_place() {
        let (ours, clicks) = said("m :: Message(\"te st\"); n :: Message(b, WARNING)");
        assert!(ours.contains("note: in `m :: Message`: te st"), "{ours}");
        assert_eq!(
            clicks,
            "A.click:1: While configuring 'm :: Message':\n  te st\n\
             A.click:1: While configuring 'n :: Message':\n  warning: b\n"
        );
    }

    #[test]
    fn an_error_refuses_the_configuration() {
        let errors = testkit::errors(crate::with_basics(), "Message(no, ERROR)");
        assert!(errors.contains(": no"), "{errors}");
        assert!(
            testkit::errors(crate::with_basics(), "Message(no, OTHER)").contains("unrecognized")
        );
        assert!(testkit::errors(crate::with_basics(), "Message()").contains("MESSAGE"));
    }
}
