//! Decides what the agent may do without its owner, and converts permission requests to questions.

use agent_client_protocol::v1::schema::{PermissionOption, PermissionOptionKind};
use pilothouse_domain::value::{Question, QuestionOption};
use pilothouse_wire::event::PermissionRequest;
use serde_json::Value;

use crate::kit::json::{one_line, text};
use crate::kit::owner_requests::permission_question;

/// The option that allows a tool which the configuration lists. `None` if the owner must be asked, which includes every
/// tool if there is no list.
pub(super) fn by_policy<'a>(
    allowed: &[String],
    tool: &str,
    kind: Option<&str>,
    options: &'a [PermissionOption],
) -> Option<&'a PermissionOption> {
    let listed = |name: &str| allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
    // `other` covers all tools without a specific kind. Allowing it would allow everything.
    let kind = kind.filter(|kind| *kind != "other");
    (listed(tool) || kind.is_some_and(listed)).then(|| allowing(options)).flatten()
}

/// The option that allows the call, once if possible.
pub(super) fn allowing(options: &[PermissionOption]) -> Option<&PermissionOption> {
    of_kinds(options, [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways])
}

/// The option that rejects the call, once if possible.
pub(super) fn refusing(options: &[PermissionOption]) -> Option<&PermissionOption> {
    of_kinds(options, [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways])
}

fn of_kinds(options: &[PermissionOption], kinds: [PermissionOptionKind; 2]) -> Option<&PermissionOption> {
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind))
}

/// The question for a permission. `call` is the agent's description of the call.
pub(super) fn question(tool: &str, call: &Value, options: &[PermissionOption]) -> Question {
    let what = text(call, "title").filter(|title| *title != tool).map(one_line);
    let question = match what {
        Some(what) => format!("May the agent use {tool}: {what}?"),
        None => format!("May the agent use {tool}?"),
    };
    let options =
        options.iter().map(|option| QuestionOption { label: option.name.clone(), description: None });
    permission_question(question, options.collect())
}

/// The call to decide on, with the answers that allow and deny it once. `None` if no option allows it. An agent without an option
/// that denies is cancelled by any text that is no option.
pub(super) fn approval(tool: &str, input: Value, options: &[PermissionOption]) -> Option<PermissionRequest> {
    let allow = allowing(options)?.name.clone();
    let deny = refusing(options).map_or_else(|| "No".to_owned(), |option| option.name.clone());
    Some(PermissionRequest {
        tool_name: tool.to_owned(),
        input,
        input_blob: None,
        allow,
        deny,
        verdict_id: None,
        modifiable: false,
    })
}

/// The option for an answer. Text that is neither an option nor a clear yes is a no, so that nothing runs on a guess.
pub(super) fn chosen<'a>(answer: &str, options: &'a [PermissionOption]) -> Option<&'a PermissionOption> {
    let answer = answer.trim();
    let exact = options.iter().find(|option| option.name == answer || *option.option_id.0 == *answer);
    exact.or_else(|| {
        let lower = answer.to_ascii_lowercase();
        let named = options.iter().find(|option| option.name.eq_ignore_ascii_case(answer));
        match lower.as_str() {
            _ if named.is_some() => named,
            "yes" | "y" | "allow" | "ok" => allowing(options),
            _ => refusing(options),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options() -> Vec<PermissionOption> {
        vec![
            PermissionOption::new("always", "Always", PermissionOptionKind::AllowAlways),
            PermissionOption::new("once", "Yes", PermissionOptionKind::AllowOnce),
            PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
        ]
    }

    fn id(option: Option<&PermissionOption>) -> Option<&str> {
        option.map(|option| &*option.option_id.0)
    }

    #[test]
    fn listed_tool_is_allowed_and_others_need_permission() {
        let allowed = ["bash".to_owned(), "read".to_owned()];
        assert_eq!(id(by_policy(&allowed, "Bash", Some("execute"), &options())), Some("once"));
        assert_eq!(id(by_policy(&allowed, "View", Some("read"), &options())), Some("once"));
        assert_eq!(id(by_policy(&allowed, "Edit", Some("edit"), &options())), None);
        assert_eq!(id(by_policy(&[], "Bash", None, &options())), None);
        assert_eq!(id(by_policy(&["other".to_owned()], "shell", Some("other"), &options())), None);
    }

    #[test]
    fn permission_answer_is_an_option_or_a_plain_yes_or_no() {
        let options = options();
        for (answer, option) in [
            ("Always", "always"),
            ("yes", "once"),
            ("no", "no"),
            ("once", "once"),
            ("only if it rains", "no"),
            ("", "no"),
        ] {
            assert_eq!(id(chosen(answer, &options)), Some(option), "{answer}");
        }
        assert!(chosen("whatever", &options[..2]).is_none(), "an agent without a no is cancelled");
    }

    #[test]
    fn approval_names_the_answers_that_allow_and_deny_once() {
        let asked = approval("Bash", json!({ "command": "ls" }), &options()).unwrap();
        assert_eq!((asked.tool_name.as_str(), &asked.input), ("Bash", &json!({ "command": "ls" })));
        assert_eq!((asked.allow.as_str(), asked.deny.as_str()), ("Yes", "No"));
        assert_eq!(id(chosen(&asked.allow, &options())), Some("once"));
        assert_eq!(id(chosen(&asked.deny, &options())), Some("no"));
        assert!(approval("Bash", json!({}), &options()[2..]).is_none());
    }

    #[test]
    fn question_says_what_the_tool_will_do() {
        let asked = question("Bash", &json!({"title": "touch\n x"}), &options());
        assert_eq!(asked.question, "May the agent use Bash: touch x?");
        assert_eq!(asked.options.len(), 3);
    }
}
