//! Tests charms and archives that are invalid: each problem is reported in one line of its own, and nothing is created; and
//! the error of a command that has no controller.

use crate::raw_client::{RawClient, client_file};
use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;
use tests::host::Host;
use tests::scene::{Scene, scene, text};
use tests::tally::tally;
use zip::write::SimpleFileOptions;

const METADATA: &str = "name: odd\nsummary: s\ndescription: d\n";

/// Returns the lines of a refusal, which must begin with the error prefix.
fn refused(host: &Host, args: &[&str]) -> Vec<String> {
    let output = host.pintle(args);
    assert_eq!(output.code, 1, "{args:?}: {output:?}");
    assert_eq!(output.stdout, "", "{args:?}");
    let lines: Vec<String> = output.stderr.lines().map(|line| line.trim().to_owned()).collect();
    assert!(lines[0].starts_with("ERROR "), "{args:?}: {lines:?}");
    lines
}

/// Asserts that nothing was created: no application, no machine, no archive.
fn is_empty(host: &Host) {
    let status = host.status();
    assert!(status["applications"].as_object().is_none_or(serde_json::Map::is_empty), "{status}");
    assert!(status["machines"].as_object().is_none_or(serde_json::Map::is_empty), "{status}");
    let archives = fs::read_dir(host.dir.join("controller/archives")).expect("it is up").flatten();
    assert_eq!(archives.map(|file| file.path()).collect::<Vec<_>>(), [] as [std::path::PathBuf; 0]);
}

fn charm(scene: &Scene, name: &str, files: &[(&str, &str)]) -> String {
    let folder = scene.beside(name);
    fs::create_dir(&folder).expect("a new charm");
    fs::copy(tally().join("dispatch"), folder.join("dispatch")).expect("the sample has one");
    for (file, content) in files {
        fs::write(folder.join(file), content).expect("it is ours");
    }
    text(&folder).to_owned()
}

#[test]
fn a_charm_that_cannot_be_read_is_refused_by_file_line_and_column() {
    let scene = scene();
    let yaml = "name: odd\nsummary: s\ndescription: d\nprovides:\n  a: {interface: [\n";
    let lines = refused(&scene, &["deploy", &charm(&scene, "yaml", &[("metadata.yaml", yaml)])]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("metadata.yaml: line 5, column 18: "), "{lines:?}");
    let config = "options:\n  a:\n    type: decimal\n  c:\n    type: int\n    default: soon\n";
    let three = [("metadata.yaml", "name: BAD\nsummary: s\ndescription: d\n"), ("config.yaml", config)];
    let lines = refused(&scene, &["deploy", &charm(&scene, "three", &three)]);
    assert_eq!(lines.len(), 4, "each problem is reported once: {lines:?}");
    for (line, words) in lines[1..].iter().zip([
        ["metadata.yaml", "BAD"],
        ["config.yaml: options.a.type", "decimal"],
        ["config.yaml: options.c.default", "soon"],
    ]) {
        assert!(words.iter().all(|word| line.contains(word)), "{line:?} does not say {words:?}");
    }
    let lines = refused(&scene, &["deploy", text(&scene.beside("nowhere"))]);
    assert!(lines[0].contains("nowhere"), "{lines:?}");
    is_empty(&scene);
}

/// Returns a charm archive with one additional member.
fn archive(add: impl FnOnce(&mut zip::ZipWriter<Cursor<Vec<u8>>>, SimpleFileOptions)) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().unix_permissions(0o755);
    for (name, content) in [("metadata.yaml", METADATA), ("dispatch", "#!/bin/sh\n")] {
        zip.start_file(name, options).expect("a plain name");
        zip.write_all(content.as_bytes()).expect("memory is writable");
    }
    add(&mut zip, options);
    zip.finish().expect("memory is writable").into_inner()
}

#[test]
fn an_archive_that_leads_out_is_refused_at_both_doors() {
    let scene = scene();
    let raw_client = RawClient::of(&scene);
    let client = client_file(&scene.dir);
    let token = client["token"].as_str();
    let absolute = scene.beside("absolute");
    let cases = [
        ("dots", archive(|zip, options| zip.start_file("../dots", options).expect("any name")), "../dots"),
        (
            "absolute",
            archive(|zip, options| zip.start_file(text(&absolute), options).expect("any name")),
            text(&absolute),
        ),
        (
            "up",
            archive(|zip, options| zip.add_symlink("up", "../../etc", options).expect("any target")),
            "points outside the charm",
        ),
        (
            "root",
            archive(|zip, options| zip.add_symlink("root", "/etc/passwd", options).expect("any target")),
            "/etc/passwd",
        ),
        ("junk", b"this is no archive".to_vec(), "not a zip archive"),
    ];
    for (name, bytes, word) in cases {
        let path = scene.beside(&format!("{name}.charm"));
        fs::write(&path, &bytes).expect("it is ours");
        let lines = refused(&scene, &["deploy", text(&path)]);
        assert!(lines.len() == 2 && lines[1].contains(word), "{name}: {lines:?}");
        // without the command: the controller validates the archive itself
        let (status, answer) = raw_client.post(token, "/v1/archives", bytes);
        assert_eq!((status, answer["code"].as_str()), (400, Some("invalid")), "{name}: {answer}");
        assert!(answer["message"].as_str().is_some_and(|message| message.contains(word)), "{name}: {answer}");
        assert!(!scene.beside(name).exists(), "nothing is written outside");
    }
    is_empty(&scene);
}

#[test]
fn an_archive_with_two_problems_tells_both() {
    let scene = scene();
    let bytes = archive(|zip, options| {
        zip.start_file("../dots", options).expect("any name");
        zip.add_symlink("root", "/etc/passwd", options).expect("any target");
    });
    let path = scene.beside("two.charm");
    fs::write(&path, bytes).expect("it is ours");
    let lines = refused(&scene, &["deploy", text(&path)]);
    assert!(lines.len() == 3 && lines[1].contains("../dots") && lines[2].contains("root"), "{lines:?}");
    is_empty(&scene);
}

#[test]
fn an_unreachable_controller_is_one_line_with_a_hint() {
    let scene = scene();
    let never = Host::new(Path::new(&scene.beside("never")));
    let lines = refused(&never, &["status"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("pintle up"), "{lines:?}");
    assert!(!never.dir.exists(), "asking makes no folder");
    scene.ok(&["down"]);
    let lines = refused(&scene, &["status"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("connection refused;") && lines[0].contains("pintle up"), "{lines:?}");
}
