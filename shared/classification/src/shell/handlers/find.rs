//! `find`: folders, tests and actions.

use super::super::walk::{Stream, Walker};
use crate::marks::ANY;
use crate::path::Access;
use crate::tables::Program;

/// Tests of `find` with one value, and without.
const FIND_VALUES: &str = "-name -iname -path -ipath -wholename -regex -iregex -regextype -type -xtype -size -mtime -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -newermt -printf -fstype -used -lname -ilname";
const FIND_FLAGS: &str = "-print -print0 -ls -empty -o -or -a -and -not ! ( ) , -prune -quit -depth -d -mount -xdev -follow -true -false -readable -writable -executable -daystart -nouser -nogroup -L -H -P -E";

/// `find FOLDERS TESTS ACTIONS`.
pub(crate) fn find(walker: &mut Walker<'_>, _: &Program, name: &str, words: &[String], _: Stream) -> Stream {
    let is_folder = |word: &&String| !word.starts_with(['-', '(', '!']);
    let options = words.iter().take_while(|word| matches!(word.as_str(), "-L" | "-H" | "-P" | "-E")).count();
    let mut roots: Vec<String> = words.iter().skip(options).take_while(is_folder).cloned().collect();
    let mut rest = words.iter().skip(options + roots.len());
    if roots.is_empty() {
        roots.push(".".to_owned());
    }
    for root in &roots {
        walker.access(root, Access::List);
    }
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-delete" => {
                for root in &roots {
                    walker.access(&format!("{root}/{ANY}"), Access::Delete);
                }
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let command: Vec<String> =
                    rest.by_ref().take_while(|word| !matches!(word.as_str(), ";" | "+")).cloned().collect();
                for root in &roots {
                    if walker.is_exhausted() {
                        break;
                    }
                    walker.count_steps(1 + command.len() / 4);
                    let file = format!("{root}/{ANY}");
                    let command: Vec<String> = command.iter().map(|word| word.replace("{}", &file)).collect();
                    walker.run(&command, Stream::Nothing);
                }
            }
            "-newer" | "-anewer" | "-cnewer" | "-samefile" => {
                if let Some(path) = rest.next() {
                    walker.access(path, Access::List);
                }
            }
            word if is_one_of(FIND_VALUES, word) => {
                rest.next();
            }
            word if is_one_of(FIND_FLAGS, word) => {}
            // Files are written with `-fprint`, and read with `-files0-from`.
            word => {
                walker.findings.unclassified(&format!("`{word}` of `{name}`"));
                rest.clone().for_each(|word| walker.check_text(word));
            }
        }
    }
    Stream::Paths(roots)
}

fn is_one_of(names: &str, word: &str) -> bool {
    names.split(' ').any(|name| name == word)
}
