//! Placeholders in scripts.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::prompt::Prompt;

pub(crate) struct Source<'a> {
    pub(crate) prompt: &'a Prompt,
    /// Values of `{{var:NAME}}`.
    pub(crate) vars: &'a BTreeMap<String, String>,
}

impl Source<'_> {
    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, field)| (name.clone(), self.fill_value(field))).collect()
            }
            other => other.clone(),
        }
    }

    /// Unknown placeholders stay unchanged.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let Some((name, behind)) = after.split_once("}}") else {
                filled.push_str("{{");
                rest = after;
                continue;
            };
            match self.value(name.trim()) {
                Some(value) => filled.push_str(&value),
                None => filled.extend(["{{", name, "}}"]),
            }
            rest = behind;
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str) -> Option<String> {
        if let Some(name) = name.strip_prefix("var:") {
            return self.vars.get(name.trim()).cloned();
        }
        if name == "prompt" {
            return self.prompt.user_texts().next().map(|(_, text)| text.to_owned());
        }
        let name = name.strip_prefix("result")?;
        let (call, pattern) =
            name.split_once('~').map_or((name, None), |(call, pattern)| (call, Some(pattern)));
        let call = call.trim().strip_prefix(':').map(str::trim);
        let wanted = |id: &str| call.is_none_or(|call| id.ends_with(&format!("_{call}")));
        let (_, text) = self.prompt.results().find(|(id, _)| wanted(id))?;
        // Runtimes append reminders, which are not part of the result.
        let text = text.split("<system-reminder>").next().unwrap_or(text);
        let Some(pattern) = pattern else { return Some(text.trim().to_owned()) };
        let found = regex_lite::Regex::new(pattern).ok()?.captures(text)?;
        found.get(1).or_else(|| found.get(0)).map(|part| part.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::prompt::Turn;

    #[test]
    fn placeholders_expand_to_results_prompts_and_variables() {
        let result = |id: &str, text: &str| Turn::Result { id: id.to_owned(), text: text.to_owned() };
        let turns = vec![
            Turn::User("make it pass".to_owned()),
            result("toolu_1_where", "/work\n\n<system-reminder>\nso much is left\n</system-reminder>"),
            result("toolu_2", "line 12: add"),
        ];
        let prompt = Prompt { turns, ..Prompt::default() };
        let vars = BTreeMap::from([("who".to_owned(), "me".to_owned())]);
        let source = Source { prompt: &prompt, vars: &vars };
        let given = json!({ "path": "{{result:where}}/a.py", "line": ["{{result~line ([0-9]+)}}"], "n": 3 });
        let expected = json!({ "path": "/work/a.py", "line": ["12"], "n": 3 });
        assert_eq!(source.fill_value(&given), expected);
        assert_eq!(source.fill("{{var:who}}: {{prompt}}, {{ result }}"), "me: make it pass, line 12: add");
        assert_eq!(source.fill("{{unknown}} {{open"), "{{unknown}} {{open");
    }
}
