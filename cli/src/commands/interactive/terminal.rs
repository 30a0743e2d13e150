//! The terminal in raw mode. Dropping it restores the terminal, also while a panic unwinds.

use std::fs;
use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::path::Path;
use std::process::Command;
use std::thread;

use termion::event::Key;
use termion::input::TermRead as _;
use termion::raw::{IntoRawMode as _, RawTerminal};
use tokio::sync::mpsc;

use super::resolving::Input;
use crate::output::interactive::visible;

const ALTERNATE_SCREEN: &str = "\x1b[?1049h";
const MAIN_SCREEN: &str = "\x1b[?1049l";
const CLEAR: &str = "\x1b[2J\x1b[H";
/// The size where the terminal does not say.
const USUAL_SIZE: (u16, u16) = (80, 24);

pub(super) struct Terminal {
    out: RawTerminal<Stdout>,
    /// Lets the thread read one key. Between two keys nothing is read, so that an editor gets its input.
    want: std::sync::mpsc::Sender<()>,
    keys: mpsc::UnboundedReceiver<io::Result<Key>>,
    is_reading: bool,
}

impl Terminal {
    pub(super) fn is_available() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    pub(super) fn enter() -> io::Result<Self> {
        let out = io::stdout().into_raw_mode()?;
        let (want, wanted) = std::sync::mpsc::channel::<()>();
        let (sender, keys) = mpsc::unbounded_channel();
        // Not joined: it may wait for a key when the program ends.
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            let mut input = io::stdin().keys();
            while wanted.recv().is_ok() {
                let key = input.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
                if sender.send(key).is_err() {
                    return;
                }
            }
        })?;
        let mut terminal = Self { out, want, keys, is_reading: false };
        terminal.write(ALTERNATE_SCREEN)?;
        Ok(terminal)
    }

    /// The next key; `None` at the end of the input. Cancel-safe.
    pub(super) async fn key(&mut self) -> io::Result<Option<Key>> {
        if !self.is_reading {
            self.is_reading = self.want.send(()).is_ok();
        }
        let key = self.keys.recv().await;
        self.is_reading = false;
        match key {
            Some(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            other => other.transpose(),
        }
    }

    /// Shows as much of `text` as fits, from the line `top` on. `top` is limited to the last line.
    pub(super) fn draw(&mut self, text: &str, top: &mut usize) -> io::Result<()> {
        let size = termion::terminal_size().unwrap_or(USUAL_SIZE);
        let (width, height) = if size.0 == 0 || size.1 == 0 { USUAL_SIZE } else { size };
        let lines = visible(text, top, width.into(), height.into());
        self.write(&format!("{CLEAR}{}", lines.join("\r\n")))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Input for Terminal {
    async fn line(&mut self, prompt: &str) -> io::Result<Option<String>> {
        let mut line = String::new();
        loop {
            self.write(&format!("\r\x1b[2K{}{line}", crate::output::text::line(prompt, 60)))?;
            match self.key().await? {
                None | Some(Key::Esc | Key::Ctrl('c')) => return Ok(None),
                Some(Key::Char('\n')) => return Ok(Some(line)),
                Some(Key::Backspace) => drop(line.pop()),
                Some(Key::Char(c)) => line.push(c),
                Some(_) => {}
            }
        }
    }

    async fn edited(&mut self, text: &str) -> io::Result<String> {
        let file = tempfile::Builder::new().prefix("pilothouse-").suffix(".json").tempfile()?;
        fs::write(file.path(), text)?;
        self.write(MAIN_SCREEN)?;
        self.out.suspend_raw_mode()?;
        let edited = run_editor(file.path());
        self.out.activate_raw_mode()?;
        self.write(ALTERNATE_SCREEN)?;
        // A failed editor leaves the text as it is, which decides nothing.
        if edited.is_err() { Ok(text.to_owned()) } else { fs::read_to_string(file.path()) }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The raw mode ends with `out`.
        drop(self.write(MAIN_SCREEN));
    }
}

fn run_editor(file: &Path) -> io::Result<()> {
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|name| !name.is_empty());
    let editor = editor.unwrap_or_else(|| "vi".into());
    // Through a shell, because the variable may have arguments.
    let status = Command::new("sh").arg("-c").arg(r#"exec $0 "$1""#).arg(editor).arg(file).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("the editor failed")) }
}
