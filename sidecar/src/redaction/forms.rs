//! The forms in which a secret may appear: verbatim, in JSON, in a URL, in hexadecimal, in Base64.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Shorter secrets are not searched for, because they would match by chance.
pub(super) const MIN_SECRET_BYTES: usize = 8;

/// Without line breaks, which the search skips because encoders insert them.
pub(super) fn of(secret: &str) -> Vec<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    forms.extend(in_json(secret));
    forms.extend(in_addresses(secret));
    forms.extend(in_hexadecimal(secret));
    forms.extend(in_base64(secret));
    for form in std::mem::take(&mut forms) {
        let form: String = form.chars().filter(|c| !is_line_break(*c)).collect();
        if form.len() >= MIN_SECRET_BYTES {
            forms.insert(form);
        }
    }
    forms.into_iter().collect()
}

const fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// Within a JSON string, and within JSON inside a JSON string. Non-ASCII characters and slashes may be escaped or not.
fn in_json(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    let mut text = secret.to_owned();
    for _ in 0..2 {
        text = escaped(&text);
        let ascii = text.chars().fold(String::new(), |mut ascii, c| {
            if c.is_ascii() {
                ascii.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(ascii, "\\u{unit:04x}");
                }
            }
            ascii
        });
        forms.extend([text.replace('/', "\\/"), ascii.replace('/', "\\/"), ascii, text.clone()]);
    }
    forms
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Percent-encoded: as a URL component, by JavaScript, as a path, as a form, and with every byte encoded. Each is also
/// encoded a second time, as in a URL within a URL.
fn in_addresses(secret: &str) -> Vec<String> {
    let mut forms = BTreeSet::new();
    for upper in [true, false] {
        for kept in ["-._~", "-._~!*'()", "-._~/", "-._", "*-._"] {
            let form = percent_encoded(secret, upper, |byte| {
                byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte)
            });
            forms.extend([form.replace("%20", "+"), form]);
        }
        forms.insert(percent_encoded(secret, upper, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
        }));
        forms.insert(percent_encoded(secret, upper, |byte| byte.is_ascii_alphanumeric()));
        forms.insert(percent_encoded(secret, upper, |_| false));
    }
    let again: Vec<_> = forms.iter().map(|form| form.replace('%', "%25")).collect();
    forms.into_iter().chain(again).collect()
}

fn percent_encoded(secret: &str, upper: bool, kept: impl Fn(u8) -> bool) -> String {
    secret.bytes().fold(String::new(), |mut form, byte| {
        let _ = match (kept(byte), upper) {
            (true, _) => write!(form, "{}", char::from(byte)),
            (false, true) => write!(form, "%{byte:02X}"),
            (false, false) => write!(form, "%{byte:02x}"),
        };
        form
    })
}

fn in_hexadecimal(secret: &str) -> [String; 2] {
    let lower = secret.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    [lower.to_uppercase(), lower]
}

/// The part of a secret's Base64 that does not depend on the surrounding bytes: for each of the three possible
/// offsets, in both alphabets. Only padding may follow it.
fn in_base64(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let bytes = [&[0; 3][..before], secret.as_bytes()].concat();
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        // A character holds six bits: from the first character that contains only bits of the secret to the last one.
        let form = &encoded[(before * 8).div_ceil(6)..bytes.len() * 8 / 6];
        if form.len() >= MIN_SECRET_BYTES {
            forms.extend([
                form.replace('+', "-").replace('/', "_"),
                form.replace('/', "\\/"),
                form.to_owned(),
            ]);
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_forms_match_their_encodings() {
        let forms = of("sk/a \"b\"+ü");
        for form in [
            "sk/a \"b\"+ü",
            "sk/a \\\"b\\\"+ü",
            "sk\\/a \\\"b\\\"+\\u00fc",
            "sk%2Fa%20%22b%22%2B%C3%BC",
            "sk%2fa+%22b%22%2b%c3%bc",
            "736b2f61202262222bc3bc",
            "%73%6B%2F%61%20%22%62%22%2B%C3%BC",
            "%73%6b%2f%61%20%22%62%22%2b%c3%bc",
            "sk%252Fa%2520%2522b%2522%252B%25C3%25BC",
            "%2573%256b%252f%2561%2520%2522%2562%2522%252b%25c3%25bc",
            "c2svYSAiYiIrw7",
        ] {
            assert!(forms.iter().any(|known| known == form), "{form}: {forms:#?}");
        }
    }

    #[test]
    fn base64_form_is_found_at_every_byte_offset() {
        let secret = "sk-ant-0123456789?>~";
        let forms = of(secret);
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy", "\n"] {
                let bytes = format!("{before}{secret}{after}");
                for engine in
                    [base64::engine::general_purpose::STANDARD, base64::engine::general_purpose::URL_SAFE]
                {
                    let encoded = engine.encode(&bytes);
                    let found = forms.iter().filter(|form| encoded.contains(form.as_str())).count();
                    assert!(found > 0, "{before} {after} {encoded}");
                }
            }
        }
    }

    #[test]
    fn multiline_secret_is_searched_without_its_line_breaks() {
        assert!(of("-----BEGIN\nabc").contains(&"-----BEGINabc".to_owned()));
    }
}
