//! Rules that sort events from outside (S0 8.5 `ClassificationRule`): for automation, such as the triage of mail.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::ClassificationRuleId;
use crate::text::{Classification, EventField};

/// An event from outside: its fields by name.
pub type EventFields = BTreeMap<String, String>;

/// Says what an event is by one of its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassificationRule {
    /// Its id.
    pub id: ClassificationRuleId,
    /// Which field of the event.
    pub match_field: EventField,
    /// What the field must look like, as a whole.
    pub match_pattern: MatchPattern,
    /// What the event is then.
    pub classify_as: Classification,
    /// How urgent it is at least. None: as urgent as the event says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_priority: Option<EventPriority>,
}

/// What a rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified<'a> {
    /// The rule.
    pub rule: &'a ClassificationRule,
    /// How urgent the event is: what it says itself, and no less than the rule's minimum.
    pub priority: Option<EventPriority>,
}

impl ClassificationRule {
    /// What this rule makes of an event; none: it does not fit.
    pub fn classify(&self, event: &EventFields) -> Option<Classified<'_>> {
        let value = event.get(self.match_field.as_str())?;
        let said = event.get(EventPriority::FIELD).and_then(|text| EventPriority::read(text));
        let found = || Classified { rule: self, priority: self.min_priority.max(said) };
        self.match_pattern.fits(value).then(found)
    }
}

/// How urgent an event is, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum EventPriority {
    /// It can wait.
    Low,
    /// As usual.
    Normal,
    /// Before others.
    High,
    /// At once.
    Urgent,
}

impl EventPriority {
    /// The field in which an event says its own.
    pub const FIELD: &'static str = "priority";
    /// All of them, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "Low",
            Self::Normal => "Normal",
            Self::High => "High",
            Self::Urgent => "Urgent",
        }
    }

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| text.trim().eq_ignore_ascii_case(priority.as_str()))
    }
}

/// A pattern that a whole text fits or not, upper and lower case alike: `*` stands for any text, `?` for any one
/// character, and `\` takes the meaning from what follows it. `*invoice*` is a text with an invoice in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MatchPattern {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Any,
    One,
    Letter(char),
}

/// What is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// Too short or too long.
    #[error("must have 1 to {max} characters")]
    Length {
        /// The most characters.
        max: usize,
    },
    /// Nothing to take the meaning from.
    #[error("must not end with a single `\\`")]
    Escape,
}

impl MatchPattern {
    /// The most characters. Matching takes time by this and by the length of the text, never more.
    pub const MAX: usize = 200;

    /// Reads a pattern.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidPattern> {
        let text = text.into();
        if !(1..=Self::MAX).contains(&text.chars().count()) {
            return Err(InvalidPattern::Length { max: Self::MAX });
        }
        let mut tokens = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '*' if tokens.last() == Some(&Token::Any) => {}
                '*' => tokens.push(Token::Any),
                '?' => tokens.push(Token::One),
                '\\' => tokens.extend(folded(chars.next().ok_or(InvalidPattern::Escape)?).map(Token::Letter)),
                c => tokens.extend(folded(c).map(Token::Letter)),
            }
        }
        Ok(Self { text, tokens })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `text` fits.
    pub fn fits(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().flat_map(folded).collect();
        let (mut at, mut token) = (0, 0);
        // Where the latest `*` stands, and where it was last tried to end.
        let mut star: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.tokens.get(token) {
                Some(Token::Any) => {
                    star = Some((token, at));
                    token += 1;
                }
                Some(Token::One) => (at, token) = (at + 1, token + 1),
                Some(Token::Letter(letter)) if *letter == text[at] => (at, token) = (at + 1, token + 1),
                // An earlier `*` need never take more: what lies between the two fits already.
                _ => match star {
                    Some((starred, end)) => {
                        star = Some((starred, end + 1));
                        (at, token) = (end + 1, starred + 1);
                    }
                    None => return false,
                },
            }
        }
        self.tokens[token..].iter().all(|token| *token == Token::Any)
    }
}

fn folded(c: char) -> std::char::ToLowercase {
    c.to_lowercase()
}

impl TryFrom<String> for MatchPattern {
    type Error = InvalidPattern;
    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        Self::parse(text)
    }
}

impl From<MatchPattern> for String {
    fn from(pattern: MatchPattern) -> Self {
        pattern.text
    }
}

impl JsonSchema for MatchPattern {
    fn schema_name() -> Cow<'static, str> {
        "MatchPattern".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "minLength": 1, "maxLength": Self::MAX,
            "description": "What the whole field must look like: `*` is any text, `?` any character, `\\` takes the meaning from what follows. Case does not count.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::EventPriority::{High, Low, Urgent};
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        MatchPattern::parse(pattern).unwrap().fits(text)
    }

    #[test]
    fn a_pattern_is_for_the_whole_text() {
        assert!(fits("invoice", "Invoice"));
        assert!(!fits("invoice", "my invoice"));
        assert!(fits("*invoice*", "My INVOICE of May"));
        assert!(fits("*@example.com", "jo@Example.com"));
        assert!(!fits("*@example.com", "jo@example.com.evil"));
        assert!(fits("RE: ?*", "re: x") && !fits("RE: ?*", "re: "));
        assert!(fits("*", "") && fits("**", "anything\nat all") && !fits("?", ""));
        assert!(fits("a*b*c", "aXbbYc") && !fits("a*b*c", "aXbbY"));
        assert!(fits("straße ?", "STRAßE 7") && fits("*ä", "Ä"));
    }

    #[test]
    fn a_backslash_takes_the_meaning() {
        assert!(fits(r"100\*", "100*") && !fits(r"100\*", "1000"));
        assert!(fits(r"a\\b", r"a\b") && fits(r"\?", "?") && !fits(r"\?", "x"));
        assert_eq!(MatchPattern::parse(r"a\"), Err(InvalidPattern::Escape));
        assert_eq!(MatchPattern::parse(""), Err(InvalidPattern::Length { max: 200 }));
    }

    /// What makes a matcher of regular expressions run for ages takes a moment.
    #[test]
    fn a_hostile_pattern_takes_no_longer_than_any() {
        let pattern = "*a".repeat(99) + "*b";
        assert!(!fits(&pattern, &"a".repeat(4000)));
    }

    #[test]
    fn the_urgency_is_the_larger_of_what_the_rule_and_the_event_say() {
        let rule = |min_priority| ClassificationRule {
            id: ClassificationRuleId::new(uuid::Uuid::from_u128(1)),
            match_field: EventField::parse("subject").unwrap(),
            match_pattern: MatchPattern::parse("*").unwrap(),
            classify_as: Classification::parse("mail").unwrap(),
            min_priority,
        };
        let event = |priority: &str| {
            EventFields::from([("subject".into(), "x".into()), ("priority".into(), priority.into())])
        };
        let found = |min, said: &str| rule(min).classify(&event(said)).unwrap().priority;
        assert_eq!(found(Some(High), "low"), Some(High));
        assert_eq!(found(Some(Low), " URGENT"), Some(Urgent));
        assert_eq!(found(Some(Low), "whatever"), Some(Low));
        assert_eq!(found(None, "high"), Some(High));
        assert_eq!(found(None, ""), None);
        assert_eq!(rule(None).classify(&EventFields::new()), None, "without the field it does not fit");
    }
}
