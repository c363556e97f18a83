//! Draws a definition: `draw FILE.yaml OUT.svg|OUT.png [down] [dark] [draft|best] [states|heat|from=OLD.yaml]`, or
//! `draw pace` to see how long 500 nodes take.

// A tool for people at a terminal, with a clock of its own.
#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::unwrap_used)]

use machine::{
    ir::Workflow,
    language::{Format, compile},
};
use render::{
    Direction, Edge, Effort, Graph, Heat, Kind, Measure, Node, Options, Overlay, Spot, State, Theme, Way,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [word] if word == "pace" => pace(),
        [file, out, rest @ ..] => draw(file, out, rest),
        _ => {
            println!("draw FILE.yaml OUT.svg|OUT.png [down] [dark] [draft|best] [states|heat|from=OLD.yaml]")
        }
    }
}

fn draw(file: &str, out: &str, rest: &[String]) {
    let says = |word: &str| rest.iter().any(|found| found == word);
    let workflow = read(file);
    let old = rest.iter().find_map(|word| word.strip_prefix("from=")).map(read);
    let (graph, mut overlay) = match old {
        Some(old) => {
            let found = render::diff(&old, &workflow);
            (found.graph, found.overlay)
        }
        None => (render::graph(&workflow), Overlay::default()),
    };
    invent(&graph, says("states"), says("heat"), &mut overlay);
    let direction = if says("down") { Direction::TopBottom } else { Direction::LeftRight };
    let effort = match (says("draft"), says("best")) {
        (true, _) => Effort::Draft,
        (_, true) => Effort::Best,
        _ => Effort::Balanced,
    };
    let theme = if says("dark") { Theme::Dark } else { Theme::Light };
    let drawing = render::layout(&graph, &Options { direction, effort });
    match out.ends_with(".png") {
        true => std::fs::write(out, render::png(&drawing, &overlay, theme, 2).unwrap()).unwrap(),
        false => std::fs::write(out, render::svg(&drawing, &overlay, theme)).unwrap(),
    }
    println!("{} × {}", drawing.width, drawing.height);
}

fn read(file: &str) -> Workflow {
    compile(&std::fs::read(file).unwrap(), Format::Yaml).unwrap().workflow
}

/// States or figures for every step, so that there is something to look at.
fn invent(graph: &Graph, states: bool, heat: bool, overlay: &mut Overlay) {
    use State::*;
    const STATES: [State; 8] = [Completed, Completed, Skipped, Faulted, Waiting, Running, Undone, Paused];
    let nodes = graph.nodes.iter().filter_map(|node| node.step.as_deref());
    let groups = graph.groups.iter().filter_map(|group| group.step.as_deref());
    for (at, step) in nodes.chain(groups).enumerate() {
        let mark = overlay.entry(step);
        if states {
            mark.state = Some(STATES[at % STATES.len()]);
            mark.attempts = at as u32 % 4;
            mark.duration_ms = at.is_multiple_of(2).then_some(1230 * at as u64);
        }
        if heat {
            mark.heat = Some(Heat { of: Measure::Latency, level: (at * 37 % 101) as u8 });
        }
    }
}

/// 500 nodes and 650 edges, among them long ones and some that go back.
fn pace() {
    let node = |at: usize| Node {
        id: format!("n{at}"),
        step: None,
        kind: if at.is_multiple_of(7) { Kind::Switch } else { Kind::Call },
        name: format!("step {at}"),
        details: vec!["worker 1.0.0".to_owned()],
        group: None,
        rank: at,
    };
    let edge = |from: usize, to: usize, label: bool| Edge {
        from: Spot::Node(from),
        to: Spot::Node(to),
        kind: Way::Next,
        label: label.then(|| format!(".n == {to}")),
    };
    let chain = (1..500).map(|at| edge((at - 1) / 3 * 2, at, at % 7 == 1));
    let far = (0..140).map(|at| edge(at * 7 % 480, (at * 7 % 480) + 2 + at % 15, false));
    let back = (0..10).map(|at| edge(at * 40 + 30, at * 40, false));
    let graph = Graph {
        nodes: (0..500).map(node).collect(),
        edges: chain.chain(far).chain(back).collect(),
        ..Graph::default()
    };
    for effort in [Effort::Draft, Effort::Balanced, Effort::Best] {
        let mut best = f64::MAX;
        for _ in 0..10 {
            let start = std::time::Instant::now();
            let drawing = render::layout(&graph, &Options { effort, ..Options::default() });
            best = best.min(start.elapsed().as_secs_f64() * 1000.0);
            assert!(drawing.width > 0);
        }
        println!("{effort:?}: {best:.1} ms for {} nodes and {} edges", graph.nodes.len(), graph.edges.len());
    }
}
