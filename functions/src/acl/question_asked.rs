//! `question_asked`: the agent waits for a permission, for a choice between its options, or for input that an MCP server requests (S0 8.3
//! `RecordUserQuestionAskedCommand`, decision 26).

use pilothouse_domain::ToolCallId;
use pilothouse_domain::escalation::ToolApproval;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{ContentHash, OptionProposal, Question, QuestionOption};
use pilothouse_wire::event::PermissionRequest;

use super::Mapping;

/// The session waits for its owner. A request without questions has no effect.
pub fn map(
    request: &ToolCallId,
    questions: &[Question],
    approval: Option<&PermissionRequest>,
    proposal: Option<&OptionProposal>,
) -> Mapping {
    if questions.is_empty() {
        return Mapping::to(AgentFact::Noted);
    }
    let questions = questions.iter().map(normalised).collect();
    let approval = approval.map(tool_approval);
    let proposal = proposal.cloned().and_then(OptionProposal::fitting);
    let request = request.clone();
    Mapping::to(AgentFact::QuestionAsked { request, questions, approval, proposal, timeout: None })
}

fn tool_approval(asked: &PermissionRequest) -> ToolApproval {
    ToolApproval {
        tool_name: cut(&asked.tool_name, ToolApproval::MAX_TOOL),
        input: cut(&asked.input.to_string(), ToolApproval::MAX_INPUT),
        allow: cut(&asked.allow, 500),
        deny: cut(&asked.deny, 500),
        // The intake adds a blob if the sidecar names none, because it has to be written, and the verdict, because it has to be read.
        input_blob: asked.input_blob.clone().filter(|name| ContentHash::parse(name.as_str()).is_ok()),
        verdict: None,
        modifiable: asked.modifiable,
    }
}

fn normalised(question: &Question) -> Question {
    Question {
        question: cut(&question.question, 2000),
        header: question.header.as_deref().map(|header| cut(header, 100)),
        options: question.options.iter().map(option).collect(),
        multi_select: question.multi_select,
    }
}

fn option(option: &QuestionOption) -> QuestionOption {
    QuestionOption {
        label: cut(&option.label, 500),
        description: option.description.as_deref().map(|text| cut(text, 1000)),
    }
}
