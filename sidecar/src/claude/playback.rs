//! A recorded run as steps that a person can take part in.

use std::collections::HashSet;
use std::time::Duration;

use pilothouse_domain::{Timestamp, ToolCallId};
use pilothouse_wire::event::{AssistantContent, RawEvent};

use super::Options;
use super::json::text;
use super::recording::Segment;
use super::translated::{MessageState, Signal, Translated};
use super::translator::Translator;

/// One step of a playback.
#[derive(Debug, Clone, PartialEq)]
pub enum PlaybackStep {
    /// Send these raw events: everything that one recorded line told.
    Emit(Vec<RawEvent>),
    /// Let this time pass.
    Wait(Duration),
    /// Go on when the user has answered the question.
    AwaitAnswer {
        /// The call of `AskUserQuestion`.
        tool_call_id: ToolCallId,
    },
    /// Go on when the user has decided on the plan.
    AwaitPlanDecision {
        /// The call of `ExitPlanMode`.
        tool_call_id: ToolCallId,
    },
    /// Go on when the user has sent a message: here the recorded user did.
    AwaitMessage,
}

/// How to play.
#[derive(Debug, Clone)]
pub struct PlaybackOptions {
    /// How to translate.
    pub translate: Options,
    /// The longest [`PlaybackStep::Wait`]: nobody wants to sit through a recorded night.
    pub longest_wait: Duration,
}

impl PlaybackOptions {
    /// The longest wait when nothing else is said.
    pub const DEFAULT_LONGEST_WAIT: Duration = Duration::from_secs(3);

    /// Plays with the default pace.
    pub const fn new(translate: Options) -> Self {
        Self { translate, longest_wait: Self::DEFAULT_LONGEST_WAIT }
    }
}

impl Segment {
    /// The run as steps. What the recorded user answered, decided and said is replaced by waiting for the user of
    /// now; the agent then goes on as recorded, whatever they said. `turn_started` carries no message id: the player
    /// knows the id of the message that it waited for.
    pub fn playback(&self, options: PlaybackOptions) -> Vec<PlaybackStep> {
        let mut player = Player {
            steps: Vec::new(),
            longest_wait: options.longest_wait,
            last_time: None,
            questions: HashSet::new(),
            plans: HashSet::new(),
            messages: HashSet::new(),
            message_awaited: false,
            turns: 0,
        };
        let translate = if self.continues() { options.translate.continued(None) } else { options.translate };
        let mut translator = Translator::new(translate);
        for line in self.lines() {
            let time = text(&line.value, "timestamp").and_then(|time| time.parse().ok());
            player.line(translator.line(&line.value), time);
        }
        player.emit(translator.finish());
        player.steps
    }

    /// Whether the recorded conversation was taken up from an earlier one: its first result then has totals that are
    /// more than what was spent since.
    fn continues(&self) -> bool {
        let first = self.lines().iter().find(|line| text(&line.value, "type") == Some("result"));
        first.is_some_and(|line| match line.value.get("model_usage_since_last_result") {
            Some(since) => line.value.get("modelUsage").is_some_and(|total| total != since),
            None => false,
        })
    }
}

struct Player {
    steps: Vec<PlaybackStep>,
    longest_wait: Duration,
    last_time: Option<Timestamp>,
    /// Calls that wait for an answer.
    questions: HashSet<ToolCallId>,
    /// Calls that wait for a decision.
    plans: HashSet<ToolCallId>,
    /// Messages that were waited for, by the uuid that the recorded user gave them.
    messages: HashSet<String>,
    /// A message was waited for that has not begun a turn.
    message_awaited: bool,
    turns: u32,
}

impl Player {
    fn line(&mut self, line: Translated, time: Option<Timestamp>) {
        let before = self.steps.len();
        self.wait_for_people(&line);
        // The time until a person answered is that person's. (A message comes while the agent works: its time counts.)
        if self.steps[before..].iter().any(|step| !matches!(step, PlaybackStep::AwaitMessage)) {
            self.last_time = None;
        }
        if let Some(time) = time.filter(|_| !line.events.is_empty()) {
            if let Some(last) = self.last_time.filter(|_| self.steps.len() == before) {
                self.pass(last, time);
            }
            self.last_time = Some(time);
        }
        for event in &line.events {
            if let RawEvent::AssistantMessage {
                content: AssistantContent::ToolUse { tool_call_id, tool_name, .. },
                ..
            } = event
            {
                match tool_name.as_str() {
                    "AskUserQuestion" => self.questions.insert(tool_call_id.clone()),
                    "ExitPlanMode" => self.plans.insert(tool_call_id.clone()),
                    _ => false,
                };
            }
        }
        self.emit(line.events);
    }

    /// Puts the steps before what a person caused.
    fn wait_for_people(&mut self, line: &Translated) {
        for signal in &line.signals {
            if let Signal::Message { uuid, state: MessageState::Queued | MessageState::Started } = signal
                && self.messages.insert(uuid.clone())
            {
                self.steps.push(PlaybackStep::AwaitMessage);
                self.message_awaited = true;
            }
        }
        for event in &line.events {
            match event {
                RawEvent::ToolResult { tool_call_id, .. } if self.questions.remove(tool_call_id) => {
                    self.steps.push(PlaybackStep::AwaitAnswer { tool_call_id: tool_call_id.clone() });
                }
                RawEvent::ToolResult { tool_call_id, .. } if self.plans.remove(tool_call_id) => {
                    self.steps.push(PlaybackStep::AwaitPlanDecision { tool_call_id: tool_call_id.clone() });
                }
                // The mode changes because of the decision, a moment before the result says so.
                RawEvent::Notice { name, .. } if name == "permission_mode" => {
                    for tool_call_id in self.plans.drain() {
                        self.steps.push(PlaybackStep::AwaitPlanDecision { tool_call_id });
                    }
                }
                RawEvent::TurnStarted { .. } => {
                    // The first turn answers the prompt that the playback began with.
                    if self.turns > 0 && !self.message_awaited {
                        self.steps.push(PlaybackStep::AwaitMessage);
                    }
                    self.turns += 1;
                    self.message_awaited = false;
                }
                RawEvent::TurnCompleted { .. } => self.message_awaited = false,
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
