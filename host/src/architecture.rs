//! The architecture of this host.

/// The architecture for which this program was built, which is that of this host, by its name in Juju and Debian:
/// `amd64`.
pub fn name() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64el",
        other => other,
    }
}
