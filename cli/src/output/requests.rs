//! Questions and plans that wait for the owner.

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::{PendingRequest, RequestKind};
use pilothouse_domain::value::Question;

use super::Style;
use super::style::Paint;
use super::text::{clean, line};
use super::time;

/// A question with its numbered options.
pub fn question(question: &Question, style: Style) -> String {
    let header =
        question.header.as_deref().map(|header| format!("[{}] ", line(header, 40))).unwrap_or_default();
    let several = if question.multi_select { " (several may be chosen, separated by commas)" } else { "" };
    let mut out = format!("  {header}{}{several}\n", style.bold(&clean(&question.question)));
    for (at, option) in question.options.iter().enumerate() {
        let meaning =
            option.description.as_deref().map(|d| format!(": {}", line(d, 100))).unwrap_or_default();
        let numbered = format!("    {}. {}{}\n", at + 1, line(&option.label, 80), style.dim(&meaning));
        out.push_str(&numbered);
    }
    out
}

/// A request with the command that answers it. `session` is the id or part of an id to show in the command.
pub fn request(request: &PendingRequest, session: &str, style: Style, now: Timestamp) -> String {
    let expires = request.expires_at.map(|at| format!(", expires {}", time::until(at, now)));
    let asked = time::ago(request.asked_at, now);
    let due = style.dim(&format!("(asked {asked}{})", expires.unwrap_or_default()));
    let (head, body, hint) = match &request.kind {
        RequestKind::Question { questions, .. } => (
            "asks".to_owned(),
            questions.iter().map(|q| question(q, style)).collect::<String>(),
            format!("pilothouse answer {session} --request {} \"…\"", request.id),
        ),
        RequestKind::Plan { version } => (
            format!("shows its plan (revision {version})"),
            String::new(),
            format!("pilothouse plan show {session}, then plan approve or plan reject"),
        ),
    };
    format!(
        "{} {due}\n{body}  {} {hint}\n",
        style.paint(Paint::Yellow, &format!("The agent {head}")),
        style.dim("→")
    )
}

#[cfg(test)]
mod tests {
    use super::request;
    use crate::output::Style;
    use crate::output::fixtures::{now, session};

    #[test]
    fn question_is_shown_with_options_and_the_answer_command() {
        assert_eq!(
            request(&session().pending_requests[0], "0197b1c0-1111", Style::PLAIN, now()),
            "\
The agent asks (asked 30 s ago, expires in 24 h)
  [Database] Which database?
    1. SQLite: One file
    2. Postgres
  → pilothouse answer 0197b1c0-1111 --request toolu_1 \"…\"
"
        );
    }
}
