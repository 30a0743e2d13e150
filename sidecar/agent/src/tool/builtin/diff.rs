//! Formats known changes as a unified diff.

use std::fmt::Write;
use std::ops::Range;

/// Context lines around a change.
const AROUND: usize = 3;

/// A replacement of a byte range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// Complete lines that change.
struct Block {
    /// Line indexes.
    old: Range<usize>,
    new: Vec<String>,
}

/// The unified diff. Changes are sorted and do not overlap.
pub(super) fn unified(content: &str, changes: &[Change]) -> String {
    let lines: Vec<&str> = content.split_inclusive('\n').collect();
    let mut starts = Vec::with_capacity(lines.len() + 1);
    let mut at = 0;
    for line in &lines {
        starts.push(at);
        at += line.len();
    }
    starts.push(at);
    let blocks = blocks(content, &starts, changes);
    let mut diff = String::new();
    let mut shift = 0_isize;
    let mut rest = blocks.as_slice();
    while let Some(first) = rest.first() {
        // Changes with touching context share a hunk.
        let together =
            1 + rest.windows(2).take_while(|pair| pair[1].old.start <= pair[0].old.end + 2 * AROUND).count();
        let (hunk, later) = rest.split_at(together);
        rest = later;
        let from = first.old.start.saturating_sub(AROUND);
        let to = hunk.last().map_or(from, |last| last.old.end + AROUND).min(lines.len());
        shift += write_hunk(&mut diff, &lines, hunk, from..to, shift);
    }
    diff
}

/// Converts changes to complete lines. Changes of the same line are merged.
fn blocks(content: &str, starts: &[usize], changes: &[Change]) -> Vec<Block> {
    let last = starts.len() - 1;
    let line_of = |at: usize| starts.partition_point(|start| *start <= at).saturating_sub(1).min(last);
    let mut blocks = Vec::new();
    let mut left = changes;
    while let Some(first) = left.first() {
        let begin = line_of(first.range.start);
        // The first unchanged line after a change.
        let after = |change: &Change| {
            let line = line_of(change.range.end);
            let whole =
                change.range.end == starts[line] && (change.text.is_empty() || change.text.ends_with('\n'));
            if whole
                && (change.range.start == starts[line_of(change.range.start)] || change.text.ends_with('\n'))
            {
                line
            } else {
                (line + 1).min(last)
            }
        };
        let mut end = after(first);
        let mut count = 1;
        while let Some(next) = left.get(count).filter(|next| line_of(next.range.start) < end) {
            end = end.max(after(next));
            count += 1;
        }
        let (these, later) = left.split_at(count);
        left = later;
        let mut text = String::new();
        let mut at = starts[begin];
        for change in these {
            text.push_str(&content[at..change.range.start]);
            text.push_str(&change.text);
            at = change.range.end;
        }
        text.push_str(&content[at..starts[end]]);
        blocks.push(Block { old: begin..end, new: text.split_inclusive('\n').map(str::to_owned).collect() });
    }
    blocks
}

/// Writes a hunk of some blocks with their context. Returns by how many lines the text grew.
fn write_hunk(
    diff: &mut String,
    lines: &[&str],
    blocks: &[Block],
    shown: Range<usize>,
    shift: isize,
) -> isize {
    let grown: isize =
        blocks.iter().map(|block| block.new.len().cast_signed() - block.old.len().cast_signed()).sum();
    let old_count = shown.len();
    let new_count = old_count.saturating_add_signed(grown);
    let first = |count: usize, at: usize| if count == 0 { at } else { at + 1 };
    let new_at = shown.start.saturating_add_signed(shift);
    _ = writeln!(
        diff,
        "@@ -{},{old_count} +{},{new_count} @@",
        first(old_count, shown.start),
        first(new_count, new_at)
    );
    let mut at = shown.start;
    for block in blocks {
        write_lines(diff, ' ', &lines[at..block.old.start]);
        write_lines(diff, '-', &lines[block.old.clone()]);
        write_lines(diff, '+', &block.new);
        at = block.old.end;
    }
    write_lines(diff, ' ', &lines[at..shown.end.max(at)]);
    grown
}

fn write_lines(diff: &mut String, sign: char, lines: &[impl AsRef<str>]) {
    for line in lines {
        let line = line.as_ref();
        let text = line.strip_suffix('\n').unwrap_or(line);
        _ = writeln!(diff, "{sign}{}", text.strip_suffix('\r').unwrap_or(text));
        if !line.ends_with('\n') {
            diff.push_str("\\ No newline at end of file\n");
        }
    }
}
