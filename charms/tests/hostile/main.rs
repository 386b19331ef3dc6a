//! Tests of hostile archives: reading and unpacking refuse each of them with a reason, and no file is left on disk, inside
//! or outside the target folder (spec/security.md S21 to S24).

mod raw_zip;

use charms::unpack::{UnpackError, unpack};
use charms::{ReadOptions, read};
use host::digest::sha256;
use raw_zip::{Member, archive, file, link, zeros};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// Unpacks, and returns the error. Fails if any file appeared on disk.
fn refused(bytes: &[u8]) -> String {
    let parent = TempDir::new().expect("tempdir");
    let target = parent.path().join("charm");
    let error = unpack(bytes, &sha256(bytes), &target).expect_err("hostile");
    let left: Vec<_> = fs::read_dir(parent.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?} after: {error}");
    // Reading refuses the same archive, so the CLI does not upload it.
    let path = parent.path().join("x.charm");
    fs::write(&path, bytes).expect("write");
    let options = ReadOptions { cache: PathBuf::from("unused"), force: false };
    assert!(read(&path, &options).is_err(), "{error}");
    error.to_string()
}

/// An archive with a valid metadata.yaml besides `members`, so that only `members` can be the reason of an error.
fn with(members: &[Member]) -> Vec<u8> {
    archive(&[&[file("metadata.yaml", "name: a\nsummary: ''\ndescription: ''\n")], members].concat())
}

#[test]
fn a_valid_archive_unpacks_with_modes_0755_and_0644() {
    let members = [
        Member { mode: 0o104_777, ..file("setuid", "x") },
        Member { mode: 0o102_666, ..file("shared", "x") },
        Member { mode: 0, ..file("unknown", "x") },
        file("hooks/install", "#!/bin/sh\n"),
        file("hooks/lib/x", ""),
        link("hooks/start", "install"),
        Member { mode: 0o040_755, ..file("empty/", "") },
    ];
    let bytes = with(&members);
    let parent = TempDir::new().expect("tempdir");
    let target = parent.path().join("charm");
    let manifest = unpack(&bytes, &sha256(&bytes), &target).expect("valid");
    assert_eq!(manifest.len(), 7);
    let mode = |path: &str| fs::metadata(target.join(path)).expect(path).permissions().mode() & 0o7777;
    assert_eq!((mode("setuid"), mode("shared"), mode("unknown")), (0o755, 0o644, 0o644));
    assert_eq!((mode("hooks/install"), mode("hooks/lib/x")), (0o755, 0o644));
    assert_eq!(fs::read_link(target.join("hooks/start")).expect("a link"), PathBuf::from("install"));
    assert!(target.join("empty").is_dir());
}

#[test]
fn paths_that_leave_the_charm_are_refused() {
    for (name, reason) in [
        ("../x", "points outside the charm"),
        ("hooks/../../x", "points outside the charm"),
        ("/tmp/x", "absolute path"),
        ("a\\..\\x", "backslash"),
        ("a//x", "empty part"),
        ("./x", "empty part"),
        ("a\nb", "control character"),
        ("a\0b", "control character"),
    ] {
        let text = refused(&with(&[file(name, "x")]));
        assert!(text.contains(reason) && text.lines().count() == 1, "{name}: {text}");
    }
}

#[test]
fn links_that_leave_the_charm_are_refused() {
    for target in ["/etc/passwd", "../x", "..", "b/../../x", "b/..", ""] {
        assert!(refused(&with(&[link("a", target)])).contains(" link"), "{target}");
    }
    // The link b points inside; a passes through b and then up, which leaves the charm.
    assert!(
        refused(&with(&[file("d/e/f", ""), link("b", "d/e"), link("a", "b/../../../x")])).contains(" link")
    );
}

#[test]
fn nothing_is_written_through_a_link() {
    let text = refused(&with(&[link("a", "hooks"), file("a/install", "x")]));
    assert!(text.contains("link a"), "{text}");
    let text = refused(&with(&[file("a/install", "x"), link("a", "hooks")]));
    assert!(text.contains("link a"), "{text}");
}

#[test]
fn ambiguous_names_are_refused() {
    refused(&with(&[file("a", "1"), file("a", "2")]));
    assert!(refused(&with(&[file("README", ""), file("Readme", "")])).contains("Readme"));
    assert!(refused(&with(&[file("a", ""), file("a/b", "")])).contains("file a"));
    assert!(refused(&with(&[file([0xff, 0xfe], "")])).contains("UTF-8"));
    // The local header and the central directory disagree.
    refused(&with(&[Member { local_name: b"other".to_vec(), ..file("a", "x") }]));
}

#[test]
fn devices_and_other_file_types_are_refused() {
    for mode in [0o020_644, 0o060_644, 0o010_644, 0o140_644] {
        let text = refused(&with(&[Member { mode, ..file("a", "") }]));
        assert!(text.contains("file, folder"), "{text}");
    }
    refused(&with(&[Member { mode: 0o120_777, ..file("a/", "b") }]));
}

#[test]
fn zip_bombs_are_refused_at_the_limits() {
    // 5 MiB of zeros pack to 5 kB, a ratio of 1000. The limit is 200.
    assert!(refused(&with(&[zeros("zeros", 5 << 20)])).contains(" 200 times"));
    // The ratio is not checked below 4 MiB.
    let bytes = with(&[zeros("zeros", 3 << 20)]);
    let parent = TempDir::new().expect("tempdir");
    unpack(&bytes, &sha256(&bytes), &parent.path().join("charm")).expect("small");
    assert_eq!(fs::metadata(parent.path().join("charm/zeros")).expect("unpacked").len(), 3 << 20);
    let huge = Member { claimed_size: Some(600 << 20), ..file("huge", "") };
    refused(&with(&[huge]));
}

#[test]
fn a_member_larger_than_its_declared_size_is_refused() {
    // Reading stops at the declared size, and everything that was written is removed.
    let understated = Member { claimed_size: Some(10), ..zeros("zeros", 5 << 20) };
    refused(&with(&[understated]));
}

#[test]
fn too_many_members_are_refused() {
    let bytes = archive_with_members(100_001);
    assert!(refused(&bytes).contains("members"), "counted");
}

/// More than 65,535 members need zip64, which the library writes.
fn archive_with_members(count: usize) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for number in 0..count {
        zip.start_file(format!("f{number}"), options).expect("written");
    }
    zip.finish().expect("finished").into_inner()
}

#[test]
fn no_byte_is_interpreted_before_the_digest_is_verified() {
    let parent = TempDir::new().expect("tempdir");
    let target = parent.path().join("charm");
    let good = with(&[]);
    for bytes in [&good[..good.len() - 1], &[&*good, b"appended"].concat(), b"", b"no zip at all"] {
        let error = unpack(bytes, &sha256(&good), &target).expect_err("another digest");
        assert!(matches!(error, UnpackError::Digest { .. }), "{error}");
        assert!(!target.exists());
    }
    assert!(refused(b"no zip at all").contains("zip archive"));
}
