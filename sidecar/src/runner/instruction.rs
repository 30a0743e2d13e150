//! The instruction at the beginning of an iteration (S4, decision 39).

use pilothouse_domain::deliverable::{Deliverable, DeliverableStatus};
use pilothouse_domain::text::cut;

use crate::own_tools::deliverable::NAME as TOOL;

/// Most open deliverables to list individually.
const MAX_LISTED: usize = 20;
/// In characters.
const MAX_DESCRIPTION: usize = 300;

/// The initializer instruction if there are no deliverables, or else the coding instruction with the open ones. `None`
/// if no deliverable is open.
pub fn select(status: &DeliverableStatus) -> Option<String> {
    if status.deliverables().is_empty() {
        return Some(initializer());
    }
    (!status.is_settled()).then(|| coding(status))
}

pub fn initializer() -> String {
    format!(
        "This session is done when all its deliverables are. There are none yet. Look at what is asked and at the working \
         directory, then create the deliverables with the `{TOOL}` tool (operation `create`): verifiable units of work, each \
         with acceptance criteria that can be checked. Then begin to work on them, one at a time."
    )
}

pub fn coding(status: &DeliverableStatus) -> String {
    let open: Vec<_> = status.open().collect();
    let named: Vec<_> = open.iter().take(MAX_LISTED).map(|one| line(one)).collect();
    let more = match open.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!("\n- and {more} more"),
    };
    format!(
        "Deliverables: {}. These are open:\n{}{more}\n\nGo on with the next one. When all its acceptance criteria are \
         verified, set it to `passed` with the `{TOOL}` tool (operation `set_status`); when something outside prevents it, \
         set it to `blocked` and say what. Set one that has passed back to `pending` when you find a bug in it. The session \
         is done when every deliverable is passed or blocked.",
        status.counts(),
        named.join("\n"),
    )
}

/// Asks the agent to repair a status file that cannot be read.
pub fn repair(why: &str) -> String {
    format!(
        "Where the deliverables stand cannot be read: {why}. Put the file right, without losing what it says; if it never was \
         a status file, move it away. Then go on with the open deliverables."
    )
}

fn line(one: &Deliverable) -> String {
    let description = one.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let criteria = one.acceptance_criteria.len();
    format!("- {}: {} ({criteria} acceptance criteria)", one.id, cut(&description, MAX_DESCRIPTION))
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::deliverable::{CreateDeliverableInput, DeliverableInput};
    use pilothouse_domain::value::DeliverableState;

    use super::*;

    fn status(count: usize) -> DeliverableStatus {
        let day = "2026-11-22".parse().unwrap();
        let mut status = DeliverableStatus::empty(day);
        let one = |n| DeliverableInput {
            id: format!("DL-{n}"),
            description: format!("Part\n{n}"),
            acceptance_criteria: vec!["works".into()],
        };
        if count > 0 {
            let deliverables = (0..count).map(one).collect();
            status.create(CreateDeliverableInput { deliverables }, day).unwrap();
        }
        status
    }

    #[test]
    fn initializer_instruction_runs_without_deliverables() {
        assert_eq!(select(&status(0)), Some(initializer()));
    }

    #[test]
    fn coding_instruction_names_open_deliverables() {
        let mut some = status(3);
        some.set_status("DL-1", DeliverableState::Passed, "2026-11-22".parse().unwrap()).unwrap();
        let text = select(&some).unwrap();
        assert!(text.contains("- DL-0: Part 0 (1 acceptance criteria)\n- DL-2: Part 2"), "{text}");
        assert!(!text.contains("DL-1:"), "{text}");
        assert!(select(&status(25)).unwrap().contains("- and 5 more"));
    }

    #[test]
    fn no_instruction_is_sent_without_open_deliverables() {
        let mut one = status(1);
        one.set_status("DL-0", DeliverableState::Blocked, "2026-11-22".parse().unwrap()).unwrap();
        assert_eq!(select(&one), None);
    }
}
