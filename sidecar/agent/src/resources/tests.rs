use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn file(dir: &Path, path: &str, content: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn text(expansion: Expansion) -> String {
    match expansion {
        Expansion::Skill { text, .. } | Expansion::Template { text, .. } => text,
        Expansion::Unchanged => panic!("it was not expanded"),
    }
}

#[test]
fn skill_replaces_its_name_in_the_prompt() {
    let dir = tempfile::tempdir().unwrap();
    file(
        dir.path(),
        "deploy.md",
        "---\nname: deploy\ndescription: \"How to: deploy\"\n---\n\nRun `make $1`.\n",
    );
    file(
        dir.path(),
        "review/SKILL.md",
        "\u{feff}---\r\ndescription: >\r\n  Reads\r\n  code\r\n---\r\nLook closely.\r\n",
    );
    file(dir.path(), "review/notes.md", "no skill");
    file(dir.path(), "plain.md", "---\nNo front matter, since it never ends.");
    file(dir.path(), "readme.txt", "no skill");
    let resources = ResourceLoader { skills: vec![dir.path().into()], prompts: Vec::new() }.load();
    let names: Vec<_> = resources.skills().iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["deploy", "plain", "review"]);
    assert_eq!(resources.skills()[0].description, "How to: deploy");
    assert_eq!(resources.skills()[2].description, "Reads code");
    assert!(resources.skills()[1].body.starts_with("---\nNo front"));

    let here = dir.path().display();
    assert_eq!(
        text(resources.expand("/skill:deploy  to production ")),
        format!(
            "<skill name=\"deploy\" location=\"{here}/deploy.md\">\nPaths in it are relative to {here}.\n\nRun `make \
             $1`.\n</skill>\n\nto production"
        )
    );
    assert!(text(resources.expand("/skill:review")).ends_with("Look closely.\n</skill>"));
    for unchanged in ["/skill:none", "/skill:", "skill:deploy", "see /skill:deploy", "/deploy", ""] {
        assert_eq!(resources.expand(unchanged), Expansion::Unchanged, "{unchanged}");
    }
    let section = resources.skills_section();
    assert!(section.contains(&format!("- deploy: How to: deploy ({here}/deploy.md)")), "{section}");
    assert_eq!(Resources::default().skills_section(), "");
}

#[test]
fn template_receives_the_text_after_its_name() {
    let dir = tempfile::tempdir().unwrap();
    file(
        dir.path(),
        "fix.md",
        "---\ndescription: Fixes\n---\nFix $1 in $2 ($3). All: $@. $ARGUMENTS. Rest: ${@:2}. $",
    );
    let resources = ResourceLoader { skills: Vec::new(), prompts: vec![dir.path().into()] }.load();
    assert_eq!(
        text(resources.expand("/fix 'the $2 bug' \"a b\"")),
        "Fix the $2 bug in a b (). All: the $2 bug a b. the $2 bug a b. Rest: a b. $"
    );
    assert_eq!(resources.templates()[0].description, "Fixes");
    assert_eq!(resources.expand("/fix/path now"), Expansion::Unchanged);
    assert_eq!(resources.expand("/fixed"), Expansion::Unchanged);
}

#[test]
fn first_of_two_duplicate_resources_wins_with_a_notice() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "one/a.md", "first");
    file(dir.path(), "two/a.md", "second");
    file(dir.path(), "two/b c.md", "no name");
    file(dir.path(), "two/c.md", "\u{0}");
    fs::write(dir.path().join("two/d.md"), b"\xff").unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let mut loader = ResourceLoader { skills: vec![one.clone()], prompts: vec![one] };
    loader.extend(ResourceLoader { skills: vec![two.clone(), dir.path().join("none")], prompts: vec![two] });
    let resources = loader.load();
    assert!(text(resources.expand("/skill:a")).contains("first"));
    assert_eq!(text(resources.expand("/a")), "first");
    let notices = resources.notices().join("\n");
    assert_eq!(resources.notices().len(), 6, "{notices}");
    assert!(notices.contains("the skill `a` of") && notices.contains("d.md is skipped"), "{notices}");
}

#[test]
fn arguments_are_split_like_in_a_shell() {
    let cases: [(&str, &[&str]); 8] = [
        ("", &[]),
        ("  a  b ", &["a", "b"]),
        ("'a b' \"c d\"", &["a b", "c d"]),
        (r#"a\ b "q\"q" 'n\n'"#, &["a b", "q\"q", "n\\n"]),
        ("x'y z'w", &["xy zw"]),
        ("'' \"\"", &["", ""]),
        ("\"open end", &["open end"]),
        ("end\\", &["end\\"]),
    ];
    for (given, expected) in cases {
        assert_eq!(split(given), expected, "{given}");
    }
}

#[test]
fn placeholders_expand_to_their_arguments() {
    let arguments: Vec<String> = (1..=11).map(|number| format!("a{number}")).collect();
    let cases = [
        ("$1$2", "a1a2"),
        ("$11 $12 $0", "a11  "),
        ("${@:10}", "a10 a11"),
        ("${@:2:2}|${@:11:5}|${@:12}|${@:0}", "a2 a3|a11||"),
        ("${@:x} ${@:1 $x $ARGUMENTSX $", "${@:x} ${@:1 $x $ARGUMENTSX $"),
        ("$99999999999999999999999", "$99999999999999999999999"),
    ];
    for (given, expected) in cases {
        assert_eq!(substitute(given, &arguments), expected, "{given}");
    }
}

proptest! {
    /// Quoted text is always a single argument, and arguments are never expanded again.
    #[test]
    fn any_text_can_be_an_argument(text in any::<String>(), other in any::<String>()) {
        let quoted = format!("\"{}\" {}", text.replace('\\', "\\\\").replace('"', "\\\""), "x");
        prop_assert_eq!(split(&quoted), vec![text.clone(), "x".to_owned()]);
        prop_assert_eq!(substitute("$1", std::slice::from_ref(&text)), text);
        _ = substitute(&other, &split(&other));
    }
}
