//! Decides which folders of a machine belong to which units.
//!
//! A folder names its unit in a file that the hooks of the unit, as every process of root, can write. The name is no
//! evidence of its own: an agent that is started with the identity of another unit acts for it, and a token that is sent
//! for the wrong folder locks the right one out.

use crate::terms::names::{UnitName, Uuid};
use std::collections::BTreeMap;

/// What a folder says about itself: its configuration has this uuid, and the name of the folder and that in the
/// configuration are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<F> {
    /// The unit that the folder claims to belong to.
    pub unit: Uuid,
    /// The name of the unit.
    pub name: UnitName,
    /// The folder.
    pub folder: F,
}

/// The folders of a machine, by whether their claims are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifiedFolders<F> {
    /// The units that are deployed, with their folders.
    pub deployed: BTreeMap<Uuid, F>,
    /// The claims that are not believed. Such a folder is damaged: no agent is started in it, and nothing is deleted. If
    /// the unit of its name is assigned to the machine, the folder gets the identity of that unit.
    pub disbelieved: Vec<Claim<F>>,
}

/// Identifies the folders. `names` are those of the units that the controller has assigned to this machine, as far as
/// they are known: none before its first answer, when the agents are started from what is on the disk.
///
/// A claim is believed unless the uuid is known to be that of another name, or two folders claim it and no name decides.
/// A unit that is not assigned any more keeps its folder by its claim alone.
pub fn identify<F>(claims: Vec<Claim<F>>, names: &BTreeMap<Uuid, UnitName>) -> IdentifiedFolders<F> {
    let (possible, mut disbelieved): (Vec<Claim<F>>, Vec<Claim<F>>) =
        claims.into_iter().partition(|claim| names.get(&claim.unit).is_none_or(|name| *name == claim.name));
    let mut by_unit: BTreeMap<Uuid, Vec<Claim<F>>> = BTreeMap::new();
    for claim in possible {
        by_unit.entry(claim.unit).or_default().push(claim);
    }
    let mut deployed = BTreeMap::new();
    for (unit, mut claims) in by_unit {
        match claims.pop() {
            Some(only) if claims.is_empty() => drop(deployed.insert(unit, only.folder)),
            last => disbelieved.extend(claims.into_iter().chain(last)),
        }
    }
    IdentifiedFolders { deployed, disbelieved }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(unit: u128, number: u32) -> Claim<u32> {
        Claim { unit: Uuid(unit), name: UnitName::new("web", number), folder: number }
    }

    /// The deployed folders by unit, and the folders whose claims are not believed.
    fn identified(claims: &[Claim<u32>], names: &[(u128, u32)]) -> (Vec<(u128, u32)>, Vec<u32>) {
        let names = names.iter().map(|(unit, number)| (Uuid(*unit), UnitName::new("web", *number))).collect();
        let IdentifiedFolders { deployed, disbelieved } = identify(claims.to_vec(), &names);
        let deployed = deployed.into_iter().map(|(unit, folder)| (unit.0, folder)).collect();
        (deployed, disbelieved.into_iter().map(|claim| claim.folder).collect())
    }

    #[test]
    fn a_folder_that_claims_the_uuid_of_another_name_is_not_believed() {
        let (right, wrong) = (claim(7, 0), claim(7, 1));
        for claims in [[right.clone(), wrong.clone()], [wrong.clone(), right]] {
            assert_eq!(identified(&claims, &[(7, 0), (8, 1)]), (vec![(7, 0)], vec![1]), "{claims:?}");
        }
        assert_eq!(identified(&[wrong], &[(7, 0)]), (vec![], vec![1]), "although nobody else claims it");
    }

    #[test]
    fn of_two_claims_none_is_believed_if_the_name_of_the_unit_is_not_known() {
        let claims = [claim(7, 0), claim(8, 2), claim(7, 1)];
        assert_eq!(identified(&claims, &[]), (vec![(8, 2)], vec![0, 1]));
    }

    #[test]
    fn one_claim_is_enough_for_a_unit_that_is_not_assigned() {
        assert_eq!(identified(&[claim(7, 0), claim(8, 1)], &[(8, 1)]), (vec![(7, 0), (8, 1)], vec![]));
    }
}
