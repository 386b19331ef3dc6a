//! A page that is shown again and again on a terminal (`status --watch`): fitted to the size of the terminal, and drawn
//! over the previous one, of which only the lines that differ are written.
//!
//! A line that is longer than the terminal would take two rows, so it is cut; so are lines below the last row. Characters
//! are counted as one column each. Control characters of charms must be escaped before.

use std::fmt::Write;

/// The columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: usize,
    pub rows: usize,
}

/// The size of the terminal; none unless results are printed on a terminal whose size is known.
pub fn size() -> Option<TerminalSize> {
    let (columns, rows) = terminal_size::terminal_size_of(std::io::stdout())?;
    let (columns, rows) = (usize::from(columns.0), usize::from(rows.0));
    (columns > 0 && rows > 0).then_some(TerminalSize { columns, rows })
}

/// What ends a line, or a page, that was cut.
const CUT: char = '…';

/// The page that a terminal shows.
#[derive(Debug, Default)]
pub struct DrawnPage(Option<(TerminalSize, Vec<String>)>);

impl DrawnPage {
    /// The text that makes the terminal show this page. The cursor is below the page afterwards, and what stood there is
    /// erased.
    pub fn redraw(&mut self, page: &str, size: TerminalSize) -> String {
        let lines = fitted(page, size);
        let before = self.0.take().filter(|(before, _)| *before == size).map(|(_, lines)| lines);
        let mut text = if before.is_none() { "\x1b[H\x1b[2J".to_owned() } else { String::new() };
        let before = before.unwrap_or_default();
        // Erased before it is written: after a line of full width, some terminals would erase its last character.
        for (at, line) in lines.iter().enumerate().filter(|(at, line)| before.get(*at) != Some(*line)) {
            let _ = write!(text, "\x1b[{};1H\x1b[K{line}", at + 1);
        }
        let _ = write!(text, "\x1b[{};1H\x1b[J", lines.len() + 1);
        self.0 = Some((size, lines));
        text
    }
}

/// The lines of a page that a terminal shows; the last row is left for the cursor.
fn fitted(page: &str, size: TerminalSize) -> Vec<String> {
    let rows = size.rows.saturating_sub(1).max(1);
    let mut lines: Vec<String> = page.lines().take(rows).map(|line| cut(line, size.columns)).collect();
    if page.lines().count() > rows
        && let Some(last) = lines.last_mut()
    {
        *last = CUT.to_string();
    }
    lines
}

/// A line of at most this many characters; the codes of colours count nothing.
fn cut(line: &str, columns: usize) -> String {
    let (mut count, mut is_code, mut end) = (0, false, 0);
    for (at, c) in line.char_indices() {
        match c {
            '\x1b' => is_code = true,
            'm' if is_code => is_code = false,
            _ if is_code => {}
            _ => {
                count += 1;
                if count == columns {
                    end = at;
                }
            }
        }
    }
    if count <= columns {
        return line.to_owned();
    }
    let reset = if line.contains('\x1b') { "\x1b[0m" } else { "" };
    format!("{}{CUT}{reset}", &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize { columns: 40, rows: 24 };

    #[test]
    fn only_the_lines_that_differ_are_written_again() {
        let mut drawn = DrawnPage::default();
        let first = drawn.redraw("Unit   Agent\nweb/0  executing\nweb/1  idle\n", SIZE);
        assert!(first.contains("web/1  idle"), "{first:?}");
        let second = drawn.redraw("Unit   Agent\nweb/0  idle\nweb/1  idle\n", SIZE);
        assert_eq!(second, "\x1b[2;1H\x1b[Kweb/0  idle\x1b[4;1H\x1b[J");
        assert_eq!(drawn.redraw("Unit   Agent\nweb/0  idle\nweb/1  idle\n", SIZE), "\x1b[4;1H\x1b[J");
        assert_eq!(drawn.redraw("Unit   Agent\n", SIZE), "\x1b[2;1H\x1b[J", "the rest is erased");
        let narrower = TerminalSize { columns: 20, ..SIZE };
        assert!(drawn.redraw("Unit   Agent\n", narrower).contains("Unit"), "all is drawn again");
    }

    #[test]
    fn a_page_fits_the_terminal_and_its_colours_take_no_columns() {
        let long = "x".repeat(41);
        let size = TerminalSize { columns: 40, rows: 4 };
        let lines = fitted(&format!("{long}\n\x1b[32m{long}\x1b[0m\n{}\nd\n", "y".repeat(40)), size);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], format!("{}{CUT}", "x".repeat(39)));
        assert_eq!(lines[1], format!("\x1b[32m{}{CUT}\x1b[0m", "x".repeat(39)));
        assert_eq!(lines[2], CUT.to_string(), "there is more");
        assert_eq!(fitted("é\n", TerminalSize { columns: 1, rows: 2 }), ["é"]);
    }
}
