//! The texts of a session that have the words of a search.

use pilothouse_api::records::TextMatch;
use pilothouse_domain::Timestamp;
use pilothouse_domain::value::ActivityItemType;

use super::style::Style;
use super::text::clean;
use super::time;

pub fn list(matches: &[TextMatch], style: Style, now: Timestamp) -> String {
    if matches.is_empty() {
        return "No text of the session has these words.\n".to_owned();
    }
    matches.iter().map(|found| text_match(found, style, now)).collect()
}

/// The kind of the text and its time, and the excerpt below.
fn text_match(found: &TextMatch, style: Style, now: Timestamp) -> String {
    let subagent = if found.sub_agent_id.is_some() { "Subagent: " } else { "" };
    let kind = match found.kind {
        ActivityItemType::Message if found.thinking => "Thinking".to_owned(),
        ActivityItemType::ToolCallStart => "Tool call".to_owned(),
        ActivityItemType::ToolCallEnd => "Tool result".to_owned(),
        ActivityItemType::UserQuestion => "Question".to_owned(),
        ActivityItemType::UserAnswer => "Answer".to_owned(),
        ActivityItemType::StatusChange => "Status".to_owned(),
        other => other.to_string(),
    };
    let ago = time::ago(found.timestamp, now);
    format!("{subagent}{kind} {}\n  {}\n", style.dim(&ago), excerpt(found, style))
}

/// The excerpt with its words in bold.
fn excerpt(found: &TextMatch, style: Style) -> String {
    let chars: Vec<char> = found.excerpt.chars().collect();
    let part = |from: usize, to: usize| -> String {
        let part: String = chars.get(from..to).unwrap_or_default().iter().collect();
        clean(&part)
    };
    let (mut text, mut end) = (String::new(), 0);
    for word in &found.words {
        text.push_str(&part(end, word.start));
        text.push_str(&style.bold(&part(word.start, word.end)));
        end = word.end;
    }
    text + &part(end, chars.len())
}

#[cfg(test)]
mod tests {
    use pilothouse_api::records::TextMatch;
    use serde_json::json;

    use super::list;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn matches_show_their_kind_and_their_words() {
        let found: Vec<TextMatch> = serde_json::from_value(json!([
            { "journalSequence": 7, "activityId": "7.0", "type": "ToolCallEnd", "thinking": false, "subAgentId": "s1",
              "timestamp": "2026-11-21T20:01:50.000Z", "excerpt": "é a cup \u{202e}of tea",
              "words": [{ "start": 4, "end": 7 }, { "start": 12, "end": 15 }] },
            { "journalSequence": 5, "type": "Message", "thinking": true, "timestamp": "2026-11-21T20:01:50.000Z",
              "excerpt": "cup", "words": [{ "start": 0, "end": 3 }] },
        ]))
        .unwrap();
        assert_eq!(
            list(&found, Style::PLAIN, now()),
            "Subagent: Tool result 10 s ago\n  é a cup of tea\nThinking 10 s ago\n  cup\n"
        );
        let colours = list(&found, Style::COLOUR, now());
        assert!(colours.contains("é a \u{1b}[1mcup\u{1b}[0m of \u{1b}[1mtea\u{1b}[0m\n"), "{colours}");
    }
}
