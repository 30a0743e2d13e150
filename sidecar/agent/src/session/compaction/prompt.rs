//! The prompt for a summary.

pub(super) const SYSTEM: &str = "You summarise the work of a software agent, so that it can go on from your summary \
alone. You do not go on with the work yourself, and you answer with the summary only.";

const TASK: &str = "Summarise the conversation above. Keep everything that is needed to go on without it:

1. What the user asked for, in their words where they matter, and every constraint and preference they gave.
2. What was done and decided, and why.
3. Files that were read, made or changed, with their paths, and what matters in them.
4. Errors that came up, and how they were solved or what was tried in vain.
5. Where the work stands now: what is finished, what is half done, and what comes next.

Keep exact names, paths, commands, numbers and error messages.";

const CONTINUED: &str = "The conversation continues the work that the previous summary describes. Your summary \
replaces both: keep everything of the previous one that is still needed, and change what is no longer true.";

pub(super) fn task(previous: Option<&str>, transcript: &str, instructions: Option<&str>) -> String {
    let summary = previous.map(|text| format!("<previous-summary>\n{text}\n</previous-summary>\n\n"));
    let continued = previous.map(|_| format!("\n\n{CONTINUED}"));
    let more = instructions.map(|words| format!("\n\nThe user adds: {words}"));
    let [summary, continued, more] = [summary, continued, more].map(Option::unwrap_or_default);
    format!("{summary}<conversation>\n{transcript}</conversation>\n\n{TASK}{continued}{more}")
}
