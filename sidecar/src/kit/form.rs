//! Forms of the agent or of a server behind it: fields become questions, and answers become values.

use pilothouse_domain::value::{Answer, Question, QuestionOption};
use serde_json::{Map, Value, json};

use crate::kit::json::{list, text};

#[derive(Debug, Clone, PartialEq)]
struct Field {
    key: String,
    question: Question,
    kind: Kind,
    /// Key of the additional field that accepts free text.
    custom: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text,
    Number,
    Integer,
    Boolean,
    /// One of several choices, as label and value.
    One(Vec<(String, String)>),
    /// Several of several choices, as label and value.
    Several(Vec<(String, String)>),
}

/// A form that waits for its owner.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    fields: Vec<Field>,
}

impl Form {
    /// Parses an `elicitation/create` in form mode. `asked` is the input of the asking tool, if there is one, whose
    /// questions the owner has seen. `None` if there is no field.
    pub(crate) fn read(request: &Value, asked: Option<&Value>) -> Option<Self> {
        let message = text(request, "message").unwrap_or_default();
        let properties = request.get("requestedSchema")?.get("properties")?.as_object()?;
        let companion = |key: &str| {
            let custom = format!("{key}_custom");
            properties.contains_key(&custom).then_some(custom)
        };
        let own = properties
            .iter()
            .filter(|(key, _)| key.strip_suffix("_custom").is_none_or(|of| !properties.contains_key(of)));
        let own: Vec<_> = own.collect();
        let shown = asked.map(|input| list(input, "questions")).unwrap_or_default();
        let fields = own.iter().enumerate().map(|(at, (key, schema))| {
            let title = text(schema, "title").unwrap_or(key);
            let words = match shown.get(at).and_then(|question| text(question, "question")) {
                Some(shown) => shown.to_owned(),
                None if own.len() == 1 && !message.is_empty() => message.to_owned(),
                None => match text(schema, "description") {
                    Some(description) => format!("{title}: {description}"),
                    None => title.to_owned(),
                },
            };
            let kind = Kind::read(schema);
            let question = Question {
                question: words,
                header: Some(title.to_owned()),
                options: kind.options(schema),
                multi_select: matches!(kind, Kind::Several(_)),
            };
            Field { key: (*key).clone(), question, kind, custom: companion(key) }
        });
        let fields: Vec<_> = fields.collect();
        (!fields.is_empty()).then_some(Self { fields })
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.fields.iter().map(|field| field.question.clone()).collect()
    }

    /// An answer that does not fit its field declines the form, because a server would reject it unnoticed.
    pub(crate) fn answered(&self, answers: &[Answer]) -> Value {
        let mut content = Map::new();
        for (at, field) in self.fields.iter().enumerate() {
            let by_words = answers.iter().find(|answer| answer.question == field.question.question);
            // A single question accepts any answer.
            let answer = by_words.or_else(|| answers.get(at).filter(|_| answers.len() == self.fields.len()));
            let Some(answer) = answer.map(|answer| answer.answer.trim()).filter(|answer| !answer.is_empty())
            else {
                continue;
            };
            match (field.kind.value(answer), &field.custom) {
                (Some(value), _) => content.insert(field.key.clone(), value),
                (None, Some(custom)) => content.insert(custom.clone(), answer.into()),
                (None, None) => return json!({ "action": "decline" }),
            };
        }
        if content.is_empty() {
            json!({ "action": "decline" })
        } else {
            json!({ "action": "accept", "content": content })
        }
    }
}

impl Kind {
    fn read(schema: &Value) -> Self {
        match text(schema, "type") {
            Some("boolean") => Self::Boolean,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("array") => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                Self::Several(choices(items))
            }
            _ => match choices(schema) {
                none if none.is_empty() => Self::Text,
                choices => Self::One(choices),
            },
        }
    }

    fn options(&self, schema: &Value) -> Vec<QuestionOption> {
        match self {
            Self::One(choices) | Self::Several(choices) => {
                let described = |value: &str| {
                    let items = schema.get("items").unwrap_or(schema);
                    let of = ["oneOf", "anyOf"].iter().flat_map(|key| list(items, key));
                    let mut of = of.filter(|option| text(option, "const") == Some(value));
                    of.next().and_then(|option| text(option, "description")).map(str::to_owned)
                };
                let option = |(label, value): &(String, String)| QuestionOption {
                    label: label.clone(),
                    description: described(value),
                };
                choices.iter().map(option).collect()
            }
            Self::Boolean => {
                ["Yes", "No"].map(|label| QuestionOption { label: label.into(), description: None }).into()
            }
            Self::Text | Self::Number | Self::Integer => Vec::new(),
        }
    }

    fn value(&self, answer: &str) -> Option<Value> {
        let value_of = |choices: &[(String, String)], answer: &str| {
            let found =
                choices.iter().find(|(label, value)| label.eq_ignore_ascii_case(answer) || value == answer);
            found.map(|(_, value)| Value::from(value.as_str()))
        };
        match self {
            Self::Text => Some(answer.into()),
            Self::Integer => answer.parse::<i64>().ok().map(Value::from),
            Self::Number => answer.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
            Self::Boolean => match answer.to_ascii_lowercase().as_str() {
                "yes" | "y" | "true" => Some(true.into()),
                "no" | "n" | "false" => Some(false.into()),
                _ => None,
            },
            Self::One(choices) => value_of(choices, answer),
            // Labels may contain commas, so the whole answer is tried before its parts.
            Self::Several(choices) => match value_of(choices, answer) {
                Some(one) => Some(vec![one].into()),
                None => answer
                    .split(',')
                    .map(|part| value_of(choices, part.trim()))
                    .collect::<Option<Vec<_>>>()
                    .map(Value::from),
            },
        }
    }
}

fn choices(schema: &Value) -> Vec<(String, String)> {
    let titled = ["oneOf", "anyOf"].iter().flat_map(|key| list(schema, key)).filter_map(|option| {
        let value = text(option, "const")?;
        Some((text(option, "title").unwrap_or(value).to_owned(), value.to_owned()))
    });
    let plain = list(schema, "enum")
        .iter()
        .filter_map(Value::as_str)
        .map(|value| (value.to_owned(), value.to_owned()));
    titled.chain(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(question: &str, answer: &str) -> Answer {
        Answer { question: question.into(), answer: answer.into() }
    }

    fn colour() -> Value {
        json!({"mode": "form", "message": "Which colour?", "requestedSchema": {"type": "object", "properties": {
            "question_0": {"type": "string", "title": "Colour",
                "oneOf": [{"const": "Red", "title": "Red", "description": "r"}, {"const": "Blue", "title": "Blue"}]},
            "question_0_custom": {"type": "string", "title": "Other"}}}})
    }

    #[test]
    fn question_is_answered_by_an_option_or_free_text() {
        let form = Form::read(&colour(), None).unwrap();
        let questions = form.questions();
        assert_eq!(
            (questions.len(), questions[0].question.as_str(), questions[0].options.len()),
            (1, "Which colour?", 2)
        );
        assert_eq!(questions[0].options[0].description.as_deref(), Some("r"));
        assert_eq!(
            form.answered(&[answer("Which colour?", "Blue")]),
            json!({"action": "accept", "content": {"question_0": "Blue"}})
        );
        assert_eq!(
            form.answered(&[answer("Which colour?", "Green")]),
            json!({"action": "accept", "content": {"question_0_custom": "Green"}})
        );
        assert_eq!(form.answered(&[]), json!({"action": "decline"}));
    }

    #[test]
    fn form_fields_keep_their_types_and_invalid_values_decline() {
        let form = Form::read(
            &json!({"message": "Fill in", "requestedSchema": {"properties": {
                "age": {"type": "integer", "title": "Age"}, "sure": {"type": "boolean", "title": "Sure"},
                "tags": {"type": "array", "title": "Tags", "items": {"enum": ["a", "b", "c"]}}}}}),
            None,
        )
        .unwrap();
        let filled =
            |age: &str| form.answered(&[answer("Age", age), answer("Sure", "yes"), answer("Tags", "a, c")]);
        assert_eq!(
            filled("7"),
            json!({"action": "accept", "content": {"age": 7, "sure": true, "tags": ["a", "c"]}})
        );
        assert_eq!(filled("seven"), json!({"action": "decline"}));
        assert!(Form::read(&json!({"requestedSchema": {"properties": {}}}), None).is_none());
    }

    #[test]
    fn tool_questions_match_the_shown_ones() {
        let asked = json!({"questions": [{"question": "Colour, please"}]});
        let form = Form::read(&colour(), Some(&asked)).unwrap();
        assert_eq!(form.questions()[0].question, "Colour, please");
        assert_eq!(form.answered(&[answer("Colour, please", "Red")])["content"]["question_0"], "Red");
    }
}
