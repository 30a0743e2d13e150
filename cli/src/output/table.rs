//! Tables with columns as wide as their widest cell.

use super::style::{Paint, Style};

#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub fn painted(text: impl Into<String>, paint: Paint) -> Self {
        Self { text: text.into(), paint }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), paint: Paint::Plain }
    }
}

#[derive(Debug)]
pub struct Table {
    /// Heading, and whether the column is aligned to the right, as for numbers.
    columns: Vec<(&'static str, bool)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A heading that begins with `>` aligns its column to the right.
    pub fn new(columns: &[&'static str]) -> Self {
        let column = |head: &&'static str| head.strip_prefix('>').map_or((*head, false), |rest| (rest, true));
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub fn render(&self, style: Style) -> String {
        let width = |column: usize, head: &str| {
            let cells =
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count());
            cells.max().unwrap_or(0).max(head.chars().count())
        };
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(at, (head, _))| width(at, head)).collect();
        let head: Vec<Cell> = self.columns.iter().map(|(head, _)| Cell::painted(*head, Paint::Dim)).collect();
        let mut out = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let (right, width) = (self.columns[at].1, widths[at]);
                let gap = " ".repeat(width - cell.text.chars().count());
                let text = style.paint(cell.paint, &cell.text);
                if at > 0 {
                    line.push_str("  ");
                }
                line.push_str(&if right { gap + &text } else { text + &gap });
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Style, Table};
    use crate::output::style::Paint;

    #[test]
    fn colours_do_not_affect_column_alignment() {
        let mut table = Table::new(&["NAME", ">COST", "NOTE"]);
        table.row(vec!["a".into(), "$1.50".into(), "".into()]);
        table.row(vec![Cell::painted("longer", Paint::Red), "$10.00".into(), "x".into()]);
        assert_eq!(
            table.render(Style::PLAIN),
            "NAME      COST  NOTE\n\
             a        $1.50\n\
             longer  $10.00  x\n"
        );
        assert!(table.render(Style::COLOUR).contains("\x1b[31mlonger\x1b[0m  $10.00"));
    }
}
