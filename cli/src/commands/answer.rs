//! `pilothouse answer`.

use std::io::{BufRead as _, IsTerminal as _};

use clap::Args;
use pilothouse_domain::session::RequestKind;
use pilothouse_domain::value::{Answer as GivenAnswer, Question};

use super::target::Target;
use crate::client::inputs::Answers;
use crate::context::{Context, open_request, write};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::requests::question;
use crate::output::session::outcome;

/// Answer the agent's question.
///
/// An answer is the number of an option, its text, or anything else. Where several options may be chosen, separate
/// their numbers with commas. On a terminal, without answers, you are asked. One answer for each question:
/// pilothouse answer @last 1 "only the tests"
#[derive(Debug, Args)]
pub struct Answer {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The answers, in the order of the questions
    #[arg(value_name = "ANSWER")]
    pub words: Vec<String>,
    /// The request, when several are open
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
}

impl Answer {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let (session, words) = self.target.split(self.words);
        let id = cx.session_id(&session).await?;
        let view = cx.client.session(id).await?;
        let asked = view.pending_requests.iter().filter(|r| matches!(r.kind, RequestKind::Question { .. }));
        let request = open_request(asked, self.request.as_deref(), "question")?;
        let RequestKind::Question { questions } = &request.kind else {
            return Err(CliError::Failed("this request is no question".into()));
        };
        let words = if words.is_empty() { ask(questions, cx)? } else { words };
        let answers = Answers { request_id: request.id.clone(), answers: match_up(questions, &words)? };
        let session = cx.client.answer(id, &answers).await?;
        cx.answer(&session, |session, style, _| outcome(session, style))?;
        Ok(Exit::Done)
    }
}

/// Asks on the terminal.
fn ask(questions: &[Question], cx: &Context) -> Result<Vec<String>, CliError> {
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stdout().is_terminal() || cx.json {
        let all: Vec<_> = questions.iter().map(|q| format!("`{}`", q.question)).collect();
        return Err(CliError::Usage(format!("give the answer to {}", all.join(" and to "))));
    }
    let mut answers = Vec::new();
    for asked in questions {
        write(&(question(asked, cx.style) + "  > "))?;
        let mut line = String::new();
        let read = input.lock().read_line(&mut line).map_err(CliError::Output)?;
        if read == 0 || line.trim().is_empty() {
            return Err(CliError::Usage("nothing was answered".into()));
        }
        answers.push(line.trim().to_owned());
    }
    Ok(answers)
}

/// Each question with its answer.
fn match_up(questions: &[Question], given: &[String]) -> Result<Vec<GivenAnswer>, CliError> {
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

/// What an answer stands for: the labels of the options that its numbers name, or itself.
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
    fn numbers_stand_for_options_and_anything_else_for_itself() {
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
