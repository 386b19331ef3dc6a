//! The keys of the controller with which it seals the contents of secrets, in a file beside the store's folder.
//!
//! A sealed content is `2.KEY.BASE64`: the id of the key, then a random salt and the ciphertext (`secret_plaintext`). Each content has a key
//! of its own, derived from the salt by HKDF-SHA256, so that a fixed nonce is used once and no number of contents wears
//! a key out; it is sealed with AES-256-GCM. What the content belongs to is authenticated with it, so that no sealed
//! content can be passed off as that of another secret or unit. A copy of the store cannot be decrypted without this file.
//!
//! The newest key seals; the others open what was sealed before. [`SecretKeys::rotate`] adds a key and writes the file
//! before the key is used, so that a crash leaves either the old file or the new one, and both open every content. The
//! janitor seals older contents again (`janitor/secrets.rs`). Keys are not shown by `Debug`. They are in the memory of
//! the process, which nothing overwrites.

use crate::required_file::{FROM_A_BACKUP, UnusableFile};
use crate::secret_plaintext;
use anyhow::{Context, Result, bail};
use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine};
use host::file::{ignore_not_found, write_atomic};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use serde::{Deserialize, Serialize};
use state::terms::cause::{Actor, Cause, Duty, Entity};
use state::terms::names::Uuid;
use state::terms::secret::{SecretContent, SecretId};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

/// The version of the form of a sealed content.
const VERSION: &str = "2";
/// The earlier version, in which the plaintext is JSON.
const JSON_VERSION: &str = "1";
/// The bytes of a key, and of a salt.
const KEY_BYTES: usize = 32;
/// The bytes of the authentication of a content.
const TAG_BYTES: usize = 16;

/// What a content belongs to; it can be opened for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedFor {
    /// The model.
    pub model: Uuid,
    /// The secret.
    pub secret: SecretId,
    /// The unit that wrote the content; the nil uuid for a user.
    pub writer: Uuid,
}

impl SealedFor {
    fn authenticated(&self) -> Vec<u8> {
        format!("{}/{}/{}", self.model, self.secret, self.writer).into_bytes()
    }
}

/// One key.
#[derive(Clone, Serialize, Deserialize)]
struct StoredKey {
    id: String,
    key: String,
    /// The number of the rotation that has made it; 0 for a key of a controller that did not count them.
    #[serde(default)]
    number: u64,
}

/// The keys, newest last.
///
/// Each has a number, which a rotation makes larger than all that it knows. The order is that of the numbers, then of the
/// ids, so that two controllers that have the same keys agree on the newest one, in whatever order they learned
/// them: else their janitors would seal the contents of each other again for ever.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct KeyFile {
    keys: Vec<StoredKey>,
}

impl KeyFile {
    /// None if the text is damaged. The message of the parser would show the key.
    fn parse(text: &str) -> Option<KeyFile> {
        let file = charms::yaml::from_str::<KeyFile>(text).ok();
        let mut keys = file.filter(|file| file.keys.iter().all(|key| decode(key).is_some()))?.keys;
        // Those of a controller that did not count them are in the order of rotation.
        if keys.iter().all(|key| key.number == 0) {
            (1..).zip(&mut keys).for_each(|(number, key)| key.number = number);
        }
        Some(KeyFile::of(keys))
    }

    fn of(mut keys: Vec<StoredKey>) -> KeyFile {
        keys.sort_by(|one, other| (one.number, &one.id).cmp(&(other.number, &other.id)));
        KeyFile { keys }
    }

    fn lacks_key_of(&self, other: &KeyFile) -> bool {
        other.keys.iter().any(|key| !self.has(&key.id))
    }

    fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|known| known.id == id)
    }
}

/// The text of the file; none if there is no file.
fn read(path: &Path) -> Result<Option<String>> {
    ignore_not_found(fs::read_to_string(path)).with_context(|| format!("cannot read {}", path.display()))
}

/// The keys of a controller.
pub struct SecretKeys {
    path: Option<PathBuf>,
    keys: RwLock<KeyFile>,
    /// The last line that [`SecretKeys::keep_file`] has logged.
    logged: Mutex<Option<String>>,
    /// The keys of contents of the store that were not in the file when this process started.
    missing_at_start: Mutex<Vec<String>>,
}

impl std::fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretKeys({:?})", self.path)
    }
}

struct ContentKey;

impl KeyType for ContentKey {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

impl SecretKeys {
    /// Reads the file; there are no keys without it.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn open(path: PathBuf) -> Result<SecretKeys> {
        let text = read(&path)?;
        let Some(keys) = text.map_or_else(|| Some(KeyFile::default()), |text| KeyFile::parse(&text)) else {
            let why = "it is damaged".to_owned();
            bail!(UnusableFile { file: path, why, remedy: FROM_A_BACKUP.to_owned() })
        };
        Ok(SecretKeys {
            path: Some(path),
            keys: RwLock::new(keys),
            logged: Mutex::default(),
            missing_at_start: Mutex::default(),
        })
    }

    /// One key that is in no file, for tests.
    pub fn in_memory(seed: u8) -> SecretKeys {
        let key = StoredKey { id: format!("{seed:08x}"), key: encode(&[seed; KEY_BYTES]), number: 0 };
        SecretKeys {
            path: None,
            keys: RwLock::new(KeyFile { keys: vec![key] }),
            logged: Mutex::default(),
            missing_at_start: Mutex::default(),
        }
    }

    fn file(&self) -> KeyFile {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file of the keys.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("memory"))
    }

    /// Whether a key of these contents of the store is missing. It is remembered, for [`Self::missing_cause`].
    pub fn lacks_key_of_any(&self, contents: &[String]) -> bool {
        // a content without the id of a key is damaged, and no key opens it
        let missing = contents.iter().filter(|sealed| !self.has_key_of(sealed));
        let ids: Vec<String> = missing.filter_map(|sealed| Some(key_id(sealed)?.to_owned())).collect();
        let lacks = !ids.is_empty();
        *self.missing_at_start.lock().unwrap_or_else(PoisonError::into_inner) = ids;
        lacks
    }

    /// The cause for a model whose secrets cannot be opened, because a key was missing at the start and still is.
    pub fn missing_cause(&self, entity: Entity) -> Option<Cause> {
        let keys = self.file();
        let missing = self.missing_at_start.lock().unwrap_or_else(PoisonError::into_inner);
        let duty = || Duty::RestoreSecretKeys { file: self.path().display().to_string() };
        let is_missing = missing.iter().any(|id| !keys.has(id));
        is_missing.then(|| Cause::new(entity, duty(), Actor::Operator))
    }

    /// Whether there is no key: nothing can be sealed or opened.
    pub fn is_empty(&self) -> bool {
        self.file().keys.is_empty()
    }

    /// Adds a key, which seals from then on. The file is durable before the key is used.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn rotate(&self) -> Result<()> {
        let bits = || host::random::random_u128().to_be_bytes();
        let id = format!("{:08x}", u32::from_be_bytes(std::array::from_fn(|at| bits()[at])));
        self.merge_file()?;
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let mut file = keys.clone();
        let number = file.keys.last().map_or(0, |newest| newest.number).saturating_add(1);
        file.keys.push(StoredKey { id, key: encode(&[bits(), bits()].concat()), number });
        self.write(&file)?;
        *keys = file;
        Ok(())
    }

    /// Writes the file again if it lacks a key, before the next start would miss that. The log has a line when it was
    /// written, and one for each other error.
    pub fn keep_file(&self) {
        let outcome = match self.merge_file() {
            Ok(is_written) => is_written.then(|| {
                let file = self.path().display();
                format!(
                    "{file} lacked a key of secrets (deleted, damaged or an older file); it was written again"
                )
            }),
            Err(error) => Some(format!("cannot keep the keys of secrets: {error:#}")),
        };
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = outcome.as_ref().filter(|line| logged.as_ref() != Some(*line)) {
            tracing::warn!("{line}");
        }
        *logged = outcome;
    }

    /// Writes a file again that lacks a key, because it was deleted, damaged or replaced by an older one while this
    /// process runs, and takes over the keys that only the file has. Returns whether it was written.
    fn merge_file(&self) -> Result<bool> {
        let Some(path) = &self.path else { return Ok(false) };
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let stored = read(path)?.and_then(|text| KeyFile::parse(&text)).unwrap_or_default();
        let only_stored = stored.keys.iter().filter(|key| !keys.has(&key.id));
        let merged = KeyFile::of(only_stored.chain(&keys.keys).cloned().collect());
        let lacks_key = stored.lacks_key_of(&keys);
        if lacks_key {
            self.write(&merged)?;
        }
        *keys = merged;
        Ok(lacks_key)
    }

    fn write(&self, file: &KeyFile) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = charms::yaml::to_string(file).context("cannot write keys")?;
        write_atomic(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Whether there are keys that only open.
    pub fn has_older(&self) -> bool {
        self.file().keys.len() > 1
    }

    /// Whether the newest key has sealed this content.
    pub fn is_newest(&self, sealed: &str) -> bool {
        self.file().keys.last().is_some_and(|newest| key_id(sealed) == Some(&newest.id))
    }

    /// Whether the key of this content exists.
    pub fn has_key_of(&self, sealed: &str) -> bool {
        self.file().keys.iter().any(|key| key_id(sealed) == Some(&key.id))
    }

    /// Seals a content with random bits that seal no other; none if there is no key. A file that lacks the key is written
    /// again first, so that the next start can open what was sealed; none if that fails.
    pub fn seal(&self, sealed_for: SealedFor, content: &SecretContent, salt: [u128; 2]) -> Option<String> {
        self.merge_file().ok()?;
        let file = self.file();
        let newest = file.keys.last()?;
        let salt = salt.map(u128::to_be_bytes).concat();
        let mut sealed = secret_plaintext::to_bytes(content);
        content_key(newest, &salt)?
            .seal_in_place_append_tag(nonce(), Aad::from(sealed_for.authenticated()), &mut sealed)
            .ok()?;
        let text = encode(&[salt, sealed].concat());
        Some(format!("{VERSION}.{}.{text}", newest.id))
    }

    /// Opens a content; none if its key is missing, or if it is damaged or was sealed for something else.
    pub fn unseal(&self, sealed_for: SealedFor, sealed: &str) -> Option<SecretContent> {
        let (version, rest) = sealed.split_once('.')?;
        let (id, text) = rest.split_once('.')?;
        let file = self.file();
        let key = file
            .keys
            .iter()
            .find(|key| key.id == id)
            .filter(|_| [VERSION, JSON_VERSION].contains(&version))?;
        let mut bytes = BASE64_STANDARD_NO_PAD.decode(text).ok()?;
        if bytes.len() < KEY_BYTES + TAG_BYTES {
            return None;
        }
        let mut sealed = bytes.split_off(KEY_BYTES);
        let aad = Aad::from(sealed_for.authenticated());
        let content = content_key(key, &bytes)?.open_in_place(nonce(), aad, &mut sealed).ok()?;
        match version {
            VERSION => secret_plaintext::from_bytes(content),
            _ => serde_json::from_slice(content).ok(),
        }
    }

    /// As [`Self::unseal`], but takes over the keys of the file first if the key of the content is missing, because
    /// another controller with the same file may have added it.
    pub fn unseal_with_file(&self, sealed_for: SealedFor, sealed: &str) -> Option<SecretContent> {
        if !self.has_key_of(sealed) {
            self.merge_file().ok()?;
        }
        self.unseal(sealed_for, sealed)
    }
}

/// The nonce of each content key, which seals one content.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn key_id(sealed: &str) -> Option<&str> {
    sealed.split('.').nth(1)
}

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD_NO_PAD.encode(bytes)
}

fn decode(key: &StoredKey) -> Option<Vec<u8>> {
    BASE64_STANDARD_NO_PAD.decode(&key.key).ok().filter(|bytes| bytes.len() == KEY_BYTES)
}

fn content_key(key: &StoredKey, salt: &[u8]) -> Option<LessSafeKey> {
    let derived = Salt::new(HKDF_SHA256, salt).extract(&decode(key)?);
    let mut bytes = [0; KEY_BYTES];
    derived.expand(&[b"pintle secret content"], ContentKey).ok()?.fill(&mut bytes).ok()?;
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn content() -> SecretContent {
        SecretContent(BTreeMap::from([("password".to_owned(), "czNjcmV0".to_owned())]))
    }

    fn sealed_for(writer: u128) -> SealedFor {
        SealedFor { model: Uuid(1), secret: SecretId::from_bits(2), writer: Uuid(writer) }
    }

    #[test]
    fn a_content_is_opened_for_what_it_was_sealed_for_only() {
        let keys = SecretKeys::in_memory(1);
        let sealed = keys.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        assert!(!sealed.contains("czNjcmV0") && !sealed.contains("password"));
        assert_ne!(
            keys.seal(sealed_for(3), &content(), [1, 3]).unwrap(),
            sealed,
            "each content has a key of its own"
        );
        assert_eq!(keys.unseal(sealed_for(3), &sealed), Some(content()));
        assert_eq!(keys.unseal(sealed_for(4), &sealed), None);
        assert_eq!(SecretKeys::in_memory(2).unseal(sealed_for(3), &sealed), None);
        assert_eq!(keys.unseal(sealed_for(3), &sealed[..sealed.len() - 2]), None);
        for damaged in ["", "2", "2.01010101", "2.00000001.", "2.00000001.!", "3.00000001.AAAA"] {
            assert_eq!(keys.unseal(sealed_for(3), damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_key_that_another_controller_has_added_to_the_file_opens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret-keys.yaml");
        let first = SecretKeys::open(path.clone()).unwrap();
        first.rotate().unwrap();
        let second = SecretKeys::open(path).unwrap();
        first.rotate().unwrap();
        let sealed = first.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        assert_eq!(second.unseal(sealed_for(3), &sealed), None, "its keys are older than the file");
        assert_eq!(second.unseal_with_file(sealed_for(3), &sealed), Some(content()));
        assert_eq!(second.unseal_with_file(sealed_for(4), &sealed), None, "it is sealed for another unit");
        assert_eq!(second.unseal_with_file(sealed_for(3), "1.00000001.AAAA"), None, "no file has this key");
    }

    /// 1. Each of two controllers adds a key that the other does not know. 2. Each takes over the key of the other. A janitor
    ///    seals again what another key than the newest has sealed.
    #[test]
    fn controllers_that_have_the_same_keys_agree_on_the_newest_one() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["a.yaml", "b.yaml"].map(|name| folder.path().join(name));
        SecretKeys::open(path.clone()).unwrap().rotate().unwrap();
        std::fs::copy(&path, &other).unwrap();
        let both = [path.clone(), other.clone()].map(|path| SecretKeys::open(path).unwrap());
        both.iter().for_each(|keys| keys.rotate().unwrap());
        let files = [&path, &other].map(|path| std::fs::read(path).unwrap());
        std::fs::write(&path, &files[1]).unwrap();
        std::fs::write(&other, &files[0]).unwrap();
        both.iter().for_each(SecretKeys::keep_file);
        for keys in &both {
            let sealed = keys.seal(sealed_for(3), &content(), [1, 2]).unwrap();
            assert!(both.iter().all(|keys| keys.is_newest(&sealed)), "it is sealed again for ever");
        }
        both[0].rotate().unwrap();
        std::fs::copy(&path, &other).unwrap();
        both[1].keep_file();
        let newest = both[0].seal(sealed_for(3), &content(), [1, 2]).unwrap();
        assert!(both[1].is_newest(&newest), "the next rotation");
    }

    /// The file of a controller that did not number its keys has them in the order of their rotations; ids are random.
    #[test]
    fn keys_without_numbers_keep_the_order_of_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret-keys.yaml");
        let key = |id: &str, seed| format!("- {{id: \"{id}\", key: {}}}\n", encode(&[seed; KEY_BYTES]));
        std::fs::write(&path, format!("keys:\n{}{}", key("ffffffff", 1), key("00000000", 2))).unwrap();
        let keys = SecretKeys::open(path.clone()).unwrap();
        let of_newest = |keys: &SecretKeys, id: &str| {
            keys.seal(sealed_for(3), &content(), [1, 2]).is_some_and(|sealed| sealed.contains(id))
        };
        assert!(of_newest(&keys, ".00000000."), "the rotated-away key would seal everything again");
        keys.rotate().unwrap();
        let read = SecretKeys::open(path).unwrap();
        assert!(!of_newest(&read, ".00000000.") && !of_newest(&read, ".ffffffff."), "the new one");
    }

    #[test]
    fn a_key_that_was_missing_at_the_start_is_named_until_the_file_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret-keys.yaml");
        let before = SecretKeys::open(path.clone()).unwrap();
        before.rotate().unwrap();
        let sealed = [before.seal(sealed_for(3), &content(), [1, 2]).unwrap()];
        let (file, is_named) = (std::fs::read(&path).unwrap(), |keys: &SecretKeys| {
            keys.missing_cause(Entity::Model("dev".to_owned())).is_some()
        });
        std::fs::remove_file(&path).unwrap();
        let keys = SecretKeys::open(path.clone()).unwrap();
        assert!(keys.lacks_key_of_any(&sealed) && is_named(&keys));
        std::fs::write(&path, file).unwrap();
        keys.keep_file();
        assert!(!is_named(&keys), "a person has put the file back");
        assert!(!keys.lacks_key_of_any(&sealed));
    }

    #[test]
    fn the_newest_key_seals_and_older_ones_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret-keys.yaml");
        let keys = SecretKeys::open(path.clone()).unwrap();
        assert_eq!(keys.seal(sealed_for(3), &content(), [1, 2]), None, "there is no key yet");
        keys.rotate().unwrap();
        let first = keys.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        keys.rotate().unwrap();
        let second = keys.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        assert!(!keys.is_newest(&first) && keys.is_newest(&second));
        let read = SecretKeys::open(path.clone()).unwrap();
        for sealed in [first, second] {
            assert_eq!(read.unseal(sealed_for(3), &sealed), Some(content()));
        }
        std::fs::remove_file(&path).unwrap();
        let third = keys.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        let read = SecretKeys::open(path.clone()).unwrap();
        assert_eq!(read.unseal(sealed_for(3), &third), Some(content()), "a deleted file is written again");
        let older = std::fs::read(&path).unwrap();
        keys.rotate().unwrap();
        std::fs::write(&path, &older).unwrap();
        let fourth = keys.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        let read = SecretKeys::open(path.clone()).unwrap();
        assert_eq!(read.unseal(sealed_for(3), &fourth), Some(content()), "an older file is completed");
        let restored = SecretKeys::in_memory(7);
        std::fs::write(&path, charms::yaml::to_string(&restored.file()).unwrap()).unwrap();
        let fifth = keys.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        let sealed_before = restored.seal(sealed_for(3), &content(), [1, 2]).unwrap();
        for sealed in [fifth, sealed_before] {
            assert_eq!(
                keys.unseal(sealed_for(3), &sealed),
                Some(content()),
                "the keys of the file are taken over"
            );
        }
        std::fs::write(&path, "keys: [{id: a, key: c2hvcnQ}]").unwrap();
        let text = SecretKeys::open(path).unwrap_err().to_string();
        assert!(text.contains("is damaged") && !text.contains("c2hvcnQ"), "{text}");
    }
}
