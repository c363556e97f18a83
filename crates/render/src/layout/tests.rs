//! Unit tests of the layout: what goes back, layers, lanes, shared lines.

use super::{
    Effort, cycle, layer,
    level::{Item, Level, Link, Placed},
};

const ITEM: Item = Item { along: 40, before: 10, after: 10, exit: 0, side: 5, pin: super::level::Pin::Free };

fn level(items: usize, links: &[(usize, usize)]) -> Level {
    let link = |(from, to): &(usize, usize)| Link { from: *from, to: *to, side: false, label: None };
    Level { items: vec![ITEM; items], links: links.iter().map(link).collect() }
}

fn layers(level: &Level) -> Vec<usize> {
    layer::layers(level, &cycle::back(level), Effort::Balanced)
}

fn place(level: &Level) -> Placed {
    level.place(Effort::Balanced)
}

#[test]
fn only_links_of_a_cycle_go_back() {
    // 2 → 0 closes a cycle; 3 → 1 leads up the document, but to nothing that leads back to 3.
    let level = level(4, &[(0, 2), (2, 0), (0, 3), (3, 1), (1, 1)]);
    assert_eq!(cycle::back(&level), [false, true, false, false, true]);
}

#[test]
fn every_link_leads_to_a_later_layer_and_labels_have_one_of_their_own() {
    let mut level = level(4, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
    assert_eq!(layers(&level), [0, 1, 1, 2]);
    level.links[0].label = Some((30, 16));
    assert_eq!(layers(&level)[1], 2);
}

#[test]
fn what_nothing_leads_to_stands_before_what_it_leads_to() {
    let level = level(5, &[(0, 1), (1, 2), (2, 3), (4, 3)]);
    assert_eq!(layers(&level)[4], 2);
}

#[test]
fn a_chain_is_a_straight_line() {
    let placed = place(&level(4, &[(0, 1), (1, 2), (2, 3)]));
    assert!(placed.routes.iter().all(|route| route.points.len() == 2), "{:?}", placed.routes);
}

#[test]
fn a_link_that_passes_several_layers_turns_twice_at_each_end_at_most() {
    let placed = place(&level(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]));
    assert!(placed.routes[4].points.len() <= 6, "{:?}", placed.routes[4]);
}

#[test]
fn links_that_go_back_have_lanes_beyond_all_items() {
    let placed = place(&level(4, &[(0, 1), (1, 2), (2, 3), (2, 1), (3, 0)]));
    let lane = |route: usize| placed.routes[route].points.iter().map(|point| point.1).max().unwrap();
    let items = placed.items.iter().map(|(_, anchor)| anchor + ITEM.after).max().unwrap();
    assert!(lane(3) > items && lane(4) > lane(3), "{:?}", placed.routes);
}

#[test]
fn what_leaves_an_item_shares_a_line() {
    let placed = place(&level(4, &[(0, 1), (0, 2), (0, 3)]));
    let turns: Vec<i32> =
        placed.routes.iter().filter(|route| route.points.len() > 2).map(|route| route.points[1].0).collect();
    assert!(turns.len() == 2 && turns[0] == turns[1], "{:?}", placed.routes);
}

#[test]
fn nothing_at_all_has_no_size() {
    let placed = place(&Level::default());
    assert_eq!((placed.along, placed.across), (0, 0));
}
