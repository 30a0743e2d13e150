use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

const SECRET: &str = "sk-ant-1234567890/ü\"?";

fn knowing(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::default();
    for secret in secrets {
        redactor.keep(secret);
    }
    redactor
}

fn cleaned(redactor: &Redactor, text: &str) -> String {
    redactor.text(text).unwrap_or_else(|| text.to_owned())
}

fn streamed<'a>(redactor: &Redactor, pieces: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut stream = redactor.stream();
    let mut cleaned_pieces: Vec<String> = pieces.into_iter().map(|piece| stream.push(piece)).collect();
    cleaned_pieces.push(stream.end());
    cleaned_pieces
}

#[test]
fn split_character_stays_whole_and_invalid_bytes_are_replaced() {
    let mut output = Redactor::default().output();
    let pieces: [&[u8]; 4] = [b"Zo\xc3", b"\xab \xff", b"\xe2\x82", b"x\xc3"];
    let mut released: String = pieces.into_iter().map(|piece| output.push(piece)).collect();
    assert_eq!(released, "Zoë \u{fffd}\u{fffd}x");
    released.push_str(&output.end());
    assert!(released.ends_with("x\u{fffd}"));
}

#[test]
fn known_secret_is_replaced_everywhere() {
    let redactor =
        knowing(&["sk-ant-1234567890", "sk-ant-1234567890-and-more", "with \"quotes\" and \\", "short"]);
    let said = RawEvent::LogChunk {
        stream: "bash".into(),
        content: "a=sk-ant-1234567890, b=sk-ant-1234567890-and-more short with \"quotes\" and \\".into(),
    };
    let RawEvent::LogChunk { content, .. } = redactor.event(said).unwrap() else { panic!("another event") };
    assert_eq!(content, "a=[secret], b=[secret] short [secret]");
}

#[test]
fn secret_in_a_field_name_is_replaced() {
    let redactor = knowing(&["sk-ant-1234567890"]);
    let json = r#"{"a":1,"sk-ant-1234567890":[{"b":"x sk-ant-1234567890"}]}"#;
    let clean: Value = serde_json::from_str(&redactor.json(json).unwrap().unwrap()).unwrap();
    assert_eq!(clean, serde_json::json!({ "a": 1, "[secret]": [{ "b": "x [secret]" }] }));
    assert_eq!(redactor.json(r#"{"a":1}"#).unwrap(), None);
}

#[test]
fn encoded_secret_is_replaced_in_any_surroundings() {
    let redactor = knowing(&[SECRET]);
    let quoted = serde_json::to_string(SECRET).unwrap();
    for encoded in [
        quoted.clone(),
        serde_json::to_string(&quoted).unwrap(),
        "sk-ant-1234567890%2F%C3%BC%22%3F".to_owned(),
        SECRET.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}")),
        SECRET.bytes().fold(String::new(), |text, byte| text + &format!("%25{byte:02x}")),
        forms::of(SECRET).into_iter().find(|form| form.starts_with("736b2d")).unwrap(),
    ] {
        let clean = cleaned(&redactor, &format!("it is {encoded}."));
        assert!(clean.contains(IN_PLACE) && !clean.contains("1234567890"), "{encoded}: {clean}");
    }
    for before in ["", "a", "ab", "user:", "{\"key\":\""] {
        let bytes = format!("{before}{SECRET}\n");
        for encoded in [STANDARD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let clean = cleaned(&redactor, &encoded);
            let left = encoded.len() - (clean.len() - IN_PLACE.len());
            assert!(clean.contains(IN_PLACE) && left + 2 >= SECRET.len() * 4 / 3, "{encoded}: {clean}");
        }
    }
}

#[test]
fn secret_broken_into_lines_is_replaced() {
    let redactor = knowing(&[SECRET]);
    let encoded = STANDARD.encode(format!("ab{SECRET}"));
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(10).map(|line| std::str::from_utf8(line).unwrap()).collect();
    assert_eq!(cleaned(&redactor, &lines.join("\r\n")).matches(IN_PLACE).count(), 1);
}

#[test]
fn secret_split_across_chunks_is_replaced_without_delay() {
    let redactor = knowing(&["sk-ant-1234567890"]);
    assert_eq!(
        streamed(&redactor, ["the key: sk-ant-", "12345", "67890!", ""]),
        ["the key: ", "", "[secret]!", "", ""]
    );
    assert_eq!(streamed(&redactor, ["look: sk-ant", "ique\n", "sk"]), ["look: ", "sk-antique\n", "", "sk"]);
    assert_eq!(
        streamed(&redactor, ["nothing here!", " nothing there!"]),
        ["nothing here!", " nothing there!", ""]
    );
    assert_eq!(streamed(&Redactor::default(), ["sk", "-ant"]), ["sk", "-ant", ""]);
}

#[test]
fn remainder_of_a_truncated_secret_is_replaced() {
    let redactor = knowing(&["sk-ant-1234567890"]);
    let text = "the key sk-ant-1234567890 is long";
    for most in [18, 24] {
        assert_eq!(cleaned(&redactor, &pilothouse_domain::text::cut(text, most)), "the key [secret]…");
    }
    assert_eq!(cleaned(&redactor, "the sk-ant…"), "the sk-ant…", "too short to say anything");
}

#[test]
fn flood_resembling_a_secret_is_held_no_longer_than_one() {
    let redactor = knowing(&["aaaaaaaaaaaaaaaa"]);
    let mut stream = redactor.stream();
    let cleaned_pieces: Vec<String> = (0..1000).map(|_| stream.push("aaaaaaaaaa")).collect();
    assert_eq!(cleaned_pieces.concat() + &stream.end(), IN_PLACE);
}

#[test]
fn variables_are_secret_by_their_names() {
    for name in [
        "ANTHROPIC_API_KEY",
        "AWS_BEARER_TOKEN_BEDROCK",
        "PILOTHOUSE_TOKEN",
        "aws_secret_access_key",
        "DB_PASSWORD",
    ] {
        assert!(is_secret(name), "{name}");
    }
    assert!(!is_secret("PATH") && !is_secret("ANTHROPIC_BASE_URL"));
}

/// A measurement: run with `--run-ignored only --no-capture`.
#[test]
#[ignore = "a measurement"]
fn measured() {
    let redactor = Redactor::default();
    (0..10).for_each(|n| redactor.keep(&format!("sk-ant-api03-{}", format!("{n}aZ9-_k").repeat(12))));
    let text = "fn main() { println!(\"all is well in the house of 1234567890 files\"); }\n".repeat(14_000);
    let begun = std::time::Instant::now();
    assert_eq!(redactor.text("made now"), None);
    let made = begun.elapsed();
    let best = (0..10)
        .map(|_| {
            let begun = std::time::Instant::now();
            assert_eq!(redactor.text(&text), None);
            begun.elapsed()
        })
        .min();
    let memory = redactor.search().unwrap().memory();
    eprintln!("made in {made:?}; {} bytes searched in {best:?}; {memory} bytes of memory", text.len());
}

/// Texts that mix ordinary text, secrets, and prefixes of secrets.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z ü\\n\"]{0,12}",
        Just("kestrel-ab-ab-c".to_owned()),
        Just("ab-c-kestrel".to_owned()),
        Just(STANDARD.encode("xkestrel-ab-ab-c")),
        "k(e(s(t(r(e(l(-(a(b(-)?)?)?)?)?)?)?)?)?)?",
    ];
    proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn secrets_are_removed_however_the_text_is_split(
        text in texts(),
        cuts in proptest::collection::vec(0_usize..200, 0..6),
    ) {
        let redactor = knowing(&["kestrel-ab-ab-c", "ab-c-kestrel"]);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for at in cuts {
            pieces.push(&text[from..at]);
            from = at;
        }
        pieces.push(&text[from..]);
        let cleaned_pieces = streamed(&redactor, pieces.iter().copied());
        let whole = cleaned_pieces.concat();
        prop_assert_eq!(&whole, &cleaned(&redactor, &text), "as if it had come whole");
        let joined: String = whole.chars().filter(|c| *c != '\n').collect();
        for form in ["kestrel-ab-ab-c", "ab-c-kestrel"].into_iter().flat_map(forms::of) {
            prop_assert!(!joined.contains(&form), "{} in {}", form, joined);
        }
        // The text between the marks occurs in the input, in this order.
        let mut rest = text.as_str();
        for between in whole.split(IN_PLACE) {
            let at = rest.find(between);
            prop_assert!(at.is_some(), "{:?} is not in {:?}", between, rest);
            rest = &rest[at.unwrap_or_default() + between.len()..];
        }
        // The suffix that is held back is no longer than a form of a secret.
        let longest = forms::of("kestrel-ab-ab-c").iter().map(String::len).max().unwrap_or_default();
        let (mut read, mut given) = (0, 0);
        for (piece, cleaned_piece) in pieces.iter().zip(&cleaned_pieces) {
            read += piece.replace('\n', "").len();
            given += cleaned_piece.replace('\n', "").replace(IN_PLACE, "").len();
            if !cleaned_piece.contains(IN_PLACE) && !whole.contains(IN_PLACE) {
                prop_assert!(read - given < longest);
            }
        }
    }
}
