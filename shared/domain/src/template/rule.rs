//! Rules that classify external events (S0 8.5 `ClassificationRule`), for example to triage mail.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ClassificationRuleId;
use crate::string_value::string_value;
use crate::text::{Classification, EventField};

/// Fields of an external event by name.
pub type EventFields = BTreeMap<String, String>;

/// Classifies an event by one of its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassificationRule {
    pub id: ClassificationRuleId,
    /// Name of the event's field.
    pub match_field: EventField,
    /// Pattern that the whole field has to match.
    pub match_pattern: MatchPattern,
    /// Class of a matching event.
    pub classify_as: Classification,
    /// Lowest priority of a matching event. If absent, the event's own priority applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_priority: Option<EventPriority>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified<'a> {
    pub rule: &'a ClassificationRule,
    /// Priority of the event: the higher of the event's value and the rule's minimum.
    pub priority: Option<EventPriority>,
}

impl ClassificationRule {
    /// Classifies an event; `None` if the rule does not match.
    pub fn classify(&self, event: &EventFields) -> Option<Classified<'_>> {
        let value = event.get(self.match_field.as_str())?;
        let said = event.get(EventPriority::FIELD).and_then(|text| EventPriority::read(text));
        let found = || Classified { rule: self, priority: self.min_priority.max(said) };
        self.match_pattern.matches(value).then(found)
    }
}

/// Priority of an event, in ascending order.
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
    /// Field of an event that contains its priority.
    pub const FIELD: &'static str = "priority";
    /// In ascending order.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

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

/// A pattern that matches a whole text, ignoring case. `*` matches any text, `?` any single character, and `\` escapes the next
/// character. `*invoice*` matches texts that contain "invoice".
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    #[error("must have 1 to {max} characters")]
    Length { max: usize },
    /// Nothing follows the last `\`.
    #[error("must not end with a single `\\`")]
    Escape,
}

impl MatchPattern {
    /// Most characters. The time for matching is bounded by this limit and the length of the text.
    pub const MAX: usize = 200;

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

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches the whole of `text`.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().flat_map(folded).collect();
        let (mut at, mut token) = (0, 0);
        // Position of the latest `*`, and the end that was last tried for it.
        let mut star: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.tokens.get(token) {
                Some(Token::Any) => {
                    star = Some((token, at));
                    token += 1;
                }
                Some(Token::One) => (at, token) = (at + 1, token + 1),
                Some(Token::Letter(letter)) if *letter == text[at] => (at, token) = (at + 1, token + 1),
                // An earlier `*` need not match more: the part between the two matches already.
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

string_value!(MatchPattern.text, InvalidPattern, Self::parse, {
    "type": "string", "minLength": 1, "maxLength": Self::MAX,
    "description": "Pattern for the whole field: `*` matches any text, `?` any character, `\\` escapes the next character. Case is ignored.",
});

#[cfg(test)]
mod tests {
    use super::EventPriority::{High, Low, Urgent};
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        MatchPattern::parse(pattern).unwrap().matches(text)
    }

    #[test]
    fn pattern_matches_the_whole_text() {
        assert!(matches("invoice", "Invoice"));
        assert!(!matches("invoice", "my invoice"));
        assert!(matches("*invoice*", "My INVOICE of May"));
        assert!(matches("*@example.com", "jo@Example.com"));
        assert!(!matches("*@example.com", "jo@example.com.evil"));
        assert!(matches("RE: ?*", "re: x") && !matches("RE: ?*", "re: "));
        assert!(matches("*", "") && matches("**", "anything\nat all") && !matches("?", ""));
        assert!(matches("a*b*c", "aXbbYc") && !matches("a*b*c", "aXbbY"));
        assert!(matches("straße ?", "STRAßE 7") && matches("*ä", "Ä"));
    }

    #[test]
    fn backslash_escapes_the_next_character() {
        assert!(matches(r"100\*", "100*") && !matches(r"100\*", "1000"));
        assert!(matches(r"a\\b", r"a\b") && matches(r"\?", "?") && !matches(r"\?", "x"));
        assert_eq!(MatchPattern::parse(r"a\"), Err(InvalidPattern::Escape));
        assert_eq!(MatchPattern::parse(""), Err(InvalidPattern::Length { max: 200 }));
    }

    /// A pattern that makes regular expressions backtrack for a long time is matched quickly.
    #[test]
    fn hostile_pattern_takes_bounded_time() {
        let pattern = "*a".repeat(99) + "*b";
        assert!(!matches(&pattern, &"a".repeat(4000)));
    }

    #[test]
    fn urgency_is_the_larger_of_rule_and_event() {
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
