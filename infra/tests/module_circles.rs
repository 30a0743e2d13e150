//! Modules beside each other in a folder import each other in no circle, so that each can be read after those that it imports.
//!
//! An import counts for the two modules, below the folder that contains both, on the way to the importing and to the declaring module.
//! A name that a module re-exports is one of the module that declares it. So a parent may re-export its children, and a child may use its
//! parents. Tests beside the code and test programs are not read.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The names of a module and those above it, from the root of the crate, which has none.
type ModulePath = Vec<String>;

/// The modules of a crate.
type Modules = BTreeMap<ModulePath, Module>;

/// Imports between the modules of a folder: from, to, and an example.
type Imports = BTreeMap<(String, String), String>;

#[derive(Debug, Default)]
struct Module {
    /// Without comments and tests.
    code: String,
    /// What the names mean that it imports.
    names: BTreeMap<String, ModulePath>,
    /// Modules whose names it imports all.
    globs: Vec<ModulePath>,
    /// Everything of the crate that it names by a path.
    paths: BTreeSet<ModulePath>,
    declared: BTreeSet<String>,
    words: BTreeSet<String>,
}

const DECLARATIONS: [&str; 10] =
    ["struct", "enum", "fn", "type", "const", "static", "trait", "union", "macro_rules", "mod"];

/// Re-exports of re-exports. A chain of more is an error of this test.
const MAX_RESOLUTIONS: usize = 12;

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

fn without_comments(source: &str) -> String {
    let lines = source.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn is_for_tests(line: &str) -> bool {
    line.trim_start().starts_with("#[cfg(")
        && !line.contains("not(")
        && words(line).any(|word| word == "test")
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The code without the items for tests, and the names of those that are modules in other files. The code is formatted, so that an item
/// ends at its own indentation.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let (mut kept, mut test_modules) = (String::new(), Vec::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if !is_for_tests(line) {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let Some(first) = lines.find(|line| !line.trim_start().starts_with("#[")) else { break };
        let in_other_file = first.trim_end().strip_suffix(';').and_then(|item| item.rsplit_once("mod "));
        test_modules.extend(in_other_file.map(|(_, name)| name.to_owned()));
        let is_end = |line: &str| {
            indentation(line) == indentation(first) && line.trim_end().ends_with([';', ',', '}'])
        };
        let mut is_over = is_end(first);
        while !is_over {
            is_over = lines.next().is_none_or(is_end);
        }
    }
    (kept, test_modules)
}

/// What follows `use` in a declaration that begins with `line`.
fn imported(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    item.trim_start().strip_prefix("use ")
}

/// The trees of all `use` declarations.
fn use_trees(code: &str) -> Vec<&str> {
    let mut trees = Vec::new();
    let mut end_of_line = 0;
    for line in code.split_inclusive('\n') {
        end_of_line += line.len();
        if let Some(tree) = imported(line) {
            trees.extend(code[end_of_line - tree.len()..].split(';').next());
        }
    }
    trees
}

/// The paths of a tree, each with the name that it gets.
fn expand(tree: &str) -> Vec<(String, String)> {
    let Some((prefix, group)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = path.trim();
        let path = path.strip_suffix("::self").unwrap_or(path);
        let own = path.rsplit("::").next().unwrap_or(path);
        let name = if name.is_empty() { own } else { name.trim() };
        return vec![(path.to_owned(), name.to_owned())];
    };
    let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
    let mut depth = 0_usize;
    let parts = group.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let paths = parts.map(str::trim).filter(|part| !part.is_empty()).flat_map(|part| {
        if part == "self" { expand(prefix.trim().trim_end_matches(':')) } else { expand(&join(prefix, part)) }
    });
    paths.collect()
}

fn join(prefix: &str, part: &str) -> String {
    format!("{}{part}", prefix.trim())
}

/// The paths in the code that begin with `crate` or `super`.
fn qualified_paths(code: &str) -> Vec<&str> {
    let is_part = |c: char| is_word(c) || c == ':';
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
    let starts = starts.map(|(at, _)| at).filter(|at| !code[..*at].ends_with(is_part));
    let paths = starts.map(|at| {
        let path = &code[at..];
        path[..path.find(|c: char| !is_part(c)).unwrap_or(path.len())].trim_end_matches(':')
    });
    paths.collect()
}

/// The path from the root of the crate, for a path in the code of `module`. `None` if it leads to another crate.
fn absolute(module: &[String], path: &str, known: &BTreeSet<ModulePath>) -> Option<ModulePath> {
    let parts: Vec<_> = path.split("::").map(|part| part.trim().to_owned()).collect();
    let child = |name: &String| [module, std::slice::from_ref(name)].concat();
    let (base, rest) = match parts.first()?.as_str() {
        "crate" => (ModulePath::new(), &parts[1..]),
        "self" => (module.to_vec(), &parts[1..]),
        "super" => {
            let up = parts.iter().take_while(|part| *part == "super").count();
            (module[..module.len().checked_sub(up)?].to_vec(), &parts[up..])
        }
        _ if known.contains(&child(&parts[0])) => (module.to_vec(), &parts[..]),
        _ => return None,
    };
    Some([base.as_slice(), rest].concat())
}

/// The module that declares what the path names.
fn declaring_module(modules: &Modules, path: &[String], resolutions: usize) -> ModulePath {
    let found = (0..=path.len()).rev().find_map(|length| Some((length, modules.get(&path[..length])?)));
    let Some((length, module)) = found else { return ModulePath::new() };
    let (home, rest) = path.split_at(length);
    let Some((name, inner)) = rest.split_first() else { return home.to_vec() };
    if resolutions == MAX_RESOLUTIONS {
        return home.to_vec();
    }
    if let Some(target) = module.names.get(name) {
        let target = [target.as_slice(), inner].concat();
        return if target == path {
            home.to_vec()
        } else {
            declaring_module(modules, &target, resolutions + 1)
        };
    }
    if !module.declared.contains(name) {
        for glob in &module.globs {
            let origin = declaring_module(modules, glob, resolutions + 1);
            if origin != home && modules.get(&origin).is_some_and(|origin| origin.words.contains(name)) {
                let target = [origin.as_slice(), rest].concat();
                return declaring_module(modules, &target, resolutions + 1);
            }
        }
    }
    home.to_vec()
}

/// Reads the modules of a crate from the sources of its files.
fn modules_of(sources: Vec<(ModulePath, String)>) -> Modules {
    let mut modules = Modules::from([(ModulePath::new(), Module::default())]);
    let mut tests = Vec::new();
    for (path, source) in sources {
        let (code, test_modules) = without_tests(&without_comments(&source));
        tests.extend(test_modules.into_iter().map(|name| [path.as_slice(), &[name]].concat()));
        // The library and the program of a crate share a root.
        modules.entry(path).or_default().code.push_str(&code);
    }
    modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    let known: BTreeSet<_> = modules.keys().cloned().collect();
    for (path, module) in &mut modules {
        let Module { code, names, globs, paths, declared, words: all } = module;
        let code = code.as_str();
        for (imported, name) in use_trees(code).into_iter().flat_map(expand) {
            let Some(mut target) = absolute(path, &imported, &known) else { continue };
            if name == "*" {
                target.pop();
                globs.push(target.clone());
            } else {
                names.insert(name, target.clone());
            }
            paths.insert(target);
        }
        paths.extend(qualified_paths(code).into_iter().filter_map(|named| absolute(path, named, &known)));
        all.extend(words(code).map(str::to_owned));
        let pairs = words(code).zip(words(code).skip(1));
        declared
            .extend(pairs.filter(|(kind, _)| DECLARATIONS.contains(kind)).map(|(_, name)| name.to_owned()));
    }
    modules
}

/// The imports between modules beside each other, by folder.
fn imports(modules: &Modules) -> BTreeMap<ModulePath, Imports> {
    let mut folders: BTreeMap<ModulePath, Imports> = BTreeMap::new();
    for (module, path) in
        modules.iter().flat_map(|(module, it)| it.paths.iter().map(move |path| (module, path)))
    {
        let target = declaring_module(modules, path, 0);
        let common = module.iter().zip(&target).take_while(|(own, other)| own == other).count();
        if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
            let example = format!("{} names {}", module.join("::"), path.join("::"));
            let folder = folders.entry(module[..common].to_vec()).or_default();
            folder.entry((from.clone(), to.clone())).or_insert(example);
        }
    }
    folders
}

/// Everything that a module imports, with what those import.
fn reachable<'a>(imports: &'a Imports, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        let next = imports.keys().filter(|(importing, _)| importing == module);
        open.extend(next.map(|(_, to)| to.as_str()).filter(|to| reached.insert(*to)));
    }
    reached
}

/// The circles of a crate, each as a description that names its modules.
fn circles(modules: &Modules) -> Vec<String> {
    let mut circles = Vec::new();
    for (folder, imports) in imports(modules) {
        let importing: BTreeSet<_> = imports.keys().map(|(from, _)| from.as_str()).collect();
        let reached: BTreeMap<_, _> =
            importing.into_iter().map(|from| (from, reachable(&imports, from))).collect();
        let mut found = BTreeSet::new();
        for (module, all) in &reached {
            let circle: BTreeSet<_> = all
                .iter()
                .copied()
                .filter(|other| reached.get(other).is_some_and(|back| back.contains(module)))
                .collect();
            if circle.is_empty() || !found.insert(circle.clone()) {
                continue;
            }
            let names: Vec<_> = circle.iter().copied().collect();
            let mut text = format!("{}: {}", folder.join("/"), names.join(", "));
            for ((from, to), example) in &imports {
                if circle.contains(from.as_str()) && circle.contains(to.as_str()) {
                    let _ = write!(text, "\n    {from} -> {to}, because {example}");
                }
            }
            circles.push(text);
        }
    }
    circles
}

/// Appends the sources below `folder`, each with the path of its module.
fn read_sources(folder: &Path, above: &[String], into: &mut Vec<(ModulePath, String)>) {
    for entry in read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let is_root = above.is_empty() && matches!(name.as_str(), "lib" | "main");
        let below = [above, std::slice::from_ref(&name)].concat();
        if file.is_dir() {
            read_sources(&file, &below, into);
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let module = if is_root || name == "mod" { above.to_vec() } else { below };
            into.push((module, read_to_string(&file).unwrap()));
        }
    }
}

/// The folders with the sources of all crates of the workspace.
fn source_folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workspace = read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, members) = workspace.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let folder_of = |member: &str| {
        let folder = root.join(member);
        let manifest = read_to_string(folder.join("Cargo.toml")).unwrap();
        let library =
            manifest.lines().find_map(|line| line.strip_prefix("path = \"")?.strip_suffix("/lib.rs\""));
        folder.join(library.unwrap_or("src"))
    };
    members.split('"').skip(1).step_by(2).map(folder_of).collect()
}

#[test]
fn sibling_modules_import_each_other_in_no_circle() {
    let (mut found, mut count) = (Vec::new(), 0);
    for folder in source_folders() {
        let mut sources = Vec::new();
        read_sources(&folder, &[], &mut sources);
        let modules = modules_of(sources);
        count += modules.len();
        found.extend(circles(&modules).into_iter().map(|circle| format!("{}/{circle}", folder.display())));
    }
    assert!(count > 1000, "the sources were not read: {count} modules");
    assert!(found.is_empty(), "modules import each other in circles:\n{}", found.join("\n"));
}

/// Modules with these paths and sources.
fn sample(sources: &[(&str, &str)]) -> Modules {
    let path = |path: &str| path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    modules_of(sources.iter().map(|(module, source)| (path(module), (*source).to_owned())).collect())
}

#[test]
fn circle_is_reported_with_its_modules_and_imports() {
    let modules = sample(&[
        ("", "pub mod a;\npub mod b;\npub mod c;\npub mod leaf;\n"),
        ("a", "use crate::b::{\n    B, leaf::{self, X as Y},\n};\n"),
        ("b", "pub(crate) use super::leaf;\nfn f() -> u8 { crate::c::value() }\n"),
        ("c", "mod inner;\npub fn value() -> u8 { 1 }\n"),
        ("c/inner", "use crate::{a::A, leaf};\n"),
        ("leaf", "pub struct X;\n"),
    ]);
    let circles = circles(&modules);
    assert_eq!(circles.len(), 1, "{circles:?}");
    assert!(circles[0].starts_with(": a, b, c\n"), "{circles:?}");
    assert!(circles[0].contains("c -> a, because c::inner names a::A"), "{circles:?}");
}

#[test]
fn parents_re_exports_and_tests_are_no_circle() {
    let modules = sample(&[
        ("", "mod a;\nmod b;\npub use a::A;\npub use b::*;\n"),
        (
            "a",
            "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n#[cfg(test)]\nmod helpers;\n",
        ),
        ("a/helpers", "use crate::b::B;\n"),
        ("b", "// use crate::c::C;\nuse crate::A;\nmod c;\npub use c::C;\npub struct B;\n"),
        ("b/c", "use super::B;\npub struct C;\n"),
    ]);
    assert_eq!(circles(&modules), Vec::<String>::new());
    let through_a_glob = sample(&[
        ("", "mod a;\nmod b;\npub use b::*;\n"),
        ("a", "use crate::B;\npub struct A;\n"),
        ("b", "use super::a::A;\npub struct B;\n"),
    ]);
    assert_eq!(circles(&through_a_glob).len(), 1, "a re-exported name is one of the module that declares it");
}
