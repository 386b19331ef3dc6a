//! A zoo of hostile archives: each is refused with a reason, and nothing is left on disk, inside or outside
//! (spec/security.md S21 to S24).

mod raw_zip;

use charms::unpack::{UnpackError, unpack};
use charms::{ReadOptions, read};
use host::digest::sha256;
use raw_zip::{Member, archive, file, link, zeros};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// Unpacks and returns the refusal; fails if anything appeared on disk.
fn refused(bytes: &[u8]) -> String {
    let outside = TempDir::new().expect("tempdir");
    let target = outside.path().join("charm");
    let error = unpack(bytes, &sha256(bytes), &target).expect_err("hostile");
    let left: Vec<_> = fs::read_dir(outside.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?} after: {error}");
    // The same archive at the user's door: refused before it is uploaded.
    let path = outside.path().join("x.charm");
    fs::write(&path, bytes).expect("write");
    let options = ReadOptions { cache: PathBuf::from("unused"), force: false };
    assert!(read(&path, &options).is_err(), "{error}");
    error.to_string()
}

/// The archive holds an honest member too, so that it is the hostile one that is refused.
fn with(members: &[Member]) -> Vec<u8> {
    archive(&[&[file("metadata.yaml", "name: a\nsummary: ''\ndescription: ''\n")], members].concat())
}

#[test]
fn an_honest_archive_unpacks_with_plain_modes() {
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
    let outside = TempDir::new().expect("tempdir");
    let target = outside.path().join("charm");
    let manifest = unpack(&bytes, &sha256(&bytes), &target).expect("honest");
    assert_eq!(manifest.len(), 7);
    let mode = |path: &str| fs::metadata(target.join(path)).expect(path).permissions().mode() & 0o7777;
    assert_eq!((mode("setuid"), mode("shared"), mode("unknown")), (0o755, 0o644, 0o644));
    assert_eq!((mode("hooks/install"), mode("hooks/lib/x")), (0o755, 0o644));
    assert_eq!(fs::read_link(target.join("hooks/start")).expect("a link"), PathBuf::from("install"));
    assert!(target.join("empty").is_dir());
}

#[test]
fn names_that_lead_out_are_refused() {
    for (name, reason) in [
        ("../x", "leads out of the charm"),
        ("hooks/../../x", "leads out of the charm"),
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
fn links_that_lead_out_are_refused() {
    for target in ["/etc/passwd", "../x", "..", "b/../../x", "b/..", ""] {
        assert!(refused(&with(&[link("a", target)])).contains("is a link"), "{target}");
    }
    // b is inside, a goes through it and up again: outside of where it seems.
    assert!(
        refused(&with(&[file("d/e/f", ""), link("b", "d/e"), link("a", "b/../../../x")]))
            .contains("is a link")
    );
}

#[test]
fn nothing_is_written_through_a_link() {
    let text = refused(&with(&[link("a", "hooks"), file("a/install", "x")]));
    assert!(text.contains("lies below the link a"), "{text}");
    let text = refused(&with(&[file("a/install", "x"), link("a", "hooks")]));
    assert!(text.contains("lies below the link a"), "{text}");
}

#[test]
fn one_name_has_one_meaning() {
    refused(&with(&[file("a", "1"), file("a", "2")]));
    assert!(refused(&with(&[file("README", ""), file("Readme", "")])).contains("only in case"));
    assert!(refused(&with(&[file("a", ""), file("a/b", "")])).contains("lies below the file a"));
    assert!(refused(&with(&[file([0xff, 0xfe], "")])).contains("UTF-8"));
    // The two tables of contents disagree.
    refused(&with(&[Member { local_name: b"other".to_vec(), ..file("a", "x") }]));
}

#[test]
fn devices_and_other_kinds_are_refused() {
    for mode in [0o020_644, 0o060_644, 0o010_644, 0o140_644] {
        let text = refused(&with(&[Member { mode, ..file("a", "") }]));
        assert!(text.contains("neither a file nor a folder nor a link"), "{text}");
    }
    refused(&with(&[Member { mode: 0o120_777, ..file("a/", "b") }]));
}

#[test]
fn bombs_stop_at_their_limits() {
    // 5 MiB of zeros in 5 kB: a thousandth, where a two hundredth is allowed.
    assert!(refused(&with(&[zeros("zeros", 5 << 20)])).contains("more than 200 times its size"));
    // Below the size where that matters it is a file of zeros.
    let bytes = with(&[zeros("zeros", 3 << 20)]);
    let outside = TempDir::new().expect("tempdir");
    unpack(&bytes, &sha256(&bytes), &outside.path().join("charm")).expect("small");
    assert_eq!(fs::metadata(outside.path().join("charm/zeros")).expect("unpacked").len(), 3 << 20);
    let huge = Member { claimed_size: Some(600 << 20), ..file("huge", "") };
    refused(&with(&[huge]));
}

#[test]
fn a_member_that_lies_about_its_size_is_refused() {
    // Claims to be small, unpacks to more: reading stops, and all that was written is removed.
    let lying = Member { claimed_size: Some(10), ..zeros("zeros", 5 << 20) };
    refused(&with(&[lying]));
}

#[test]
fn too_many_members_are_refused() {
    let bytes = charms_with_members(100_001);
    assert!(refused(&bytes).contains("members"), "counted");
}

/// So many empty files need the wider count of zip64, which the library writes well enough.
fn charms_with_members(count: usize) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for number in 0..count {
        zip.start_file(format!("f{number}"), options).expect("written");
    }
    zip.finish().expect("finished").into_inner()
}

#[test]
fn no_byte_is_interpreted_before_the_digest_is_right() {
    let outside = TempDir::new().expect("tempdir");
    let target = outside.path().join("charm");
    let good = with(&[]);
    for bytes in [&good[..good.len() - 1], &[&*good, b"appended"].concat(), b"", b"no zip at all"] {
        let error = unpack(bytes, &sha256(&good), &target).expect_err("another digest");
        assert!(matches!(error, UnpackError::Digest { .. }), "{error}");
        assert!(!target.exists());
    }
    assert!(refused(b"no zip at all").contains("is not a zip archive"));
}
