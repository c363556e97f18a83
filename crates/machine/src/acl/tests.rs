//! Properties of effective lists, and the rules by example.

use super::*;
use proptest::prelude::*;

fn grant(to: &str, rights: &[Right], deny: bool) -> Grant {
    Grant { to: to.to_owned(), rights: rights.to_vec(), deny }
}

fn acl(grants: Vec<Grant>) -> Acl {
    Acl { inherits: true, grants }
}

fn who(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn what_nobody_allows_is_denied() {
    let list = Effective::of(None, &acl(vec![grant("user:ann", &[Right::Read], false)]));
    assert_eq!(list.verdict(&who(&["user:bob"]), Right::Read), Verdict::Silent);
    assert_eq!(list.verdict(&who(&["user:ann"]), Right::Write), Verdict::Silent);
    assert_eq!(list.verdict(&who(&["user:ann"]), Right::Read), Verdict::Allowed("user:ann".to_owned()));
}

#[test]
fn a_deny_of_any_principal_beats_every_allow() {
    let both = acl(vec![grant("group:a", &[Right::Read], false), grant("user:ann", &[Right::Read], true)]);
    let list = Effective::of(None, &both);
    assert!(list.verdict(&who(&["group:a"]), Right::Read).is_allowed());
    assert_eq!(
        list.verdict(&who(&["group:a", "user:ann"]), Right::Read),
        Verdict::Denied("user:ann".to_owned())
    );
}

#[test]
fn the_nearest_word_about_a_principal_counts() {
    let top = Effective::of(None, &acl(vec![grant("group:a", &[Right::Read, Right::Write], true)]));
    let below = Effective::of(Some(&top), &acl(vec![grant("group:a", &[Right::Read], false)]));
    assert!(below.verdict(&who(&["group:a"]), Right::Read).is_allowed());
    assert_eq!(below.verdict(&who(&["group:a"]), Right::Write), Verdict::Denied("group:a".to_owned()));
}

#[test]
fn a_record_that_does_not_inherit_begins_anew() {
    let top = Effective::of(None, &acl(vec![grant("user:ann", &[Right::Read], false)]));
    let own = Acl { inherits: false, grants: vec![] };
    assert_eq!(Effective::of(Some(&top), &own), Effective::default());
}

#[test]
fn what_is_wrong_with_a_list_is_told() {
    assert!(acl(vec![grant("ann", &[Right::Read], false)]).problem().unwrap().contains("user:"));
    assert!(acl(vec![grant("user:ann", &[], false)]).problem().unwrap().contains("no right"));
    assert!(acl(vec![grant("user:", &[Right::Read], false)]).problem().is_some());
    assert!(Acl::parse(b"{\"grants\":[{\"to\":\"user:a\",\"rights\":[\"fly\"]}]}").is_err());
}

fn any_grant() -> impl Strategy<Value = Grant> {
    let principal = prop::sample::select(vec!["user:a", "user:b", "group:g", "role:r"]);
    let rights = prop::sample::subsequence(Right::ALL.to_vec(), 1..=3);
    (principal, rights, any::<bool>()).prop_map(|(to, rights, deny)| grant(to, &rights, deny))
}

fn any_acl() -> impl Strategy<Value = Acl> {
    (any::<bool>(), prop::collection::vec(any_grant(), 0..6))
        .prop_map(|(inherits, grants)| Acl { inherits, grants })
}

proptest! {
    #[test]
    fn the_order_of_grants_does_not_matter(own in any_acl(), top in any_acl()) {
        let top = Effective::of(None, &top);
        let turned = Acl { grants: own.grants.iter().rev().cloned().collect(), ..own.clone() };
        prop_assert_eq!(Effective::of(Some(&top), &own), Effective::of(Some(&top), &turned));
    }

    #[test]
    fn no_right_is_both_allowed_and_denied(chain in prop::collection::vec(any_acl(), 1..6)) {
        let mut list = Effective::default();
        for own in &chain {
            list = Effective::of(Some(&list), own);
        }
        prop_assert!(list.0.values().all(|entry| entry.allow & entry.deny == 0));
    }

    #[test]
    fn a_record_without_grants_is_as_its_parent(top in any_acl()) {
        let top = Effective::of(None, &top);
        prop_assert_eq!(Effective::of(Some(&top), &Acl::default()), top);
    }

    #[test]
    fn lists_survive_storing_and_are_known_by_what_they_hold(a in any_acl(), b in any_acl()) {
        prop_assert_eq!(&Acl::parse(&a.to_bytes()).unwrap(), &a);
        let (a, b) = (Effective::of(None, &a), Effective::of(None, &b));
        prop_assert_eq!(&Effective::parse(&a.to_bytes()).unwrap(), &a);
        prop_assert_eq!(a.id() == b.id(), a == b);
    }

    #[test]
    fn nobody_loses_by_a_change_that_is_no_loss(a in any_acl(), b in any_acl(), names in prop::sample::subsequence(
        vec!["user:a", "user:b", "group:g", "role:r"], 0..=4)) {
        let (a, b) = (Effective::of(None, &a), Effective::of(None, &b));
        if !a.loses_in(&b) {
            for right in Right::ALL {
                let names = who(&names);
                prop_assert!(!a.verdict(&names, right).is_allowed() || b.verdict(&names, right).is_allowed());
            }
        }
    }
}
