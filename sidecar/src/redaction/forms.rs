//! The shapes in which a secret is written down: as it is, within JSON, in an address, in hexadecimal, in Base64.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// What is shorter is not searched for: it would be found by chance.
pub(super) const LEAST: usize = 8;

/// All shapes of a secret, without line breaks: the search passes over those, since whoever encodes breaks lines.
pub(super) fn of(secret: &str) -> Vec<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    forms.extend(in_json(secret));
    forms.extend(in_addresses(secret));
    forms.extend(in_hexadecimal(secret));
    forms.extend(in_base64(secret));
    for form in std::mem::take(&mut forms) {
        let form: String = form.chars().filter(|c| !is_line_break(*c)).collect();
        if form.len() >= LEAST {
            forms.insert(form);
        }
    }
    forms.into_iter().collect()
}

const fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// Within a string of JSON, and within JSON that is a string of JSON: with other characters than those of ASCII as they are or
/// escaped, and with slashes escaped or not.
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

/// Percent-encoded: as a part of an address, as JavaScript does it, as a path, as a form.
fn in_addresses(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for kept in ["-._~", "-._~!*'()", "-._~/", "-._", "*-._"] {
        for upper in [true, false] {
            let mut form = String::new();
            for byte in secret.bytes() {
                if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
                    form.push(char::from(byte));
                } else if upper {
                    let _ = write!(form, "%{byte:02X}");
                } else {
                    let _ = write!(form, "%{byte:02x}");
                }
            }
            forms.extend([form.replace("%20", "+"), form]);
        }
    }
    forms
}

fn in_hexadecimal(secret: &str) -> [String; 2] {
    let lower = secret.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    [lower.to_uppercase(), lower]
}

/// What is the same of its Base64 whatever stands before and after it: at each of the three places where a byte can begin, in
/// both alphabets. Padding follows it at most.
fn in_base64(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let bytes = [&[0; 3][..before], secret.as_bytes()].concat();
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        // A character holds six bits: the first whole one after what stands before, and the last whole one.
        let form = &encoded[(before * 8).div_ceil(6)..bytes.len() * 8 / 6];
        if form.len() >= LEAST {
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
    fn the_shapes_are_those_that_are_written() {
        let forms = of("sk/a \"b\"+ü");
        for form in [
            "sk/a \"b\"+ü",
            "sk/a \\\"b\\\"+ü",
            "sk\\/a \\\"b\\\"+\\u00fc",
            "sk%2Fa%20%22b%22%2B%C3%BC",
            "sk%2fa+%22b%22%2b%c3%bc",
            "736b2f61202262222bc3bc",
            "c2svYSAiYiIrw7",
        ] {
            assert!(forms.iter().any(|known| known == form), "{form}: {forms:#?}");
        }
    }

    #[test]
    fn what_a_secret_is_in_base64_is_found_wherever_it_stands_in_the_bytes() {
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
    fn a_secret_of_several_lines_is_searched_for_without_its_breaks() {
        assert!(of("-----BEGIN\nabc").contains(&"-----BEGINabc".to_owned()));
    }
}
