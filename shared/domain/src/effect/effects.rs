//! The set of effects that one tool call has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionKind, BlastRadius, Confidence, Effect, Severity};

/// A non-empty set of effects.
///
/// Effects that differ in nothing but their confidence are one effect with the lowest confidence. A set therefore has at most
/// [`Effects::MAX`] members.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Effect>", into = "Vec<Effect>")]
pub struct Effects {
    /// Sorted by action kind, severity and blast radius, each combination once.
    sorted: Vec<Effect>,
}

/// The strictest value of each property over a set of effects. They can come from different effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectLevels {
    /// The highest severity.
    pub severity: Severity,
    /// The largest blast radius.
    pub blast_radius: BlastRadius,
    /// The lowest confidence.
    pub confidence: Confidence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tool call has at least one effect")]
pub struct InvalidEffects;

// `binary_search_by_key` passes references.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn key(effect: &Effect) -> (ActionKind, Severity, BlastRadius) {
    (effect.action_kind, effect.severity, effect.blast_radius)
}

impl Effects {
    /// Most members: each combination of action kind, severity and blast radius.
    pub const MAX: usize = ActionKind::ALL.len() * Severity::ALL.len() * BlastRadius::ALL.len();

    pub fn one(effect: Effect) -> Self {
        Self { sorted: vec![effect] }
    }

    /// The effects of a call that nothing is known about.
    pub fn unclassified() -> Self {
        Self::one(Effect::UNCLASSIFIED)
    }

    pub fn insert(&mut self, effect: Effect) {
        match self.sorted.binary_search_by_key(&key(&effect), key) {
            Ok(at) => {
                if let Some(same) = self.sorted.get_mut(at) {
                    same.confidence = same.confidence.min(effect.confidence);
                }
            }
            Err(at) => self.sorted.insert(at, effect),
        }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Effect> + '_ {
        self.sorted.iter().copied()
    }

    pub fn as_slice(&self) -> &[Effect] {
        &self.sorted
    }

    pub fn has(&self, kind: ActionKind) -> bool {
        self.sorted.iter().any(|effect| effect.action_kind == kind)
    }

    pub fn levels(&self) -> EffectLevels {
        let lowest = EffectLevels {
            severity: Severity::Warning,
            blast_radius: BlastRadius::Trivial,
            confidence: Confidence::FULL,
        };
        self.sorted.iter().fold(lowest, |levels, effect| EffectLevels {
            severity: levels.severity.max(effect.severity),
            blast_radius: levels.blast_radius.max(effect.blast_radius),
            confidence: levels.confidence.min(effect.confidence),
        })
    }
}

impl Extend<Effect> for Effects {
    fn extend<I: IntoIterator<Item = Effect>>(&mut self, effects: I) {
        for effect in effects {
            self.insert(effect);
        }
    }
}

impl From<Effect> for Effects {
    fn from(effect: Effect) -> Self {
        Self::one(effect)
    }
}

impl TryFrom<Vec<Effect>> for Effects {
    type Error = InvalidEffects;

    fn try_from(effects: Vec<Effect>) -> Result<Self, InvalidEffects> {
        let mut effects = effects.into_iter();
        let mut set = Self::one(effects.next().ok_or(InvalidEffects)?);
        set.extend(effects);
        Ok(set)
    }
}

impl From<Effects> for Vec<Effect> {
    fn from(effects: Effects) -> Self {
        effects.sorted
    }
}

impl JsonSchema for Effects {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Effects".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let effect = generator.subschema_for::<Effect>();
        schemars::json_schema!({ "type": "array", "minItems": 1, "items": effect })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn effect(kind: ActionKind, severity: Severity, radius: BlastRadius, percent: u8) -> Effect {
        Effect::new(kind, severity, radius).with_confidence(Confidence::percent(percent))
    }

    #[test]
    fn an_empty_set_is_refused() {
        assert_eq!(Effects::try_from(Vec::new()), Err(InvalidEffects));
        assert!(serde_json::from_str::<Effects>("[]").is_err());
    }

    #[test]
    fn json_has_the_names_of_the_specification() {
        let set = Effects::unclassified();
        let text = r#"[{"actionKind":"execute","severity":"high","blastRadius":"unknown","confidence":0.0}]"#;
        assert_eq!(serde_json::to_string(&set).unwrap(), text);
        assert_eq!(serde_json::from_str::<Effects>(text).unwrap(), set);
    }

    #[test]
    fn the_lowest_confidence_of_equal_effects_counts() {
        let mut set = Effects::one(effect(ActionKind::Read, Severity::Low, BlastRadius::Small, 90));
        set.insert(effect(ActionKind::Read, Severity::Low, BlastRadius::Small, 40));
        set.insert(effect(ActionKind::Read, Severity::Low, BlastRadius::Small, 70));
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [effect(ActionKind::Read, Severity::Low, BlastRadius::Small, 40)]
        );
    }

    #[test]
    fn the_order_of_insertion_does_not_matter() {
        let read = effect(ActionKind::Read, Severity::Low, BlastRadius::Small, 90);
        let delete = effect(ActionKind::Delete, Severity::High, BlastRadius::Medium, 80);
        assert_eq!(
            Effects::try_from(vec![read, delete]).unwrap(),
            Effects::try_from(vec![delete, read, delete]).unwrap()
        );
    }

    #[test]
    fn an_unknown_blast_radius_is_the_largest() {
        let mut set = Effects::one(effect(ActionKind::Read, Severity::Warning, BlastRadius::Unknown, 100));
        set.insert(effect(ActionKind::Deploy, Severity::Critical, BlastRadius::Large, 60));
        let levels = set.levels();
        assert_eq!(levels.blast_radius, BlastRadius::Unknown);
        assert_eq!(levels.severity, Severity::Critical);
        assert_eq!(levels.confidence, Confidence::percent(60));
    }
}
