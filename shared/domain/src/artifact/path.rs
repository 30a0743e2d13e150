//! Paths of artifacts, relative to the root of their project.

use serde::{Deserialize, Serialize};

use crate::string_value::string_value;

/// A relative path with `/` between its parts: `src/api.ts`. It has no empty part, `.` or `..`, so that equal paths have one spelling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArtifactPath(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArtifactPath {
    #[error("must have 1 to {max} characters", max = ArtifactPath::MAX)]
    Length,
    #[error("must be relative to the project, like src/api.ts, and must not contain `..`")]
    NotRelative,
    #[error("must not contain control characters or `\\`")]
    Character,
}

impl ArtifactPath {
    /// In characters.
    pub const MAX: usize = 500;

    /// Removes a leading `./`, repeated slashes and parts that are `.`.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, InvalidArtifactPath> {
        let text = text.as_ref();
        if text.starts_with('/') {
            return Err(InvalidArtifactPath::NotRelative);
        }
        if text.chars().any(|c| c.is_control() || c == '\\') {
            return Err(InvalidArtifactPath::Character);
        }
        let parts: Vec<_> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(InvalidArtifactPath::NotRelative);
        }
        let path = parts.join("/");
        let fits = (1..=Self::MAX).contains(&path.chars().count()) && !path.trim().is_empty();
        if fits { Ok(Self(path)) } else { Err(InvalidArtifactPath::Length) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the last slash.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

string_value!(ArtifactPath.0, InvalidArtifactPath, Self::parse, { "type": "string", "minLength": 1, "maxLength": 500 });

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_have_one_spelling() {
        for text in ["src/api.ts", "./src/api.ts", "src//api.ts", "src/./api.ts", "src/api.ts/"] {
            assert_eq!(ArtifactPath::parse(text).unwrap().as_str(), "src/api.ts", "{text}");
        }
        assert_eq!(ArtifactPath::parse("src/api.ts").unwrap().file_name(), "api.ts");
    }

    #[test]
    fn paths_outside_of_the_project_are_refused() {
        for wrong in ["", ".", "/etc/passwd", "../x", "a/../../x", "a/..", "a\\b", "a\nb", &"a".repeat(501)] {
            assert!(ArtifactPath::parse(wrong).is_err(), "{wrong}");
        }
    }
}
