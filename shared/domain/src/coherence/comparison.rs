//! How the texts of a scan are compared: by one of two engines, each with its own thresholds.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embedding::Embedding;
use super::lexical::{Corpus, Features, Vector};
use crate::artifact::ArtifactPath;
use crate::names::named;
use crate::text::WorkstreamId;
use crate::value::ContentHash;
use crate::{ArtifactId, ProjectAgentId, Timestamp};

/// What compares texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonEngine {
    /// The built-in engine. It weighs the words that texts share, and needs no model.
    #[default]
    Lexical,
    /// An embedding model, which recognises other words for the same.
    Embeddings,
}

named!(ComparisonEngine {
    Lexical => "lexical",
    Embeddings => "embeddings",
});

impl ComparisonEngine {
    pub const ALL: [Self; 2] = [Self::Lexical, Self::Embeddings];
}

/// An artifact that is compared.
#[derive(Debug, Clone)]
pub struct ComparedArtifact {
    pub id: ArtifactId,
    pub workstream: WorkstreamId,
    pub path: ArtifactPath,
    pub author: Option<ProjectAgentId>,
    pub stored_at: Timestamp,
    pub content_hash: ContentHash,
}

/// The texts of a scan in the form that an engine compares: those of the artifacts in their order, then those of the decisions.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    Lexical {
        vectors: Vec<Vector>,
        /// Only pairs with at least one of these texts are compared. `None`: all pairs.
        only: Option<BTreeSet<usize>>,
    },
    /// `None` for a text that the embedding model refuses.
    Embeddings(Vec<Option<Embedding>>),
}

impl Comparison {
    /// The artifacts decide how rare a word is. With `only`, pairs without any of these texts are not compared.
    pub fn lexical<'a>(
        artifacts: impl IntoIterator<Item = &'a str>,
        decisions: impl IntoIterator<Item = &'a str>,
        only: Option<BTreeSet<usize>>,
    ) -> Self {
        let artifacts: Vec<_> = artifacts.into_iter().map(Features::of).collect();
        let decisions: Vec<_> = decisions.into_iter().map(Features::of).collect();
        let corpus: Corpus = artifacts.iter().collect();
        let vectors = artifacts.iter().chain(&decisions).map(|text| corpus.weigh(text)).collect();
        Self::Lexical { vectors, only }
    }

    pub const fn engine(&self) -> ComparisonEngine {
        match self {
            Self::Lexical { .. } => ComparisonEngine::Lexical,
            Self::Embeddings(_) => ComparisonEngine::Embeddings,
        }
    }

    /// The similarity of two texts from 0 to 1; `None` if they cannot be compared.
    pub fn similarity(&self, one: usize, other: usize) -> Option<f64> {
        match self {
            Self::Lexical { vectors, only } => {
                let is_compared =
                    only.as_ref().is_none_or(|only| only.contains(&one) || only.contains(&other));
                if !is_compared {
                    return None;
                }
                Some(vectors.get(one)?.similarity(vectors.get(other)?))
            }
            Self::Embeddings(vectors) => {
                vectors.get(one)?.as_ref()?.similarity(vectors.get(other)?.as_ref()?)
            }
        }
    }
}

/// Similarities from which on an issue is raised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// From here on, two texts are an issue of medium severity.
    pub promotion: f64,
    /// From here on, two texts are an issue of low severity.
    pub advisory: f64,
    /// Below, an artifact does not reflect a decision that names it.
    pub alignment: f64,
}

/// Rounded down.
pub(super) fn percent(similarity: f64) -> u8 {
    (1..=100).rev().find(|percent| f64::from(*percent) <= similarity * 100.0).unwrap_or(0)
}
