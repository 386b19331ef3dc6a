//! Public keys of OpenSSH, in the form of `authorized_keys`: `TYPE BASE64 [COMMENT]`.
//!
//! A key with options in front of its type is refused, because options like `command=` change what the key may do. The
//! comment is the rest of the line. Fingerprints have the two forms that `ssh-keygen -l` prints: MD5 (RFC 4716), which
//! Juju prints, and SHA-256.

use crate::terms::string_enum::string_enum;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// The most bytes of a key with its comment: an RSA key of 16,384 bits, the longest of OpenSSH, takes 2,760.
pub const SSH_KEY_BYTES_MAX: usize = 4 << 10;

/// The types of keys with which OpenSSH lets users log in; certificates are none of them.
const TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

string_enum! {
    /// Why a text is not a public key.
    SshKeyProblem {
        /// It does not begin with a type of keys.
        Type = "type",
        /// The part after the type is not a key of this type in base64.
        Content = "content",
        /// It is longer than one line, or has control characters.
        Line = "line",
        /// It has more than [`SSH_KEY_BYTES_MAX`] bytes.
        TooLong = "too-long",
    }
}

impl fmt::Display for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A public key: one line, with single spaces between its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SshKey(String);

impl SshKey {
    /// The part of the line with this number; empty if there is none.
    fn part(&self, number: usize) -> &str {
        self.0.splitn(3, ' ').nth(number).unwrap_or_default()
    }

    /// The type.
    pub fn kind(&self) -> &str {
        self.part(0)
    }

    /// The key itself in base64.
    pub fn content(&self) -> &str {
        self.part(1)
    }

    /// The comment; empty if there is none.
    pub fn comment(&self) -> &str {
        self.part(2)
    }

    fn bytes(&self) -> Vec<u8> {
        STANDARD.decode(self.content()).expect("it was decoded when it was parsed")
    }

    /// The fingerprint in the form of Juju: the bytes of the MD5 sum with colons between them.
    pub fn fingerprint(&self) -> String {
        let bytes = Md5::digest(self.bytes());
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
    }

    /// The fingerprint in the form of OpenSSH: `SHA256:` and the sum in base64.
    fn sha256_fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(self.bytes())))
    }

    /// Whether a person means this key: by a fingerprint, the comment, or the whole key.
    pub fn is_named(&self, id: &str) -> bool {
        let is_key = || id.parse::<SshKey>().is_ok_and(|key| key.content() == self.content());
        let fingerprint = id.strip_prefix("MD5:").unwrap_or(id);
        (!id.is_empty() && self.comment() == id)
            || self.fingerprint() == fingerprint
            || self.sha256_fingerprint() == id
            || is_key()
    }
}

/// Whether these are whole fields, each after its length (RFC 4251 5): a key that was cut off ends within one.
fn are_whole(mut fields: &[u8]) -> bool {
    while let Some((length, rest)) = fields.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some(rest) = rest.get(length..) else { return false };
        fields = rest;
    }
    fields.is_empty()
}

impl FromStr for SshKey {
    type Err = SshKeyProblem;

    fn from_str(text: &str) -> Result<SshKey, SshKeyProblem> {
        let text = text.trim();
        if text.len() > SSH_KEY_BYTES_MAX {
            return Err(SshKeyProblem::TooLong);
        }
        if text.chars().any(|c| c.is_control() && c != '\t') {
            return Err(SshKeyProblem::Line);
        }
        let mut words = text.split_whitespace();
        let kind = words.next().filter(|word| TYPES.contains(word)).ok_or(SshKeyProblem::Type)?;
        let content = words.next().ok_or(SshKeyProblem::Content)?;
        let bytes = STANDARD.decode(content).map_err(|_| SshKeyProblem::Content)?;
        // the key begins with its type, after the length of that (RFC 4253 6.6)
        let length = u32::try_from(kind.len()).expect("a type is short").to_be_bytes();
        let rest = bytes.strip_prefix(&length).and_then(|bytes| bytes.strip_prefix(kind.as_bytes()));
        if rest.is_none_or(|fields| fields.is_empty() || !are_whole(fields)) {
            return Err(SshKeyProblem::Content);
        }
        let parts: Vec<&str> = [kind, content].into_iter().chain(words).collect();
        Ok(SshKey(parts.join(" ")))
    }
}

impl TryFrom<String> for SshKey {
    type Error = String;

    fn try_from(text: String) -> Result<SshKey, String> {
        text.parse().map_err(|problem: SshKeyProblem| format!("invalid ssh key: {problem}"))
    }
}

impl From<SshKey> for String {
    fn from(key: SshKey) -> String {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ";

    fn parsed(text: &str) -> SshKey {
        text.parse().expect("it is a key")
    }

    /// What `ssh-keygen -l` and `ssh-keygen -l -E md5` of OpenSSH print for [`KEY`].
    #[test]
    fn fingerprints_are_those_of_openssh() {
        let key = parsed(&format!("{KEY} me@host"));
        assert_eq!(key.fingerprint(), "27:d1:c1:ec:da:5b:8d:bb:62:ad:8c:1e:77:53:d9:10");
        assert_eq!(key.sha256_fingerprint(), "SHA256:L+Kc6v0ihzHRzEi1NluqnUqvWMBsWyJZj5I/Kuefmzc");
    }

    #[test]
    fn a_key_is_one_line_of_a_type_its_content_and_a_comment() {
        let key = parsed(&format!("  {}  1  2 3 \n", KEY.replace(' ', "\t")));
        assert_eq!(key.to_string(), format!("{KEY} 1 2 3"));
        assert_eq!((key.kind(), key.comment(), parsed(KEY).comment()), ("ssh-ed25519", "1 2 3", ""));
        let problem = |text: &str| text.parse::<SshKey>().expect_err("it is refused");
        assert_eq!(problem(""), SshKeyProblem::Type);
        assert_eq!(problem("me@host"), SshKeyProblem::Type);
        assert_eq!(problem(&format!("command=\"sh\" {KEY}")), SshKeyProblem::Type);
        assert_eq!(problem("ssh-ed25519"), SshKeyProblem::Content);
        assert_eq!(problem("ssh-ed25519 AAAA"), SshKeyProblem::Content);
        assert_eq!(problem("ssh-ed25519 ????"), SshKeyProblem::Content);
        assert_eq!(problem(&KEY[..KEY.len() - 8]), SshKeyProblem::Content, "cut off");
        assert_eq!(
            problem(&KEY.replace("ssh-ed25519", "ssh-rsa")),
            SshKeyProblem::Content,
            "of another type"
        );
        assert_eq!(problem(&format!("{KEY}\n{KEY}")), SshKeyProblem::Line);
        assert_eq!(problem(&format!("{KEY} \u{1b}[2J")), SshKeyProblem::Line);
        let comment = |bytes: usize| format!("{KEY} {}", "a".repeat(bytes - KEY.len() - 1));
        assert!(comment(SSH_KEY_BYTES_MAX).parse::<SshKey>().is_ok());
        assert_eq!(problem(&comment(SSH_KEY_BYTES_MAX + 1)), SshKeyProblem::TooLong);
    }

    #[test]
    fn a_key_is_named_by_a_fingerprint_its_comment_or_itself() {
        let key = parsed(&format!("{KEY} me@host"));
        for id in [key.fingerprint(), key.sha256_fingerprint(), "me@host".to_owned(), KEY.to_owned()] {
            assert!(key.is_named(&id), "{id}");
        }
        assert!(key.is_named(&format!("MD5:{}", key.fingerprint())));
        assert!(!key.is_named("host") && !key.is_named("") && !parsed(KEY).is_named(""));
    }
}
