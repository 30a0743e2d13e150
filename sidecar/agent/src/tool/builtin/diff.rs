//! Formats a change of a text as a unified diff.

use std::fmt::Write;
use std::time::Duration;

use similar::TextDiff;

/// A diff that takes longer is complete but not the shortest.
const TIME_TO_MINIMIZE: Duration = Duration::from_secs(1);

pub(super) fn unified(old: &str, new: &str) -> String {
    let [old, new] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let diff = TextDiff::configure().timeout(TIME_TO_MINIMIZE).diff_slices(&old, &new);
    let mut text = String::new();
    for hunk in diff.unified_diff().iter_hunks() {
        _ = writeln!(text, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let line = change.value();
            let shown = line.strip_suffix('\n').unwrap_or(line);
            _ = writeln!(text, "{}{}", change.tag(), shown.strip_suffix('\r').unwrap_or(shown));
            if !line.ends_with('\n') {
                text.push_str("\\ No newline at end of file\n");
            }
        }
    }
    text
}
