//! Writes zip archives byte by byte, because no library writes the invalid archives that these tests need.

use std::io::{Cursor, Read, Write};

/// One member of an archive.
#[derive(Clone)]
pub struct Member {
    /// The name in the local header.
    pub local_name: Vec<u8>,
    /// The name in the central directory.
    pub name: Vec<u8>,
    pub content: Vec<u8>,
    /// Unix mode with the file type; 0 declares none.
    pub mode: u32,
    /// The unpacked size that both headers declare; `None` declares the size of the content.
    pub claimed_size: Option<u32>,
    /// Whether `content` is deflated. It must then be zeros, for which [`archive`] computes the checksum.
    pub deflated: bool,
}

pub fn file(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Member {
    let (name, content) = (name.as_ref().to_vec(), content.as_ref().to_vec());
    Member { local_name: name.clone(), name, content, mode: 0o100_644, claimed_size: None, deflated: false }
}

pub fn link(name: &str, target: &str) -> Member {
    Member { mode: 0o120_777, ..file(name, target) }
}

/// A member of `size` zeros, deflated to about a thousandth of the size.
pub fn zeros(name: &str, size: u32) -> Member {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("x", zip::write::SimpleFileOptions::default()).expect("written");
    zip.write_all(&vec![0; size as usize]).expect("written");
    let mut zip = zip.finish_into_readable().expect("finished");
    let mut content = Vec::new();
    zip.by_index_raw(0).expect("there").read_to_end(&mut content).expect("read");
    Member { content, claimed_size: Some(size), deflated: true, ..file(name, "") }
}

fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

pub fn archive(members: &[Member]) -> Vec<u8> {
    let (mut out, mut central) = (Vec::new(), Vec::new());
    for member in members {
        let size = member.claimed_size.unwrap_or(member.content.len() as u32);
        let crc = match member.deflated {
            true => crc32(std::iter::repeat_n(0, size as usize)),
            false => crc32(member.content.iter().copied()),
        };
        let offset = out.len() as u32;
        let utf8 = 0x800u16;
        let mut common = Vec::new();
        common.extend(20u16.to_le_bytes());
        common.extend(utf8.to_le_bytes());
        common.extend((if member.deflated { 8u16 } else { 0 }).to_le_bytes());
        common.extend([0, 0, 0x21, 0]);
        common.extend(crc.to_le_bytes());
        common.extend((member.content.len() as u32).to_le_bytes());
        common.extend(size.to_le_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend((member.local_name.len() as u16).to_le_bytes());
        out.extend([0, 0]);
        out.extend(&member.local_name);
        out.extend(&member.content);
        central.extend(b"PK\x01\x02");
        central.extend([20, 3]);
        central.extend(&common);
        central.extend((member.name.len() as u16).to_le_bytes());
        central.extend([0; 8]);
        central.extend((member.mode << 16).to_le_bytes());
        central.extend(offset.to_le_bytes());
        central.extend(&member.name);
    }
    let count = (members.len() as u16).to_le_bytes();
    let start = out.len() as u32;
    out.extend(&central);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count);
    out.extend(count);
    out.extend((central.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}
