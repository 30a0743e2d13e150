//! Extracts the RSA key from PKCS #8 (RFC 5208), a format that `jsonwebtoken` does not read.

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// The `RSAPrivateKey` (RFC 8017) inside a DER `PrivateKeyInfo`: a sequence of version, algorithm and octets.
pub(super) fn rsa_private_key(pkcs8: &[u8]) -> Option<&[u8]> {
    let (info, _) = element(pkcs8, SEQUENCE)?;
    let (_version, info) = element(info, INTEGER)?;
    let (_algorithm, info) = element(info, SEQUENCE)?;
    let (key, _attributes) = element(info, OCTET_STRING)?;
    Some(key)
}

/// Splits a DER element with this tag into its content and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    if found != tag {
        return None;
    }
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // Long form: the low bits count the bytes of the length.
        let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if length.len() > 4 {
            return None;
        }
        (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::rsa_private_key;

    #[test]
    fn extracts_the_key_and_rejects_truncated_input() {
        let wrapped = [0x30, 0x0a, 0x02, 0x01, 0x00, 0x30, 0x00, 0x04, 0x03, 1, 2, 3];
        assert_eq!(rsa_private_key(&wrapped), Some(&[1, 2, 3][..]));
        for length in 0..wrapped.len() {
            assert_eq!(rsa_private_key(&wrapped[..length]), None, "{length} bytes");
        }
        assert_eq!(rsa_private_key(&[0x30, 0x85, 1, 1, 1, 1, 1, 0]), None, "an absurd length");
    }
}
