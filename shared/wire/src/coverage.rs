//! Finds the percentage in the output of a coverage tool (S0 8.5 `CoverageThreshold`, decision 36).
//!
//! The control plane uses it to validate patterns, and the sidecar to find the coverage.

use regex_lite::{Regex, RegexBuilder};
use rust_decimal::Decimal;

/// Matches the summaries of common tools: a line that mentions a total, lines, statements or coverage with a percentage, and
/// Istanbul's table, which omits the percent sign.
pub const DEFAULT_PATTERN: &str = r"(?im)\b(?:total|coverage|lines|statements)\b[^\n%]*?\b(\d+(?:\.\d+)?)\s*%|\b(\d+(?:\.\d+)?)\s*%\s+(?:coverage|of statements)|^\s*all files\s*\|\s*(\d+(?:\.\d+)?)";

/// Most memory of a compiled pattern, in bytes.
const MAX_REGEX_MEMORY: usize = 256 * 1024;

/// A pattern that is not a valid regular expression, or too large.
#[derive(Debug, thiserror::Error)]
#[error("the coverage pattern is not a valid regular expression: {0}")]
pub struct InvalidPattern(#[from] regex_lite::Error);

/// A pattern that finds a percentage.
#[derive(Debug, Clone)]
pub struct CoveragePattern(Regex);

impl CoveragePattern {
    /// Compiles the pattern, or the default one.
    pub fn new(pattern: Option<&str>) -> Result<Self, InvalidPattern> {
        Ok(Self(RegexBuilder::new(pattern.unwrap_or(DEFAULT_PATTERN)).size_limit(MAX_REGEX_MEMORY).build()?))
    }

    /// The last percentage in `output` between 0 and 100.
    pub fn find(&self, output: &str) -> Option<Decimal> {
        self.0.captures_iter(output).filter_map(|found| percentage(&found)).last()
    }
}

/// The first group that matched, or else the whole match.
fn percentage(found: &regex_lite::Captures<'_>) -> Option<Decimal> {
    let group = found.iter().skip(1).flatten().next().or_else(|| found.get(0))?;
    let number = group.as_str().trim().trim_end_matches('%').trim_end();
    number.parse().ok().filter(|n| (Decimal::ZERO..=Decimal::ONE_HUNDRED).contains(n))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn found(pattern: Option<&str>, output: &str) -> Option<String> {
        CoveragePattern::new(pattern).unwrap().find(output).map(|n| n.to_string())
    }

    #[test]
    fn default_pattern_reads_the_summaries_of_common_tools() {
        for (tool, output, percent) in [
            ("pytest-cov", "app.py   20   2    90%\nTOTAL   120   12    89%\n", "89"),
            ("go test", "ok  demo 0.2s  coverage: 82.3% of statements\n", "82.3"),
            ("tarpaulin", "|| src/a.rs: 3/4\n85.71% coverage, 120/140 lines covered\n", "85.71"),
            ("llvm-cov", "TOTAL  1000  95  90.50%   20  2  90.00%\n", "90.50"),
            ("istanbul", "File | % Stmts |\nAll files |   71.05 |    66.66 |\n a.js |  12 |\n", "71.05"),
            ("istanbul text-summary", "Statements   : 50% ( 1/2 )\nLines        : 66.67% ( 2/3 )\n", "66.67"),
            ("lcov", "  lines......: 93.4% (101 of 108 lines)\n", "93.4"),
            ("simplecov", "Line Coverage: 97.2% (35 / 36)\n", "97.2"),
            ("all of it", "Coverage: 100%", "100"),
        ] {
            assert_eq!(found(None, output).as_deref(), Some(percent), "{tool}");
        }
        assert_eq!(found(None, "3 tests passed, 12% faster"), None);
        assert_eq!(found(None, ""), None);
    }

    #[test]
    fn custom_pattern_uses_first_group_and_last_match() {
        assert_eq!(found(Some(r"cov=(\d+)"), "cov=10 cov=55").as_deref(), Some("55"));
        assert_eq!(found(Some(r"\d+(\.\d+)?%"), "12.5%").as_deref(), Some("0.5"));
        assert_eq!(found(Some(r"\d+ ?%"), "70 %").as_deref(), Some("70"));
        assert_eq!(found(Some(r"(\d+)"), "1000"), None, "a percentage is at most 100");
        assert!(CoveragePattern::new(Some("(")).is_err());
        assert!(
            CoveragePattern::new(Some(r"(\w{500}){500}")).is_err(),
            "a pattern that takes too much memory"
        );
    }
}
