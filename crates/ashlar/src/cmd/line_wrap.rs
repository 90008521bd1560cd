//! Line wrapping for terminals.

/// Number of columns by which continuation lines are indented further than the first line.
const HANGING_INDENT: usize = 4;
/// Width below which text is not folded.
const WIDTH_MIN: usize = 20;

/// Folds text to lines of at most `columns` characters. Continuation lines are indented; lines break between words that
/// fit.
pub(crate) fn fold(text: &str, columns: usize) -> String {
    let columns = columns.max(WIDTH_MIN);
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        fold_line(line, columns, &mut folded);
        folded.push_str(end);
    }
    folded
}

fn fold_line(line: &str, columns: usize, folded: &mut String) {
    let begins = line.len() - line.trim_start().len();
    let hanging = (begins + HANGING_INDENT).min(columns / 2);
    // Trailing spaces are invisible and must not cause a line break.
    let (mut rest, mut indent) = (line.trim_end(), 0);
    while let Some(broken) = broken(rest, columns - indent) {
        let (first, more) = rest.split_at(broken);
        folded.push_str(first.trim_end());
        folded.push('\n');
        indent = hanging;
        folded.extend(std::iter::repeat_n(' ', indent));
        rest = more.trim_start();
    }
    folded.push_str(rest);
}

/// Index of the byte before which to break a line that is too long; `None` for other lines.
fn broken(line: &str, columns: usize) -> Option<usize> {
    let (most, _) = line.char_indices().nth(columns)?;
    let begins = line.len() - line.trim_start().len();
    let upto = match line[most..].starts_with(' ') {
        true => most,
        false => line[..most].rfind(' ').unwrap_or(0),
    };
    Some(if upto > begins { upto } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
INTERFACE  DRIVER  CARD  STATE  MBIT/S  NODE  QUEUES  XDP  OFFLOADS  USED BY
eth0       veth    -     up     10000   -     2       native  checksums, segmentation  nobody

  a sentence that goes on for long enough that it does not fit on a narrow terminal by any means
einlangeswortdasaufkeinenschmalenschirmpasstweilesausvielensilbenbesteht äöü
";

    #[test]
    fn no_line_is_longer_and_no_word_is_lost() {
        for columns in [20, 40, 41, 79, 80, 200] {
            let folded = fold(TABLE, columns);
            for line in folded.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(letters(&folded), letters(TABLE));
        }
        assert_eq!(fold(TABLE, 200), TABLE);
        assert_eq!(fold("a line \nb", 3), "a line\nb");
    }

    #[test]
    fn lines_are_broken_between_words_and_go_on_to_the_right() {
        assert_eq!(
            fold("  one two three four five six\n", 20),
            "  one two three four\n      five six\n"
        );
    }
}
