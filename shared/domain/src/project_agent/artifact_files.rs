//! Files that become artifacts when the agent writes them (S2 "Artifact extraction and sandbox teardown"; decision 84).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifact::{ArtifactKind, ArtifactPath};
use crate::effect::glob_matches;

/// Files of the working directory whose contents become artifacts when the agent writes them with a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ArtifactFiles {
    /// Paths relative to the working directory. `*` matches any characters, also `/`, and `?` one character.
    pub pattern: ArtifactPath,
    /// What kind of artifact they are.
    pub kind: ArtifactKind,
}

impl ArtifactFiles {
    /// Most patterns of a brief.
    pub const MAX: usize = 20;

    /// The kind of artifact that the file at `path` becomes: that of the first pattern that matches.
    pub fn kind_of(all: &[Self], path: &ArtifactPath) -> Option<ArtifactKind> {
        all.iter().find(|files| glob_matches(files.pattern.as_str(), path.as_str())).map(|files| files.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_matching_pattern_decides_the_kind_of_an_artifact() {
        let files =
            |pattern: &str, kind| ArtifactFiles { pattern: ArtifactPath::parse(pattern).unwrap(), kind };
        let all = [
            files("docs/*.md", ArtifactKind::Document),
            files("*.toml", ArtifactKind::Config),
            files("docs/*", ArtifactKind::Other),
        ];
        let kind = |path: &str| ArtifactFiles::kind_of(&all, &ArtifactPath::parse(path).unwrap());
        assert_eq!(kind("docs/api.md"), Some(ArtifactKind::Document));
        assert_eq!(kind("docs/api/errors.md"), Some(ArtifactKind::Document), "in a folder below");
        assert_eq!(kind("docs/logo.svg"), Some(ArtifactKind::Other));
        assert_eq!(kind("crates/a/Cargo.toml"), Some(ArtifactKind::Config));
        assert_eq!(kind("src/docs/api.md"), None);
    }
}
