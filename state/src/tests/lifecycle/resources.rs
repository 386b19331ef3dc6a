//! Resources: files are attached with a deployment, with a refresh or later, and stay stored while they are used.

use crate::charm::Resource;
use crate::documents::application::may_read_resource;
use crate::documents::prelude::{ArchiveUse, CharmDoc};
use crate::lifecycle::application::{self, Deploy, Refresh};
use crate::lifecycle::archive;
use crate::lifecycle::resource::RESOURCES_PER_REQUEST_MAX;
use crate::operations::attach_resources;
use crate::terms::refusal::application::ApplicationRequest;
use crate::tests::*;

fn with_resources(names: &[&str]) -> Charm {
    let resource = |name: &&str| (name.to_string(), Resource { filename: "f".into(), ..Resource::default() });
    Charm { resources: names.iter().map(resource).collect(), ..web() }
}

fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, digest)| (name.to_string(), digest.to_string())).collect()
}

/// A world with two uploaded files and a charm that declares the resources `app` and `doc`.
fn world() -> World {
    let mut world = World::new();
    world.upload("res", with_resources(&["app", "doc"]));
    for digest in ["one", "two"] {
        upload_file(&mut world, digest);
    }
    world
}

fn upload_file(world: &mut World, digest: &str) {
    let register = |draft: &mut Draft, _: &mut dyn FnMut() -> Uuid| {
        archive::register(draft, digest, None, 7);
        Ok::<_, Refusal>(())
    };
    world.run(register).expect("registered");
}

fn deploy(world: &mut World, sha256: &str, resources: &[(&str, &str)]) -> Result<Uuid, Refusal> {
    let (application, sha256) = (Some("web".to_owned()), sha256.to_owned());
    let request = Deploy { application, sha256, units: 1, resources: given(resources), ..Deploy::default() };
    let deploy = |draft: &mut Draft, ids: &mut dyn FnMut() -> Uuid| {
        application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids })
    };
    world.run(deploy).map(|deployed| deployed.application)
}

fn attach(world: &mut World, id: Uuid, resources: &[(&str, &str)]) -> Result<(), Refusal> {
    world.run(|draft, _| attach_resources::attach(draft, MODEL, id, &given(resources), 9))
}

fn charm(world: &World, id: Uuid) -> CharmDoc {
    read(world.reader(), &MODEL.application_charm(id)).expect("it has a charm")
}

fn digests(world: &World, id: Uuid) -> Vec<(String, String)> {
    let files = charm(world, id).resources.files.into_iter();
    files.map(|(name, file)| (name, file.sha256)).collect()
}

#[test]
fn a_name_that_the_charm_does_not_declare_is_refused_before_anything_is_created() {
    let mut world = world();
    let undeclared = |names: &[&str]| {
        let resources = names.iter().map(|name| name.to_string()).collect();
        reason(ApplicationRefusal::UndeclaredResources { charm: "web".to_owned(), resources })
    };
    let refusal = refused(deploy(&mut world, "res", &[("app", "one"), ("x", "one"), ("y", "one")]));
    assert_eq!(refusal, undeclared(&["x", "y"]));
    assert_eq!(read(world.reader(), &MODEL.application_name("web")), None);
    let missing = refused(deploy(&mut world, "res", &[("app", "none")]));
    assert_eq!(missing, not_found(EntityKind::ResourceFile, "none"));
    let id = deploy(&mut world, "res", &[]).expect("it deploys");
    assert_eq!(refused(attach(&mut world, id, &[("x", "one")])), undeclared(&["x"]));
    assert_eq!(refused(attach(&mut world, id, &[("app", "none")])), missing);
    assert!(charm(&world, id).resources.is_empty());
    world.run(|draft, _| application::destroy(draft, MODEL, id)).expect("accepted");
    let removed = ApplicationRefusal::BeingRemoved {
        application: "web".to_owned(),
        request: ApplicationRequest::AttachResource,
    };
    assert_eq!(refused(attach(&mut world, id, &[("app", "one")])), reason(removed));
}

#[test]
fn a_changed_file_reaches_the_units_and_the_same_file_does_not() {
    let mut world = world();
    let id = deploy(&mut world, "res", &[("app", "one")]).expect("it deploys");
    let unit = world.unit("web/0");
    attach(&mut world, id, &[("app", "one")]).expect("it is the same");
    assert_eq!(charm(&world, id).resources.version, 1);
    attach(&mut world, id, &[("app", "two"), ("doc", "one")]).expect("both are declared");
    let Change::Charm(shown) = &world.sent[&unit][0] else { panic!("{:?}", world.sent[&unit]) };
    let resources = &shown.charm.resources;
    assert_eq!(
        (resources.version, resources.digests().map(String::as_str).collect::<Vec<_>>()),
        (2, vec!["two", "one"])
    );
    assert_eq!(charm(&world, id).resources.files["app"].previous, ["one"]);
}

#[test]
fn a_unit_reads_only_the_resources_of_its_own_application() {
    let mut world = world();
    let id = deploy(&mut world, "res", &[("app", "one")]).expect("it deploys");
    world.deploy("other", "web", 1);
    attach(&mut world, id, &[("app", "two")]).expect("it is declared");
    let (own, other) = (world.unit("web/0"), world.unit("other/0"));
    let may = |unit, name, digest| may_read_resource(world.reader(), MODEL, unit, name, digest);
    assert!(may(own, "app", "two") && may(own, "app", "one"), "a hook may have started before the change");
    assert!(!may(own, "doc", "two") && !may(own, "app", "res") && !may(other, "app", "two"));
    assert!(!crate::documents::application::may_read_archive(world.reader(), MODEL, own, "two"));
}

#[test]
fn a_refresh_keeps_the_files_of_declared_resources_and_attaches_others() {
    let mut world = world();
    world.upload("next", with_resources(&["app", "new"]));
    let id = deploy(&mut world, "res", &[("app", "one"), ("doc", "two")]).expect("it deploys");
    let request = Refresh {
        application: "web".into(),
        sha256: "next".into(),
        resources: given(&[("new", "two")]),
        ..Refresh::default()
    };
    let refresh = |draft: &mut Draft, ids: &mut dyn FnMut() -> Uuid| {
        application::refresh(draft, MODEL, &request, Creation { now_ms: 5, ids })
    };
    world.run(refresh).expect("it fits");
    let expected = [("app", "one"), ("new", "two")].map(|(name, file)| (name.to_owned(), file.to_owned()));
    assert_eq!(digests(&world, id), expected);
}

#[test]
fn a_file_is_kept_while_an_application_uses_it() {
    let mut world = world();
    let id = deploy(&mut world, "res", &[("app", "one")]).expect("it deploys");
    let of = |sha256: &str| ArchiveUse { sha256: sha256.to_owned(), model: MODEL, owner: id };
    let sweep = |world: &mut World, sha256: &str| {
        world
            .run(|draft, _| {
                archive::delete_ended_uses(draft, &[of(sha256)]);
                Ok::<_, Refusal>(archive::remove_unused(draft, sha256))
            })
            .expect("swept")
    };
    assert!(!archive::has_ended(world.reader(), &of("one")) && !sweep(&mut world, "one"));
    for digest in ["a", "b", "c"] {
        upload_file(&mut world, digest);
        attach(&mut world, id, &[("app", digest)]).expect("it is declared");
    }
    assert!(archive::has_ended(world.reader(), &of("one")), "two files before the current one stay");
    assert!(sweep(&mut world, "one"));
    assert!(!sweep(&mut world, "a") && !sweep(&mut world, "c"));
}

#[test]
fn a_file_that_is_also_a_charm_can_be_deployed_and_a_file_that_is_none_cannot() {
    let mut world = world();
    assert_eq!(refused(deploy(&mut world, "one", &[])), not_found(EntityKind::CharmArchive, "one"));
    world.upload("one", web());
    upload_file(&mut world, "one");
    deploy(&mut world, "one", &[]).expect("the charm stays registered");
}

#[test]
fn a_deployment_with_the_most_resources_and_peer_relations_fits_into_one_transaction() {
    let mut world = world();
    let names: Vec<String> = (0..=RESOURCES_PER_REQUEST_MAX).map(|n| format!("r{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut charm = with_resources(&names);
    charm.endpoints.extend((1..8).map(|n| endpoint(&format!("ring-{n}"), Role::Peer, "ring")));
    world.upload("large", charm);
    names.iter().for_each(|name| upload_file(&mut world, name));
    let all: Vec<(&str, &str)> = names.iter().map(|name| (*name, *name)).collect();
    let (count, max) = (all.len(), RESOURCES_PER_REQUEST_MAX);
    let refusal = refused(deploy(&mut world, "large", &all));
    assert_eq!(refusal, reason(ApplicationRefusal::TooManyResources { count, max }));
    let id = deploy(&mut world, "large", &all[1..]).expect("it fits");
    attach(&mut world, id, &all[..1]).expect("the others are attached afterwards");
    assert_eq!(digests(&world, id).len(), count);
    assert!(read(world.reader(), &MODEL.unit_name(&"web/0".parse().expect("a name"))).is_some());
}
