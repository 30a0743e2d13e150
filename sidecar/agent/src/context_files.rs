//! Instructions that a project keeps for agents, `AGENTS.md` and `CLAUDE.md`, and the MCP servers of its `.mcp.json`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// In bytes, for one file.
const MAX_FILE: usize = 32 * 1024;
/// In bytes, for all files of instructions. Those nearest to the working directory go first.
const MAX_ALL: usize = 96 * 1024;

/// The instructions for a working directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextFiles {
    /// The nearest to the working directory first.
    files: Vec<(PathBuf, String)>,
    notices: Vec<String>,
    mcp_servers: Option<String>,
}

impl ContextFiles {
    /// Reads the files of the working directory and of the folders above it, up to the root of its repository. Without a
    /// repository, only those of the working directory. Blocks.
    pub fn load(cwd: &Path) -> Self {
        let mut loaded = Self::default();
        let mut remaining = MAX_ALL;
        let root = cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd);
        for folder in cwd.ancestors().take_while(|folder| folder.starts_with(root)) {
            for name in NAMES {
                let path = folder.join(name);
                let Some((text, all)) = loaded.read(&path, MAX_FILE.min(remaining)) else { continue };
                // A file can be a link to the other one, or refer to it.
                let repeated = loaded.files.iter().any(|(_, known)| *known == text);
                if repeated || matches!(text.trim(), "" | "@AGENTS.md" | "@CLAUDE.md") {
                    continue;
                }
                if !all {
                    let kept = text.len();
                    loaded
                        .notices
                        .push(format!("{} is too long: only {kept} bytes are used", path.display()));
                }
                remaining -= text.len();
                loaded.files.push((path, text));
            }
        }
        loaded.mcp_servers = loaded.read(&cwd.join(".mcp.json"), MAX_ALL).map(|(text, _)| text);
        loaded
    }

    /// At most `most` bytes, and whether that is the whole file. `None` if there is no such file.
    fn read(&mut self, path: &Path, most: usize) -> Option<(String, bool)> {
        match beginning(path, most) {
            Ok(found) => found,
            Err(error) => {
                self.notices.push(format!("{} is skipped: {error}", path.display()));
                None
            }
        }
    }

    /// The section of the system prompt, with the nearest file last. Empty if there are no files.
    pub fn section(&self) -> String {
        let sections = self.files.iter().rev().map(|(path, text)| {
            format!("<instructions path=\"{}\">\n{}\n</instructions>", path.display(), text.trim())
        });
        sections.collect::<Vec<_>>().join("\n\n")
    }

    /// Files that were skipped or cut.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The text of `.mcp.json`.
    pub fn mcp_servers(&self) -> Option<&str> {
        self.mcp_servers.as_deref()
    }
}

fn beginning(path: &Path, most: usize) -> io::Result<Option<(String, bool)>> {
    // To open a pipe or a device can block.
    let length = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
    let all = bytes.len() as u64 >= length;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if !all {
        // Not in the middle of a character.
        text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
    }
    Ok(Some((text, all)))
}

/// Today's date (UTC) and the platform, for the system prompt.
pub fn date_and_platform() -> String {
    let now = jiff::Timestamp::now().to_string();
    let date = now.split('T').next().unwrap_or_default();
    format!("Today is {date} (UTC). The platform is {} ({}).", std::env::consts::OS, std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
    }

    #[test]
    fn instructions_reach_from_the_repository_to_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (repository, inner) = (dir.path().join("repository"), dir.path().join("repository/a/b"));
        write(dir.path(), "AGENTS.md", "outside");
        write(&repository, "AGENTS.md", "of the root");
        write(&repository, "CLAUDE.md", "@AGENTS.md\n");
        write(&repository.join("a"), "CLAUDE.md", "of a");
        write(&inner, "AGENTS.md", "of b");
        write(&inner, "CLAUDE.md", "of b");
        std::fs::create_dir(repository.join(".git")).unwrap();
        let loaded = ContextFiles::load(&inner);
        let texts: Vec<_> = loaded.files.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["of b", "of a", "of the root"]);
        assert_eq!(loaded.notices(), [""; 0]);
        let section = loaded.section();
        assert!(section.find("of the root") < section.find("of b"), "the nearest is the last: {section}");
        std::fs::remove_dir(repository.join(".git")).unwrap();
        assert_eq!(ContextFiles::load(&inner).files.len(), 1, "without a repository, no folder above");
    }

    #[test]
    fn long_instructions_are_cut_and_the_nearest_go_first() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let mut folder = dir.path().to_owned();
        for name in ["a", "b", "c", "d"] {
            write(&folder, "AGENTS.md", &format!("{name}{}", "ü".repeat(MAX_FILE)));
            folder.push(name);
        }
        let loaded = ContextFiles::load(folder.parent().unwrap());
        let sizes: Vec<_> = loaded.files.iter().map(|(_, text)| text.len()).collect();
        assert!(sizes.iter().sum::<usize>() <= MAX_ALL && sizes.len() >= 3, "{sizes:?}");
        assert!(loaded.files[0].1.starts_with('d') && loaded.files[0].1.ends_with('ü'));
        assert!(loaded.notices().iter().any(|notice| notice.contains("too long")));
    }

    #[test]
    fn other_things_with_these_names_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("AGENTS.md")).unwrap();
        assert_eq!(ContextFiles::load(dir.path()), ContextFiles::default());
    }
}
