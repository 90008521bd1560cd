//! Text of metrics, family by family (Prometheus, exposition format 0.0.4).

use std::fmt::Write;

/// Metrics in Prometheus text format, by family: name, type and help once, then the samples of all routers.
#[derive(Default)]
pub struct Text {
    /// Name and text of each family.
    families: Vec<(String, String)>,
    /// Name of the current router; `None` if no label is needed.
    pub(super) router: Option<String>,
}

/// Metric family to which samples are added.
pub(super) struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
    router: Option<&'a str>,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.out.push_str(self.name);
        let router = self.router.map(|router| ("router", router));
        let labels = labels.iter().copied().chain(router);
        let mut start = '{';
        for (name, value) in labels {
            let _ = write!(self.out, "{start}{name}=\"{}\"", escape(value));
            start = ',';
        }
        let end = if start == '{' { "" } else { "}" };
        let _ = writeln!(self.out, "{end} {value}");
    }
}

/// Escapes a label's value.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

impl Text {
    pub(super) fn family<'a>(&'a mut self, kind: &str, name: &'a str, help: &str) -> Family<'a> {
        let known = self.families.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or_else(|| {
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.families.push((name.to_owned(), head));
            self.families.len() - 1
        });
        Family {
            out: &mut self.families[at].1,
            name,
            router: self.router.as_deref(),
        }
    }

    pub(super) fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family("counter", name, help)
    }

    pub(super) fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family("gauge", name, help)
    }

    /// Text of all families.
    pub fn finish(self) -> String {
        self.families.into_iter().map(|(_, text)| text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut text = Text::default();
        text.gauge("a", "b")
            .sample(&[("x", "q\"\\\n"), ("y", "")], 1.5);
        assert_eq!(
            text.finish(),
            "# HELP a b\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\",y=\"\"} 1.5\n"
        );
    }
}
