//! Converts a recorded run to steps that wait for a person.

mod messages;

use std::collections::HashSet;
use std::time::Duration;

use pilothouse_domain::value::SessionOutcome;
use pilothouse_domain::{Timestamp, ToolCallId, TurnId};
use pilothouse_wire::event::{AssistantContent, RawEvent};

use super::Options;
use super::recording::{Direction, RecordingLine, Segment};
use super::translated::{Signal, Translated, TurnEnd};
use super::translator::Translator;
use crate::kit::json::text;
use crate::tool_names::{ASK_USER_QUESTION, EXIT_PLAN_MODE};

#[derive(Debug, Clone, PartialEq)]
pub enum PlaybackStep {
    /// Send the raw events of one recorded line.
    Emit(Vec<RawEvent>),
    Wait(Duration),
    /// Wait until the user has answered the question.
    AwaitAnswer {
        tool_call_id: ToolCallId,
    },
    /// Wait until the user has decided on the plan.
    AwaitPlanDecision {
        tool_call_id: ToolCallId,
    },
    /// Wait until the user has sent a message, as the recorded user did.
    AwaitMessage,
}

#[derive(Debug, Clone)]
pub struct PlaybackOptions {
    pub translate: Options,
    /// Upper limit of [`PlaybackStep::Wait`], so that long pauses of the recording are skipped.
    pub longest_wait: Duration,
}

impl PlaybackOptions {
    pub const DEFAULT_LONGEST_WAIT: Duration = Duration::from_secs(3);

    pub const fn new(translate: Options) -> Self {
        Self { translate, longest_wait: Self::DEFAULT_LONGEST_WAIT }
    }
}

impl Segment {
    /// Waits for the current user replace the recorded user's answers, decisions and messages; the agent then continues
    /// as recorded, whatever the user said. `turn_started` carries no message id, because the player knows the id of
    /// the message that it waited for. A turn that the recorded user interrupted is completed at that point: the
    /// current user did not interrupt it, and without an end its session would stay Running.
    pub fn playback(&self, options: PlaybackOptions) -> Vec<PlaybackStep> {
        let translate = if self.continues() { options.translate.continued(None) } else { options.translate };
        let mut translator = Translator::new(translate);
        let lines: Vec<_> =
            self.lines().iter().map(|line| (line, translated(line, &mut translator))).collect();
        let waits = messages::waits(&lines);
        let mut player = Player {
            steps: Vec::new(),
            longest_wait: options.longest_wait,
            last_time: None,
            questions: HashSet::new(),
            plans: HashSet::new(),
            turn: None,
        };
        for (at, (line, translated)) in lines.into_iter().enumerate() {
            player.line(translated, line.time(), waits.contains(&at));
        }
        player.emit(translator.finish());
        player.steps
    }

    /// Whether the recording resumes an earlier conversation, so that its first totals include earlier spend.
    fn continues(&self) -> bool {
        let first = self.lines().iter().find(|line| text(&line.value, "type") == Some("result"));
        first.is_some_and(|line| match line.value.get("model_usage_since_last_result") {
            Some(since) => line.value.get("modelUsage").is_some_and(|total| total != since),
            None => false,
        })
    }
}

/// Translates a line. A line that was written to the agent produces no events, but an interrupt changes the translation
/// of the next result.
fn translated(line: &RecordingLine, translator: &mut Translator) -> Translated {
    match line.direction {
        Direction::FromAgent => translator.line(&line.value),
        Direction::ToAgent => {
            if line.value["request"]["subtype"] == "interrupt" {
                translator.interrupt_requested();
            }
            Translated::default()
        }
    }
}

struct Player {
    steps: Vec<PlaybackStep>,
    longest_wait: Duration,
    last_time: Option<Timestamp>,
    questions: HashSet<ToolCallId>,
    plans: HashSet<ToolCallId>,
    turn: Option<TurnId>,
}

impl Player {
    fn line(&mut self, mut line: Translated, time: Option<Timestamp>, awaits_message: bool) {
        if awaits_message {
            self.steps.push(PlaybackStep::AwaitMessage);
        }
        let before = self.steps.len();
        self.wait_for_people(&line);
        // Skips the time until a person answered. Keeps the time until a message, because the agent works meanwhile.
        if self.steps.len() > before {
            self.last_time = None;
        }
        if let Some(time) = time.filter(|_| !line.events.is_empty()) {
            if let Some(last) = self.last_time.filter(|_| !awaits_message) {
                self.pass(last, time);
            }
            self.last_time = Some(time);
        }
        for event in &line.events {
            match event {
                RawEvent::AssistantMessage {
                    content: AssistantContent::ToolUse { tool_call_id, tool_name, .. },
                    ..
                } => {
                    match tool_name.as_str() {
                        ASK_USER_QUESTION => self.questions.insert(tool_call_id.clone()),
                        EXIT_PLAN_MODE => self.plans.insert(tool_call_id.clone()),
                        _ => false,
                    };
                }
                RawEvent::TurnStarted { turn_id, .. } => self.turn = Some(turn_id.clone()),
                _ => {}
            }
        }
        if line.signals.contains(&Signal::TurnEnded(TurnEnd::Interrupted))
            && let Some(turn_id) = self.turn.take()
        {
            line.events.push(RawEvent::TurnCompleted {
                turn_id,
                output: None,
                outcome: SessionOutcome::Completed,
            });
        }
        self.emit(line.events);
    }

    /// Inserts the waits before the effects of an answer or a decision.
    fn wait_for_people(&mut self, line: &Translated) {
        for event in &line.events {
            match event {
                RawEvent::ToolResult { tool_call_id, .. } if self.questions.remove(tool_call_id) => {
                    self.steps.push(PlaybackStep::AwaitAnswer { tool_call_id: tool_call_id.clone() });
                }
                RawEvent::ToolResult { tool_call_id, .. } if self.plans.remove(tool_call_id) => {
                    self.steps.push(PlaybackStep::AwaitPlanDecision { tool_call_id: tool_call_id.clone() });
                }
                // The decision changes the mode shortly before the result reports it.
                RawEvent::Notice { name, .. } if name == "permission_mode" => {
                    for tool_call_id in self.plans.drain() {
                        self.steps.push(PlaybackStep::AwaitPlanDecision { tool_call_id });
                    }
                }
                _ => {}
            }
        }
    }

    fn pass(&mut self, from: Timestamp, to: Timestamp) {
        let wait = to.since(from).min(self.longest_wait);
        if !wait.is_zero() {
            self.steps.push(PlaybackStep::Wait(wait));
        }
    }

    fn emit(&mut self, mut events: Vec<RawEvent>) {
        for event in &mut events {
            if let RawEvent::TurnStarted { message_id, .. } = event {
                *message_id = None;
            }
        }
        if !events.is_empty() {
            self.steps.push(PlaybackStep::Emit(events));
        }
    }
}
