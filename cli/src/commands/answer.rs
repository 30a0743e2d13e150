//! `pilothouse answer`.

use std::io::{BufRead as _, IsTerminal as _};

use clap::Args;
use pilothouse_client::inputs::AnswerRequest;
use pilothouse_domain::decision::DecisionSubject;
use pilothouse_domain::session::RequestKind;
use pilothouse_domain::value::{Answer as GivenAnswer, Question};

use super::target::Target;
use crate::context::{Context, open_request, write};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::requests::question;
use crate::output::session::outcome;

/// Answer the agent's questions.
///
/// Give one answer for each question: the number of an option, or any text. Separate several numbers with commas, if the
/// question allows several options. Without answers, the command asks on the terminal. Example:
/// pilothouse answer @last 1 "only the tests"
#[derive(Debug, Args)]
pub struct Answer {
    #[command(flatten)]
    pub target: Target,
    /// The answers, in the order of the questions
    #[arg(value_name = "ANSWER")]
    pub words: Vec<String>,
    /// The request, if several are open
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
}

impl Answer {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let id = ctx.session_id(&session).await?;
        let view = ctx.client.session(id).await?;
        let asked = view.pending_requests.iter().filter(|r| matches!(r.kind, RequestKind::Question { .. }));
        let request = open_request(asked, self.request.as_deref(), "question")?;
        let RequestKind::Question { questions, .. } = &request.kind else {
            return Err(CliError::Failed("this request is not a question".into()));
        };
        let words = if words.is_empty() { ask(questions, ctx)? } else { words };
        let answers = AnswerRequest { request_id: request.id.clone(), answers: match_up(questions, &words)? };
        let session = ctx.client.answer(id, &answers).await?;
        ctx.print(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

/// The questions of a decision; none if its kind takes no answers.
pub(super) fn questions(subject: &DecisionSubject) -> Vec<Question> {
    match subject {
        DecisionSubject::Question { questions, .. } => questions.clone(),
        DecisionSubject::Option { question, options, .. } => vec![Question {
            question: question.clone(),
            header: None,
            options: options.iter().map(|option| option.option.clone()).collect(),
            multi_select: false,
        }],
        DecisionSubject::ToolApproval { .. }
        | DecisionSubject::Plan { .. }
        | DecisionSubject::OutputReview { .. }
        | DecisionSubject::BrakeRelease { .. }
        | DecisionSubject::CrashRecovery { .. }
        | DecisionSubject::HandoffFailed { .. }
        | DecisionSubject::Autonomy { .. }
        | DecisionSubject::CoherenceReview { .. } => Vec::new(),
    }
}

/// Asks on the terminal.
pub(super) fn ask(questions: &[Question], ctx: &Context) -> Result<Vec<String>, CliError> {
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stdout().is_terminal() || ctx.json {
        let all: Vec<_> = questions.iter().map(|q| format!("`{}`", q.question)).collect();
        return Err(CliError::Usage(format!("give the answer to {}", all.join(" and to "))));
    }
    let mut answers = Vec::new();
    for asked in questions {
        write(&(question(asked, ctx.style) + "  > "))?;
        let mut line = String::new();
        let read = input.lock().read_line(&mut line).map_err(CliError::Output)?;
        if read == 0 || line.trim().is_empty() {
            return Err(CliError::Usage("the answer is empty".into()));
        }
        answers.push(line.trim().to_owned());
    }
    Ok(answers)
}

/// Each question with its answer.
pub(super) fn match_up(questions: &[Question], given: &[String]) -> Result<Vec<GivenAnswer>, CliError> {
    if questions.len() != given.len() {
        return Err(CliError::Usage(format!(
            "{} asked and {} given; quote answers of several words",
            crate::output::text::count(questions.len(), "question"),
            crate::output::text::count(given.len(), "answer")
        )));
    }
    let answer = |(question, given): (&Question, &String)| GivenAnswer {
        question: question.question.clone(),
        answer: chosen(question, given),
    };
    Ok(questions.iter().zip(given).map(answer).collect())
}

/// Replaces numbers of options by their labels.
fn chosen(question: &Question, given: &str) -> String {
    let label = |number: &str| {
        let at = number.trim().parse::<usize>().ok()?.checked_sub(1)?;
        question.options.get(at).map(|option| option.label.clone())
    };
    let labels: Option<Vec<String>> = if question.multi_select {
        given.split(',').map(label).collect()
    } else {
        label(given).map(|l| vec![l])
    };
    labels.map_or_else(|| given.to_owned(), |labels| labels.join(", "))
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::value::{Question, QuestionOption};

    use super::{chosen, match_up};

    fn question(multi_select: bool) -> Question {
        let option = |label: &str| QuestionOption { label: label.into(), description: None };
        let options = vec![option("SQLite"), option("Postgres")];
        Question { question: "Which?".into(), header: None, options, multi_select }
    }

    #[test]
    fn numbers_select_options_and_other_text_is_literal() {
        assert_eq!(chosen(&question(false), "2"), "Postgres");
        assert_eq!(chosen(&question(false), "3"), "3");
        assert_eq!(chosen(&question(false), "neither"), "neither");
        assert_eq!(chosen(&question(false), "1,2"), "1,2");
        assert_eq!(chosen(&question(true), "1, 2"), "SQLite, Postgres");
        assert_eq!(chosen(&question(true), "1, both"), "1, both");
    }

    #[test]
    fn each_question_needs_its_answer() {
        let asked = [question(false), question(false)];
        assert!(match_up(&asked, &["1".into()]).is_err());
        let answers = match_up(&asked, &["1".into(), "x".into()]).unwrap();
        assert_eq!((answers[0].answer.as_str(), answers[1].answer.as_str()), ("SQLite", "x"));
    }
}
