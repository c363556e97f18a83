//! Graphs that no definition has: nested groups, cycles, doubled edges, labels everywhere.

use super::geometry;
use proptest::prelude::*;
use render::{Direction, Edge, Effort, Frame, Graph, Group, Kind, Node, Options, Spot, Way};

/// Numbers from which a graph is made.
#[derive(Clone, Debug)]
struct Seed {
    /// For each group, which of those before it is around it (or none).
    groups: Vec<usize>,
    nodes: Vec<(usize, u8)>,
    edges: Vec<(usize, usize, u8)>,
}

fn seed() -> impl Strategy<Value = Seed> {
    (
        prop::collection::vec(any::<usize>(), 0..6),
        prop::collection::vec((any::<usize>(), any::<u8>()), 1..24),
        prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..40),
    )
        .prop_map(|(groups, nodes, edges)| Seed { groups, nodes, edges })
}

const KINDS: [Kind; 8] =
    [Kind::Call, Kind::Switch, Kind::Set, Kind::Start, Kind::End, Kind::Join, Kind::HumanTask, Kind::Child];

fn graph(seed: &Seed) -> Graph {
    let mut graph = Graph { name: "a/b@1.0.0".into(), title: "random".into(), ..Graph::default() };
    for (at, around) in seed.groups.iter().enumerate() {
        let group = Some(around % (at + 1)).filter(|group| *group < at);
        let kind = if at.is_multiple_of(2) { Frame::Do } else { Frame::Catch };
        let name = "group with a name".chars().take(1 + around % 17).collect();
        graph.groups.push(Group {
            id: format!("g{at}"),
            step: None,
            kind,
            name,
            details: vec![],
            group,
            rank: at * 3,
        });
    }
    for (at, (home, look)) in seed.nodes.iter().enumerate() {
        let group = Some(home % (seed.groups.len() + 1)).filter(|group| *group < seed.groups.len());
        let kind = KINDS[*look as usize % KINDS.len()];
        let name = "a step with a long name".chars().take(1 + *look as usize % 23).collect();
        let details = if look.is_multiple_of(3) { vec!["what it does".to_owned()] } else { vec![] };
        graph.nodes.push(Node { id: format!("n{at}"), step: None, kind, name, details, group, rank: at * 2 });
    }
    for (from, to, look) in &seed.edges {
        if let Some(edge) = edge(&graph, *from, *to, *look) {
            graph.edges.push(edge);
        }
    }
    graph
}

/// An edge between two spots of one group, or between a spot and the group around it.
fn edge(graph: &Graph, from: usize, to: usize, look: u8) -> Option<Edge> {
    let spots: Vec<Spot> =
        (0..graph.nodes.len()).map(Spot::Node).chain((0..graph.groups.len()).map(Spot::Group)).collect();
    let from = spots[from % spots.len()];
    let home = graph.home(from);
    let beside: Vec<Spot> = spots.iter().copied().filter(|spot| graph.home(*spot) == home).collect();
    let to = beside[to % beside.len()];
    let (from, to) = match (look % 7, home) {
        (0, Some(group)) => (Spot::Group(group), to),
        (1, Some(group)) => (from, Spot::Group(group)),
        _ => (from, to),
    };
    let kind = if look.is_multiple_of(5) { Way::Catch } else { Way::Next };
    let label =
        look.is_multiple_of(3).then(|| ".some > condition".chars().take(1 + look as usize % 17).collect());
    Some(Edge { from, to, kind, label })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_graphs_draw_well(seed in seed(), down in any::<bool>(), effort in 0..3) {
        let graph = graph(&seed);
        let direction = if down { Direction::TopBottom } else { Direction::LeftRight };
        let effort = [Effort::Draft, Effort::Balanced, Effort::Best][effort as usize];
        let drawing = render::layout(&graph, &Options { direction, effort });
        let problems = geometry::problems(&drawing);
        prop_assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
