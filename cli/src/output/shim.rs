//! The findings of `pilothouse shim check`.

use std::fmt::Write as _;

use pilothouse_shim::check::{Finding, Verdict};

use super::style::{Paint, Style};
use super::text::clean;

/// One line for each step, and a count of the failures.
pub fn findings(findings: &[Finding], style: Style) -> String {
    let mut out = String::new();
    let mut failed = 0;
    for finding in findings {
        // Writing to a string cannot fail.
        let _ = match &finding.verdict {
            Verdict::Passed => writeln!(out, "{}  {}", style.paint(Paint::Green, "pass"), finding.step),
            Verdict::Skipped { why } => {
                writeln!(out, "{}  {}: {}", style.dim("skip"), finding.step, clean(why))
            }
            Verdict::Failed { why } => {
                failed += 1;
                writeln!(out, "{}  {}: {}", style.paint(Paint::Red, "FAIL"), finding.step, clean(why))
            }
        };
    }
    let _ = match failed {
        0 => writeln!(out, "The shim conforms."),
        1 => writeln!(out, "1 step failed."),
        _ => writeln!(out, "{failed} steps failed."),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_line_and_failures_are_counted() {
        let finding = |step, verdict| Finding { step, verdict };
        let why = || "because\x1b[2J".to_owned();
        let text = findings(
            &[
                finding("a", Verdict::Passed),
                finding("b", Verdict::Skipped { why: why() }),
                finding("c", Verdict::Failed { why: why() }),
            ],
            Style::PLAIN,
        );
        assert_eq!(text, "pass  a\nskip  b: because[2J\nFAIL  c: because[2J\n1 step failed.\n");
    }
}
