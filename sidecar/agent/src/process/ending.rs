use std::time::Duration;

/// How much time processes have after their program or the agent has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ending {
    /// How long the program may take to end on its own after the agent has ended.
    pub grace: Duration,
    /// How long leftover processes may run after the program has ended.
    pub linger: Duration,
}
