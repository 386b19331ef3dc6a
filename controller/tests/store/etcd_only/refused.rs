//! What is refused when a store is opened: each by its own error, and nothing is changed.

use super::*;
use controller::store::etcd::{OpenError, RecordedStore, Tls};
use controller::store::outage::Outage;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use test_support::etcd_cluster::ServerTls;

async fn refused(options: Options) -> OpenError {
    Etcd::open(options).await.err().expect("it is refused")
}

#[tokio::test]
async fn an_address_without_etcd_is_named() {
    let cluster = EtcdCluster::shared();
    let options = Options { addresses: vec!["127.0.0.1:1".to_owned()], ..etcd_options(&cluster) };
    match refused(options).await {
        OpenError::Outage(Outage::Unreachable(why)) => assert!(why.contains("127.0.0.1:1"), "{why}"),
        other => panic!("{other}"),
    }
    let remote = Options { addresses: vec!["192.0.2.1:2379".to_owned()], ..etcd_options(&cluster) };
    assert!(matches!(refused(remote).await, OpenError::NotEncrypted { .. }));
}

#[tokio::test]
async fn a_prefix_of_another_program_or_another_pintle_is_refused() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    assert!(cluster.etcdctl(&["put", &format!("{}/x", options.prefix), "1"]));
    let error = refused(options).await;
    assert!(matches!(error, OpenError::PrefixInUse { .. }), "{error}");

    let options = etcd_options(&cluster);
    let store = another(&options).await;
    let revision = write(&store, &[("m/a", Some(1))]).await;
    for restored in [false, true] {
        let other = Options { installation: Uuid(99), restored, ..options.clone() };
        let error = refused(other).await;
        assert!(matches!(error, OpenError::PrefixInUse { .. }), "{error}");
    }
    assert_eq!(store.read(|reader| reader.revision()).await, revision, "nothing was changed");
    // A longer prefix is not in use, although it begins with the same text.
    another(&Options { prefix: format!("{}2", options.prefix), ..options }).await;
}

#[tokio::test]
async fn an_etcd_that_has_not_the_recorded_store_is_refused_until_the_operator_states_it() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let (cluster_id, store_generation) = ("1".to_owned(), OTHER_GENERATION);
    let empty = RecordedStore { cluster: cluster_id, store_generation, revision: 5, handle: None };
    let lost = Options { recorded: Some(empty), ..options.clone() };
    let error = refused(lost.clone()).await;
    assert!(matches!(error, OpenError::NotTheStore { .. }), "{error}");
    let store = another(&Options { restored: true, ..lost }).await;
    let recorded = store.recorded();
    let options = Options { new_generation: Uuid(4), ..options };
    let again = another(&Options { recorded: Some(recorded.clone()), ..options.clone() }).await;
    assert_eq!(again.store_generation(), recorded.store_generation);
    for wrong in [
        RecordedStore { store_generation: Uuid(5), ..recorded.clone() },
        RecordedStore { cluster: "1".to_owned(), ..recorded.clone() },
        RecordedStore { revision: recorded.revision + 1_000_000, ..recorded },
    ] {
        let error = refused(Options { recorded: Some(wrong.clone()), ..options.clone() }).await;
        assert!(matches!(error, OpenError::NotTheStore { .. }), "{wrong:?}: {error}");
    }
}

#[tokio::test]
async fn a_store_of_another_version_is_refused() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    assert!(cluster.etcdctl(&["put", &format!("{}/m/store", options.prefix), r#"{"version": 2}"#]));
    assert!(matches!(refused(options).await, OpenError::OtherVersion { found: 2, .. }));
}

#[tokio::test]
async fn an_etcd_with_the_default_limits_is_refused_with_the_flag_that_it_needs() {
    let cluster = EtcdCluster::start_members(1, &[], None);
    let error = refused(etcd_options(&cluster)).await;
    assert!(matches!(error, OpenError::LimitTooLow { flag: "--max-txn-ops=2048", .. }), "{error}");
    drop(cluster);
    let cluster = EtcdCluster::start_members(1, &["--max-txn-ops=2048", "--max-request-bytes=100000"], None);
    let error = refused(etcd_options(&cluster)).await;
    assert!(matches!(error, OpenError::LimitTooLow { flag: "--max-request-bytes=1572864", .. }), "{error}");
}

/// A CA, and a certificate of it for 127.0.0.1: PEM of the CA, of the certificate, and of its key.
pub fn certificates(is_expired: bool) -> (String, String, String) {
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("valid");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).expect("signed").pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().expect("a key");
    let mut leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("valid");
    if is_expired {
        (leaf.not_before, leaf.not_after) =
            (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(2002, 1, 1));
    }
    let certificate = leaf.signed_by(&key, &issuer).expect("signed").pem();
    (ca_pem, certificate, key.serialize_pem())
}

#[tokio::test]
async fn tls_connections_need_the_right_ca_and_a_client_certificate() {
    let (ca, certificate, key) = certificates(false);
    let server = ServerTls { certificate: certificate.clone(), key: key.clone(), client_ca: ca.clone() };
    let cluster = EtcdCluster::start_members(1, &["--max-txn-ops=2048"], Some(&server));
    let options = etcd_options(&cluster);
    let with = |ca: &str, identity: Option<(String, String)>| {
        let tls = Tls { ca: ca.to_owned(), identity };
        Options { tls: Some(tls), ..options.clone() }
    };
    let identity = Some((certificate.clone(), key.clone()));
    let store = another(&with(&ca, identity.clone())).await;
    write(&store, &[("m/a", Some(1))]).await;
    let (other_ca, other_certificate, other_key) = certificates(false);
    let unreachable =
        |error: &OpenError| matches!(error, OpenError::Outage(Outage::Unreachable(_) | Outage::NoAnswer(_)));
    for wrong in [
        with(&other_ca, identity),
        with(&ca, None),
        with(&ca, Some((other_certificate, other_key))),
        options.clone(), // without TLS
    ] {
        let error = refused(wrong).await;
        assert!(unreachable(&error), "{error}");
    }
    assert!(matches!(
        refused(with("no certificate", None)).await,
        OpenError::Invalid { .. } | OpenError::Outage(_)
    ));
}

#[tokio::test]
async fn an_expired_certificate_of_etcd_is_named() {
    let (ca, certificate, key) = certificates(true);
    let server = ServerTls { certificate, key, client_ca: ca.clone() };
    let cluster = EtcdCluster::start_members(1, &["--max-txn-ops=2048"], Some(&server));
    let tls = Some(Tls { ca, identity: None });
    match refused(Options { tls, ..etcd_options(&cluster) }).await {
        OpenError::Outage(Outage::Unreachable(why)) => {
            assert!(why.to_lowercase().contains("expired"), "{why}")
        }
        other => panic!("{other}"),
    }
}
