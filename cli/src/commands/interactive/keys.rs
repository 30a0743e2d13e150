use termion::event::Key;

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Answer(Answer),
    Next,
    Previous,
    LastLines,
    Help,
    Quit,
    None,
}

/// An answer to the decision that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Approve {
        always: bool,
    },
    Reject,
    Modify,
    /// An option, from 0.
    Choose(usize),
    /// Words.
    Text,
    Dismiss,
}

impl Action {
    pub(super) fn of(key: Key) -> Self {
        match key {
            Key::Char('a') => Self::Answer(Answer::Approve { always: false }),
            Key::Char('A') => Self::Answer(Answer::Approve { always: true }),
            Key::Char('r') => Self::Answer(Answer::Reject),
            Key::Char('m') => Self::Answer(Answer::Modify),
            Key::Char('t') => Self::Answer(Answer::Text),
            Key::Char('d') => Self::Answer(Answer::Dismiss),
            Key::Char(digit @ '1'..='9') => Self::Answer(Answer::Choose(usize::from(digit as u8 - b'1'))),
            Key::Char('n') | Key::Right => Self::Next,
            Key::Char('p') | Key::Left => Self::Previous,
            Key::Char('s') => Self::LastLines,
            Key::Char('?') => Self::Help,
            Key::Char('q') | Key::Ctrl('c' | 'd') => Self::Quit,
            _ => Self::None,
        }
    }
}
