//! The ssh keys of a model, and which machines are shown them.

use crate::documents::prelude::InstanceDoc;
use crate::lifecycle::{machine, ssh_keys};
use crate::terms::provider_kind::ProviderKind;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::model::ModelRefusal;
use crate::terms::ssh_key::SshKeyProblem;
use crate::tests::*;
use crate::views::machine_view;

const KEYS: [&str; 2] = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB me@host",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC you@host",
];

fn add(world: &mut World, keys: &[&str]) -> Result<usize, Refusal> {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    world.run(|draft, _| ssh_keys::add(draft, MODEL, &keys)).map(|duplicates| duplicates.len())
}

fn remove(world: &mut World, ids: &[&str]) -> Result<(), Refusal> {
    let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    world.run(|draft, _| ssh_keys::remove(draft, MODEL, &ids))
}

fn stored(world: &World) -> Vec<String> {
    let keys = read(world.reader(), &MODEL.ssh_keys()).unwrap_or_default();
    keys.iter().map(ToString::to_string).collect()
}

#[test]
fn keys_are_added_and_removed_all_or_none() {
    let mut world = World::new();
    assert_eq!(add(&mut world, &KEYS), Ok(0));
    assert_eq!(add(&mut world, &KEYS[..1]), Ok(1), "a duplicate");
    assert_eq!(stored(&world), KEYS);
    let invalid = ModelRefusal::InvalidSshKey { number: 2, problem: SshKeyProblem::Type };
    assert_eq!(
        refused(add(
            &mut world,
            &["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD", "me"]
        )),
        reason(invalid)
    );
    let unknown = RefusalReason::NotFound { kind: EntityKind::SshKey, name: "nobody".to_owned() };
    assert_eq!(refused(remove(&mut world, &["me@host", "nobody"])), reason(unknown));
    assert_eq!(stored(&world), KEYS, "the refusals changed nothing");
    assert_eq!(remove(&mut world, &["me@host"]), Ok(()));
    assert_eq!(stored(&world), KEYS[1..]);
    assert_eq!(remove(&mut world, &[KEYS[1]]), Ok(()));
    assert!(read(world.reader(), &MODEL.ssh_keys()).is_none());
}

#[test]
fn the_number_of_keys_is_bounded() {
    let mut world = World::new();
    // a key of another content for each number
    let start = KEYS[0].strip_suffix("AQEB me@host").expect("the last bytes of the first key");
    let text = |number: u8| format!("{start}{number:04}");
    let keys: Vec<String> = (0..65).map(text).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(refused(add(&mut world, &keys)), reason(ModelRefusal::TooManySshKeys { max: 64 }));
    assert_eq!(add(&mut world, &keys[..64]), Ok(0));
    assert_eq!(refused(add(&mut world, &keys[64..])), reason(ModelRefusal::TooManySshKeys { max: 64 }));
    assert_eq!(add(&mut world, &keys[..1]), Ok(1));
}

#[test]
fn a_machine_with_users_of_its_own_is_shown_the_keys_and_a_local_one_is_not() {
    let mut world = World::new();
    let added = world.run(|draft, ids| {
        let id = ids();
        machine::add(draft, MODEL, id, 1).map(|_| id)
    });
    let id = added.expect("the model is Alive");
    let shown =
        |world: &World| machine_view::view(world.reader(), MODEL, id).expect("there is a view").ssh_keys;
    assert_eq!(add(&mut world, &KEYS), Ok(0));
    assert_eq!(shown(&world), []);
    for (provider, count) in [(Some(ProviderKind::Local), 0), (Some(ProviderKind::Nspawn), 2), (None, 2)] {
        let instance = InstanceDoc { provider, nonce: Uuid(1), id: None, base: None, hardware: None };
        let set = world.run(|draft, _| {
            draft.put(&MODEL.machine_instance(id), &instance);
            Ok(())
        });
        assert_eq!((set, shown(&world).len()), (Ok(()), count), "{provider:?}");
    }
    assert_eq!(remove(&mut world, &["me@host"]), Ok(()));
    assert_eq!(shown(&world).len(), 1);
}
