//! Handlers of the router as a whole, such as `stop` and `list`.

use crate::graph::call::JobCx;
use crate::handler_info::Use;
use crate::plan::Plan;
use std::sync::Arc;

/// Handler service of a router, for handlers without an element. The program gives one to its graphs; [`Plain`] is
/// for other uses.
pub trait Root: Send + Sync {
    /// True if the handler exists.
    fn has_handler(&self, name: &str, wanted: Use) -> bool;

    /// Reads a handler. The error is a sentence.
    fn read(&self, name: &str, argument: &str, cx: &mut JobCx) -> Result<String, String>;

    /// Writes a handler; the answer is usually empty. The error is a sentence.
    fn write(&self, name: &str, value: &str, cx: &mut JobCx) -> Result<String, String>;

    /// The running plan with another configuration for one element, or an error if that is impossible.
    fn reconfigure(&self, element: &str, text: &str, running: &Plan) -> Result<Arc<Plan>, String> {
        let _ = (element, text, running);
        Err("configurations change by a reload".to_owned())
    }

    /// Writes text of the program's output, such as a script's.
    fn print(&self, text: &str) {
        use std::io::Write;
        let mut out = std::io::stdout();
        // The reader may have closed the stream, so errors are ignored.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes a message for the user.
    fn say(&self, line: &str) {
        use std::io::Write;
        // The reader may have closed the stream, so errors are ignored.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Handlers that need only the graph: `list` and `stop`.
pub struct Plain;

impl Root for Plain {
    fn has_handler(&self, name: &str, wanted: Use) -> bool {
        match wanted {
            Use::Read => name == "list",
            Use::Write => name == "stop",
        }
    }

    fn read(&self, name: &str, _: &str, cx: &mut JobCx) -> Result<String, String> {
        match name {
            "list" => Ok(list(cx.plan())),
            _ => Err(format!("the router has no read handler `{name}`")),
        }
    }

    fn write(&self, name: &str, _: &str, cx: &mut JobCx) -> Result<String, String> {
        match name {
            "stop" => {
                cx.stop();
                Ok(String::new())
            }
            _ => Err(format!("the router has no write handler `{name}`")),
        }
    }
}

/// The elements: their number, then one name a line.
pub fn list(plan: &Plan) -> String {
    let mut text = format!("{}\n", plan.elements.len());
    for element in &plan.elements {
        text += &element.name;
        text.push('\n');
    }
    text
}
