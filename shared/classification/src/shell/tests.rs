//! Tests of the parser and its limits.

use proptest::prelude::*;

use super::limits::MAX_LENGTH;
use super::parse::parse;
use super::walk::{MAX_STEPS, Walker};
use crate::findings::Collector;
use crate::path::BaseFolders;
use crate::syntax::{Piece, Redirect, Statement, Word};

/// The simple commands of a script, each as its words and redirections; `None` if it cannot be parsed.
fn commands(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for statement in &parse(text).ok()?.statements {
        collect(statement, &mut found);
    }
    Some(found)
}

fn collect(statement: &Statement, found: &mut Vec<String>) {
    match statement {
        Statement::Simple(simple) => {
            let words = simple.words.iter().map(|word| shown(word, found)).collect::<Vec<_>>();
            let mut text = words.join("_");
            for redirect in &simple.redirects {
                text.push_str(&redirected(redirect, found));
            }
            for assignment in &simple.assignments {
                for value in &assignment.values {
                    let value = shown(value, found);
                    text = format!("{text} {}={value}", assignment.name);
                }
            }
            found.push(text);
        }
        Statement::Pipeline(statements)
        | Statement::Group(statements)
        | Statement::Loop(statements)
        | Statement::Subshell(statements) => {
            for statement in statements {
                collect(statement, found);
            }
        }
        Statement::For { body, .. } => {
            for statement in body {
                collect(statement, found);
            }
        }
        Statement::Function { body, .. } => collect(body, found),
        Statement::Expand(words) => {
            for word in words {
                shown(word, found);
            }
        }
        Statement::Redirected(body, redirects) => {
            collect(body, found);
            for redirect in redirects {
                let text = redirected(redirect, found);
                found.push(text);
            }
        }
    }
}

fn redirected(redirect: &Redirect, found: &mut Vec<String>) -> String {
    match redirect {
        Redirect::Read(word) => format!(" <{}", shown(word, found)),
        Redirect::Write(word) => format!(" >{}", shown(word, found)),
        Redirect::Text(word) => format!(" <<{:?}", shown(word, found)),
    }
}

fn shown(word: &Word, found: &mut Vec<String>) -> String {
    word.0.iter().map(|piece| shown_piece(piece, found)).collect()
}

fn shown_piece(piece: &Piece, found: &mut Vec<String>) -> String {
    match piece {
        Piece::Unquoted(text) | Piece::Literal(text) => text.clone(),
        Piece::Quoted(pieces) => pieces.iter().map(|piece| shown_piece(piece, found)).collect(),
        Piece::Parameter(parameter) => {
            for word in &parameter.words {
                shown(word, found);
            }
            format!("${}", parameter.name)
        }
        Piece::CommandSubstitution { script, .. } | Piece::ProcessSubstitution(script) => {
            for statement in script {
                collect(statement, found);
            }
            "$()".to_owned()
        }
        Piece::Arithmetic(words) => {
            for word in words {
                shown(word, found);
            }
            "$(())".to_owned()
        }
    }
}

#[test]
fn every_command_of_a_script_is_found() {
    for (text, expected) in [
        ("> out rm -rf x", vec!["rm_-rf_x >out"]),
        ("cat > out file 2>&1 | tee a", vec!["cat_file >out", "tee_a"]),
        ("a && b || c; d & e", vec!["a", "b", "c", "d", "e"]),
        ("a | (b; c) | { d; }", vec!["a", "b", "c", "d"]),
        ("if a; then b; elif c; then d; else e; fi", vec!["a", "b", "c", "d", "e"]),
        ("while a; do b; done < c", vec!["a", "b", " <c"]),
        ("for x in $(a); do b $x; done", vec!["b_$x"]),
        ("case x in a) b;; *) c;; esac", vec!["b", "c"]),
        ("f() { a; }; f", vec!["a", "f"]),
        ("! a", vec!["a"]),
        ("a \"b $(c) d\" 'e f'", vec!["c", "a_b $() d_e f"]),
        ("a `b` ${c:-$(d)} $((1 + $(e)))", vec!["b", "d", "e", "a_$()_$c_$(())"]),
        ("a <(b) >(c)", vec!["b", "c", "a_$()_$()"]),
        ("A=1 B=$(b) c", vec!["b", "c A=1 B=$()"]),
        ("export A=$(b) C", vec!["b", "export_A_C A=$()"]),
        ("a= b", vec!["b a="]),
        ("x=(a $(b))", vec!["b", " x=a x=$()"]),
        ("[ -f \"$(a)\" ] && [[ $x == b* ]]", vec!["a", "[_-f_$()", "[[_$x_b*"]),
        ("a <<E | b > c\nd $(e) $f\nE\ng", vec!["e", "a <<\"d $() $f\\n\"", "b >c", "g"]),
        ("a <<'E'\n$(b)\nE", vec!["a <<\"$(b)\\n\""]),
        ("a <<< \"$(b)\"", vec!["b", "a <<\"$()\""]),
        ("a # b\nc", vec!["a", "c"]),
        ("a b\\ c 'd'\"e\"f", vec!["a_b c_def"]),
        ("r\\m x", vec!["rm_x"]),
        ("a \\\n  b", vec!["a_b"]),
        ("((x = $(a)))", vec!["a"]),
        ("for ((i = 0; i < 3; i++)); do a; done", vec!["a"]),
        ("é 'ü' \"ß $(💥 ä)\" {ö,ñ}", vec!["💥_ä", "é_ü_ß $()_{ö,ñ}"]),
        ("a \" $b $(c) ${d} $((e))\"", vec!["c", "a_ $b $() $d $(())"]),
        ("a \"$b\n  $c\"", vec!["a_$b\n  $c"]),
        ("a <<E\nE\n> b c", vec!["a <<\"\"", "c >b"]),
        ("a <<E\nE\n<<<b c", vec!["a <<\"\"", "c <<\"b\""]),
        ("echo $(<a)", vec![" <a", "echo_$()"]),
    ] {
        assert_eq!(commands(text).as_deref(), Some(expected.map_to_strings().as_slice()), "{text}");
    }
}

trait MapToStrings {
    fn map_to_strings(self) -> Vec<String>;
}

impl MapToStrings for Vec<&str> {
    fn map_to_strings(self) -> Vec<String> {
        self.into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn texts_that_shells_read_differently_are_not_parsed() {
    for text in [
        "a 'b",
        "a $(b",
        "a; )",
        "if a; then b",
        "a `b \\`c\\``",
        "a\\\nb c",
        "a\rb",
        "a\u{a0}b",
        "a\u{0}b",
        "echo \\ # b",
        "[a] b",
        "a <<E\nb",
        "a (b)",
        "a &&",
        "x=(a)b",
        "x=[ ]y=",
        "&>{ {",
        "a\\\nb c",
        "a # b\n\\'c",
        "?x=",
        "a $'b\\\\'; c 'd'",
        "a \"$\\\n{b}\"",
        "a=\\\n b",
        "[ -f | a ]",
        "x=(a)#; b",
        "[ -f\n a\n ]",
        "{}",
        "{a}",
        "for x in {a,b}\\c; do d; done",
        "[ -f && a ]",
        "é=1",
        "a $é",
        "a ${x:-é}",
        "a ${x#$(b)}",
        "\u{e000}",
    ] {
        assert_eq!(commands(text), None, "{text:?}");
    }
}

#[test]
fn deep_nesting_is_refused_before_parsing() {
    let deep = [("(", ")"), ("$(", ")"), ("{ ", ";}"), ("if a; then ", "; fi"), ("`", "`"), ("! ", "")];
    for (open, close) in deep {
        for depth in [33, 500, 2_000] {
            let text = format!("{}a{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(commands(&text), None, "{open} {depth}");
        }
    }
    assert_eq!(commands(&"a && ".repeat(500)), None);
    assert_eq!(commands(&format!("{}a", "a && ".repeat(500))).map(|found| found.len()), Some(501));
    assert_eq!(commands(&"a".repeat(MAX_LENGTH + 1)), None);
}

#[test]
fn every_character_is_safe_for_the_scanner() {
    for c in ['\u{80}', 'é', '\u{7ff}', '\u{2603}', '\u{ffff}', '\u{1f4a5}', '\u{10ffff}'] {
        for text in ["{C", "{1..C}", "$C", "${C}", "<<C\nC\nC", "a[C]", "@(C)", "[[ a =~ C ]]", "C=1", "a #C"]
        {
            assert!(steps(&text.replace('C', &c.to_string())) < STEP_LIMIT, "{text} {c:?}");
        }
    }
}

fn steps(text: &str) -> usize {
    let places = BaseFolders::new("/home/user/project", "/home/user/project", "/home/user").unwrap();
    let mut findings = Collector::default();
    let mut walker = Walker::new(&places, &mut findings);
    walker.command(text);
    walker.steps
}

/// The last step before the limit can be a large one.
const STEP_LIMIT: usize = MAX_STEPS + MAX_LENGTH;

#[test]
fn programs_that_run_each_other_end_early() {
    for program in ["env ", "sudo ", "xargs ", "time ", "find . -exec ", "exec ", "nice ", "command -p "] {
        assert!(steps(&format!("{}ls", program.repeat(1_000))) < STEP_LIMIT, "{program}");
    }
    let folders = format!("find {} -exec {} \\;", "a ".repeat(4_000), "{} ".repeat(2_000));
    assert!(steps(&folders) < STEP_LIMIT);
    let values = format!("cat {}", "{a,b}{c,d}{e,f}/* ".repeat(900));
    assert!(steps(&values) < STEP_LIMIT);
}

/// Texts that consist of parts of shell commands.
fn script() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "ls",
        "rm",
        " ",
        " ",
        "\n",
        ";",
        "|",
        "&&",
        "(",
        ")",
        "{ ",
        "; }",
        "$(",
        "`",
        "\"",
        "'",
        "\\",
        "#",
        "$x",
        "${x:-",
        "}",
        "x=",
        "<<E\n",
        "\nE\n",
        "<<<",
        ">",
        "<",
        "[[ ",
        " ]]",
        "$((",
        "))",
        "if ",
        "; then ",
        "; fi",
        "for x in ",
        "; do ",
        "; done",
        "case a in ",
        ") ",
        ";; esac",
        "{a,b}",
        "*",
        "?",
        "~",
        "f() ",
        "env ",
        "xargs ",
        "find . -exec ",
        "sh -c ",
        "eval ",
        "cd /etc",
        "../",
        "é",
        "\u{e001}",
    ]);
    proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_script_needs_a_bounded_number_of_steps(text in script()) {
        prop_assert!(steps(&text) < STEP_LIMIT);
    }

    #[test]
    fn any_text_needs_a_bounded_number_of_steps(text in "\\PC{0,200}") {
        prop_assert!(steps(&text) < STEP_LIMIT);
    }

    #[test]
    fn a_repeated_script_needs_a_bounded_number_of_steps(text in script(), times in 2_usize..300) {
        let text = text.repeat(times);
        if text.len() <= MAX_LENGTH {
            prop_assert!(steps(&text) < STEP_LIMIT);
        }
    }
}
