//! How long waiting events wait for others (decision 51). Over SQS, events that share a request also share an invocation of the intake and a
//! commit. Nothing waits through an embedded server.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::value::{Adjustment, MessageSource};
use pilothouse_wire::Command;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The longest wait of an event for others.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// For how many heartbeat intervals after a command of a person somebody is assumed to watch: one minute by default.
const WATCHED_HEARTBEATS: u32 = 4;

/// Decides how long events wait. Clones share the state. By default events never wait.
#[derive(Debug, Clone, Default)]
pub struct BatchWindow(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    watched_for: Duration,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Until when somebody is assumed to watch.
    watched_until: Option<Instant>,
    /// Whether the run ends.
    is_closed: bool,
}

impl State {
    fn sends_at_once(self) -> bool {
        self.is_closed || self.watched_until.is_some_and(|until| until > Instant::now())
    }
}

impl BatchWindow {
    /// For a run whose requests are billed.
    pub fn of_run(heartbeat: Duration) -> Self {
        let state = watch::Sender::new(State::default());
        Self(Some(Arc::new(Shared { watched_for: heartbeat * WATCHED_HEARTBEATS, state })))
    }

    /// Events are sent at once for a while after a command that a person gave, because that person probably watches.
    pub fn record(&self, command: &Command) {
        if let Some(shared) = &self.0
            && is_of_a_person(command)
        {
            let until = Instant::now() + shared.watched_for;
            shared.state.send_modify(|state| state.watched_until = Some(until));
        }
    }

    /// From now on nothing waits, because the run ends.
    pub fn close(&self) {
        if let Some(shared) = &self.0 {
            shared.state.send_modify(|state| state.is_closed = true);
        }
    }

    /// Whether events that wait since `since` must not wait any longer.
    pub(crate) fn is_over(&self, since: Instant) -> bool {
        let Some(shared) = &self.0 else { return true };
        since + MAX_WAIT <= Instant::now() || shared.state.borrow().sends_at_once()
    }

    /// Waits until [`Self::is_over`] is true.
    pub(crate) async fn over(&self, since: Instant) {
        let Some(shared) = &self.0 else { return };
        let mut state = shared.state.subscribe();
        tokio::select! {
            () = sleep_until(since + MAX_WAIT) => {}
            _ = state.wait_for(|state| state.sends_at_once()) => {}
        }
    }
}

/// Whether a command usually comes from a person. The others follow from the work itself.
const fn is_of_a_person(command: &Command) -> bool {
    match command {
        Command::Begin(_)
        | Command::Interrupt {}
        | Command::Pause {}
        | Command::Resume {}
        | Command::Stop {}
        | Command::Answer { .. }
        | Command::PlanDecision { .. } => true,
        Command::SteeringMessage { source, .. } => matches!(source, MessageSource::User),
        Command::Adjust { adjustment } => !matches!(adjustment, Adjustment::SetAllowance { .. }),
        Command::ReloadConfig { .. } | Command::RunValidation { .. } | Command::Replay { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Duration = Duration::from_secs(15);

    /// How long events wait that appear now.
    async fn wait(window: &BatchWindow) -> Duration {
        let since = Instant::now();
        window.over(since).await;
        assert!(window.is_over(since));
        since.elapsed()
    }

    fn message(source: MessageSource) -> Command {
        Command::SteeringMessage {
            message_id: pilothouse_domain::MessageId::new(uuid::Uuid::from_u128(1)),
            content: "look at the tests".into(),
            images: Vec::new(),
            priority: pilothouse_domain::value::MessagePriority::Queued,
            source,
            expected_turn_id: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_wait_two_seconds_only_where_requests_are_billed() {
        assert_eq!(wait(&BatchWindow::of_run(HEARTBEAT)).await, MAX_WAIT);
        assert_eq!(wait(&BatchWindow::default()).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_for_a_minute_after_a_persons_command() {
        let window = BatchWindow::of_run(HEARTBEAT);
        for command in [message(MessageSource::User), Command::Resume {}] {
            window.record(&command);
            assert_eq!(wait(&window).await, Duration::ZERO, "{}", command.name());
            tokio::time::advance(Duration::from_secs(59)).await;
            assert_eq!(wait(&window).await, Duration::ZERO, "{}", command.name());
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(wait(&window).await, MAX_WAIT, "{}", command.name());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn commands_that_follow_from_the_work_change_nothing() {
        let window = BatchWindow::of_run(HEARTBEAT);
        let allowance = Adjustment::SetAllowance { allowance_usd: None };
        for command in [
            message(MessageSource::ContextInjection),
            message(MessageSource::System),
            Command::Adjust { adjustment: allowance },
            Command::Replay { from_sequence: 1, to_sequence: 2 },
        ] {
            window.record(&command);
            assert_eq!(wait(&window).await, MAX_WAIT, "{}", command.name());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn command_and_end_release_events_that_already_wait() {
        let releases: [fn(&BatchWindow); 2] =
            [|window| window.record(&Command::Pause {}), BatchWindow::close];
        for release in releases {
            let window = BatchWindow::of_run(HEARTBEAT);
            let since = Instant::now();
            let later = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert!(!window.is_over(since));
                release(&window);
            };
            tokio::join!(window.over(since), later);
            assert_eq!(since.elapsed(), Duration::from_secs(1));
        }
    }
}
