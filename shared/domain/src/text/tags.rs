//! Tags of tasks and artifacts.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{InvalidText, Tag, cut};

/// Tags: at most 20, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<Tag>")]
pub struct Tags(Vec<Tag>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTags {
    #[error("must have at most {max} tags, but has {actual}", max = Tags::MAX)]
    TooMany { actual: usize },
    #[error("`{tag}` is not a tag: it {why}")]
    InvalidTag { tag: String, why: InvalidText },
    #[error("`{tag}` occurs twice")]
    Duplicate { tag: String },
}

impl Tags {
    pub const MAX: usize = 20;

    pub fn as_slice(&self) -> &[Tag] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl JsonSchema for Tags {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Tags".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let tag = generator.subschema_for::<Tag>();
        json_schema!({ "type": "array", "items": tag, "maxItems": Self::MAX, "uniqueItems": true })
    }
}

impl TryFrom<Vec<String>> for Tags {
    type Error = InvalidTags;

    fn try_from(given: Vec<String>) -> Result<Self, InvalidTags> {
        if given.len() > Self::MAX {
            return Err(InvalidTags::TooMany { actual: given.len() });
        }
        let mut tags: Vec<Tag> = Vec::with_capacity(given.len());
        for text in given {
            let shown = cut(&text, 80);
            let tag = Tag::parse(text).map_err(|why| InvalidTags::InvalidTag { tag: shown.clone(), why })?;
            if tags.contains(&tag) {
                return Err(InvalidTags::Duplicate { tag: shown });
            }
            tags.push(tag);
        }
        Ok(Self(tags))
    }
}

impl From<Tags> for Vec<Tag> {
    fn from(tags: Tags) -> Self {
        tags.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_limited_and_unique() {
        let tags = |all: &[&str]| Tags::try_from(all.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        assert_eq!(tags(&["a", " b "]).unwrap().as_slice()[1].as_str(), "b");
        assert_eq!(tags(&["a", "a "]), Err(InvalidTags::Duplicate { tag: "a ".to_owned() }));
        assert!(matches!(tags(&[""]), Err(InvalidTags::InvalidTag { .. })));
        assert_eq!(tags(&["x"; 21]), Err(InvalidTags::TooMany { actual: 21 }));
    }
}
